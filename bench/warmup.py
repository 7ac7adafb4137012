"""Warm-up and steady state of series with known answers: python bench/warmup.py [SERIES]. 1000: six minutes.

There are five kinds of launch, with one value a second around a level of 1 and normal noise: none (steady at
once), a step (20-100 % lower for 5-120 s), an exponential (20-100 % lower, time constant 5-60 s), a trend (1
% up or down per ten minutes), and two states (15-40 % apart, changing after 60-300 s on average; each lasts
at least a tenth of the time after the first two minutes, and one change is in the second half, because an
earlier one would be a warm-up).

Bars: the mean after truncation has a bias of at most 0.5 %; at most 5 % of the launches that never settle are
called settled, and at least 90 % of these are recognised, if the launch is long enough for its noise.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, log, sqrt
from random import Random
from statistics import fmean, median
from typing import Any

from tuner.core.domain.layout import Layout
from tuner.core.warmup import (
    BATCH,
    EarlierTransients,
    Steady,
    batch_means,
    detectable_slope,
    has_settled,
    judge,
    truncation_point,
    warming_n,
)
from tuner.core.warmup.report import FALSE_ALARM_RATIO
from tuner.core.warmup.verdict import TREND_ALPHA

KINDS = ("none", "step", "exponential", "trend", "two-state")
SETTLE = ("none", "step", "exponential")
LONG_ENOUGH_S = {0.05: 1600, 0.10: 2500, 0.25: 4600}  #: for a trend of 1 % per ten minutes, noise -> length
WINDOW_S = 600
CAP_S = 300


def course(kind: str, draw: Random, n_s: int) -> list[float]:
    """Return the true level of a launch, second by second."""
    if kind == "step":
        lacks, until_s = draw.uniform(0.2, 1), draw.uniform(5, 120)
        return [1 - lacks if second + 0.5 < until_s else 1.0 for second in range(n_s)]
    if kind == "exponential":
        lacks, time_constant_s = draw.uniform(0.2, 1), exp(draw.uniform(log(5), log(60)))
        return [1 - lacks * exp(-(second + 0.5) / time_constant_s) for second in range(n_s)]
    if kind == "trend":
        slope = draw.choice((-1, 1)) * 0.01 / WINDOW_S
        return [1 + slope * second for second in range(n_s)]
    if kind == "two-state":
        return _two_state(draw, n_s)
    return [1.0] * n_s


def _two_state(draw: Random, n_s: int) -> list[float]:
    lacks, dwell_s = draw.uniform(0.15, 0.4), draw.uniform(60, 300)
    while True:
        is_low: list[bool] = []
        low = draw.random() < 0.5
        while len(is_low) < n_s:
            is_low += [low] * max(1, round(draw.expovariate(1 / dwell_s)))
            low = not low
        is_low = is_low[:n_s]
        late, second_half = is_low[120:], is_low[n_s // 2 :]
        if 0.1 < fmean(late) < 0.9 and 0.05 < fmean(second_half) < 0.95:
            return [1 - lacks if low else 1.0 for low in is_low]


def noisy(true: Sequence[float], noise: float, draw: Random, memory_s: float = 0.0) -> list[float]:
    """With normal noise that forgets exponentially."""
    keeps = exp(-1 / memory_s) if memory_s else 0.0
    fresh = sqrt(1 - keeps**2)
    deviation = draw.gauss(0, 1)
    seen = []
    for value in true:
        seen.append(max(0.0, value + noise * deviation))
        deviation = keeps * deviation + fresh * draw.gauss(0, 1)
    return seen


@dataclass(slots=True)
class Judged:
    """Result of a rule for one series."""

    settled: bool
    from_n: int


def by_verdict(items: Sequence[float]) -> Judged:
    verdict = judge(items)
    return Judged(isinstance(verdict, Steady), verdict.from_n)


def by_mser(items: Sequence[float]) -> Judged:
    """Plain MSER-5: never settled when it cuts half."""
    batches = batch_means(items)
    cut = truncation_point(batches)
    return Judged(cut < len(batches) // 2, cut * BATCH)


def by_halves(items: Sequence[float]) -> Judged:
    """The rule before: halves of the later half differ by 5 % or 1.5 standard errors at most, for 3 s."""
    for n in range(12, CAP_S):
        if all(_halves_agree(items[: n - ago]) for ago in range(3)):
            return Judged(True, n)
    return Judged(False, CAP_S)


def _halves_agree(items: Sequence[float]) -> bool:
    middle = max(10, round(len(items) / 2)) // 2
    earlier, later = items[-2 * middle : -middle], items[-middle:]
    if len(earlier) < middle:
        return False
    means = fmean(earlier), fmean(later)
    squares = [
        sum((value - mean) ** 2 for value in part) for part, mean in zip((earlier, later), means, strict=True)
    ]
    noise = 1.5 * sqrt(sum(squares) / (middle - 1) / middle)
    return abs(means[1] - means[0]) <= max(0.05 * fmean(means), noise)


def by_minute(items: Sequence[float]) -> Judged:
    """A fixed warm-up of one minute."""
    return Judged(True, min(60, len(items)))


RULES: dict[str, Callable[[Sequence[float]], Judged]] = {
    "tuner": by_verdict,
    "MSER-5 alone": by_mser,
    "rule before": by_halves,
    "fixed 60 s": by_minute,
}


def table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    print(f"\n{title}\n\n| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")
    sys.stdout.flush()


def judged_launches(n_series: int) -> None:
    """Print the verdicts over whole launches, and those of other rules on the same series."""
    head = ["noise/s", "launch", "rule", *(f"{kind}: settled, bias (left)" for kind in SETTLE)]
    head += ["trend: settled", "two-state: settled"]
    rows = []
    for noise, long_s in LONG_ENOUGH_S.items():
        for n_s in (WINDOW_S + 60, long_s):
            cells: dict[str, list[Any]] = {rule: [] for rule in RULES}
            for kind in KINDS:
                draw = Random(f"{kind}/{noise}/{n_s}")
                series = [
                    (true, noisy(true, noise, draw))
                    for true in (course(kind, draw, n_s) for _ in range(n_series))
                ]
                for rule, decide in RULES.items():
                    found = [decide(seen) for _, seen in series]
                    said = fmean(one.settled for one in found)
                    if kind not in SETTLE:
                        cells[rule].append(f"{said:.1%}")
                        continue
                    kept = [one_pair for one_pair in zip(found, series, strict=True) if one_pair[0].settled]
                    bias = fmean(fmean(seen[one.from_n :]) - 1 for one, (_, seen) in kept)
                    left = fmean(abs(fmean(true[one.from_n :]) - 1) > 0.01 for one, (true, _) in kept)
                    cells[rule].append(f"{said:.1%}, {bias:+.2%} ({left:.1%})")
            rows += [[f"{noise:g}", f"{n_s} s", rule, *cells[rule]] for rule in RULES]
    table("Whole launches. (left): share called settled with more than 1 % of true bias", head, rows)


def first_windows(n_series: int) -> None:
    """Print the start of the first window and its bias, online and after the launch."""
    rows = []
    for window_s in (600, 120, 30):
        for noise in LONG_ENOUGH_S:
            for kind in SETTLE:
                draw = Random(f"{kind}/{noise}/{window_s}")
                begins, biases, slid = [], [], 0
                for _ in range(n_series if window_s == WINDOW_S else n_series // 3):
                    true = course(kind, draw, CAP_S + 2 * window_s)
                    seen = noisy(true, noise, draw)
                    began, again = _window_begin(seen, window_s)
                    begins.append(began)
                    biases.append(fmean(true[began : began + window_s]) - 1)
                    slid += again > 0
                begins.sort()
                rows.append(
                    [
                        *(f"{window_s} s", f"{noise:g}", kind, f"{median(begins):.0f} s"),
                        *(f"{begins[int(0.9 * len(begins))]} s", f"{slid / len(begins):.0%}"),
                        *(f"{fmean(biases):+.2%}", f"{fmean(abs(bias) > 0.005 for bias in biases):.0%}"),
                    ]
                )
    head = ("window", "noise/s", "kind", "begins: median", "90 %", "began again", "bias", "over 0.5 %")
    table("First windows", head, rows)


def _window_begin(seen: Sequence[float], window_s: int) -> tuple[int, int]:
    nothing: list[float | None] = [None] * CAP_S
    began = next((n for n in range(20, CAP_S, 5) if has_settled(seen[:n], nothing[:n], window_s)), CAP_S)
    again = 0
    while began < CAP_S and (warming := warming_n(seen[: began + window_s], began)):
        began, again = min(CAP_S, began + warming), again + 1
    return began, again


def in_slices(n_series: int) -> None:
    """When windows of 10 s begin, by their own launch alone and with the study's earlier launches."""
    rows = []
    layouts = [Layout(n, 1) for n in range(1, 6)]
    #: what each layout lacks at first, and its time constant in seconds
    studies = {
        "steady": [(0.0, 1.0)] * 5,
        "5 % over 20 s": [(0.05, 20.0)] * 5,
        "20 % over 10 s": [(0.2, 10.0)] * 5,
        "20 % over 30 s": [(0.2, 30.0)] * 5,
        "each layout differs": [(0.0, 1.0), (0.05, 10.0), (0.2, 10.0), (0.2, 30.0), (0.4, 20.0)],
    }
    for noise in (0.03, 0.05, 0.1):
        for name, of_layouts in studies.items():
            cells = []
            for uses_earlier in (False, True):
                draw = Random(f"{name}/{noise}")
                begins, biases = [], []
                for _ in range(max(1, n_series // 100)):
                    earlier = EarlierTransients()
                    for n in range(40):
                        lacks, time_constant_s = of_layouts[n % 5]
                        true = [1 - lacks * exp(-(second + 0.5) / time_constant_s) for second in range(320)]
                        seen = noisy(true, noise, draw)
                        expected = earlier.expected(layouts[n % 5]) if uses_earlier else None
                        nothing: list[float | None] = [None] * CAP_S
                        ready = (
                            n_s
                            for n_s in range(20, CAP_S)
                            if has_settled(seen[:n_s], nothing[:n_s], 10, expected)
                        )
                        began = next(ready, CAP_S)
                        earlier.learn(layouts[n % 5], seen[: began + 10])
                        begins.append(began)
                        biases.append(fmean(true[began : began + 10]) - 1)
                cells += [f"{fmean(begins):.0f} s", f"{fmean(biases):+.2%}"]
            rows.append([f"{noise:g}", name, *cells])
    head = ("noise/s", "launches", "begins: alone", "bias", "with earlier launches", "bias")
    table("Windows of 10 s in slices, means of studies of 40 launches", head, rows)


def false_alarms(n_series: int) -> None:
    """Steady launches whose noise remembers, or whose windows differ: how often they never settle."""
    rows = []
    shares = []
    for n_s in (40, 60, 120, 660, 1860, 3660):
        row = [f"{n_s} s"]
        is_long = n_s > WINDOW_S
        for memory_s in (0.0, 2.0, 5.0, 10.0):
            draw = Random(f"{n_s}/{memory_s}")
            found = [
                by_verdict(noisy([1.0] * n_s, 0.1, draw, memory_s)).settled for _ in range(n_series // 2)
            ]
            row.append(f"{1 - fmean(found):.1%}")
            shares += [1 - fmean(found)] if is_long else []
        for window_sd in (0.02, 0.05) if is_long else ():
            draw = Random(f"{n_s}/{window_sd}")
            found = []
            for _ in range(n_series // 2):
                true, starts = [1.0] * 60, range(60, n_s, WINDOW_S)
                for _ in starts:
                    true += [exp(window_sd * draw.gauss(0, 1))] * WINDOW_S
                found.append(isinstance(judge(noisy(true, 0.1, draw), starts), Steady))
            row.append(f"{1 - fmean(found):.1%}")
            shares.append(1 - fmean(found))
        rows.append(row + ["-"] * (not is_long) * 2)
    head = ("launch", "white", "2 s memory", "5 s", "10 s", "windows of sd 2 %", "sd 5 %")
    table("Steady launches said not to settle, noise 0.1/s", head, rows)
    print(f"\nMean of the long launches: {fmean(shares):.1%}; FALSE_ALARM_RATIO is {FALSE_ALARM_RATIO:.0%}")


def limits() -> None:
    """The trend that is found nine times in ten."""
    noises = (0.02, 0.05, 0.10, 0.25)
    rows = []
    for n_s in (300, 660, 1260, 1860, 3060, 6060):
        slopes = [
            detectable_slope(noise / sqrt(BATCH), n_s // BATCH, alpha=TREND_ALPHA) / BATCH * WINDOW_S
            for noise in noises
        ]
        rows.append([f"{n_s} s", *(f"{slope:.2%}" for slope in slopes)])
    table(
        f"Trend per ten minutes that is found in 90 % of launches ({TREND_ALPHA:.0%} false alarms)",
        ("steady for", *(f"noise {noise:g}/s" for noise in noises)),
        rows,
    )


def costs() -> None:
    """Seconds of CPU for one decision."""
    rows = []
    for n_s in (60, 300, 600, 1800, 3600):
        seen = noisy(course("exponential", Random(1), n_s), 0.1, Random(2))
        nothing: list[float | None] = [None] * n_s
        row = [f"{n_s} s"]
        for decide in (lambda s=seen, a=nothing: has_settled(s, a), lambda s=seen: judge(s)):
            took = []
            for _ in range(15):
                began_s = time.perf_counter()
                decide()
                took.append(time.perf_counter() - began_s)
            row.append(f"{1000 * median(took):.1f} ms")
        rows.append(row)
    table("What a decision costs, medians of 15", ("seen", "may a window begin", "verdict"), rows)


def main() -> None:
    n_series = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    print(f"{n_series} series of each kind")
    judged_launches(n_series)
    first_windows(n_series)
    in_slices(n_series)
    false_alarms(n_series)
    limits()
    costs()


if __name__ == "__main__":
    main()
