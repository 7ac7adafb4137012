"""The tables of a study file: a new file's, and how an older one comes to have them."""

from __future__ import annotations

import contextlib
import sqlite3
from importlib.resources import files
from pathlib import Path

from tuner.adapters.sqlite import digests as sqlite_digests
from tuner.adapters.sqlite import study_file
from tuner.adapters.sqlite import sums as sqlite_sums
from tuner.adapters.sqlite.rows import insert_layouts, study_columns
from tuner.adapters.sqlite.sums import OF_LAUNCHES, list_windows, read_windows
from tuner.core.domain.records import StudyRecord

_SUMS_SINCE = 12  #: the version in which launches have all their sums: 10 and 11 had fewer


def new_database(study: StudyRecord) -> bytes:
    """A whole study file, as bytes, that holds *study* and nothing measured."""
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.execute(f"PRAGMA application_id = {study_file.APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {study_file.SCHEMA_VERSION}")
        connection.executescript(_read("schema.sql"))
        values = study_columns(study)
        names, marks = ", ".join(values), ", ".join("?" * len(values))
        connection.execute(f"INSERT INTO study (id, {names}) VALUES (1, {marks})", [*values.values()])
        insert_layouts(connection, study.layouts)
        connection.executemany("INSERT INTO provenance VALUES (?, ?)", study.provenance.to_mapping().items())
        sqlite_digests.keep_everything(connection)
        return connection.serialize()


def upgrade(path: Path, connection: sqlite3.Connection) -> Path | None:
    """Bring an older file to the version that this tuner writes; gives the copy of it as it was, kept first.

    None: it is of this version. Each version on the way is taken wholly or, on any error, not at all.

    Raises:
        ConfigError: the copy cannot be made; the file is not touched.
        Damaged: something is not as its digest says: new digests would stand for that.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version >= study_file.SCHEMA_VERSION:
        return None
    sqlite_digests.check_everything(connection)
    copy = study_file.keep_copy(path, connection, version)
    for newer in range(version + 1, study_file.SCHEMA_VERSION + 1):
        changes = _read(f"upgrade_to_{newer}.sql")
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
    """Keep what the windows of each launch that ended add up to."""
    ended = connection.execute("SELECT id FROM launch WHERE ended_wall_s IS NOT NULL").fetchall()
    for (launch_id,) in ended:
        windows = list_windows(read_windows(connection, OF_LAUNCHES, f"[{launch_id:d}]"))
        sqlite_sums.replace_sum(connection, launch_id, windows)


def _read(name: str) -> str:
    return files("tuner.adapters.sqlite").joinpath(name).read_text("utf-8")
