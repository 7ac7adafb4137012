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
    """What one question may take: all of it, not each piece. Begins anew with ``renew``."""

    def __init__(self, seconds: float, n_bytes: int) -> None:
        self._seconds, self._n_bytes = seconds, n_bytes
        self.renew()

    def renew(self) -> None:
        """The next question begins."""
        self._ends_s = time.monotonic() + self._seconds
        self._left_bytes = self._n_bytes

    @contextmanager
    def raised(self, seconds: float, n_bytes: int) -> Iterator[None]:
        """Questions within the ``with`` block may take so much."""
        before = self._seconds, self._n_bytes
        self._seconds, self._n_bytes = seconds, n_bytes
        try:
            yield
        finally:
            self._seconds, self._n_bytes = before

    def left_s(self) -> float:
        """Seconds that are left, more than 0; TimeoutError when none are."""
        left_s = self._ends_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError(f"the whole answer did not come in {render_duration(self._seconds)}")
        return left_s

    def take(self, n_bytes: int) -> None:
        """So much has come; TooMuchError when it is more than may."""
        self._left_bytes -= n_bytes
        if self._left_bytes < 0:
            raise TooMuchError(f"the answer is larger than {self._n_bytes >> 20} MiB")


class BoundedSocket:
    """*inner*, connected, with limits on what is received. Its own timeout holds for each piece besides.

    A peer that sends a byte now and then, or for ever, is within every timeout of a plain socket.
    """

    def __init__(self, inner: socket.socket, bound: Bound) -> None:
        self._inner, self._bound = inner, bound

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def recv(self, n_bytes: int, flags: int = 0) -> bytes:
        """As a socket's."""
        part = bytearray(n_bytes)
        return bytes(part[: self.recv_into(part, n_bytes, flags)])

    def recv_into(self, buffer: Any, n_bytes: int = 0, flags: int = 0) -> int:
        """As a socket's."""
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
        """As a socket's, within the same time: a peer that takes a byte now and then holds nobody."""
        own_s = self._inner.gettimeout()
        left_s = self._bound.left_s()
        if own_s is None or own_s > left_s:
            self._inner.settimeout(left_s)
        try:
            self._inner.sendall(content, flags)
        finally:
            self._inner.settimeout(own_s)

    def makefile(self, mode: str = "rb", buffering: int = -1) -> io.BufferedReader:  # noqa: ARG002
        """To read from, as http.client does."""
        return io.BufferedReader(_Received(self, self._inner.makefile("rb", buffering=0)), 65536)


class _Received(io.RawIOBase):
    """What a socket receives; as long as it is open, so is the socket."""

    def __init__(self, connection: BoundedSocket, held: io.RawIOBase) -> None:
        self._connection, self._held = connection, held

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._connection.recv_into(buffer)

    def close(self) -> None:
        self._held.close()
        super().close()
