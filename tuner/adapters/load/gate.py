"""Gate of the load generator, which is closed while the feeder requests a pause."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

from tuner.adapters.processes.pausing import Asked, PausingProcess


class Gate:
    """Open until the feeder requests a pause, which is confirmed once no request is under way."""

    def __init__(
        self,
        descriptor: int | None,
        *,
        is_busy: Callable[[], bool],
        shuts: Callable[[], None],
        opens: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        """Set up the gate; *is_busy*: whether requests are under way. *descriptor* None: it always stays
        open.
        """
        self._feeder = None if descriptor is None else PausingProcess(descriptor)
        self._is_busy, self._shuts, self._opens = is_busy, shuts, opens
        self._opening: asyncio.Task[None] | None = None
        self._open = asyncio.Event()
        self._open.set()
        self._unanswered: Asked | None = None
        self._since_ns = 0
        self._shut_ns = 0

    @property
    def is_shut(self) -> bool:
        """Whether no request may be sent."""
        return not self._open.is_set()

    @property
    def is_quiet(self) -> bool:
        """Whether it is shut and no request is under way."""
        return self.is_shut and self._unanswered is None

    @property
    def shut_ns(self) -> int:
        """Total time in ns that it was shut, up to the last opening."""
        return self._shut_ns

    def listen(self) -> None:
        """Read the feeder's requests from now on."""
        if self._feeder is not None:
            asyncio.get_running_loop().add_reader(self._feeder.fileno(), self._hear)

    async def passed(self) -> None:
        """Wait until it is open."""
        await self._open.wait()

    def look(self) -> None:
        """Confirm a pause to the feeder if the requests under way have ended."""
        if self._unanswered is not None and not self._is_busy():
            asked, self._unanswered = self._unanswered, None
            if self._feeder is not None:
                self._feeder.answer(asked)

    def open(self) -> None:
        """Open the gate."""
        if self.is_shut:
            self._shut_ns += time.monotonic_ns() - self._since_ns
            self._unanswered = None
            self._open.set()
            self._opening = asyncio.get_running_loop().create_task(self._opens())

    def _hear(self) -> None:
        assert self._feeder is not None
        asked = self._feeder.hear()
        if asked is None:
            if not self._feeder.is_open:
                asyncio.get_running_loop().remove_reader(self._feeder.fileno())
            return
        if not asked.pauses:
            self.open()
            self._feeder.answer(asked)
            return
        if not self.is_shut:
            self._since_ns = time.monotonic_ns()
            self._open.clear()
            self._shuts()
        self._unanswered = asked
        self.look()
