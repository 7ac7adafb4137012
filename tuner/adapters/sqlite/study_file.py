"""The study file on disk: creation, checks, the lock of its writer, copies before upgrades."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import os
import shutil
import sqlite3
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tuner.adapters.sqlite import study_access as study_access
from tuner.adapters.sqlite.study_access import BACKUP, translate_errors
from tuner.core.errors import ConfigError

APPLICATION_ID = 0x74756E72  #: "tunr"
#: the version of the newest upgrade_to_N.sql
SCHEMA_VERSION = max(
    int(path.stem.removeprefix("upgrade_to_")) for path in Path(__file__).parent.glob("upgrade_to_*.sql")
)
_TRIES, _BETWEEN_TRIES_S = 10, 0.02  #: attempts to get the lock if another program reads the file
_BUSY_S = 20.0  #: longest wait for the commit of another program
#: limit for a text or blob; the largest one that tuner writes, a config, has some kB
_LARGEST_VALUE_BYTES = 64 << 20


def make(path: Path, image: bytes) -> None:
    """Write a new study file; raise ConfigError if *path* exists or cannot be written.

    *image* is a complete database. The file has no name until all of it is on the disk, so that a kill leaves
    no file; on a file system that does not support this (NFS), it leaves an incomplete one.
    """
    try:
        if os.path.lexists(path):
            raise FileExistsError
        handle, is_nameless = _opened_new(path)
    except FileExistsError as error:
        raise _exists(path) from error
    except OSError as error:
        raise ConfigError(f"cannot create {path}: {error.strerror}", hint="Give another --study.") from error
    try:
        with open(handle, "wb") as file:  # closing may fail, too: it writes buffered data to a full disk
            file.write(image)
            file.flush()
            os.fsync(handle)
            if is_nameless:
                # Python follows the link only with src_dir_fd, which is unused because the path is absolute
                os.link(f"/proc/self/fd/{handle}", path, src_dir_fd=handle, follow_symlinks=True)
    except FileExistsError as error:  # another process has just made it
        raise _exists(path) from error
    except OSError as error:
        _remove_unless_nameless(path, is_nameless)
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        hint = "Free some space." if full else "Give another --study."
        raise ConfigError(f"cannot write {path}: {error.strerror}", hint=hint) from error
    except BaseException:
        _remove_unless_nameless(path, is_nameless)
        raise


def _opened_new(path: Path) -> tuple[int, bool]:
    """Open a new file for *path*; return its descriptor, and whether it has no name yet."""
    try:
        return os.open(path.parent, os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC, 0o666), True
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR):  # not supported by the file system or kernel
            raise
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666), False


def _remove_unless_nameless(path: Path, is_nameless: bool) -> None:
    if not is_nameless:
        path.unlink()


def _exists(path: Path) -> ConfigError:
    return ConfigError(
        f"{path} exists already, and a study is never overwritten",
        hint=f"Continue it (--resume {path}), or give another name with --study.",
    )


def check(path: Path) -> None:
    """Raise ConfigError unless *path* is a study file of a supported version. Only the header is read."""
    try:
        if not stat.S_ISREG(kind := path.stat().st_mode) and not stat.S_ISDIR(kind):
            raise ConfigError(  # opening a pipe would wait for its writer
                f"{path} is a pipe, socket or device, not a study file", hint="Name a *.tuner.db file."
            )
        with study_access.open_descriptor(path) as descriptor:
            header = os.pread(descriptor, 100, 0)
    except FileNotFoundError as error:
        raise ConfigError(f"there is no study file {path}", hint="Check the name.") from error
    except IsADirectoryError as error:
        raise ConfigError(f"{path} is a folder, not a study file", hint="Name a *.tuner.db file.") from error
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    if not header:
        raise ConfigError(
            f"{path} is empty: its study was cut off before it began", hint="Remove it, start anew."
        )
    if header[:16] != b"SQLite format 3\0" or int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise ConfigError(f"{path} is not a study file of tuner", hint="Name a *.tuner.db file.")
    version = int.from_bytes(header[60:64], "big")
    if version < 1:
        raise ConfigError(f"{path} is damaged: it has schema version {version}", hint=BACKUP)
    if version > SCHEMA_VERSION:
        raise ConfigError(
            f"{path} has schema version {version}, this tuner supports up to {SCHEMA_VERSION}",
            hint="Use the tuner that wrote it, or a newer one.",
        )


@contextlib.contextmanager
def open_for_writing(path: Path, *, lasting: bool = True) -> Iterator[sqlite3.Connection]:
    """Yield the only connection that may write to *path*; raise ConfigError if another tuner has it.

    Not *lasting*: a power cut may lose the last commits, but never the file; a kill loses nothing.
    The lock is a flock on the study file itself: it ends with its process, leaves no file behind, and does
    not interfere with SQLite's own (fcntl) locks, so that readers are not blocked.
    """
    check(path)
    with contextlib.ExitStack() as stack:
        try:
            lock = stack.enter_context(study_access.open_descriptor(path, os.O_RDWR))
        except OSError as error:
            raise ConfigError(
                f"cannot write {path}: {error.strerror}",
                hint="Check its owner and permissions, or continue with a copy.",
            ) from error
        _hold(path, lock)
        with translate_errors(path):
            connection = stack.enter_context(connect_to_file(path, "rw"))
            connection.execute("PRAGMA journal_mode = WAL")
            # FULL: a commit is on the disk when it returns, so that a power cut loses no finished window.
            # The cost is one fsync per window.
            connection.execute(f"PRAGMA synchronous = {'FULL' if lasting else 'NORMAL'}")
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("BEGIN IMMEDIATE")  # fails now if the folder or file system is read-only
            connection.execute("ROLLBACK")
        yield connection


def keep_copy(path: Path, connection: sqlite3.Connection, version: int) -> Path:
    """Copy *path*, open as *connection*, to a file in its folder that is named by its schema *version*.

    The copy has all commits, including those of a killed writer in the -wal. It is made completely or not at
    all, and no file is overwritten.

    Raises:
        ConfigError: the copy cannot be written.
    """
    made = path.with_name(f"{path.name}.copying")
    try:
        made.unlink(missing_ok=True)  # remove an interrupted copy; this process has the study's lock
        _make_empty(made)  # with permissions that also protect an incomplete copy
        with contextlib.closing(sqlite3.connect(made)) as copy:
            connection.backup(copy)
        shutil.copymode(path, made)
        with made.open("rb") as file:
            os.fsync(file.fileno())
        for name in _names_of_copies(path, version):
            with contextlib.suppress(FileExistsError):
                _name(made, name)
                return name
    except (OSError, sqlite3.OperationalError) as error:
        raise ConfigError(
            f"{path} is of an older tuner, and cannot be copied before it is upgraded: {error}",
            hint="Free space in its folder, or continue with a copy elsewhere.",
        ) from error
    finally:
        with contextlib.suppress(OSError):
            made.unlink()
    raise AssertionError  # pragma: no cover  (there is no last name)


def _make_empty(path: Path) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _name(made: Path, name: Path) -> None:
    """Rename the file *made* to *name*; raise FileExistsError if *name* exists."""
    try:
        os.link(made, name)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK):
            raise
        # A file system without hard links (FAT, some shares): reserve the name by an empty file, which the
        # complete one replaces. A kill in between leaves the empty one.
        _make_empty(name)
        try:
            made.replace(name)
        except OSError:
            name.unlink()
            raise


def _names_of_copies(path: Path, version: int) -> Iterator[Path]:
    yield path.with_name(f"{path.name}.schema-{version}")
    for number in itertools.count(2):
        yield path.with_name(f"{path.name}.schema-{version}-{number}")


def is_held(path: Path) -> bool:
    """Return whether a tuner, this one included, has *path* open for writing.

    Raises:
        OSError: *path* cannot be read.
    """
    with study_access.open_descriptor(path) as descriptor:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:  # a file system without locks (NFS without lockd), so no process can have the lock
            return False
    return False


def connect_to_file(path: Path, mode: str) -> contextlib.AbstractContextManager[sqlite3.Connection]:
    """Return a context manager of a SQLite connection to *path* that does not trust its schema."""
    return study_access.connect_and_close(path, lambda path: _connect(path, mode))


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    # Launches that take turns have one thread each, of which only one runs at a time.
    connection = sqlite3.connect(
        uri, uri=True, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
    )
    # A study file may come from an unknown source: its schema must not run code, and values are limited.
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LARGEST_VALUE_BYTES)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    if sys.version_info >= (3, 12):
        connection.setconfig(sqlite3.SQLITE_DBCONFIG_DEFENSIVE, True)
        connection.setconfig(sqlite3.SQLITE_DBCONFIG_ENABLE_TRIGGER, False)
    if mode.startswith("ro"):
        connection.execute("PRAGMA query_only = ON")
    return connection


def _hold(path: Path, lock: int) -> None:
    """Take the flock of *path*; raise ConfigError if another tuner has it.

    `is_held` of another process also takes it for some microseconds, so several attempts are made.
    """
    for tries_left in reversed(range(_TRIES)):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError as error:
            if not tries_left:
                raise ConfigError(
                    f"another tuner ({_holder(lock)}) is writing {path}", hint="Wait for it, or stop it."
                ) from error
        except OSError as error:
            raise ConfigError(
                f"{path} cannot be locked: {error.strerror}",
                hint="Keep the study on a local disk; some network file systems have no locks.",
            ) from error
        time.sleep(_BETWEEN_TRIES_S)


def _holder(lock: int) -> str:
    """Describe the process that has the flock that *lock* cannot get, as far as the kernel reports it."""
    status = os.fstat(lock)
    wanted = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    with contextlib.suppress(OSError):
        for line in Path("/proc/locks").read_text().splitlines():
            fields = line.split()
            if "FLOCK" in fields and wanted in fields:
                return f"process {fields[fields.index(wanted) - 1]}"
    return "on this host or in another container"
