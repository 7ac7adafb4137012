"""The slope that the launches of a layout share: each launch has one slope, known more or less well.

Launches are repeated, so the spread of their slopes gives the error of the mean. The standard error of each
launch is only its weight: slow noise within a launch looks like a slope, and its standard error misses that.

Source: inverse-variance weights with the spread of the values themselves: Hartung & Knapp (2001); a common
factor on all standard errors: Birge (1932).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum, sqrt
from statistics import median
from typing import TypeVar

from tuner.core.stats.interval import Estimate
from tuner.core.stats.quantiles import student_t_quantile

K = TypeVar("K", bound=Hashable)

_DF_OF_ONE = 5  #: of a launch's own standard error: it has so many at least (`warmup.verdict.N_COSINES`)


@dataclass(frozen=True, slots=True)
class Slope:
    """The slope of one launch."""

    per_h: float
    variance: float  #: of *per_h*, by the noise within the launch; above 0
    length_s: float  #: of the stretch that it was estimated from


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
    from few values, and one that happens to be small would outweigh all others.
    """
    scaled = [one.variance * one.length_s**3 for one in slopes]
    usual = median(scaled)
    return [2 * one.length_s**3 / (own + usual) for own, one in zip(scaled, slopes, strict=True)]
