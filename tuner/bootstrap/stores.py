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
    """Open the study in *file*; *lasting*: written data survives a power cut at once.

    *warn* gets the place of the unchanged copy, if an older file had to be upgraded for writing.
    """
    from tuner.adapters.sqlite.store import SqliteStore

    return SqliteStore.open(file, read_only=read_only, lasting=lasting, warn=warn)


def new_store(file: Path, record: StudyRecord, *, lasting: bool = True) -> SqliteStore:
    """Create a new study in *file*, which must not exist; *lasting* as for `open_store`."""
    from tuner.adapters.sqlite.store import SqliteStore

    return SqliteStore.create(file, record, lasting=lasting)
