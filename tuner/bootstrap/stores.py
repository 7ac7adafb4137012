"""Opening study files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.core.domain.records import StudyRecord

if TYPE_CHECKING:
    from tuner.adapters.sqlite.store import SqliteStore


def open_store(
    file: Path,
    *,
    read_only: bool = False,
    lasting: bool = True,
    warn: Callable[[str], object] = lambda _text: None,
) -> SqliteStore:
    """The study kept in *file*; *lasting*: what is written withstands a power cut at once.

    *warn* gets where an older file is kept as it was, when it had to be upgraded to be written.
    """
    from tuner.adapters.sqlite.store import SqliteStore

    return SqliteStore.open(file, read_only=read_only, lasting=lasting, warn=warn)


def new_store(file: Path, record: StudyRecord, *, lasting: bool = True) -> SqliteStore:
    """A new study in *file*, which must not exist; *lasting* as above."""
    from tuner.adapters.sqlite.store import SqliteStore

    return SqliteStore.create(file, record, lasting=lasting)
