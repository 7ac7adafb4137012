"""The one Event that a signal sets and everything that waits looks at."""

from __future__ import annotations

import contextlib
import os
import threading
import time


class StopEvent:
    """Says once and for all that the processor is to stop.

    ``threading.Event`` will not do: its ``set`` takes a lock that the main thread may hold when the signal
    handler interrupts it, and that is a deadlock. Setting this one is a flag, one byte into a pipe, one lock
    released. Whoever polls files polls ``fileno()`` beside them; it stays readable once the event is set.
    """

    def __init__(self, graceful_timeout_s: float = 0.0) -> None:
        self._graceful_timeout_s = graceful_timeout_s
        self._set_at_s: float | None = None
        self._closed_while_unset = threading.Lock()
        self._closed_while_unset.acquire()
        self._read_fd, self._write_fd = os.pipe()
        os.set_blocking(self._write_fd, False)

    def set(self) -> None:
        """Ask to stop; safe in a signal handler, and to call again."""
        if self._set_at_s is not None:
            return
        self._set_at_s = time.monotonic()
        os.write(self._write_fd, b"x")
        with contextlib.suppress(RuntimeError):  # a second signal came between the check and here
            self._closed_while_unset.release()

    def is_set(self) -> bool:
        """Whether it was asked for."""
        return self._set_at_s is not None

    def wait(self, timeout_s: float = -1) -> bool:
        """Wait until set, at most *timeout_s* (without: for ever); True when set."""
        if self._set_at_s is None and self._closed_while_unset.acquire(timeout=timeout_s):
            with contextlib.suppress(RuntimeError):
                self._closed_while_unset.release()  # for the next one who waits
        return self._set_at_s is not None

    def deadline_s(self) -> float | None:
        """The ``time.monotonic()`` by which the item in hand must be finished; None: not stopping."""
        return None if self._set_at_s is None else self._set_at_s + self._graceful_timeout_s

    def fileno(self) -> int:
        """A file descriptor that becomes readable when the event is set."""
        return self._read_fd

    def close(self) -> None:
        """Give the file descriptors back; afterwards only ``is_set`` may be called."""
        os.close(self._read_fd)
        os.close(self._write_fd)
