"""Where the start-up transient ends: MSER-5.

Cut as many leading batch means as make the marginal standard error of the mean of the rest smallest: the
squared error that the cut saves by leaving a biased batch out, against what it costs in length.

Source: White (1997); batches of five: White, Cobb & Spratt (2000). Its limits: Wang & Glynn (2016), and
docs/method/warmup.md.
"""

from __future__ import annotations

from collections.abc import Sequence

BATCH = 5  #: samples in a batch


def batch_means(values: Sequence[float], length: int = BATCH) -> list[float]:
    """Means of *length* values each, in order; an incomplete last batch is left out."""
    return [sum(values[i : i + length]) / length for i in range(0, len(values) - length + 1, length)]


def truncation_point(batches: Sequence[float]) -> int:
    """How many leading batches are warm-up, by MSER.

    Returns:
        Index of the first batch to keep, 0..n//2. At n//2 steady state was probably not reached in the first
        half, and the rest is too short to tell.

    Raises:
        ValueError: fewer than 4 batches.
    """
    n = len(batches)
    if n < 4:
        raise ValueError(f"need 4 batches or more, got {n}")
    centre = sum(batches) / n  # keeps the squares small: sums of raw squares lose digits
    best, best_score = 0, float("inf")
    total = squares = 0.0
    for cut in range(n - 1, -1, -1):
        value = batches[cut] - centre
        total += value
        squares += value * value
        kept = n - cut
        score = max(0.0, squares - total * total / kept) / kept**2
        if cut <= n // 2 and score <= best_score:
            best, best_score = cut, score
    return best
