"""The time of this machine."""

from __future__ import annotations

import time


class SystemClock:
    """CLOCK_MONOTONIC to measure, CLOCK_REALTIME to label.

    Both run at the same (NTP-corrected) rate, so they part only when somebody sets the wall clock or the box
    is suspended: the monotonic one stands still meanwhile. That is how a window sees the clock jump.
    """

    def monotonic_s(self) -> float:
        """Seconds since boot, time suspended left out."""
        return time.monotonic()

    def wall_s(self) -> float:
        """Seconds since 1970, as the box has it."""
        return time.time()

    def sleep_until(self, at_s: float) -> None:
        """Sleep until ``monotonic_s()`` is *at_s* or later; at once if it already is."""
        while (left_s := at_s - time.monotonic()) > 0:
            time.sleep(left_s)
