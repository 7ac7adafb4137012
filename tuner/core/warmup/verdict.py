"""The verdict on a whole launch: where its steady state begins, or why there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import cos, exp, expm1, log, pi, sqrt
from statistics import fmean, median
from typing import Literal

from tuner.core.stats.quantiles import student_t_quantile, student_t_tail
from tuner.core.text.figures import percent, pluralize
from tuner.core.warmup.transient import BATCH, batch_means, transient_end

# Whether a trend is left in a launch, with a standard error that survives autocorrelation.
#
# The series is reduced to its slowest cosines (a discrete cosine transform). Noise with a memory shorter than
# a fraction of the series puts the same variance into each of them, whatever its autocorrelation; a straight
# line puts 98.6 % of itself into the first. So the first measures the trend and the next ones the noise at
# that time scale: the ratio is Student's t, exactly for white noise, nearly for noise with a short memory.
# Sixteen cosines measure fast noise well; five also measure slow noise. The less certain of the two answers
# counts.
#
# Source: equal-weighted cosines for long-run variances: Müller (2007, 2014); Lazarus, Lewis, Stock & Watson
# (2018), recommended for regressions; Müller & Watson (2008) for the analysis of slow movements.

#: numbers of cosines that measure the noise: fewer detect slower noise, but are less certain
N_COSINES = (16, 5)
FEWEST_OF_TREND = 12  #: values; fewer cannot separate a trend from noise


@dataclass(frozen=True, slots=True)
class Trend:
    """A straight line's slope through a series, in shares of its mean per value."""

    slope: float
    standard_error: float
    df: int

    @property
    def p_value(self) -> float:
        """Return the two-sided probability of a slope as large if there is no trend."""
        if self.standard_error == 0.0:
            return 0.0 if self.slope else 1.0
        return min(1.0, 2 * student_t_tail(abs(self.slope) / self.standard_error, self.df))


def estimate_trend(values: Sequence[float]) -> Trend | None:
    """Estimate the trend of *values*, evenly spaced; None if there are fewer than 12, or their mean is 0."""
    n = len(values)
    mean = sum(values) / n if n else 0.0
    if n < FEWEST_OF_TREND or mean == 0.0:
        return None
    middle = (n - 1) / 2
    found, of_line = [], []
    for j in range(1, min(N_COSINES[0], n // 3) + 2):
        wave = _cosine(j, n)
        found.append(sum(w * value for w, value in zip(wave, values, strict=True)))
        of_line.append(sum(w * (i - middle) for i, w in enumerate(wave)))
    slope = found[0] / of_line[0]
    noise = [c - slope * line for c, line in zip(found[1:], of_line[1:], strict=True)]
    answers = []
    for n_cosines in {min(each, len(noise)) for each in N_COSINES}:
        standard_error = sqrt(sum(c * c for c in noise[:n_cosines]) / n_cosines) / abs(of_line[0])
        answers.append(Trend(slope / mean, standard_error / abs(mean), n_cosines))
    return max(answers, key=lambda trend: (trend.p_value, trend.df))


def pool_trends(trends: Sequence[Trend]) -> Trend | None:
    """Estimate the trend that launches share, from their slopes alone: each launch is one value.

    A leak of the service is in every launch, so a study can detect a trend that is hidden by the noise of
    one launch. The launches should have about the same length. Return None for fewer than 3.
    """
    n = len(trends)
    if n < 3:
        return None
    mean = sum(trend.slope for trend in trends) / n
    squares = sum((trend.slope - mean) ** 2 for trend in trends)
    return Trend(mean, sqrt(squares / (n - 1) / n), n - 1)


def detectable_slope(noise_ratio: float, n: int, *, alpha: float, power: float = 0.9) -> float:
    """Return the slope per value detected with probability *power* if values scatter by *noise_ratio*.

    The noise is white; *alpha* is the two-sided probability of a false alarm. The result uses quantiles of
    Student's t, so it is a few per cent too large.

    Raises:
        ValueError: fewer than 12 values.
    """
    if n < FEWEST_OF_TREND:
        raise ValueError(f"need {FEWEST_OF_TREND} values or more, got {n}")
    df = min(N_COSINES[-1], n // 3)
    middle = (n - 1) / 2
    of_line = sum(w * (i - middle) for i, w in enumerate(_cosine(1, n)))
    quantiles = student_t_quantile(1 - alpha / 2, df) + student_t_quantile(power, df)
    return noise_ratio * quantiles / abs(of_line)


def _cosine(j: int, n: int) -> list[float]:
    """Return the j-th cosine of the transform, with norm 1."""
    scale = sqrt(2 / n)
    return [scale * cos(pi * j * (i + 0.5) / n) for i in range(n)]


# Whether a launch moves between levels: a late step, or a service that has two speeds.
#
# The series is cut into stretches of constant mean so that the squared residuals plus a price per cut are
# least (optimal partitioning, by dynamic programming). The price is in units of the noise, estimated from
# differences of neighbouring blocks, by their median: levels that hold for four blocks leave it alone, and
# autocorrelation shorter than a block is in it.
#
# Source: Jackson et al. (2005) for the search; Barrett et al. (2017) segment benchmarks in the same way.

SHORTEST = 30  #: least length of a level, seconds; quicker changes average out within a window
MOST_CELLS = 240  #: most cells; the search takes the square of their number
FEWEST_IN_CELL = 10  #: fewest seconds in a cell
#: least and largest time over which noise is averaged, seconds; in between, a fiftieth of the launch
NOISE_BLOCK = (20, 32)
PRICE = 13.0  #: variances that a further cut must save
_NORMAL_MEDIAN_SQUARE = 0.4549  #: median of a chi-squared distribution with one degree of freedom


@dataclass(frozen=True, slots=True)
class Level:
    """A stretch of values with a constant mean."""

    start: int  #: index of its first value
    stop: int  #: index after its last
    mean: float


def find_levels(values: Sequence[float]) -> list[Level]:
    """Return the levels of *values*, one value per second; one level if they are too few, or steady."""
    n = len(values)
    cell = max(FEWEST_IN_CELL, -(-n // MOST_CELLS))
    n_cells = n // cell
    shortest = max(1, -(-SHORTEST // cell))
    if n_cells < 2 * shortest:
        return [Level(0, n, sum(values) / n)] if n else []
    sums = [sum(values[i * cell : (i + 1) * cell]) / cell for i in range(n_cells)]
    variance = _variance(values, cell)
    starts = _cut_stretches(sums, shortest, PRICE * variance)
    edges = [start * cell for start in starts] + [n]
    return [Level(start, stop, sum(values[start:stop]) / (stop - start)) for start, stop in pairwise(edges)]


def _variance(values: Sequence[float], cell: int) -> float:
    """Return the variance of a mean over *cell* values, without changes of level; never quite 0."""
    block = max(cell, min(max(len(values) // 50, NOISE_BLOCK[0]), NOISE_BLOCK[1]))
    means = [sum(values[i : i + block]) / block for i in range(0, len(values) - block + 1, block // 2)]
    differences = [(later - earlier) ** 2 / 2 for earlier, later in zip(means, means[2:], strict=False)]
    of_block = median(differences) / _NORMAL_MEDIAN_SQUARE
    tiny = (1e-4 * sum(values) / len(values)) ** 2
    return max(of_block * block / cell, tiny)


def _cut_stretches(means: Sequence[float], shortest: int, price: float) -> list[int]:
    """Return the index at which each stretch begins."""
    n = len(means)
    total, squares = [0.0], [0.0]
    for mean in means:
        total.append(total[-1] + mean)
        squares.append(squares[-1] + mean * mean)
    least = [0.0] + [float("inf")] * n
    came_from = [0] * (n + 1)
    for stop in range(shortest, n + 1):
        for start in range(stop - shortest + 1):
            if least[start] == float("inf"):
                continue
            in_it = total[stop] - total[start]
            cost = squares[stop] - squares[start] - in_it * in_it / (stop - start)
            candidate = least[start] + cost + (price if start else 0.0)
            if candidate < least[stop]:
                least[stop], came_from[stop] = candidate, start
    starts = []
    stop = n
    while stop:
        stop = came_from[stop]
        starts.append(stop)
    return starts[::-1]


TREND_ALPHA = 0.02  #: probability that a steady launch is reported to have a trend
TREND_RATIO = 0.005  #: change in ten minutes; a smaller one does not matter in a study with a margin of 2 %
#: smallest change of the mean by a cut of half the launch or more that makes the launch count as late
LATE_RATIO = 0.005
#: least difference of two levels; a smaller one is noise that averages out within a window
LEVELS_RATIO = 0.10
#: least difference of two windows; a smaller one may be noise of windows, which the study measures
WINDOWS_RATIO = 0.25
EDGE_S = 30  #: a change within so many seconds of the start of a window is due to the window
PER_S = 600.0  #: time for the threshold of a trend; the printed change is that of the observed time
FEWEST = 4 * BATCH  #: fewest samples

Reason = Literal["late", "trend", "levels", "idle"]


@dataclass(frozen=True, slots=True)
class Steady:
    """Verdict that a launch reached a steady state."""

    from_n: int  #: number of samples of warm-up before the steady state
    trend: Trend | None  #: remaining trend per sample, with its standard error; None: too short


@dataclass(frozen=True, slots=True)
class NotSettled:
    """Verdict that a launch never settled."""

    reason: Reason  #: reason for the verdict, explained in docs/warmup.md
    detail: str  #: explanation with the figures
    from_n: int  #: number of samples after which the launch is least unsteady
    trend: Trend | None

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}"


def judge(items_per_s: Sequence[float], window_starts: Sequence[int] = ()) -> Steady | NotSettled:
    """Return where the steady state of a launch begins, or why it has none.

    Args:
        items_per_s: of the whole launch, one value a second, from its beginning: warm-up and windows.
        window_starts: indices of the values at which a window began.

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
        return NotSettled("levels", _describe_levels(levels), from_n, per_s)
    if per_s is not None and is_trend(per_s) and _line_fits_better(kept, starts):
        return NotSettled("trend", _describe_trend(per_s, BATCH * len(batches[cut:])), from_n, per_s)
    if end >= half and abs(fmean(kept) - fmean(running)) > LATE_RATIO * fmean(kept):
        seen = f"throughput was still changing {from_n} s into the {len(items_per_s)} s that were seen"
        return NotSettled("late", seen, from_n, per_s)
    return Steady(from_n, per_s)


def _transient_end(batches: Sequence[float], later_windows: Sequence[int]) -> int:
    """Return the batch after the warm-up; a difference of a later window from earlier ones is no warm-up."""
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
    """Return the second in which the first item finished; the number of seconds if none did."""
    return next((second for second, items in enumerate(items_per_s) if items > 0), len(items_per_s))


def is_trend(per_s: Trend) -> bool:
    """Return whether a trend (per second) is significant and large enough to matter."""
    return per_s.p_value < TREND_ALPHA and abs(per_s.slope) * PER_S >= TREND_RATIO


def has_levels(levels: Sequence[Level], window_starts: Sequence[int] = ()) -> bool:
    """Return whether neighbouring levels differ enough to matter; between windows the limit is larger."""
    for before, after in pairwise(levels):
        at_edge = any(abs(after.start - start) <= EDGE_S for start in window_starts)
        allowed = WINDOWS_RATIO if at_edge else LEVELS_RATIO
        if abs(after.mean - before.mean) >= allowed * max(after.mean, before.mean):
            return True
    return False


def _line_fits_better(values: Sequence[float], edges: Sequence[int]) -> bool:
    """Return whether a straight line fits *values* better than levels between *edges*, by the BIC."""
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


def _describe_levels(levels: Sequence[Level]) -> str:
    low, high = min(level.mean for level in levels), max(level.mean for level in levels)
    n = len(levels) - 1
    return f"throughput moved {pluralize(n, 'time')} between {low:.3g} and {high:.3g} items/s"


def _describe_trend(per_s: Trend, lasted_s: int) -> str:
    """Return a phrase with the change of throughput in the *lasted_s* seconds of the trend's estimate.

    The change is exponential, exp(slope x time): for small changes that is the straight line, and a steep
    fall stays below 100 %. The standard error follows by the delta method.
    """
    verb = "fell" if per_s.slope < 0 else "rose"
    change = percent(abs(expm1(per_s.slope * lasted_s)))
    error = percent(exp(per_s.slope * lasted_s) * per_s.standard_error * lasted_s)
    return f"throughput {verb} by {change} in the last {lasted_s} s (standard error {error})"
