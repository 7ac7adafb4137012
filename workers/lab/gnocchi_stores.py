"""Stores of the series of gnocchi_batch.py: files and Redis, local or distant, each with separate servers.

The calls on files are those of Gnocchi's file driver: open, read, close; create, write, close, rename.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from far_away import REPLY, REQUEST  # type: ignore[import-not-found]  # beside this file, as it runs

STARTS_WITHIN_S = 30.0
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


class Store(Protocol):
    """A store of series, for use by several threads."""

    def read(self, name: str) -> bytes:
        """Return a series."""

    def write(self, name: str, series: bytes) -> None:
        """Replace a series."""

    def ping(self) -> None:
        """Make one round trip; do nothing for a local store."""


class LocalFiles:
    """Files in a folder, by system calls."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, name: str) -> bytes:
        """Return a series, by three calls."""
        descriptor = os.open(self._folder / name, os.O_RDONLY)
        series = os.read(descriptor, 1 << 16)
        os.close(descriptor)
        return series

    def write(self, name: str, series: bytes) -> None:
        """Replace a series, by four calls."""
        path = self._folder / name
        new = path.with_suffix(".new")
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.write(descriptor, series)
        os.close(descriptor)
        os.rename(new, path)

    def ping(self) -> None:
        """Do nothing: there is no round trip."""


class FarFiles:
    """The same files and calls by a server: a round trip for each call, on reused connections."""

    def __init__(self, folder: Path, at: Path) -> None:
        self._folder, self._at = folder, at
        self._free: list[socket.socket] = []

    def read(self, name: str) -> bytes:
        """Return a series, by three round trips."""
        with self._connection() as one:
            number, _ = _call(one, b"o", 0, bytes(self._folder / name))
            _, series = _call(one, b"r", number)
            _call(one, b"x", number)
        return series

    def write(self, name: str, series: bytes) -> None:
        """Replace a series, by four round trips."""
        path = self._folder / name
        new = path.with_suffix(".new")
        with self._connection() as one:
            number, _ = _call(one, b"c", 0, bytes(new))
            _call(one, b"w", number, series)
            _call(one, b"x", number)
            _call(one, b"m", 0, bytes(new) + b"\0" + bytes(path))

    def ping(self) -> None:
        """Make a call without an effect: write no byte to the server's standard error."""
        with self._connection() as one:
            _call(one, b"w", 2)

    @contextmanager
    def _connection(self) -> Iterator[socket.socket]:
        try:
            one = self._free.pop()
        except IndexError:
            one = socket.socket(socket.AF_UNIX)
            one.connect(str(self._at))
        yield one
        self._free.append(one)


def _call(one: socket.socket, name: bytes, number: int, data: bytes = b"") -> tuple[int, bytes]:
    one.sendall(REQUEST.pack(name, number, len(data)) + data)
    reply = one.recv(1 << 17)
    while len(reply) < REPLY.size or len(reply) < REPLY.size + REPLY.unpack_from(reply)[1]:
        more = one.recv(1 << 17)
        if not more:
            raise ConnectionError("the file server has gone")
        reply += more
    result, _ = REPLY.unpack_from(reply)
    if result < 0:
        raise OSError(-result, os.strerror(-result))
    return result, reply[REPLY.size :]


class InRedis:
    """Fields of a hash in Redis, by redis-py, whose pool has a connection for each thread."""

    def __init__(self, at: Path) -> None:
        import redis

        self._client: Any = redis.Redis(unix_socket_path=str(at))

    def read(self, name: str) -> bytes:
        """Return a series, by one round trip."""
        return bytes(self._client.hget("series", name))

    def write(self, name: str, series: bytes) -> None:
        """Replace a series, by one round trip."""
        self._client.hset("series", name, series)

    def ping(self) -> None:
        """Send PING."""
        self._client.ping()


@contextmanager
def started(*words: str, ready: Callable[[subprocess.Popen[bytes]], bool]) -> Iterator[None]:
    """Start a server and wait until it is ready; it ends with the block, or if this thread is killed."""
    process = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=_ends_with(os.getpid())
    )
    try:
        deadline_s = time.monotonic() + STARTS_WITHIN_S
        while not ready(process):
            if process.poll() is not None or time.monotonic() > deadline_s:
                process.kill()
                said = process.communicate()[0].decode("utf-8", "replace").strip().splitlines()
                sys.exit(": ".join([f"{Path(words[0]).name} did not start", *said[-1:]]))
            time.sleep(0.005)
        yield
    finally:
        process.kill()
        process.communicate()


def _ends_with(parent: int) -> Callable[[], None]:
    """Return a function for a child before exec, to kill it when the thread of *parent* that made it ends."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def follow() -> None:
        if prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "PR_SET_PDEATHSIG")
        if os.getppid() != parent:  # the parent has already ended
            os._exit(1)

    return follow


@contextmanager
def redis_at(folder: Path) -> Iterator[Path]:
    """Start a redis-server without persistence; yield its unix socket."""
    if shutil.which("redis-server") is None:
        sys.exit("redis-server is not installed")
    at = folder / "redis"
    words = ("redis-server", "--port", "0", "--unixsocket", str(at), "--save", "", "--appendonly", "no",
             "--dir", str(folder), "--loglevel", "warning")  # fmt: skip
    with started(*words, ready=lambda _: _answers(at)):
        yield at


def _answers(at: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as one:
        try:
            one.connect(str(at))
            one.sendall(b"PING\r\n")
            return one.recv(64).startswith(b"+PONG")
        except OSError:
            return False


@contextmanager
def far_away(folder: Path, delay_us: float, to: Path | None = None) -> Iterator[Path]:
    """Start a server with delayed replies, of the one on the socket *to* or for files; yield its socket."""
    at = folder / "far"
    program = Path(__file__).with_name("far_away.py")
    behind = () if to is None else ("--to", str(to))
    words = (sys.executable, str(program), "--at", str(at), "--delay-us", f"{delay_us:g}", *behind)

    def is_ready(process: subprocess.Popen[bytes]) -> bool:
        assert process.stdout is not None
        return process.stdout.readline() == b"ready\n"

    with started(*words, ready=is_ready):
        yield at


@contextmanager
def store_of(target: str, delay_us: float) -> Iterator[Store]:
    """Yield a temporary store of this program."""
    with tempfile.TemporaryDirectory(prefix="gno-") as name:
        folder = Path(name)
        if target == "local file":
            yield LocalFiles(folder)
        elif target == "remote file":
            with far_away(folder, delay_us) as at:
                yield FarFiles(folder, at)
        elif target == "local redis":
            with redis_at(folder) as at:
                yield InRedis(at)
        else:
            with redis_at(folder) as to, far_away(folder, delay_us, to) as at:
                yield InRedis(at)
