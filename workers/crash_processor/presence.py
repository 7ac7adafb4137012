"""Folders that belong to a living process; other processes may take the content of an abandoned one.

A living process has a lock on a file in its folder (flock). The kernel releases it at any end of the process,
so neither a reused pid nor a container with the same host name and pid as an earlier one is mistaken for the
owner.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path

LOCK = ".lock"
_STARTING = ".starting-"
_STARTING_LASTS_S = 60.0  # making a folder takes milliseconds; an older one was left by a kill


def worker_name() -> str:
    """Return a name of this process, ``HOST.PID.START``. START is in clock ticks since boot."""
    stat = Path("/proc/self/stat").read_bytes()
    start = stat.rpartition(b")")[2].split()[19].decode()  # the command before ")" may contain any character
    return f"{socket.gethostname()}.{os.getpid()}.{start}"


class Presence:
    """A folder of this process below *parent*, locked until ``close`` or the end of the process.

    Raises:
        OSError: the folder cannot be made or locked.
    """

    def __init__(self, parent: Path) -> None:
        self._parent = parent
        self.folder, self._lock_fd = _make(parent)

    def make_again(self) -> None:
        """Make another folder after ours was removed; raise OSError if this fails."""
        lost_fd = self._lock_fd
        self.folder, self._lock_fd = _make(self._parent)
        os.close(lost_fd)

    def close(self) -> None:
        """Remove the folder; if it has content, leave it, as an abandoned folder."""
        _remove(self.folder)
        os.close(self._lock_fd)


def _make(parent: Path) -> tuple[Path, int]:
    """Make a folder of this process below *parent*; return it and the descriptor with its lock."""
    parent.mkdir(exist_ok=True)
    name = worker_name()
    starting = parent / f"{_STARTING}{name}.{time.monotonic_ns()}"  # ignored by others until it is locked
    starting.mkdir()
    try:
        lock_fd = os.open(starting / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
        fcntl.flock(lock_fd, fcntl.LOCK_EX)
        return _rename_to_free_name(starting, parent, name), lock_fd
    except BaseException:
        shutil.rmtree(starting, ignore_errors=True)
        raise


@contextlib.contextmanager
def _lock(folder: Path) -> Iterator[bool]:
    """Yield whether the folder is abandoned; within the block it is locked against other processes."""
    try:
        fd = os.open(folder / LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        yield False  # being removed
        return
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(fd)


def abandoned_folders(parent: Path) -> Iterator[Path]:
    """Yield the folders below *parent* whose processes have ended.

    Each is locked while the caller uses it, and removed afterwards unless it still has content.
    """
    for entry in _entries(parent):
        folder = parent / entry
        if entry.startswith(_STARTING):
            _remove_if_old(folder)
            continue
        with _lock(folder) as is_abandoned:
            if is_abandoned:
                yield folder
                _remove(folder)
        with contextlib.suppress(OSError):
            folder.rmdir()  # a kill during its removal left it empty, without a lock


def n_alive(parent: Path) -> int:
    """Return the number of living processes with a folder below *parent*."""
    alive = 0
    for entry in _entries(parent):
        if not entry.startswith(_STARTING):
            with _lock(parent / entry) as is_abandoned:
                alive += not is_abandoned
    return alive


def _entries(parent: Path) -> list[str]:
    with contextlib.suppress(FileNotFoundError):
        return os.listdir(parent)
    return []


def _rename_to_free_name(starting: Path, parent: Path, name: str) -> Path:
    n = 0
    while True:
        folder = parent / (f"{name}-{n}" if n else name)
        try:
            starting.rename(folder)  # replaces an empty folder only, and ours are never empty
        except OSError:
            if not folder.exists():
                raise
            n += 1
        else:
            return folder


def _remove(folder: Path) -> None:
    """Remove *folder* if it contains only the lock."""
    if _entries(folder) == [LOCK]:
        with contextlib.suppress(FileNotFoundError):
            (folder / LOCK).unlink()
        with contextlib.suppress(OSError):
            folder.rmdir()


def _remove_if_old(folder: Path) -> None:
    with contextlib.suppress(OSError):
        if time.time() - folder.stat().st_mtime > _STARTING_LASTS_S:
            shutil.rmtree(folder)
