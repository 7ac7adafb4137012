"""The verdict over a whole launch: where its steady state begins, or why it never had one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, expm1, log
from statistics import fmean
from typing import Literal

from tuner.core.text.figures import percent, pluralize
from tuner.core.warmup.levels import Level, find_levels
from tuner.core.warmup.mser import BATCH, batch_means
from tuner.core.warmup.transient import transient_end
from tuner.core.warmup.trend import Trend, estimate_trend

TREND_ALPHA = 0.02  #: chance that a steady launch is said to have a trend
TREND_RATIO = 0.005  #: change in ten minutes; less is no concern of a study that looks for 2 %
LATE_RATIO = 0.005  #: what a warm-up of half of what was seen must change of the mean to be of concern
LEVELS_RATIO = 0.10  #: difference of two levels; less is noise that a window averages
WINDOWS_RATIO = 0.25  #: ... of two windows; less may be window noise, which the study measures
EDGE_S = 30  #: so near to a window's begin, a change is the window's
PER_S = 600.0  #: the threshold of a trend is one of ten minutes; what is printed is of the stretch seen
FEWEST = 4 * BATCH  #: samples

Reason = Literal["late", "trend", "levels", "idle"]


@dataclass(frozen=True, slots=True)
class Steady:
    """Nothing speaks against a steady state."""

    from_n: int  #: samples of warm-up before it
    trend: Trend | None  #: per sample; what was left of one, and how well that is known; None: too short


@dataclass(frozen=True, slots=True)
class NotSettled:
    """It never settled."""

    reason: Reason  #: docs/warmup.md explains each
    detail: str  #: what was seen, with the figures
    from_n: int  #: samples after which it is least unsteady
    trend: Trend | None

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}"


def judge(items_per_s: Sequence[float], window_starts: Sequence[int] = ()) -> Steady | NotSettled:
    """Where the steady state of a launch begins, or why it has none.

    Args:
        items_per_s: of the whole launch, one value a second, from its beginning: warm-up and windows.
        window_starts: at which of them a window began.

    Raises:
        ValueError: fewer than 20 values.
    """
    if len(items_per_s) < FEWEST:
        raise ValueError(f"need {FEWEST} seconds or more, got {len(items_per_s)}")
    first = first_item(items_per_s)
    running = items_per_s[first:]
    if len(running) < FEWEST:
        return NotSettled("idle", f"no item was finished in the first {first} s", first, None)
    batches = batch_means(running)
    end = _transient_end(batches, [start - first for start in window_starts[1:]])
    half = len(batches) // 2
    cut = min(end, half)
    from_n = first + cut * BATCH
    kept = running[cut * BATCH :]
    starts = [start - from_n for start in window_starts]
    trend = estimate_trend(batches[cut:])
    per_s = None if trend is None else Trend(trend.slope / BATCH, trend.standard_error / BATCH, trend.df)
    levels = find_levels(kept)
    edges = [level.start for level in levels]
    if has_levels(levels, starts) and not _line_fits_better(kept, edges):
        return NotSettled("levels", _levels_seen(levels), from_n, per_s)
    if per_s is not None and is_trend(per_s) and _line_fits_better(kept, starts):
        return NotSettled("trend", _trend_seen(per_s, BATCH * len(batches[cut:])), from_n, per_s)
    if end >= half and abs(fmean(kept) - fmean(running)) > LATE_RATIO * fmean(kept):
        seen = f"throughput was still changing {from_n} s into the {len(items_per_s)} s that were seen"
        return NotSettled("late", seen, from_n, per_s)
    return Steady(from_n, per_s)


def _transient_end(batches: Sequence[float], later_windows: Sequence[int]) -> int:
    """The batch after the warm-up; that a later window differs from the ones before it is none."""
    end = transient_end(batches)
    is_late = end >= len(batches) // 2
    if not is_late and all(abs(start - end * BATCH) > EDGE_S for start in later_windows):
        return end
    for start in reversed(later_windows):
        before = batches[: start // BATCH]
        if start <= end * BATCH + EDGE_S and len(before) >= FEWEST // BATCH:
            earlier = transient_end(before)
            if earlier < len(before) // 2:
                return earlier
    return end


def first_item(items_per_s: Sequence[float]) -> int:
    """The second in which the first item was finished; their number when none was."""
    return next((second for second, items in enumerate(items_per_s) if items > 0), len(items_per_s))


def is_trend(per_s: Trend) -> bool:
    """Whether a trend (per second) is beyond chance and large enough to matter."""
    return per_s.p_value < TREND_ALPHA and abs(per_s.slope) * PER_S >= TREND_RATIO


def has_levels(levels: Sequence[Level], window_starts: Sequence[int] = ()) -> bool:
    """Whether neighbouring levels differ by enough to matter; windows may differ by more than their parts."""
    for before, after in pairwise(levels):
        at_edge = any(abs(after.start - start) <= EDGE_S for start in window_starts)
        allowed = WINDOWS_RATIO if at_edge else LEVELS_RATIO
        if abs(after.mean - before.mean) >= allowed * max(after.mean, before.mean):
            return True
    return False


def _line_fits_better(values: Sequence[float], edges: Sequence[int]) -> bool:
    """Whether a straight line tells more of *values* than levels between *edges*, each at a price (BIC)."""
    n = len(values)
    inner = sorted({edge for edge in edges if 0 < edge < n})
    if not inner:
        return True
    stretches = [values[start:stop] for start, stop in pairwise([0, *inner, n])]
    of_levels = sum(_squares(stretch) for stretch in stretches)
    middle = (n - 1) / 2
    product = sum((i - middle) * value for i, value in enumerate(values))
    of_line = _squares(values) - product * product / (n * (n * n - 1) / 12)
    price = log(n) * max(of_levels, 1e-12 * fmean(values) ** 2) / n
    return of_line <= of_levels + (len(inner) - 1) * price


def _squares(values: Sequence[float]) -> float:
    mean = fmean(values)
    return sum((value - mean) ** 2 for value in values)


def _levels_seen(levels: Sequence[Level]) -> str:
    low, high = min(level.mean for level in levels), max(level.mean for level in levels)
    n = len(levels) - 1
    return f"throughput moved {pluralize(n, 'time')} between {low:.3g} and {high:.3g} items/s"


def _trend_seen(per_s: Trend, lasted_s: int) -> str:
    """Say how throughput changed in the *lasted_s* seconds that the trend was estimated from.

    As an exponential, exp(slope x time): for small changes that is the straight line, and a fall stays below
    100 % however steep. The standard error follows by the delta method.
    """
    verb = "fell" if per_s.slope < 0 else "rose"
    change = percent(abs(expm1(per_s.slope * lasted_s)))
    error = percent(exp(per_s.slope * lasted_s) * per_s.standard_error * lasted_s)
    return f"throughput {verb} by {change} in the last {lasted_s} s (standard error {error})"
