"""The folders of a spool, and what is in them."""

from __future__ import annotations

import os
from pathlib import Path

from .presence import LOCK, n_alive
from .sources.fs import CUR, DEAD, DONE, NEW, crash_id_of, read_entries
from .storage import CRASHES, PROCESSED, RESULT_SUFFIX, TEMPORARY

SYMBOLS = "symbols"


def symbols_of(root: Path) -> tuple[str, ...]:
    """The symbol folder that came with the spool, if one did."""
    return (str(root / SYMBOLS),) if (root / SYMBOLS).is_dir() else ()


def make_spool(root: Path) -> None:
    """Make the folders that are not there yet; OSError when that cannot be done."""
    for name in (NEW, CUR, DONE, DEAD, CRASHES, PROCESSED):
        (root / name).mkdir(parents=True, exist_ok=True)


def is_spool(root: Path) -> bool:
    """Whether somebody has filled it once."""
    return (root / NEW).is_dir() and (root / CRASHES).is_dir()


def queued_ids(root: Path) -> set[str]:
    """Every crash id in the queue of files, wherever it stands."""
    folders = [root / NEW, root / DONE, root / DEAD, *_holds(root)]
    return {crash_id_of(entry) for folder in folders for entry in read_entries(folder)}


def spool_status(root: Path) -> dict[str, int]:
    """How many items stand where, how many results are kept, and how many workers are alive."""
    return {
        "new": _count(root / NEW),
        "cur": sum(_count(hold) for hold in _holds(root)),
        "done": _count(root / DONE),
        "dead": _count(root / DEAD),
        **storage_status(root),
    }


def storage_status(root: Path) -> dict[str, int]:
    """The part of the status that no queue knows."""
    return {
        "crashes": _count(root / CRASHES),
        "results": sum(1 for entry in read_entries(root / PROCESSED) if entry.endswith(RESULT_SUFFIX)),
        "workers": n_alive(root / TEMPORARY),
    }


def _holds(root: Path) -> list[Path]:
    return [root / CUR / name for name in (os.listdir(root / CUR) if (root / CUR).is_dir() else [])]


def _count(folder: Path) -> int:
    return sum(1 for entry in read_entries(folder) if entry != LOCK)
