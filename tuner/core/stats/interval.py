"""Estimates and intervals from launches; exact intervals of proportions.

The launch is the unit of repetition. Windows of one launch share its memory layout, its caches and its luck,
so any number of them make one value; an analysis of windows as independent values finds differences between
identical layouts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import cos, exp, fsum, log, pi, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

from tuner.core.defaults import CONFIDENCE
from tuner.core.stats.quantiles import incomplete_beta, student_t_quantile

if TYPE_CHECKING:
    from tuner.core.stats.own_noise import OwnNoise
    from tuner.core.stats.two_way_anova import AdditiveFit, Observation

# The error of the mean of all blocks if the host drifts slowly.

LEAST_BLOCKS = 3  #: fewer blocks cannot separate slow drift from fast drift
_PRIOR = 0.12  #: prior probability of slow drift, all cases together
_REACHES = (0.6, 0.15)  #: share of the blocks over which the correlation falls to 1 / e
#: variance of the slow part, as a multiple of the variance of independent blocks
_SIZES = (0.25, 1.0, 4.0, 16.0)
_MOST_COSINES = 40  #: number of cosines weighted separately; faster ones contain no slow drift
_LEAST_WEIGHT = 5e-3  #: less likely cases are left out


@dataclass(frozen=True, slots=True)
class DriftPart:
    """One case of drift, with the variance of the mean of all blocks."""

    weight: float
    times: float  #: variance of the mean, as a multiple of that of independent blocks
    of_blocks: float  #: share of the mean square between blocks that remains without the slow part


INDEPENDENT = (DriftPart(1.0, 1.0, 1.0),)


def slow_drift(values: Sequence[float]) -> tuple[DriftPart, ...]:
    """Return the drift cases, with weights that sum to 1, for blocks with *values* in time order."""
    n = len(values)
    mean = fsum(values) / n if n else 0.0
    total = fsum((value - mean) ** 2 for value in values)
    if n < LEAST_BLOCKS or total <= 0:
        return INDEPENDENT
    n_cosines = min(n - 1, _MOST_COSINES)
    squares = [
        2 / n * fsum(value * cos(pi * m * (b + 0.5) / n) for b, value in enumerate(values)) ** 2
        for m in range(1, n_cosines + 1)
    ]
    rest = max(0.0, total - fsum(squares))
    found = [(log(1 - _PRIOR), 1.0, 1.0)]
    each = _PRIOR / (len(_REACHES) * len(_SIZES))
    for reach in _REACHES:
        memory = exp(-1 / (reach * n))
        spectrum = [(1 - memory**2) / (1 - 2 * memory * cos(pi * m / n) + memory**2) for m in range(1, n)]
        of_mean = _variance_of_mean(memory, n)
        for size in _SIZES:
            added = [1 + size * one for one in spectrum]
            left = fsum(square / one for square, one in zip(squares, added, strict=False))
            if n - 1 > n_cosines:
                left += rest * (n - 1 - n_cosines) / fsum(added[n_cosines:])
            likely = -fsum(log(one) for one in added) / 2 - (n - 1) / 2 * log(left / total)
            found.append((likely + log(each), 1 + size * n * of_mean, left / total))
    most = max(likely for likely, _, _ in found)
    weighed = [(exp(likely - most), times, left) for likely, times, left in found]
    sum_of_all = fsum(weight for weight, _, _ in weighed)
    kept = [one for one in weighed if one[0] > _LEAST_WEIGHT * sum_of_all]
    sum_of_kept = fsum(weight for weight, _, _ in kept)
    return tuple(DriftPart(weight / sum_of_kept, times, left) for weight, times, left in kept)


def drift_between_blocks(observations: Sequence[Observation], fitted: AdditiveFit) -> tuple[DriftPart, ...]:
    """Return the drift cases for the blocks of *observations*, which are numbered in time order."""
    if len(fitted.n_blocks_of) > 1:
        return INDEPENDENT
    left: dict[int, list[float]] = defaultdict(list)
    for seen in observations:
        left[seen.block].append(seen.value - fitted.effects[seen.layout])
    return slow_drift([fsum(values) / len(values) for _, values in sorted(left.items())])


def _variance_of_mean(memory: float, n: int) -> float:
    """Return the variance of the mean of *n* values of variance 1; *memory* is their autocorrelation."""
    return (1 + memory) / (1 - memory) / n - 2 * memory * (1 - memory**n) / (n * (1 - memory)) ** 2


_MOST_WIDE = 10.0  #: largest ratio of the ends of an interval that gives information on an amount
BEYOND_NUMBERS = 100.0  #: on the logarithmic scale; a wider interval gives no information


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure and its interval; ``low`` and ``high`` are None if the data give no interval."""

    mean: float | None  #: None: there are no values
    low: float | None = None
    high: float | None = None

    @property
    def is_too_wide(self) -> bool:
        """Return whether the interval of an amount gives no information: it spans more than factor 10."""
        return self.low is not None and self.high is not None and self.high > _MOST_WIDE * self.low


def ratio_around(gap: float, reach: float | None) -> Estimate:
    """Return the ratio whose logarithm is *gap* +- *reach*; without an interval if *reach* is None."""
    if reach is None or reach > BEYOND_NUMBERS:
        return Estimate(exp(gap))
    return Estimate(exp(gap), exp(gap - reach), exp(gap + reach))


class LaunchMean(NamedTuple):  # faster to create than a frozen dataclass: there may be 20 000
    """Mean throughput of one launch."""

    layout: int  #: number of the layout in the fit: 0, 1, ...
    block: int
    throughput_per_s: float  #: throughput over all its valid windows
    n_windows: int
    window_ss: float  #: sum of squared differences of its windows from their mean, as ratios of that mean


def estimate_throughputs(
    launches: Sequence[LaunchMean],
    fit: AdditiveFit,
    confidence: float,
    own: OwnNoise | None = None,
    drift: Sequence[DriftPart] = INDEPENDENT,
) -> list[Estimate]:
    """Estimate throughput per second of each layout, with an interval for each layout by itself.

    The mean is the plain mean over the layout's launches; if it is missing in some blocks, it is corrected by
    the other layouts in those blocks (`_over_all_blocks`). The interval is for the mean over many launches
    and blocks like these: drift of the host is part of it, which makes it wider than a comparison of layouts
    needs. It assumes that blocks are a sample of the host's states; a study of a few hours is no such sample
    of a day.

    Its variance is a sum of two mean squares, of blocks and of residuals, with degrees of freedom after
    Satterthwaite (1946). Residuals are pooled over layouts, or by each layout's *own* noise; blocks are
    independent, or slow as in the cases of *drift*. All cases together are a mixture of Student's t.
    """
    if own is None and len(drift) == 1:
        spreads = [
            spread_with_blocks(fit, component, variance)
            for component, variance in zip(fit.components, fit.effect_variance, strict=True)
        ]
        return estimate_with(launches, fit, spreads, confidence)
    reaches = [_reach(fit, layout, own, drift, confidence) for layout in range(len(fit.effects))]
    return _estimates(launches, fit, reaches)


def _reach(
    fit: AdditiveFit, layout: int, own: OwnNoise | None, drift: Sequence[DriftPart], confidence: float
) -> float | None:
    """Return half of the interval of *layout* on the logarithmic scale; None if not known."""
    from tuner.core.stats.own_noise import mixture_reach

    n_blocks, per_residual = fit.n_blocks_of[fit.components[layout]], fit.effect_variance[layout]
    noises: list[tuple[float, tuple[float, float] | None]] = [(1.0, None)]
    if own is not None:
        noises = [(part.weight, (part.variances[layout], part.df[layout])) for part in own.parts]
    scales = []
    for weight, noise in noises:
        for part in drift:
            spread = spread_over(fit, n_blocks, per_residual, noise, part)
            if spread is None:
                return None
            scales.append((weight * part.weight, sqrt(spread[0]), spread[1]))
    return mixture_reach(scales, (1 - confidence) / 2)


def estimate_with(
    launches: Sequence[LaunchMean],
    fit: AdditiveFit,
    spreads: Sequence[tuple[float, float] | None],
    confidence: float,
) -> list[Estimate]:
    """Estimate throughputs from the effects of *fit*, with the variance and degrees of freedom in *spreads*.

    The blocks of *fit* may be hosts, of which the blocks of *launches* are parts.
    """
    reaches = [
        None
        if spread is None
        else student_t_quantile((1 + confidence) / 2, spread[1]) * sqrt(spread[0])
        if spread[0]
        else 0.0
        for spread in spreads
    ]
    return _estimates(launches, fit, reaches)


def _estimates(
    launches: Sequence[LaunchMean], fit: AdditiveFit, reaches: Sequence[float | None]
) -> list[Estimate]:
    """Return means with intervals of half width *reaches* on the logarithmic scale; None: no interval."""
    estimates = []
    for mean, reach in zip(_over_all_blocks(launches, fit), reaches, strict=True):
        if reach is None or reach > BEYOND_NUMBERS:
            estimates.append(Estimate(mean))
        else:
            estimates.append(Estimate(mean, mean / exp(reach), mean * exp(reach)))
    return estimates


def _over_all_blocks(launches: Sequence[LaunchMean], fit: AdditiveFit) -> list[float]:
    """Return the throughput per second that each layout would have on average over all blocks.

    The effects are means of logarithms, and an arithmetic mean is larger, the more its values differ. So the
    factor between the two is that of the layout's launches, times that of all blocks, over that of the blocks
    with its launches. A layout that was in all blocks has the plain mean of its launches. Without the last
    two factors, a layout that ran only on one of two unequal hosts would seem slower than it is.
    """
    n_layouts = len(fit.effects)
    total, log_total = [0.0] * n_layouts, [0.0] * n_layouts
    blocks_of: list[list[int]] = [[] for _ in range(n_layouts)]
    in_block: dict[int, list[float]] = defaultdict(list)
    component_of: dict[int, int] = {}
    for layout, block, per_s, *_ in launches:
        total[layout] += per_s
        log_total[layout] += (log_per_s := log(per_s))
        blocks_of[layout].append(block)
        in_block[block].append(log_per_s - fit.effects[layout])
        component_of[block] = fit.components[layout]
    level = {block: fsum(values) / len(values) for block, values in in_block.items()}
    of_component: dict[int, list[float]] = defaultdict(list)
    for block, component in component_of.items():
        of_component[component].append(level[block])
    of_all = {component: _log_excess(levels) for component, levels in of_component.items()}
    means = []
    for layout, (effect, blocks) in enumerate(zip(fit.effects, blocks_of, strict=True)):
        beyond_own = of_all[fit.components[layout]] - _log_excess([level[block] for block in blocks])
        n = len(blocks)
        means.append(total[layout] / n * exp(effect - log_total[layout] / n + beyond_own))
    return means


def _log_excess(logs: Sequence[float]) -> float:
    """Return the logarithm of the arithmetic mean over the geometric mean of values with these *logs*."""
    middle = fsum(logs) / len(logs)
    return log(fsum(exp(value - middle) for value in logs) / len(logs))


def spread_with_blocks(fit: AdditiveFit, component: int, per_residual: float) -> tuple[float, float] | None:
    """Return the variance of a mean of effects, with blocks as a sample, and its degrees of freedom.

    The effects are of one *component*. *per_residual* is the variance from residual noise, per unit of that.
    Return None if it is unknown.
    """
    return spread_over(fit, fit.n_blocks_of[component], per_residual)


def spread_over(
    fit: AdditiveFit,
    n_blocks: float,
    per_residual: float,
    noise: tuple[float, float] | None = None,
    drift: DriftPart = INDEPENDENT[0],
) -> tuple[float, float] | None:
    """Return that variance over *n_blocks* blocks; *noise*: a launch's variance and degrees of freedom.

    Variance = drift / blocks + effect_variance x residual, where drift is
    (block_ss - block_df x residual) / block_ss_per_variance; written as a sum of independent mean squares.

    Satterthwaite's degrees of freedom are too many if most of the variance is between few blocks: the mean
    square of two blocks is often far too small, and then seems not to matter. If drift dominates, 95 %
    cover 87.5 % to 91 % with two blocks and 92 % to 93 % with three. So the mean square of blocks is
    never taken below the residual one (it is not, but by chance), and weighs 1 + 4 / block_df times as much
    in the degrees of freedom. Then they cover 92.7 % and more with two blocks, 94.6 % to 97.8 % with three,
    94.9 % to 96.7 % with five (whole tables of 2, 6 and 22 layouts, any share of drift).

    The residual one has fewer degrees of freedom than that of blocks only if much is missing: with two
    layouts in eight blocks, one of them dropped after two, it has one. Then it weighs more, too: 92 % to
    97 % instead of 87 % to 97 % for the dropped layout.
    """
    if not fit.block_df or not fit.block_ss_per_variance:
        return None
    block_share = fit.block_df / (fit.block_ss_per_variance * n_blocks)
    residual_share = per_residual - block_share
    block_ms = fit.block_ss / fit.block_df * drift.of_blocks
    of_mean = block_share * drift.times
    if abs(residual_share) < 1e-12:  # a single layout: only its variance between blocks is known
        return of_mean * block_ms, fit.block_df
    if fit.residual_variance is None:
        return None
    variance, residual_df = (fit.residual_variance, fit.residual_df) if noise is None else noise
    of_blocks = of_mean * max(block_ms, fit.residual_variance)
    of_residual = residual_share * variance
    if of_blocks + of_residual <= 0:
        return 0.0, 1.0
    blocks = of_blocks * (1 + 4 / fit.block_df)
    residual = of_residual
    if of_residual > 0 and fit.residual_df < fit.block_df:
        residual *= 1 + 4 / fit.residual_df
    df = (blocks + residual) ** 2 / (blocks**2 / fit.block_df + residual**2 / residual_df)
    return of_blocks + of_residual, df


# Exact figures of a share counted in few trials: its interval, and the most that chance explains.


# An interval for a counted share.


def wilson_interval(n_hits: int, n: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return both ends of the interval for a probability with *n_hits* hits in *n* trials.

    Unlike mean +- 2 standard errors it stays within 0..1 and has a width even if all or none are hits.

    Raises:
        ValueError: no trial, or more hits than trials.

    Source: Wilson (1927), the score interval without continuity correction.
    """
    if not 0 <= n_hits <= n or n < 1:
        raise ValueError(f"{n_hits} of {n}")
    z2 = NormalDist().inv_cdf((1 + confidence) / 2) ** 2
    share = n_hits / n
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    reach = sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n * n))) / (1 + z2 / n)
    return (0.0 if n_hits == 0 else middle - reach), (1.0 if n_hits == n else middle + reach)


_HALVINGS = 60  #: more steps than the precision of a float needs


def exact_interval(n_hits: int, n: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return both ends of the interval for a probability with *n_hits* hits in *n* trials.

    It covers the true value with *confidence* or more, for any number of trials.

    Raises:
        ValueError: no trial, or more hits than trials.

    Source: Clopper & Pearson (1934).
    """
    if not 0 <= n_hits <= n or n < 1:
        raise ValueError(f"{n_hits} of {n}")
    tail = (1 - confidence) / 2
    low = 0.0 if n_hits == 0 else _first(lambda p: 1 - _at_most(n_hits - 1, n, p) >= tail)
    high = 1.0 if n_hits == n else _first(lambda p: _at_most(n_hits, n, p) <= tail)
    return low, high


def most_by_chance(n: int, p: float, level: float) -> int:
    """Return the most hits in *n* trials that chance explains: more have a probability of *level* or less.

    Args:
        n: trials; 0 gives 0.
        p: the probability of a hit in each.
        level: one-sided, above 0.
    """
    n_hits = int(n * p)
    while n_hits < n and incomplete_beta(p, 1 - p, n_hits + 1, n - n_hits) > level:
        n_hits += 1
    return n_hits


def _at_most(n_hits: int, n: int, p: float) -> float:
    """Return the probability of *n_hits* (below *n*) or fewer hits, from a beta distribution."""
    return incomplete_beta(1 - p, p, n - n_hits, n_hits + 1)


def _first(holds: Callable[[float], bool]) -> float:
    """Return the smallest p for which *holds* is true; it is true from there on."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
