"""Whether a window began too early: asked once it is over, when much more has been seen."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from tuner.core.warmup.mser import BATCH, batch_means
from tuner.core.warmup.online import BIAS_RATIO, FEWEST_BATCHES
from tuner.core.warmup.transient import transient_end
from tuner.core.warmup.verdict import first_item

FEWEST_REST = 10  #: seconds that a window must keep to be compared with what it was


def warming_n(items_per_s: Sequence[float], began_n: int) -> int:
    """How many seconds at the head of a window that is over are warm-up after all; 0: none that matter.

    Args:
        items_per_s: one value a second since the launch was up, to the end of the window.
        began_n: how many of them are before the window.

    Raises:
        ValueError: nothing is in the window.
    """
    if began_n >= len(items_per_s):
        raise ValueError(f"{len(items_per_s)} seconds, {began_n} of them before the window")
    first = first_item(items_per_s)
    batches = batch_means(items_per_s[first:])
    if len(batches) < FEWEST_BATCHES:
        return 0
    # MSER itself keeps a late step while that is nearer to the end than to the beginning; a fit does not.
    warming = first + transient_end(batches, or_trend=True) * BATCH - began_n
    if not spoils(items_per_s[began_n:], warming):
        return 0
    return min(warming, len(items_per_s) - began_n)


def spoils(window: Sequence[float], head_n: int) -> bool:
    """Whether the first *head_n* seconds change the mean of *window* by over 0.5 %, or are most of it."""
    if head_n <= 0:
        return False
    rest = window[head_n:]
    return len(rest) < FEWEST_REST or abs(fmean(rest) - fmean(window)) > BIAS_RATIO * fmean(rest)
