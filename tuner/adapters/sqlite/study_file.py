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
#: the newest that an upgrade_to_N.sql leads to
SCHEMA_VERSION = max(
    int(path.stem.removeprefix("upgrade_to_")) for path in Path(__file__).parent.glob("upgrade_to_*.sql")
)
_TRIES, _BETWEEN_TRIES_S = 10, 0.02  #: to get the lock that somebody just looks at
_BUSY_S = 20.0  #: how long one program waits for another's commit
_LARGEST_VALUE_BYTES = 64 << 20  #: of a text or blob; the largest that tuner writes, a config, has some kB


def make(path: Path, image: bytes) -> None:
    """Write a new study file; ConfigError when something is there already or it cannot be written.

    *image* is a whole database. The file has no name until all of it is on the disk, so a kill leaves none
    behind; where a file system cannot do that (NFS), it leaves one that is cut off.
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
        with open(handle, "wb") as file:  # closing it may fail, too: it then writes what a full disk refused
            file.write(image)
            file.flush()
            os.fsync(handle)
            if is_nameless:
                # only with a folder's descriptor (unused: the path is absolute) does Python follow the link
                os.link(f"/proc/self/fd/{handle}", path, src_dir_fd=handle, follow_symlinks=True)
    except FileExistsError as error:  # somebody made it this moment
        raise _exists(path) from error
    except OSError as error:
        _remove_named(path, is_nameless)
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        hint = "Free some space." if full else "Give another --study."
        raise ConfigError(f"cannot write {path}: {error.strerror}", hint=hint) from error
    except BaseException:
        _remove_named(path, is_nameless)
        raise


def _opened_new(path: Path) -> tuple[int, bool]:
    """A new file to be written as *path*, and whether it has no name yet."""
    try:
        return os.open(path.parent, os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC, 0o666), True
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR):  # a file system, a kernel without it
            raise
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666), False


def _remove_named(path: Path, is_nameless: bool) -> None:
    if not is_nameless:
        path.unlink()


def _exists(path: Path) -> ConfigError:
    return ConfigError(
        f"{path} exists already, and a study is never overwritten",
        hint=f"Continue it (--resume {path}), or give another name with --study.",
    )


def check(path: Path) -> None:
    """ConfigError unless *path* is a study file of a version that this tuner knows. Asks the header only."""
    try:
        if not stat.S_ISREG(kind := path.stat().st_mode) and not stat.S_ISDIR(kind):
            raise ConfigError(  # to open a pipe would wait for its writer
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
    """The one connection that may write to *path*, checked to work; ConfigError when another tuner has it.

    Not *lasting*: a power cut may cost the last commits, never the file; what is killed costs none.

    The lock is flock's, on the study file itself: it dies with its process, leaves no file behind, and does
    not meet SQLite's own (fcntl) locks, so that readers are free.
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
            # FULL: a commit is on the disk when it returns, so that a power cut costs no finished window.
            # The price is one fsync per window.
            connection.execute(f"PRAGMA synchronous = {'FULL' if lasting else 'NORMAL'}")
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute(
                "BEGIN IMMEDIATE"
            )  # a folder or file system that cannot be written says so now
            connection.execute("ROLLBACK")
        yield connection


def keep_copy(path: Path, connection: sqlite3.Connection, version: int) -> Path:
    """Copy *path*, open as *connection*, as it is now, to a file beside it that names its schema *version*.

    The copy has all that was committed, what a killed writer left in the -wal included. It is there whole or
    not at all, and no file is overwritten.

    Raises:
        ConfigError: it cannot be written.
    """
    made = path.with_name(f"{path.name}.copying")
    try:
        made.unlink(missing_ok=True)  # of a copy that was cut off; the study's lock is ours
        _make_empty(made)  # whoever may not read the study may not read a half of it either
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
    """Give the file *made* the *name*; FileExistsError when something has it."""
    try:
        os.link(made, name)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK):
            raise
        # A file system without hard links (FAT, some shares): the name is taken by an empty file of ours,
        # which the whole one replaces. A kill in between leaves the empty one.
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
    """Whether some tuner, this one included, has *path* open to write.

    Raises:
        OSError: it cannot be read.
    """
    with study_access.open_descriptor(path) as descriptor:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:  # a file system without locks (NFS without their daemon): nobody can hold it there
            return False
    return False


def connect_to_file(path: Path, mode: str) -> contextlib.AbstractContextManager[sqlite3.Connection]:
    """A connection of SQLite's to *path*, for a ``with`` block, that trusts nothing in it."""
    return study_access.connect_and_close(path, lambda path: _connect(path, mode))


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    # Launches that take turns have a thread each, of which one runs at a time.
    connection = sqlite3.connect(
        uri, uri=True, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
    )
    # A study file may come from a stranger: its schema calls nothing, and no value takes all memory.
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
    """Take the flock of *path*; ConfigError when another tuner has it.

    Who asks whether the file is held has it, too, for some microseconds: that is waited for.
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
    """Who has the flock that *lock* cannot get, as far as the kernel tells."""
    status = os.fstat(lock)
    wanted = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    with contextlib.suppress(OSError):
        for line in Path("/proc/locks").read_text().splitlines():
            fields = line.split()
            if "FLOCK" in fields and wanted in fields:
                return f"process {fields[fields.index(wanted) - 1]}"
    return "on this host or in another container"
