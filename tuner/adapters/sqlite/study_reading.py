"""Reading a study file: while another process writes it, or in a read-only folder."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from tuner.adapters.sqlite import digests as sqlite_digests
from tuner.adapters.sqlite import study_file
from tuner.adapters.sqlite import sums as sqlite_sums
from tuner.adapters.sqlite.details import insert_layouts, study_columns
from tuner.adapters.sqlite.study_access import open_descriptor, translate_error, translate_errors, unreadable
from tuner.adapters.sqlite.study_file import check, connect_to_file, is_held
from tuner.adapters.sqlite.sums import OF_LAUNCHES, list_windows, read_windows
from tuner.core.domain.records import StudyRecord
from tuner.core.errors import ConfigError

_ANY = "SELECT count(*) FROM sqlite_master"  #: reads the file without executing expressions in it


@dataclass(frozen=True, slots=True)
class Looks:
    """Size and time stamps of a study file and its -wal, which change if it is written."""

    file: Path
    _file: tuple[int, ...] | None
    _wal: tuple[int, ...] | None

    @classmethod
    def of(cls, path: Path) -> Looks:
        """Return the present stamps of *path*."""
        file = _real(path)
        return cls(file, _stamp(file), _stamp(_wal(file)))

    def changed(self) -> bool:
        """Return whether the file was written since; False if another file has replaced it."""
        now = Looks.of(self.file)
        if self._file is not None and now._file is not None and self._file[:2] != now._file[:2]:
            return False
        return now != self


def _stamp(path: Path) -> tuple[int, ...] | None:
    """Return device, inode, size and mtime of a file; None if it does not exist or is empty."""
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns) if found.st_size else None


@contextlib.contextmanager
def read_only(path: Path) -> Iterator[tuple[sqlite3.Connection, bool]]:
    """Yield a connection that reads *path*, and whether SQLite's locks prevent a mix of two states.

    They do not if the file is read without locks: at rest, or in a read-only folder. A writer that begins
    and ends meanwhile mixes new pages with old ones, which `Looks` detects.
    """
    check(path)
    real = _real(path)
    with contextlib.ExitStack() as stack:
        is_locked = not _is_at_rest(real)
        try:
            mode = "ro" if is_locked else "ro&immutable=1"
            connection = stack.enter_context(connect_to_file(real, mode))
            connection.execute(_ANY).fetchone()
        except sqlite3.OperationalError:
            # WAL needs a -shm file in the study's folder, which cannot be made here. Without a -wal, the
            # study file is complete; with one (its writer was killed), it has the last windows: copy both.
            is_locked = False
            with translate_errors(path):
                connection = stack.enter_context(_connected_without_locks(real, stack))
                connection.execute(_ANY).fetchone()
        except sqlite3.DatabaseError as error:
            raise translate_error(path, error) from error
        except UnicodeDecodeError as error:
            raise unreadable(path) from error
        yield connection, is_locked


def _is_at_rest(path: Path) -> bool:
    """Return whether no process writes *path* and all data are in this one file.

    Then it is read without locks, because SQLite would leave an empty -wal and a -shm in its folder.
    """
    return not _has_wal(path) and not is_held(path)


def _connected_without_locks(
    path: Path, stack: contextlib.ExitStack
) -> contextlib.AbstractContextManager[sqlite3.Connection]:
    if not _has_wal(path):
        return connect_to_file(path, "ro&immutable=1")
    try:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tuner-")))
        for source in (path, _wal(path)):
            _copy(source, folder / source.name)
    except OSError as error:
        raise ConfigError(
            f"cannot copy {path}, whose folder cannot be written, to read it: {error}",
            hint="Make room where TMPDIR is, or name another folder by it.",
        ) from error
    return connect_to_file(folder / path.name, "rw")


def _copy(source: Path, target: Path) -> None:
    with (
        open_descriptor(source) as descriptor,
        open(descriptor, "rb", closefd=False) as file,
        target.open("xb") as copy,
    ):
        file.seek(0)
        shutil.copyfileobj(file, copy)


def _real(path: Path) -> Path:
    """Return the target of a link: SQLite keeps the -wal in the folder of the file, not of the link."""
    return Path(os.path.realpath(path))


def _wal(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def _has_wal(path: Path) -> bool:
    return _stamp(_wal(path)) is not None


# The tables of a study file: of a new file, and the upgrade of an older one.


_SUMS_SINCE = 18  #: version since which launches have all sums; versions 10 to 17 have fewer


def new_database(study: StudyRecord) -> bytes:
    """Return a complete study file, as bytes, with the record *study* and no measurements."""
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.execute(f"PRAGMA application_id = {study_file.APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {study_file.SCHEMA_VERSION}")
        connection.executescript(_read_sql("schema.sql"))
        values = study_columns(study)
        names, marks = ", ".join(values), ", ".join("?" * len(values))
        connection.execute(f"INSERT INTO study (id, {names}) VALUES (1, {marks})", [*values.values()])
        insert_layouts(connection, study.layouts)
        connection.executemany("INSERT INTO provenance VALUES (?, ?)", study.provenance.to_mapping().items())
        sqlite_digests.keep_everything(connection)
        return connection.serialize()


def upgrade(path: Path, connection: sqlite3.Connection) -> Path | None:
    """Upgrade an older file to the current version; return the path of a copy made before.

    None: it has the current version. Each version step is one transaction.

    Raises:
        ConfigError: the copy cannot be made; the file is not changed.
        Damaged: a record differs from its digest, which new digests would hide.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version >= study_file.SCHEMA_VERSION:
        return None
    sqlite_digests.check_everything(connection)
    copy = study_file.keep_copy(path, connection, version)
    for newer in range(version + 1, study_file.SCHEMA_VERSION + 1):
        changes = _read_sql(f"upgrade_to_{newer}.sql")
        try:
            connection.executescript(f"BEGIN IMMEDIATE; {changes}; PRAGMA user_version = {newer};")
            if newer == _SUMS_SINCE:
                _add_up(connection)
            sqlite_digests.keep_everything(connection)
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
    return copy


def _add_up(connection: sqlite3.Connection) -> None:
    """Store the sums of the windows of each finished launch."""
    ended = connection.execute("SELECT id FROM launch WHERE ended_wall_s IS NOT NULL").fetchall()
    for (launch_id,) in ended:
        windows = list_windows(read_windows(connection, OF_LAUNCHES, f"[{launch_id:d}]"))
        sqlite_sums.replace_sum(connection, launch_id, windows)


def _read_sql(name: str) -> str:
    return files("tuner.adapters.sqlite").joinpath(name).read_text("utf-8")
