"""Comparison of large arrays: pytest.approx takes 10 us for each of their elements."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def farthest(found: ArrayLike, expected: ArrayLike, *, rel: float = 0.0, abs: float = 0.0) -> float:
    """How far the farthest element is off, in what pytest.approx would allow: 1 or less is near enough."""
    one, other = np.asarray(found), np.asarray(expected)
    assert one.shape == other.shape
    with np.errstate(divide="ignore", invalid="ignore"):
        off = np.abs(one - other) / np.maximum(rel * np.abs(other), abs)
    return float(np.where(one == other, 0.0, off).max())
