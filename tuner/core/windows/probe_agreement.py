"""Whether two probes that watched the same window counted the same."""

from __future__ import annotations

from tuner.core.domain.layout import Layout
from tuner.core.domain.window import Reading, VoidReason
from tuner.core.messages import invalid

Edges = tuple[Reading, Reading]  #: of a window: what was counted when it began, and when it ended


def disagreement(
    layout: Layout, first: Edges, second: Edges, within_ratio: float, names: tuple[str, str]
) -> tuple[VoidReason, ...]:
    """Say how far the items done of two probes are apart; empty when that is no more than allowed.

    The probes look at slightly different times: the second one's count is taken in proportion to the first
    one's. An item in hand at an edge may have been counted by one of them only, so as many as the layout has
    threads may be apart beside *within_ratio* of the larger count.

    Args:
        layout: whose items are counted.
        within_ratio: share (0..1) of the larger count.
        names: of the two probes.
    """
    lengths_s = [end.at_s - begin.at_s for begin, end in (first, second)]
    if min(lengths_s) <= 0:
        return ()  # no window; said elsewhere
    n_first, n_second = (end.n_done_total - begin.n_done_total for begin, end in (first, second))
    n_same_time = n_second * lengths_s[0] / lengths_s[1]
    apart, larger = abs(n_same_time - n_first), max(n_same_time, n_first)
    if apart <= within_ratio * larger + layout.total_threads:
        return ()
    counts = n_first, n_same_time
    return (invalid.probes_disagree(names, counts, apart / larger, within_ratio, layout.total_threads),)
