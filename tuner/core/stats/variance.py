"""Standard deviations and their intervals, and slopes that launches of a layout share.

A mean square of *df* degrees of freedom is its expectation times chi-square / df. For a difference of two,
as every variance component is, the modified large-sample limits of Ting, Burdick, Graybill, Jeyaratnam & Lu
(1990) are exact if either mean square vanishes; bench/noise.py measures the coverage in between.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum, sqrt
from statistics import median
from typing import TypeVar

from tuner.core.stats.interval import Estimate, LaunchMean
from tuner.core.stats.quantiles import chi_square_quantile, f_quantile, student_t_quantile
from tuner.core.stats.two_way_anova import AdditiveFit


@dataclass(frozen=True, slots=True)
class MeanSquare:
    """An estimate of a variance, chi-square distributed."""

    value: float
    df: float  #: above 0


def estimate_sd(square: MeanSquare, confidence: float, *, per_unit: float = 1.0) -> Estimate:
    """Estimate the standard deviation whose variance is *per_unit* x the expectation of *square*."""
    tail = (1 - confidence) / 2
    low, high = (chi_square_quantile(p, square.df) / square.df for p in (tail, 1 - tail))
    variance = per_unit * square.value
    return Estimate(sqrt(variance), sqrt(variance / high), sqrt(variance / low))


def estimate_sd_beyond(
    whole: MeanSquare, part: MeanSquare, confidence: float, *, per_unit: float = 1.0, of_part: float = 1.0
) -> Estimate:
    """Estimate the standard deviation whose variance is *per_unit* x (E *whole* - *of_part* x E *part*).

    The two are independent. Estimates and ends of the interval below 0 are set to 0.
    """
    tail = (1 - confidence) / 2
    one, other = whole.value, of_part * part.value
    below, above = _gains(whole.df, tail), _gains(part.df, tail)
    f = f_quantile(1 - tail, whole.df, part.df)
    cross = ((f - 1) ** 2 - (below.down * f) ** 2 - above.up**2) / f
    low = one - other - _root((below.down * one) ** 2 + (above.up * other) ** 2 + cross * one * other)
    f = f_quantile(tail, whole.df, part.df)
    cross = ((1 - f) ** 2 - (below.up * f) ** 2 - above.down**2) / f
    high = one - other + _root((below.up * one) ** 2 + (above.down * other) ** 2 + cross * one * other)
    return Estimate(*(_root(per_unit * variance) for variance in (one - other, low, high)))


@dataclass(frozen=True, slots=True)
class _Gains:
    down: float  # G: largest distance of the expectation below a mean square, in units of the mean square
    up: float  # H: largest distance above it


def _gains(df: float, tail: float) -> _Gains:
    return _Gains(1 - df / chi_square_quantile(1 - tail, df), df / chi_square_quantile(tail, df) - 1)


def _root(square: float) -> float:
    return sqrt(max(0.0, square))


# The noise of windows, launches and the host, each with its interval.


@dataclass(frozen=True, slots=True)
class Noise:
    """Noise by source, as standard deviations relative to throughput; None if the study gives no estimate."""

    #: noise between windows of a launch
    window: Estimate | None
    #: noise between launches of a layout in the same block, without the noise of their windows
    launch: Estimate | None
    #: drift of the whole host from block to block
    drift: Estimate | None
    #: noise between launches of a layout in the same block, including the noise of their windows
    residual: Estimate | None = None


def estimate_noise(launches: Sequence[LaunchMean], fit: AdditiveFit, confidence: float) -> Noise:
    """Split the noise by its source: analysis of variance, with estimates below 0 set to 0.

    Each interval holds at *confidence* by itself. ``launch`` needs a launch with two windows to take the
    windows' share off; with unequal numbers of windows, or holes in the blocks, intervals are approximate.
    """
    window = _window_square(launches)
    residual = MeanSquare(fit.residual_ss / fit.residual_df, fit.residual_df) if fit.residual_df else None
    launch = None
    if residual is not None and window is not None:
        share = fsum(1 / one.n_windows for one in launches) / len(launches)
        launch = estimate_sd_beyond(residual, window, confidence, of_part=share)
    return Noise(
        window=None if window is None else estimate_sd(window, confidence),
        launch=launch,
        drift=_drift(fit, residual, confidence),
        residual=None if residual is None else estimate_sd(residual, confidence),
    )


def _window_square(launches: Sequence[LaunchMean]) -> MeanSquare | None:
    df = sum(launch.n_windows - 1 for launch in launches)
    return MeanSquare(fsum(launch.window_ss for launch in launches) / df, df) if df else None


def _drift(fit: AdditiveFit, residual: MeanSquare | None, confidence: float) -> Estimate | None:
    if not fit.block_df or not fit.block_ss_per_variance:
        return None
    blocks = MeanSquare(fit.block_ss / fit.block_df, fit.block_df)
    per_unit = fit.block_df / fit.block_ss_per_variance
    if residual is not None:
        return estimate_sd_beyond(blocks, residual, confidence, per_unit=per_unit)
    return None if len(fit.effects) > 1 else estimate_sd(blocks, confidence, per_unit=per_unit)


# The slope that the launches of a layout share: each launch has one slope with a standard error.


K = TypeVar("K", bound=Hashable)

_DF_OF_ONE = 5  #: least degrees of freedom of a launch's own standard error (`warmup.verdict.N_COSINES`)


@dataclass(frozen=True, slots=True)
class Slope:
    """The slope of one launch."""

    per_h: float
    variance: float  #: variance of *per_h* from the noise within the launch; above 0
    length_s: float  #: length of the part from which it was estimated, seconds


def pool_slopes(groups: Mapping[K, Sequence[Slope]], confidence: float) -> dict[K, Estimate]:
    """Return the mean slope of each group of launches, with the interval of that group by itself.

    The spread between launches, in units of their standard errors, is pooled over all groups. A group with a
    larger spread has its own. There is no interval if each group has a single launch. Empty groups are left
    out.
    """
    weights = {name: _weights(slopes) for name, slopes in groups.items() if slopes}
    means = {
        name: fsum(w * one.per_h for w, one in zip(own, groups[name], strict=True)) / fsum(own)
        for name, own in weights.items()
    }
    squares = {
        name: fsum(w * (one.per_h - means[name]) ** 2 for w, one in zip(own, groups[name], strict=True))
        for name, own in weights.items()
    }
    df = sum(len(own) - 1 for own in weights.values())
    pooled = fsum(squares.values()) / df if df else 0.0
    found = {}
    for name, own in weights.items():
        mean, n = means[name], len(own)
        if not df:
            found[name] = Estimate(mean)
            continue
        spread = max(pooled, squares[name] / (n - 1)) if n > 1 else pooled
        # several standard errors average out in the spread; a single one is uncertain, as the spread is
        known = min(df, _DF_OF_ONE * n) if n > 1 else 1 / (1 / df + 1 / _DF_OF_ONE)
        quantile = student_t_quantile((1 + confidence) / 2, known)
        reach = quantile * sqrt(spread / fsum(own))
        found[name] = Estimate(mean, mean - reach, mean + reach)
    return found


def _weights(slopes: Sequence[Slope]) -> list[float]:
    """Return inverse variances; each is drawn halfway to the usual one of a launch of its length.

    The variance of a slope falls with the third power of the length. That of a single launch is estimated
    from few values, and one that happens to be small would outweigh the rest.
    """
    scaled = [one.variance * one.length_s**3 for one in slopes]
    usual = median(scaled)
    return [2 * one.length_s**3 / (own + usual) for own, one in zip(scaled, slopes, strict=True)]
