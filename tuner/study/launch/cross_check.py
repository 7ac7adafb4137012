"""The second probe of a launch, compared with the first in every window."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tuner.core.domain.layout import Layout
from tuner.core.domain.window import Reading, VoidReason
from tuner.core.errors import MeasurementError
from tuner.core.messages import invalid
from tuner.core.messages.service import cross_check_gap
from tuner.core.windows.validity import MISSED_INTERVALS, longest_gap_s
from tuner.ports import Counting, CrossCheck

# Whether two probes that watched the same window counted the same.

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


class SecondCounting:
    """What a launch's second probe counts. It spoils no window by what it cannot tell: that is warned of.

    Args:
        counting: of the second probe.
        check: how it is held against the first one.
        warn: gets a slug and a text: ``cross-check-gap``.
    """

    def __init__(self, counting: Counting, check: CrossCheck, warn: Callable[[str, str], None]) -> None:
        self._counting = counting
        self._check = check
        self._warn = warn
        self._latest: Reading | None = None
        self._problem = ""  #: why it could not be read

    def pids(self) -> frozenset[int]:
        """Its processes, to account their CPU to tuner."""
        return self._counting.pids()

    def read(self, beside: Reading) -> Reading:
        """Its counts now; when it fails, its latest ones with their own time. *beside* is the first one's."""
        try:
            self._latest = self._counting.read()
            self._problem = self._latest.problem
        except MeasurementError as error:
            self._latest = self._latest or Reading(beside.at_s, 0, 0)
            self._problem = error.problem
        return self._latest

    def verdict(
        self,
        layout: Layout,
        readings: Sequence[Reading],
        own: Sequence[Reading],
        looked_s: Sequence[float],
        interval_s: float,
    ) -> tuple[VoidReason, ...]:
        """Why a window does not count, as far as the two probes know.

        Args:
            readings: of the first probe, over the window.
            own: of this one, likewise.
            looked_s: when each was asked for.
            interval_s: between two looks.
        """
        gap_s = longest_gap_s([reading.at_s for reading in own], looked_s)
        if gap_s > MISSED_INTERVALS * interval_s:
            self._warn(*cross_check_gap(layout, self._check.names[1], gap_s, self._problem))
            return ()
        edges = (readings[0], readings[-1]), (own[0], own[-1])
        return disagreement(layout, *edges, self._check.within_ratio, self._check.names)
