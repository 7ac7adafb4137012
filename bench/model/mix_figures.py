"""Quality of predictions: errors, order, regret, coverage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import ceil
from statistics import fmean
from typing import Any

Key = Any  #: of a layout, or of a layout and its mix
APART_RATIO = 0.04  #: pairs that differ by less say nothing of a predictor


@dataclass(frozen=True)
class Errors:
    """Absolute relative errors, as ratios."""

    n: int
    mean: float
    most: float
    median: float
    p90: float


def relative_errors(predicted: Mapping[Key, float], measured: Mapping[Key, float]) -> dict[Key, float]:
    """Predicted over measured, less 1, of all that is in both."""
    return {key: predicted[key] / measured[key] - 1 for key in predicted if measured.get(key)}


def errors_of(relative: Iterable[float]) -> Errors | None:
    """None: there are none."""
    found = sorted(abs(one) for one in relative)
    if not found:
        return None
    return Errors(len(found), fmean(found), found[-1], quantile(found, 0.5), quantile(found, 0.9))


def quantile(ascending: Sequence[float], share: float) -> float:
    """The smallest value that so large a share of the values does not exceed; the median of an even number
    is the mean of the middle two."""
    n = len(ascending)
    if share == 0.5 and n % 2 == 0:
        return (ascending[n // 2 - 1] + ascending[n // 2]) / 2
    return ascending[max(0, ceil(share * n - 1e-9) - 1)]


def ordered_pairs(
    predicted: Mapping[Key, float], measured: Mapping[Key, float], apart: float = APART_RATIO
) -> tuple[int, int]:
    """Of the pairs that were measured to differ by more than *apart*: how many are in the right order, of how
    many. A tie of the predictions is not."""
    right = n = 0
    for one, other in combinations([key for key in measured if key in predicted], 2):
        worse, better = sorted((one, other), key=lambda key: measured[key])
        if measured[better] > measured[worse] * (1 + apart):
            n += 1
            right += predicted[better] > predicted[worse]
    return right, n


def regret(predicted: Mapping[Key, float], measured: Mapping[Key, float]) -> float:
    """Return the loss of the predicted best layout, as a share of the measured best."""
    common = [key for key in measured if key in predicted]
    chosen = max(common, key=lambda key: predicted[key])
    return 1 - measured[chosen] / max(measured[key] for key in common)


def covered(
    intervals: Mapping[Key, tuple[float, float]], points: Iterable[tuple[Key, float]]
) -> tuple[int, int]:
    """How many of the points that have an interval lie in it, of how many."""
    known = [(intervals[key], value) for key, value in points if key in intervals]
    return sum(low <= value <= high for (low, high), value in known), len(known)
