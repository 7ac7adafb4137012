"""Socket connections with a deadline and a limit on the bytes that the peer may send."""

from __future__ import annotations

import io
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tuner.core.text.figures import render_duration


class TooMuchError(OSError):
    """The peer sent more than it may."""


class Bound:
    """Limit of time and bytes for one request as a whole, not for each piece. ``renew`` starts the next."""

    def __init__(self, seconds: float, n_bytes: int) -> None:
        self._seconds, self._n_bytes = seconds, n_bytes
        self.renew()

    def renew(self) -> None:
        """Start the time and the bytes of the next request."""
        self._ends_s = time.monotonic() + self._seconds
        self._left_bytes = self._n_bytes

    @contextmanager
    def raised(self, seconds: float, n_bytes: int) -> Iterator[None]:
        """Use other limits for requests within the ``with`` block."""
        before = self._seconds, self._n_bytes
        self._seconds, self._n_bytes = seconds, n_bytes
        try:
            yield
        finally:
            self._seconds, self._n_bytes = before

    def left_s(self) -> float:
        """Return the remaining seconds, more than 0; raise TimeoutError if none remain."""
        left_s = self._ends_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError(f"the whole answer did not come in {render_duration(self._seconds)}")
        return left_s

    def take(self, n_bytes: int) -> None:
        """Count received bytes; raise TooMuchError if they exceed the limit."""
        self._left_bytes -= n_bytes
        if self._left_bytes < 0:
            raise TooMuchError(f"the answer is larger than {self._n_bytes >> 20} MiB")


class BoundedSocket:
    """The connected socket *inner* with limits on the received data; its own timeout applies to each piece.

    A peer that sends single bytes slowly, or for ever, keeps every timeout of a plain socket.
    """

    def __init__(self, inner: socket.socket, bound: Bound) -> None:
        self._inner, self._bound = inner, bound

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def recv(self, n_bytes: int, flags: int = 0) -> bytes:
        """Receive like ``socket.recv``, within the limits."""
        part = bytearray(n_bytes)
        return bytes(part[: self.recv_into(part, n_bytes, flags)])

    def recv_into(self, buffer: Any, n_bytes: int = 0, flags: int = 0) -> int:
        """Receive like ``socket.recv_into``, within the limits."""
        own_s = self._inner.gettimeout()
        left_s = self._bound.left_s()
        if own_s is None or own_s > left_s:
            self._inner.settimeout(left_s)
        try:
            n_received = self._inner.recv_into(buffer, n_bytes, flags)
        finally:
            self._inner.settimeout(own_s)
        self._bound.take(n_received)
        return n_received

    def sendall(self, content: Any, flags: int = 0) -> None:
        """Send like ``socket.sendall``, within the same time, so that a slow reader cannot block it."""
        own_s = self._inner.gettimeout()
        left_s = self._bound.left_s()
        if own_s is None or own_s > left_s:
            self._inner.settimeout(left_s)
        try:
            self._inner.sendall(content, flags)
        finally:
            self._inner.settimeout(own_s)

    def makefile(self, mode: str = "rb", buffering: int = -1) -> io.BufferedReader:  # noqa: ARG002
        """Return a file for reading, as http.client needs it."""
        return io.BufferedReader(_Received(self, self._inner.makefile("rb", buffering=0)), 65536)


class _Received(io.RawIOBase):
    """Raw stream of the data that a socket receives; it keeps the socket open."""

    def __init__(self, connection: BoundedSocket, held: io.RawIOBase) -> None:
        self._connection, self._held = connection, held

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._connection.recv_into(buffer)

    def close(self) -> None:
        self._held.close()
        super().close()
