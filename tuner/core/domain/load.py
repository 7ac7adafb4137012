"""The load average turned back into what it averages: the number of active tasks.

Every 5 s and one jiffy the kernel looks once at the number of active tasks and mixes it in::

    load1' = load1 * e + n_active * (1 - e)        e = 1884/2048, its fixed point for exp(-5/60)

so ``n_active = (load1' - load1 * e) / (1 - e)``: no memory of what ran before. /proc prints two decimals,
which makes one look uncertain by up to 0.12; over a window nearly all of that cancels.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import exp, sqrt
from statistics import fmean, variance

from tuner.core.domain.window import Sample
from tuner.core.stats.interval import Estimate
from tuner.core.stats.quantiles import student_t_quantile

STEP_S = 5.004  #: 5 s and a jiffy, with 250 of them to a second; 5.01 with 100, 5.001 with 1000
DECAY = 1884 / 2048
SAFE_S = 1.9  #: from the middle of a step; samples a second apart show its ends to 0.5 s
_PRINT_ERROR = 0.01 / sqrt(12)  #: standard deviation of rounding to two decimals
_LOAD_EVERY_S = 5.0  #: the kernel's LOAD_FREQ
_LOAD_KEEPS = tuple(exp(-_LOAD_EVERY_S / 60.0 / minutes) for minutes in (1, 5, 15))
_PHASES = 50  #: candidates for the moment of the update, 0.1 s apart


class LoadAverage:
    """The load averages that a kernel would report of tasks that are counted otherwise.

    Args:
        now_s: when it begins.
        was_idle: they begin at 0, as on a host that was idle before; else with the mean of the tasks that
            are counted in the first 5 s. An average that begins at 0 needs minutes to reach the load of a
            launch.
    """

    def __init__(self, now_s: float, *, was_idle: bool = False) -> None:
        self.values = [0.0, 0.0, 0.0]  #: of 1, 5 and 15 minutes
        self._next_s = now_s + _LOAD_EVERY_S
        self._was_idle, self._first_s = was_idle, self._next_s
        self._first: list[int] = []  #: tasks until the kernel would look for the first time

    def advance(self, now_s: float, n_active: int) -> None:
        """Let the kernel look at *n_active* tasks as often as it would have until *now_s*."""
        if not self._was_idle and (now_s < self._first_s or not self._first):
            self._first.append(n_active)
            self.values = [fmean(self._first)] * len(self.values)
        while self._next_s <= now_s:
            self._next_s += _LOAD_EVERY_S
            self.values = [
                keeps * value + (1 - keeps) * n_active
                for keeps, value in zip(_LOAD_KEEPS, self.values, strict=True)
            ]


def mean_active_from_load1(samples: Sequence[Sample]) -> Estimate:
    """Estimate the mean active count of a window from the load1 of its samples, with a 95 % interval.

    The interval covers the printing (two decimals at both ends) and that the kernel looks only every 5 s.
    It takes the looks as independent: where the active count swings slower than that, the interval is too
    narrow.

    Args:
        samples: one a second, in time order.

    Returns:
        No interval when the samples hold only one look of the kernel, no mean when they hold none (under 10
        s).
    """
    looks = active_at_looks(samples)
    n = len(looks)
    if n == 0:
        return Estimate(None)
    mean = max(0.0, fmean(looks))  # what two decimals leave may be less than nothing
    if n == 1:
        return Estimate(mean)
    of_one_look = _PRINT_ERROR * sqrt(1 + DECAY**2) / (1 - DECAY)
    of_the_ends = _PRINT_ERROR * sqrt(2) / (1 - DECAY) / n
    scatter = sqrt(max(0.0, variance(looks) - of_one_look**2) / n)
    margin = student_t_quantile(0.975, n - 1) * sqrt(scatter**2 + of_the_ends**2)
    return Estimate(mean, max(0.0, mean - margin), mean + margin)


def active_at_looks(samples: Sequence[Sample]) -> list[float]:
    """What the kernel saw at each of its looks within *samples*; each uncertain by 0.05 (at most 0.12).

    The first and last look count when there is a sample on both sides of them.
    """
    if len(samples) < 2:
        return []
    levels = _levels(samples)
    return [
        (after - DECAY * before) / (1 - DECAY)
        for (step, before), (next_step, after) in pairwise(sorted(levels.items()))
        if next_step == step + 1
    ]


def _levels(samples: Sequence[Sample]) -> dict[int, float]:
    """load1 between one update and the next, by number of update; read near the middle, where it is safe."""
    phase_s = _phase_s(samples)
    best: dict[int, tuple[float, float]] = {}
    for sample in samples:
        step, since_s = divmod(sample.at_s - phase_s, STEP_S)
        off_middle = abs(since_s - STEP_S / 2)
        number = int(step)
        if off_middle < SAFE_S and (number not in best or off_middle < best[number][0]):
            best[number] = (off_middle, sample.load1)
    return {number: load1 for number, (_, load1) in best.items()}


def _phase_s(samples: Sequence[Sample]) -> float:
    """When, within each step, the kernel updates: where it explains most of the changes seen.

    Between two samples that differ lies an update. All good candidates lie side by side; the middle one is
    taken.
    """
    changes = [
        (earlier.at_s, later.at_s) for earlier, later in pairwise(samples) if earlier.load1 != later.load1
    ]
    candidates = [STEP_S * number / _PHASES for number in range(_PHASES)]
    scores = [
        sum((begin - phase_s) // STEP_S != (end - phase_s) // STEP_S for begin, end in changes)
        for phase_s in candidates
    ]
    best = max(scores)
    worst = scores.index(min(scores))  # begin to walk here, so that the best ones are not cut by the turn
    turned = [(worst + number) % _PHASES for number in range(_PHASES)]
    good = [number for number in turned if scores[number] == best]
    return candidates[good[len(good) // 2]]
