"""The folders of a spool, and counts of their content."""

from __future__ import annotations

import os
from pathlib import Path

from .presence import LOCK, n_alive
from .sources.fs import CUR, DEAD, DONE, NEW, crash_id_of, read_entries
from .storage import CRASHES, PROCESSED, RESULT_SUFFIX, TEMPORARY

SYMBOLS = "symbols"


def symbols_of(root: Path) -> tuple[str, ...]:
    """Return the symbol folder of the spool, if there is one."""
    return (str(root / SYMBOLS),) if (root / SYMBOLS).is_dir() else ()


def make_spool(root: Path) -> None:
    """Make the missing folders; raise OSError if this fails."""
    for name in (NEW, CUR, DONE, DEAD, CRASHES, PROCESSED):
        (root / name).mkdir(parents=True, exist_ok=True)


def is_spool(root: Path) -> bool:
    """Return whether *root* is a spool that was filled."""
    return (root / NEW).is_dir() and (root / CRASHES).is_dir()


def queued_ids(root: Path) -> set[str]:
    """Return every crash id in the queue of files, in any state."""
    folders = [root / NEW, root / DONE, root / DEAD, *_holds(root)]
    return {crash_id_of(entry) for folder in folders for entry in read_entries(folder)}


def spool_status(root: Path) -> dict[str, int]:
    """Return the numbers of items by state, of stored results, and of living workers."""
    return {
        "new": _count(root / NEW),
        "cur": sum(_count(hold) for hold in _holds(root)),
        "done": _count(root / DONE),
        "dead": _count(root / DEAD),
        **storage_status(root),
    }


def storage_status(root: Path) -> dict[str, int]:
    """Return the numbers of crashes, results and living workers, which do not depend on the queue."""
    return {
        "crashes": _count(root / CRASHES),
        "results": sum(1 for entry in read_entries(root / PROCESSED) if entry.endswith(RESULT_SUFFIX)),
        "workers": n_alive(root / TEMPORARY),
    }


def _holds(root: Path) -> list[Path]:
    return [root / CUR / name for name in (os.listdir(root / CUR) if (root / CUR).is_dir() else [])]


def _count(folder: Path) -> int:
    return sum(1 for entry in read_entries(folder) if entry != LOCK)
