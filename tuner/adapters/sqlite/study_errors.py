"""What is told of a study file that cannot be used: one line, and what to do."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from tuner.core.errors import ConfigError

BACKUP = "Take it from a backup."


class Damaged(ValueError):
    """What is in a study file cannot be what tuner wrote; says what and where, without the file's name."""


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
    """For an error of SQLite's that quotes bytes of the file, which Python cannot make a message of."""
    return ConfigError(f"{path} is damaged: it holds texts that are not UTF-8", hint=BACKUP)


def translate_error(path: Path, error: sqlite3.DatabaseError) -> ConfigError:
    """For an error of SQLite's about *path*; one that is a bug of tuner's is raised as it is."""
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
            said = " ".join(str(error).split())  # it may quote what stands in the file
            return ConfigError(f"{path} is damaged: {said}", hint=BACKUP)
        case _:
            raise error  # a bug of ours (a broken constraint): keep its traceback
