"""Windows with too few items to say what a layout gives, and items of very different lengths.

A window counts the items that end in it. One item more or less at its edges changes a figure by 1 in n, and
each thread should finish some items, or the window measures when the long ones happened to end. So a window
wants `LEAST_ITEMS`, and the length of `LEAST_LONGEST` of the longest items.

The longest item is known where tuner's load generator sends requests. Elsewhere a mean stands for it: threads
that always have work spend threads x time / items on each. There, only the counts show that lengths differ:
a thread with a long item finishes nothing meanwhile. The number of items that end in a time has a variance of
its mean x (sd / mean of an item)^2, once threads have had some items each (a renewal process), whether they
wait or share cores. That is the mean or less for items of one kind, and a multiple of it where long ones take
much of the time (bench/mixed_items.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import ceil

from tuner.core.domain.requests import Latencies, bucket_limits_ns
from tuner.core.domain.window import Window
from tuner.core.messages.catalogue import Message
from tuner.core.messages.launch import few_items, mixed_items, short_window, uneven_counts

LEAST_ITEMS = 20  #: one more or less is 5 % of them
LEAST_LONGEST = 3  #: times the longest item
ENOUGH_ITEMS = 100  #: that a proposed window is to have
_LONG_RATIO = 20.0  #: an item that takes so many times the median is a long one
_LEAST_TIME = 0.3  #: of all the time that items take, which is spent in long ones: else they hardly matter
_MOST_LONG = 0.2  #: of all items; more of them are not the exception
_LEAST_SEEN = 50  #: items, to tell short from long
_ROUND_S = 5.0
_BINS_S = (1, 2, 5, 10, 20, 50, 100)  #: lengths of time that ends of items are counted in
_USUAL_BIN_S = 5  #: shorter ones where there are too few of these: some counters count in lumps
_LEAST_BINS = 12
_UNEVEN = 6.0  #: variance over mean of counts; of items of one kind it is at most about 1
_COMMON_SD = 0.1  #: of counts over their mean, by what slows all threads for a moment


def few_items_warning(window: Window) -> Message | None:
    """Return the warning that *window* is too short for its items; None: it is not."""
    n = window.n_done + window.n_failed
    if n < 1:
        return None  # said elsewhere
    longest_s, is_longest = _longest(window, n)
    enough_s = max(
        window.length_s * ENOUGH_ITEMS / n if n < LEAST_ITEMS else 0.0,
        LEAST_LONGEST * longest_s,
    )
    layout, length_s, enough_s = window.layout, window.length_s, _round_up(enough_s)
    if n < LEAST_ITEMS:
        return few_items(layout, n, length_s, enough_s)
    if length_s < LEAST_LONGEST * longest_s:
        return short_window(layout, length_s, LEAST_LONGEST, longest_s, enough_s, is_longest=is_longest)
    return None


def mixed_items_warning(window: Window) -> Message | None:
    """Return the warning that a few long items take much of the time; None: not seen."""
    if window.requests is None:
        return _uneven_counts_warning(window)
    latencies = window.requests.latencies
    n = latencies.n_recorded
    if n < _LEAST_SEEN:
        return None
    median_s = _high_s(_quantile_bucket(latencies, 0.5))
    long_ones = {b: k for b, k in latencies.n_by_bucket.items() if _low_s(b) >= _LONG_RATIO * median_s}
    n_long = sum(long_ones.values())
    if not n_long or n_long > _MOST_LONG * n:
        return None
    long_s = sum(k * _low_s(bucket) for bucket, k in long_ones.items())
    all_s = sum(k * _low_s(bucket) for bucket, k in latencies.n_by_bucket.items())
    if long_s < _LEAST_TIME * all_s:
        return None
    return mixed_items(window.layout, median_s, n_long / n, _LONG_RATIO, long_s / all_s)


def _uneven_counts_warning(window: Window) -> Message | None:
    if window.n_done + window.n_failed < _LEAST_SEEN:
        return None
    n_s = len(window.samples) - 1
    bins_s = [length for length in _BINS_S if n_s >= _LEAST_BINS * length]
    for length in [length for length in bins_s if length >= _USUAL_BIN_S] or bins_s[-1:]:
        edges = window.samples[::length]
        lasted_s = [after.at_s - before.at_s for before, after in pairwise(edges)]
        counts = [
            after.n_done_total + after.n_failed_total - before.n_done_total - before.n_failed_total
            for before, after in pairwise(edges)
        ]
        if min(lasted_s) <= 0:
            return None
        mean = sum(counts) / len(counts)
        variance = _variance([n * length / lasted for n, lasted in zip(counts, lasted_s, strict=True)])
        in_step = window.layout.total_threads**2 / 2  # all threads may finish at once: one time more or less
        if variance > _UNEVEN * mean + (_COMMON_SD * mean) ** 2 + in_step:
            return uneven_counts(window.layout, length, min(counts), max(counts), variance / mean)
    return None


def _variance(counts: Sequence[float]) -> float:
    """The variance from one count to the next, which a trend does not raise.

    The two largest differences are left out: a moment when nothing ends makes no more.
    """
    squares = sorted((after - before) ** 2 / 2 for before, after in pairwise(counts))[:-2]
    return sum(squares) / len(squares)


def _longest(window: Window, n: int) -> tuple[float, bool]:
    """The longest item, or else the mean of all, in seconds; and whether it is the longest."""
    if window.requests is not None and window.requests.latencies.n_recorded:
        buckets = window.requests.latencies.n_by_bucket
        return _low_s(max(buckets)), True
    return window.layout.total_threads * window.length_s / n, False


def _quantile_bucket(latencies: Latencies, share: float) -> int:
    wanted, seen = share * latencies.n_recorded, 0
    for bucket in sorted(latencies.n_by_bucket):
        seen += latencies.n_by_bucket[bucket]
        if seen >= wanted:
            return bucket
    raise AssertionError("a share of nothing")


def _low_s(bucket: int) -> float:
    return bucket_limits_ns(bucket)[0] / 1e9


def _high_s(bucket: int) -> float:
    return min(bucket_limits_ns(bucket)[1] / 1e9, 3600.0)


def _round_up(seconds: float) -> float:
    """Up to whole five seconds, above two minutes to whole minutes."""
    step = _ROUND_S if seconds <= 120 else 60.0
    return step * ceil(seconds / step - 1e-9)
