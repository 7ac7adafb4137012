"""Standard deviations and their intervals: of one mean square, and of what one has beyond another.

A mean square of *df* degrees of freedom is its expectation times chi-square / df. For a difference of two,
as every variance component is, the modified large-sample limits of Ting, Burdick, Graybill, Jeyaratnam & Lu
(1990) are exact where either mean square vanishes; between, bench/noise.py measures what they cover.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from tuner.core.stats.interval import Estimate
from tuner.core.stats.variance_quantiles import chi_square_quantile, f_quantile


@dataclass(frozen=True, slots=True)
class MeanSquare:
    """An estimate of a variance, chi-square distributed."""

    value: float
    df: float  #: above 0


def estimate_sd(square: MeanSquare, confidence: float, *, per_unit: float = 1.0) -> Estimate:
    """The standard deviation whose variance is *per_unit* x the expectation of *square*."""
    tail = (1 - confidence) / 2
    low, high = (chi_square_quantile(p, square.df) / square.df for p in (tail, 1 - tail))
    variance = per_unit * square.value
    return Estimate(sqrt(variance), sqrt(variance / high), sqrt(variance / low))


def estimate_sd_beyond(
    whole: MeanSquare, part: MeanSquare, confidence: float, *, per_unit: float = 1.0, of_part: float = 1.0
) -> Estimate:
    """The standard deviation whose variance is *per_unit* x (E *whole* - *of_part* x E *part*), 0 or more.

    The two are independent. Where the data give less than 0, it is 0, and so is what is below 0 of the
    interval.
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
    down: float  # G: how far below a mean square its expectation may lie, in times the mean square
    up: float  # H: and how far above it


def _gains(df: float, tail: float) -> _Gains:
    return _Gains(1 - df / chi_square_quantile(1 - tail, df), df / chi_square_quantile(tail, df) - 1)


def _root(square: float) -> float:
    return sqrt(max(0.0, square))
