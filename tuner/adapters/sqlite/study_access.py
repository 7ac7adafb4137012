"""Opening study files without losing locks, and errors of unusable files.

SQLite uses fcntl locks, which belong to the process: closing any descriptor of a file drops all locks of the
process on it. If one thread checks whether a study is being written, another thread that reads it would lose
its locks, and a writer that ends just then could remove the -wal under it. So a descriptor is closed at once
only if this process has no connection to the file; otherwise with the last connection, as in SQLite itself.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

from tuner.core.errors import ConfigError

Key = tuple[int, int]  #: device and inode

#: reentrant, because objects that the garbage collector deletes meanwhile also acquire it
_mutex = threading.RLock()
_connections: Counter[Key] = Counter()  #: number of connections of this process to each file
#: descriptors that are kept open, by file and open flags
_waiting: defaultdict[tuple[Key, int], list[int]] = defaultdict(list)


@contextlib.contextmanager
def open_descriptor(path: Path, flags: int = os.O_RDONLY) -> Iterator[int]:
    """Yield a descriptor of *path*, at any offset; a flock taken with it ends with the ``with`` block.

    Raises:
        OSError: *path* cannot be opened. A pipe without a writer can be.
    """
    descriptor = _waiting_for(path, flags)
    if descriptor is None:
        descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        yield descriptor
    finally:
        _close(descriptor, flags)


@contextlib.contextmanager
def connect_and_close(
    path: Path, connect: Callable[[Path], sqlite3.Connection]
) -> Iterator[sqlite3.Connection]:
    """Yield the connection that *connect* makes to *path*; close it at the end of the ``with`` block."""
    with _keep_open(path), contextlib.closing(connect(path)) as connection:
        yield connection


@contextlib.contextmanager
def _keep_open(path: Path) -> Iterator[None]:
    """Keep descriptors of *path* from being closed in the ``with`` block."""
    try:
        key = _key(os.stat(path))
    except OSError as error:  # it was removed after its check
        raise sqlite3.OperationalError(f"unable to open database file: {error.strerror}") from error
    with _mutex:
        _connections[key] += 1
    try:
        yield
    finally:
        with _mutex:
            _connections[key] -= 1
            if not _connections[key]:
                del _connections[key]
                for of in [of for of in _waiting if of[0] == key]:
                    for descriptor in _waiting.pop(of):
                        os.close(descriptor)


def _waiting_for(path: Path, flags: int) -> int | None:
    """Return a descriptor of *path* that waits for closing, to reuse it, or None."""
    of = _key(os.stat(path)), flags
    with _mutex:
        return _waiting[of].pop() if _waiting.get(of) else None


def _close(descriptor: int, flags: int) -> None:
    key = _key(os.fstat(descriptor))
    with _mutex:
        if key not in _connections:
            os.close(descriptor)
            return
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        _waiting[key, flags].append(descriptor)


def _key(found: os.stat_result) -> Key:
    return found.st_dev, found.st_ino


# Errors of an unusable study file: one line, and a remedy.


BACKUP = "Take it from a backup."


class Damaged(ValueError):
    """The content of a study file differs from what tuner writes; the message does not name the file."""


@contextlib.contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Turn SQLite's errors about *path*, and `Damaged`, into ConfigErrors of one line."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise translate_error(path, error) from error
    except UnicodeDecodeError as error:
        raise unreadable(path) from error
    except Damaged as error:
        raise ConfigError(f"{path} is damaged: {error}", hint=BACKUP) from error


def unreadable(path: Path) -> ConfigError:
    """Return the error for texts in the file that are not UTF-8, for which SQLite's message is unreadable."""
    return ConfigError(f"{path} is damaged: it holds texts that are not UTF-8", hint=BACKUP)


def translate_error(path: Path, error: sqlite3.DatabaseError) -> ConfigError:
    """Return the ConfigError for an error of SQLite; raise it unchanged if it is a bug of tuner."""
    resume = f"All finished windows are kept; continue with --resume {path}."
    match getattr(error, "sqlite_errorcode", 0) & 0xFF:
        case sqlite3.SQLITE_FULL:
            return ConfigError(f"the disk of {path} is full", hint=f"Free some space. {resume}")
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return ConfigError(
                f"cannot write {path} or its folder", hint="Check their owner and permissions."
            )
        case sqlite3.SQLITE_IOERR:
            return ConfigError(f"{path} cannot be read or written: {error}", hint=f"Check its disk. {resume}")
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return ConfigError(f"another program holds {path} locked", hint=f"Close it. {resume}")
        case (
            sqlite3.SQLITE_CORRUPT
            | sqlite3.SQLITE_NOTADB
            | sqlite3.SQLITE_ERROR
            | sqlite3.SQLITE_TOOBIG
            | sqlite3.SQLITE_OK  # Python's own: a text that is not UTF-8
        ):
            said = " ".join(str(error).split())  # it may quote content of the file
            return ConfigError(f"{path} is damaged: {said}", hint=BACKUP)
        case _:
            raise error  # a bug of tuner (a broken constraint): keep its traceback
