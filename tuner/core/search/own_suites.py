"""Built-in search suites, generated from a fixed seed: each is small and tests one question."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import exp, log2
from random import Random

from tuner.core.domain.layout import Layout, divisors_grid
from tuner.core.search.suite import Suite, SuiteNoise

N_SURFACES = 200
_CORES = 24
_QUIET = SuiteNoise(window_sd=0.05, launch_sd=0.015)
_SHORT = SuiteNoise(
    window_sd=0.003, launch_sd=0.015, drift_sd=0.03, drift_ar1_per_600s=0.85, sample_sd_1s=0.25
)

#: function that draws the true values of a number of layouts, relative to a common level
Row = Callable[[Random, int], list[float]]


def _same(_random: Random, n: int) -> list[float]:
    return [1.0] * n


def _one_better(by: float) -> Row:
    def row(random: Random, n: int) -> list[float]:
        best = random.randrange(n)
        return [1.0 if index == best else 1 - by for index in range(n)]

    return row


def _ties(random: Random, n: int) -> list[float]:
    """Draw three equal best layouts, three that are 1 % worse (also right), the rest 3 % to 30 % worse."""
    row = [1.0] * 3 + [0.99] * 3 + [1 - random.uniform(0.03, 0.3) for _ in range(n - 6)]
    random.shuffle(row)
    return row


def _curve(random: Random, n: int) -> list[float]:
    """Draw throughputs that rise with threads until a resource is full, and fall with contention beyond."""
    layouts = divisors_grid(_CORES)[:n]
    demand, per_process, peak = random.uniform(0.3, 0.9), random.uniform(0.2, 0.8), random.uniform(3.8, 5.2)
    row = []
    for layout in layouts:
        spread = abs(log2(layout.total_threads) - peak)
        together = log2(layout.threads + 1) * per_process
        row.append(2 ** (-demand * spread**1.5 - 0.15 * together) * (1 + 0.02 * random.gauss()))
    return row


def _wall(random: Random, n: int) -> list[float]:
    """Draw throughputs by Gunther's scalability law in processes and threads, with a memory wall.

    No queueing network gives these curves; each layout deviates by another 3 %.
    """
    contention_p, coherency_p = random.uniform(0.0, 0.06), 10 ** random.uniform(-5, -3)
    contention_t, coherency_t = random.uniform(0.03, 0.5), 10 ** random.uniform(-4, -2)
    wall, steep = 2 ** random.uniform(1, 5), random.uniform(0.2, 2)
    row = []
    for layout in divisors_grid(_CORES)[:n]:
        p, t = layout.processes, layout.threads
        of_p = p / (1 + contention_p * (p - 1) + coherency_p * p * (p - 1))
        of_t = t / (1 + contention_t * (t - 1) + coherency_t * t * (t - 1))
        traffic = p * t**0.3
        row.append(of_p * of_t * min(1.0, wall / traffic) ** steep * exp(0.03 * random.gauss()))
    return row


#: name -> (question, number of layouts, function that draws a row)
_ROWS: dict[str, tuple[str, int, Row]] = {
    "two-same": ("two identical layouts: is either called better?", 2, _same),
    "identical": ("eight identical layouts: is any called better?", 8, _same),
    "two-differ": ("two layouts, 5 % apart: how soon is it found?", 2, _one_better(0.05)),
    "slippage": ("24 layouts, all rivals just outside the margin: the hardest", 24, _one_better(0.021)),
    "ties": ("24 layouts, six of them right answers", 24, _ties),
    "curve": ("22 layouts of 24 cores, smooth but for 2 %", 22, _curve),
    "wall": ("the same 22, by a scalability law with a memory wall: no model of tuner's", 22, _wall),
}  # fmt: skip

#: option, as in `identical+drift` -> its change of the suite
_OPTIONS: dict[str, Callable[[Suite], Suite]] = {
    "drift": lambda suite: _drifting(suite, 0.95),
    "fast-drift": lambda suite: _drifting(suite, 0.5),
    "slow-drift": lambda suite: _drifting(suite, 0.995),
    "heavy-tails": lambda suite: replace(suite, noise=replace(suite.noise, student_t_df=3.0)),
    "low-noise": lambda suite: _noisier(suite, window_sd=0.01, launch_sd=0.005),
    "rare-slow": lambda suite: _noisier(suite, slow_launch_ratio=1 / 12, slow_launch_loss=0.2),
    "two-kinds": lambda suite: _noisier(suite, slow_launch_ratio=5 / 12, slow_launch_loss=0.2),
    "own-noise": lambda suite: _noisier(suite, noisy_layout_ratio=0.5, noisy_layout_factor=3.0),
    "free-length": lambda suite: replace(suite, noise=_SHORT, launch_s=45.0, window_s=None),
}

OWN_SUITES = {name: says for name, (says, _, _) in _ROWS.items()}
SUITE_OPTIONS = tuple(_OPTIONS)


def own_suite(text: str) -> Suite:
    """Build the suite called *text*: one of OWN_SUITES, plus any of SUITE_OPTIONS, as ``identical+drift``.

    Raises:
        KeyError: there is no such suite or option.
    """
    name, *options = text.split("+")
    _, n, draw = _ROWS[name]
    random = Random(f"tuner/{name}")
    layouts = divisors_grid(_CORES)[:n] if n <= 22 else _more_layouts(n)
    suite = Suite(
        name=text,
        layouts=tuple(layouts),
        surfaces=tuple(_row(draw, random, n) for _ in range(N_SURFACES)),
        noise=_QUIET,
        cores=_CORES,
    )
    for option in options:
        suite = _OPTIONS[option](suite)
    return suite


def _row(draw: Row, random: Random, n: int) -> tuple[float, ...]:
    level = random.uniform(300, 3000)
    return tuple(level * truth for truth in draw(random, n))


def _more_layouts(n: int) -> list[Layout]:
    return [*divisors_grid(_CORES), Layout(5, 5), Layout(5, 10)][:n]


def _drifting(suite: Suite, ar1_per_600s: float) -> Suite:
    return _noisier(suite, drift_sd=0.06, drift_ar1_per_600s=ar1_per_600s)


def _noisier(suite: Suite, **changes: float) -> Suite:
    return replace(suite, noise=replace(suite.noise, **changes))
