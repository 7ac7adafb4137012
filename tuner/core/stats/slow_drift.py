"""The error of the mean of all blocks if the host drifts slowly.

Neighbouring blocks are alike if the host drifts slowly, so n of them hold less information than n independent
ones. How much less is unknown: either blocks are independent, or a slow part is added whose correlation falls
exponentially with distance. Each case is weighed by its likelihood, from cosines of the blocks: slow drift is
in those of few turns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import cos, exp, fsum, log, pi

from tuner.core.stats.two_way_anova import AdditiveFit, Observation

LEAST_BLOCKS = 3  #: two have no order that separates slow drift from fast
_PRIOR = 0.12  #: of slow drift, all cases together
_REACHES = (0.6, 0.15)  #: over which share of the blocks the correlation falls to 1 / e
_SIZES = (0.25, 1.0, 4.0, 16.0)  #: variance of the slow part, in variances of the part without memory
_MOST_COSINES = 40  #: that are weighed one by one; those of more turns hold no slow drift
_LEAST_WEIGHT = 5e-3  #: cases less likely than that are left out


@dataclass(frozen=True, slots=True)
class DriftPart:
    """One case, with the variance of the mean of all blocks."""

    weight: float
    times: float  #: the variance, in units of that of independent blocks
    of_blocks: float  #: part of the mean square between blocks that stays, with the slow part taken out


INDEPENDENT = (DriftPart(1.0, 1.0, 1.0),)


def slow_drift(values: Sequence[float]) -> tuple[DriftPart, ...]:
    """Weigh the cases for blocks with *values*, in the order of time; weights sum to 1."""
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
    """Weigh the cases for the blocks of *observations*, which are numbered in the order of time."""
    if len(fitted.n_blocks_of) > 1:
        return INDEPENDENT
    left: dict[int, list[float]] = defaultdict(list)
    for seen in observations:
        left[seen.block].append(seen.value - fitted.effects[seen.layout])
    return slow_drift([fsum(values) / len(values) for _, values in sorted(left.items())])


def _variance_of_mean(memory: float, n: int) -> float:
    """Of *n* neighbours whose correlation falls by *memory* from one to the next, each of variance 1."""
    return (1 + memory) / (1 - memory) / n - 2 * memory * (1 - memory**n) / (n * (1 - memory)) ** 2
