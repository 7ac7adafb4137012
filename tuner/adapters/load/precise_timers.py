"""Timers of asyncio with the precision of microseconds: its own timers end up to a millisecond late."""

from __future__ import annotations

import asyncio
import select
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from selectors import EpollSelector, SelectorKey
from typing import Any


class PreciseSelector(EpollSelector):
    """Waits for the requested time; ``EpollSelector`` rounds it up to whole milliseconds."""

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        """Return the events that come within *timeout*."""
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        select.select([self.fileno()], [], [], timeout)  # an epoll is readable once it has events
        return super().select(0)


def run_precisely(main: Coroutine[Any, Any, None]) -> None:
    """Run *main* like ``asyncio.run``, with precise timers; it changes the timer slack of the thread."""
    with suppress(OSError):  # without this file, the kernel ends timers up to 50 µs late
        Path("/proc/self/timerslack_ns").write_text("1", encoding="ascii")
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(PreciseSelector())) as runner:
        runner.run(main)
