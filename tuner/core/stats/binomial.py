"""Exact figures of a share that was counted in few trials: its interval, and how much chance explains."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from statistics import NormalDist

from tuner.core.defaults import CONFIDENCE
from tuner.core.stats.quantiles import incomplete_beta

# An interval for a share that was counted.


def wilson_interval(n_hits: int, n: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Low and high end of the interval for a probability of which *n_hits* in *n* trials were seen.

    Unlike mean +- 2 standard errors it stays within 0..1 and has a width even where all or none are hits.

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


_HALVINGS = 60  #: beyond what a float can tell


def exact_interval(n_hits: int, n: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Low and high end of the interval for a probability of which *n_hits* in *n* trials were seen.

    It holds the truth with *confidence* or more, however few the trials are.

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
    """The most hits in *n* trials that chance explains: more have a probability of *level* or less.

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
    """The probability of so many hits or fewer, of *n* - 1 at most: a beta's, whatever size *n* is."""
    return incomplete_beta(1 - p, p, n - n_hits, n_hits + 1)


def _first(holds: Callable[[float], bool]) -> float:
    """The smallest p that it holds for; it holds from there on."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
