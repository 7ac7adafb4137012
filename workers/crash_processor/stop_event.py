"""The event that a signal sets, and for which all waiting code also waits."""

from __future__ import annotations

import contextlib
import os
import threading
import time


class StopEvent:
    """The request to stop the processor; once set, it stays set.

    ``threading.Event`` is not suitable: its ``set`` takes a lock that the main thread may hold when the
    signal handler interrupts it, which is a deadlock. Setting this one sets a flag, writes a byte into a
    pipe, and releases a lock. Code that polls files also polls ``fileno()``, which stays readable once set.
    """

    def __init__(self, graceful_timeout_s: float = 0.0) -> None:
        self._graceful_timeout_s = graceful_timeout_s
        self._set_at_s: float | None = None
        self._closed_while_unset = threading.Lock()
        self._closed_while_unset.acquire()
        self._read_fd, self._write_fd = os.pipe()
        os.set_blocking(self._write_fd, False)

    def set(self) -> None:
        """Request the stop; safe in a signal handler, and if called again."""
        if self._set_at_s is not None:
            return
        self._set_at_s = time.monotonic()
        os.write(self._write_fd, b"x")
        with contextlib.suppress(RuntimeError):  # a second signal arrived after the check
            self._closed_while_unset.release()

    def is_set(self) -> bool:
        """Return whether the stop was requested."""
        return self._set_at_s is not None

    def wait(self, timeout_s: float = -1) -> bool:
        """Wait until it is set, at most *timeout_s* seconds (-1: for ever); return whether it is set."""
        if self._set_at_s is None and self._closed_while_unset.acquire(timeout=timeout_s):
            with contextlib.suppress(RuntimeError):
                self._closed_while_unset.release()  # for the next waiting thread
        return self._set_at_s is not None

    def deadline_s(self) -> float | None:
        """Return the ``time.monotonic()`` by which current items must be finished; None: not set."""
        return None if self._set_at_s is None else self._set_at_s + self._graceful_timeout_s

    def fileno(self) -> int:
        """Return a file descriptor that becomes readable when the event is set."""
        return self._read_fd

    def close(self) -> None:
        """Close the file descriptors; afterwards only ``is_set`` may be called."""
        os.close(self._read_fd)
        os.close(self._write_fd)
