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

# The comparison of the counts of two probes in the same window.

Edges = tuple[Reading, Reading]  #: counts at the start and at the end of a window


def disagreement(
    layout: Layout, first: Edges, second: Edges, within_ratio: float, names: tuple[str, str]
) -> tuple[VoidReason, ...]:
    """Compare the items done of two probes; return the reason if they differ by more than allowed.

    The probes read at slightly different times, so the second count is scaled to the first probe's time. An
    item in progress at an edge may be in one count only, so the counts may differ by *within_ratio* of the
    larger count plus one item per thread of the layout.

    Args:
        layout: the layout whose items are counted.
        within_ratio: allowed difference, as a share (0..1) of the larger count.
        names: the names of the two probes.
    """
    lengths_s = [end.at_s - begin.at_s for begin, end in (first, second)]
    if min(lengths_s) <= 0:
        return ()  # not a window; another check reports it
    n_first, n_second = (end.n_done_total - begin.n_done_total for begin, end in (first, second))
    n_same_time = n_second * lengths_s[0] / lengths_s[1]
    apart, larger = abs(n_same_time - n_first), max(n_same_time, n_first)
    if apart <= within_ratio * larger + layout.total_threads:
        return ()
    counts = n_first, n_same_time
    return (invalid.probes_disagree(names, counts, apart / larger, within_ratio, layout.total_threads),)


class SecondCounting:
    """The counts of a launch's second probe. Missing counts only give a warning, not an invalid window.

    Args:
        counting: the counts of the second probe.
        check: the settings of the comparison.
        warn: gets a slug and a text: ``cross-check-gap``.
    """

    def __init__(self, counting: Counting, check: CrossCheck, warn: Callable[[str, str], None]) -> None:
        self._counting = counting
        self._check = check
        self._warn = warn
        self._latest: Reading | None = None
        self._problem = ""  #: reason why the second probe could not be read

    def pids(self) -> frozenset[int]:
        """Return the pids of its processes, whose CPU time is attributed to tuner."""
        return self._counting.pids()

    def read(self, beside: Reading) -> Reading:
        """Return its counts now, or after an error the latest ones, with the time at which they were read.
        *beside* is the reading of the first probe."""
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
        """Return the reasons why a window is invalid according to the two probes.

        Args:
            readings: the readings of the first probe over the window.
            own: the readings of this probe over the window.
            looked_s: the monotonic second at which each reading was requested.
            interval_s: seconds between two readings.
        """
        gap_s = longest_gap_s([reading.at_s for reading in own], looked_s)
        if gap_s > MISSED_INTERVALS * interval_s:
            self._warn(*cross_check_gap(layout, self._check.names[1], gap_s, self._problem))
            return ()
        edges = (readings[0], readings[-1]), (own[0], own[-1])
        return disagreement(layout, *edges, self._check.within_ratio, self._check.names)
