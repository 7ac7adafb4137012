"""The little of Redis's protocol that a queue needs.

Why not the redis package: importing it takes 0.28 s of CPU, and 24 processes start at once; and it tries
again by itself, after which nobody can tell whether an item was taken twice.
"""

from __future__ import annotations

import socket
from typing import Any, BinaryIO
from urllib.parse import parse_qs, unquote, urlsplit

from ..errors import InputError

_TIMEOUT_S = 5.0


class LostError(Exception):
    """The connection broke or was not answered; the command may have been carried out, or not."""


class ReplyError(Exception):
    """Redis refused a command; the text begins with its error code."""

    @property
    def is_temporary(self) -> bool:
        """Whether the same command may succeed later."""
        temporary = ("LOADING", "OOM", "MISCONF", "READONLY", "BUSY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN")
        return str(self).startswith(temporary)


class Address:
    """What a URL says: ``redis://[user:password@]host[:port][/db]`` or ``unix://[user:password@]/path[?db=n]``.

    Raises:
        InputError: it says something else.
    """

    def __init__(self, url: str) -> None:
        try:
            parts = urlsplit(url)
            port = parts.port or 6379
        except ValueError as error:
            raise InputError(f"--redis-url: {url!r} is not a URL: {error}") from None
        self.user = unquote(parts.username or "")
        self.password = unquote(parts.password or "")
        if parts.scheme == "redis":
            database = parts.path.strip("/")
            self.target: str | tuple[str, int] = (parts.hostname or "127.0.0.1", port)
            self.shown = f"{self.target[0]}:{port}"  #: without the password
        elif parts.scheme == "unix" and parts.path:
            database = parse_qs(parts.query).get("db", [""])[0]
            self.target = self.shown = unquote(parts.path)
        else:
            raise InputError(f"--redis-url: {url!r} is neither redis://host:port/db nor unix:///path")
        if not (database.isdecimal() or database == ""):
            raise InputError(f"--redis-url: {database!r} is not a database number")
        self.database = int(database or 0)


class Connection:
    """One connection; use it in one thread at a time.

    Raises:
        LostError: nobody answers.
        ReplyError: the password or database is refused.
    """

    def __init__(self, address: Address, name: str) -> None:
        try:
            self._socket = _connected(address.target)
        except OSError as error:
            raise LostError(error.strerror or str(error)) from error
        self._replies: BinaryIO = self._socket.makefile("rb")
        try:
            if address.password:
                self.call("AUTH", *([address.user] if address.user else []), address.password)
            if address.database:
                self.call("SELECT", address.database)
            self.call("CLIENT", "SETNAME", name)
        except BaseException:
            self.close()
            raise

    def call(self, *command: object) -> Any:
        """Send a command and return its reply: text, int, list, or None for nil."""
        words = [str(word).encode() for word in command]
        packed = [b"*%d\r\n" % len(words)]
        packed += [b"$%d\r\n%b\r\n" % (len(word), word) for word in words]
        try:
            self._socket.sendall(b"".join(packed))
            return self._read_reply()
        except OSError as error:
            raise LostError(error.strerror or str(error)) from error

    def close(self) -> None:
        """Hang up."""
        self._replies.close()
        self._socket.close()

    def _read_reply(self) -> Any:
        line = self._replies.readline()
        if not line.endswith(b"\r\n"):
            raise LostError("connection closed")
        kind, rest = line[:1], line[1:-2].decode("utf-8", "replace")
        if kind == b"+":
            return rest
        if kind == b":":
            return int(rest)
        if kind == b"-":
            raise ReplyError(rest)
        n = int(rest)
        if n < 0:
            return None
        if kind == b"*":
            return [self._read_reply() for _ in range(n)]
        content = self._replies.read(n + 2)
        if len(content) < n + 2:
            raise LostError("connection closed")
        return content[:-2].decode("utf-8", "replace")


def _connected(target: str | tuple[str, int]) -> socket.socket:
    if not isinstance(target, str):
        connected = socket.create_connection(target, timeout=_TIMEOUT_S)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connected
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connected.settimeout(_TIMEOUT_S)
        connected.connect(target)
    except BaseException:
        connected.close()
        raise
    return connected
