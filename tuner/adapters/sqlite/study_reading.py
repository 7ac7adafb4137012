"""How a study file is read: while it is written too, at rest, and in a folder that cannot be written."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tuner.adapters.sqlite.study_errors import translate_error, translate_errors, unreadable
from tuner.adapters.sqlite.study_file import check, connect_to_file, is_held
from tuner.adapters.sqlite.study_locks import open_descriptor
from tuner.core.errors import ConfigError

_ANY = "SELECT count(*) FROM sqlite_master"  #: reads the file, and runs nothing that stands in it


@dataclass(frozen=True, slots=True)
class Looks:
    """How a study file and its -wal look from outside: who writes changes that."""

    file: Path
    _file: tuple[int, ...] | None
    _wal: tuple[int, ...] | None

    @classmethod
    def of(cls, path: Path) -> Looks:
        """As they are now."""
        file = _real(path)
        return cls(file, _stamp(file), _stamp(_wal(file)))

    def changed(self) -> bool:
        """Whether somebody wrote since; not of another file that took its name: who reads has this one."""
        now = Looks.of(self.file)
        if self._file is not None and now._file is not None and self._file[:2] != now._file[:2]:
            return False
        return now != self


def _stamp(path: Path) -> tuple[int, ...] | None:
    """None: it is not there, or empty."""
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns) if found.st_size else None


@contextlib.contextmanager
def read_only(path: Path) -> Iterator[tuple[sqlite3.Connection, bool]]:
    """A connection that reads *path*, and whether SQLite's locks keep apart what is of two states.

    They cannot where the file is read as it lies there, at rest or in a folder that cannot be written. A
    writer that begins and ends meanwhile puts new pages beside old ones: `Looks` tells.
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
            # WAL needs a -shm file beside the study, which cannot be made here. Without a -wal the study file
            # is all there is; with one (its writer was killed) the last windows are in it: both are copied.
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
    """Whether nobody writes *path* and all of it is in that one file.

    Read as it lies there, or SQLite would leave an empty -wal and a -shm beside a finished study.
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
    """SQLite keeps the -wal beside the file, not beside a link to it."""
    return Path(os.path.realpath(path))


def _wal(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def _has_wal(path: Path) -> bool:
    return _stamp(_wal(path)) is not None
