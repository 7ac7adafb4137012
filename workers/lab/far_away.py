"""A server with delayed replies, to simulate a distant server.

It listens on a unix socket and either forwards to another one (``--to``: a Redis, whose replies it delays) or
executes calls on files itself, one per request, like a file server (for `FarFiles` in gnocchi_stores.py).
It has one thread; a delayed reply does not delay others. It uses select, whose timeout is in microseconds,
because epoll rounds up to milliseconds. Run as a file, standard library only; ends with its standard input.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import select
import socket
import struct
import sys
import time
from collections import deque

REQUEST = struct.Struct("!cii")  #: call, descriptor or number of bytes to read, length of the data after it
REPLY = struct.Struct("!ii")  #: result or minus an errno, length of the data after it
_PR_SET_TIMERSLACK = 29  # linux/prctl.h: 50 us by default, by which every wait would be longer
_CHUNK = 1 << 16


def call(name: bytes, number: int, data: bytes) -> tuple[int, bytes]:
    """Execute one call on a file; return its result and the bytes read.

    Raises:
        OSError: the call failed.
    """
    if name == b"o":
        return os.open(data, os.O_RDONLY), b""
    if name == b"c":
        return os.open(data, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), b""
    if name == b"r":
        read = os.read(number, _CHUNK)
        return len(read), read
    if name == b"w":
        return os.write(number, data), b""
    if name == b"x":
        os.close(number)
        return 0, b""
    if name == b"m":
        os.rename(*data.split(b"\0"))
        return 0, b""
    raise ValueError(f"no call {name!r}")


def answers(waiting: bytearray) -> bytes:
    """Execute the complete requests in *waiting*, and remove them; return the replies."""
    given = b""
    while len(waiting) >= REQUEST.size:
        name, number, length = REQUEST.unpack_from(waiting)
        if len(waiting) < REQUEST.size + length:
            break
        data = bytes(waiting[REQUEST.size : REQUEST.size + length])
        del waiting[: REQUEST.size + length]
        try:
            result, read = call(name, number, data)
        except OSError as error:
            result, read = -(error.errno or 1), b""
        given += REPLY.pack(result, len(read)) + read
    return given


class Server:
    """Its clients, the server connection of each client, and the delayed replies."""

    def __init__(self, listener: socket.socket, to: str | None, delay_s: float) -> None:
        self._listener, self._to, self._delay_s = listener, to, delay_s
        self._peers: dict[socket.socket, socket.socket] = {}  # client -> server connection, and back
        self._behind: set[socket.socket] = set()  # the server connections among them
        self._asked: dict[socket.socket, bytearray] = {}  # incomplete requests of file clients
        self._due: deque[tuple[float, socket.socket, bytes]] = deque()

    def serve(self) -> None:
        """Serve until standard input ends."""
        stdin = sys.stdin.fileno()
        while True:
            open_ones = [self._listener, stdin, *self._peers, *self._asked]
            in_s = max(0.0, self._due[0][0] - time.monotonic()) if self._due else None
            for one in select.select(open_ones, (), (), in_s)[0]:
                if one == stdin:
                    return
                if one is self._listener:
                    self._accept()
                elif one in self._peers or one in self._asked:  # not closed in this round
                    self._take(one)
            while self._due and self._due[0][0] <= time.monotonic():
                _, client, reply = self._due.popleft()
                if client.fileno() >= 0:
                    client.sendall(reply)

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        if self._to is None:
            self._asked[client] = bytearray()
            return
        server = socket.socket(socket.AF_UNIX)
        server.connect(self._to)
        self._peers |= {client: server, server: client}
        self._behind.add(server)

    def _take(self, one: socket.socket) -> None:
        data = one.recv(_CHUNK)
        if not data:
            self._close(one)
        elif one in self._asked:
            self._asked[one] += data
            self._send_later(one, answers(self._asked[one]))
        elif one in self._behind:
            self._send_later(self._peers[one], data)
        else:
            self._peers[one].sendall(data)

    def _send_later(self, client: socket.socket, reply: bytes) -> None:
        if reply:
            self._due.append((time.monotonic() + self._delay_s, client, reply))

    def _close(self, one: socket.socket) -> None:
        for end in (one, self._peers.get(one)):
            if end is not None:
                self._peers.pop(end, None)
                self._asked.pop(end, None)
                self._behind.discard(end)
                end.close()


def main() -> None:
    """Serve; print "ready" once it listens."""
    parser = argparse.ArgumentParser(description="A server that seems to be far away.")
    parser.add_argument("--at", required=True, help="the unix socket to listen on")
    parser.add_argument("--to", help="the unix socket of the server; none: calls on files")
    parser.add_argument("--delay-us", type=float, default=0.0)
    asked = parser.parse_args()
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(asked.at)
        listener.listen(64)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        Server(listener, asked.to, 1e-6 * asked.delay_us).serve()


if __name__ == "__main__":
    main()
