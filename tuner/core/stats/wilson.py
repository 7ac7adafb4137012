"""An interval for a share that was counted."""

from __future__ import annotations

from math import sqrt
from statistics import NormalDist

from tuner.core.defaults import CONFIDENCE


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
