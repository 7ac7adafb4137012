"""Clocks: of this machine, and of a simulated host."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tuner.ports import Store


class SystemClock:
    """CLOCK_MONOTONIC to measure durations, CLOCK_REALTIME for labels.

    Both run at the same (NTP-corrected) rate. They diverge only if the wall clock is set, or if the host is
    suspended, which stops the monotonic clock. A window detects a clock jump by this difference.
    """

    def monotonic_s(self) -> float:
        """Return the seconds since boot, without time suspended."""
        return time.monotonic()

    def wall_s(self) -> float:
        """Return the seconds since 1970 by the host's clock."""
        return time.time()

    def sleep_until(self, at_s: float) -> None:
        """Sleep until ``monotonic_s()`` is *at_s* or later; at once if it already is."""
        while (left_s := at_s - time.monotonic()) > 0:
            time.sleep(left_s)


# Time of a simulated host: it passes only by sleeping, without waiting.


STOP_S = 0.25  #: time to stop a layout


class VirtualClock:
    """Time that passes only by sleeping."""

    def __init__(self, wall_s: float = 1_000_000_000.0, monotonic_s: float = 1000.0) -> None:
        self._wall_s = wall_s - monotonic_s
        self._now_s = monotonic_s

    def monotonic_s(self) -> float:
        """Return the time of the simulation in seconds."""
        return self._now_s

    def wall_s(self) -> float:
        """Return the simulated seconds since 1970."""
        return self._wall_s + self._now_s

    def sleep_until(self, at_s: float) -> None:
        """Advance the time, without waiting."""
        self._now_s = max(self._now_s, at_s)

    @classmethod
    def resumed(cls, store: Store, stop_s: float = STOP_S) -> VirtualClock:
        """Return a clock at the time when the study in *store* ended or was interrupted, or was created.

        *stop_s* is the time in seconds that a layout needs to stop.
        """
        launches = store.launches()
        if not launches:
            return cls(store.study().created_wall_s)
        launch_id, last = launches[-1]
        if last.heat is not None:  # layouts that took turns end in any order
            of_heat = [one for _, one in launches if (one.block, one.heat) == (last.block, last.heat)]
            ends_s = [one.ended_wall_s for one in of_heat if one.ended_wall_s is not None]
            return cls(max([last.started_wall_s, *ends_s]))
        windows = [window for window in store.windows() if window.launch_id == launch_id]
        if last.ended_wall_s is not None:
            return cls(last.ended_wall_s)
        if not windows:
            return cls(last.started_wall_s)
        return cls(windows[-1].started_wall_s + windows[-1].length_s + stop_s)

    def jump_wall(self, by_s: float) -> None:
        """Set the wall clock forward by *by_s* seconds."""
        self._wall_s += by_s
