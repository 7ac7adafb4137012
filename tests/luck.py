"""What luck alone may do to shares that were counted in simulated studies."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import fmean, stdev


def at_most(share: float, n: int, n_sds: float = 4.0) -> float:
    """What a share that is really *share* exceeds in *n* draws once in some 30 000 times (3 sds: 700)."""
    return share + n_sds * sqrt(share * (1 - share) / n)


def of_studies(shares: Sequence[float]) -> tuple[float, float]:
    """The mean of *shares*, one of each study, and four standard errors of it.

    The windows of a study share its calibration and are not independent; studies are. So it is their scatter
    that tells how far luck may take the mean.
    """
    return fmean(shares), 4 * stdev(shares) / sqrt(len(shares))
