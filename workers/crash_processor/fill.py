"""Filling of a spool with real dumps, or with synthetic ones generated from a seed.

The same input results in the same crash ids, and existing ids are not changed, so a second filling changes
nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from .errors import InputError
from .sources.fs import NEW
from .spool import SYMBOLS, make_spool, queued_ids
from .storage import CRASHES, RAW_CRASH

_DUMP_SUFFIXES = (".dmp", ".dump")
_CRASH_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")

Enqueue = Callable[[list[str]], int]  #: adds ids to a queue; returns the number of new ones


class Crash(NamedTuple):
    """One crash to put into a spool."""

    crash_id: str
    raw_crash: dict[str, Any]
    dump: Path


class Filled(NamedTuple):
    """Result of filling: numbers of new and of known items."""

    n_new: int  #: items that were not in the queue before
    n_known: int


def fill(root: Path, crashes: Iterable[Crash], *, dump_field: str, enqueue: Enqueue) -> Filled:
    """Store *crashes*, then put their ids into the queue.

    Raises:
        InputError: the spool cannot be written.
    """
    try:
        make_spool(root)
        crash_ids = [_store(root, crash, dump_field) for crash in crashes]
        n_new = enqueue(crash_ids)
    except OSError as error:
        raise InputError(f"cannot fill the spool {root}: {error.strerror}: {error.filename}") from error
    return Filled(n_new, len(crash_ids) - n_new)


def enqueue_files(root: Path) -> Enqueue:
    """Return a function that puts ids into the queue of files in *root*."""

    def enqueue(crash_ids: list[str]) -> int:
        known = queued_ids(root)
        new = [crash_id for crash_id in crash_ids if crash_id not in known]
        for crash_id in new:
            (root / NEW / crash_id).touch()
        return len(new)

    return enqueue


def find_dumps(folder: Path) -> list[Path]:
    """Return every dump below *folder*.

    Raises:
        InputError: there is none.
    """
    if not folder.is_dir():
        raise InputError(f"no folder {folder} to take dumps from")
    dumps = sorted(path for path in folder.rglob("*") if _is_dump(path))
    if not dumps:
        raise InputError(f"no dump in {folder}", hint="Dumps are files named *.dmp or *.dump.")
    return dumps


def _is_dump(path: Path) -> bool:
    """Return whether *path* is a dump by its suffix in any case: Windows writes ``MEMORY.DMP``."""
    return path.suffix.lower() in _DUMP_SUFFIXES and path.is_file()


def dump_crashes(dumps: Iterable[Path], copies: int = 1) -> Iterator[Crash]:
    """Yield each dump as *copies* crashes; a JSON file of the same name contains its annotations.

    Raises:
        InputError: a dump cannot be read.
    """
    for path in dumps:
        raw_crash = _annotations(path)
        try:
            content = hashlib.sha256(path.name.encode() + path.read_bytes())
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror}") from error
        for copy in range(copies):
            yield Crash(_crash_id(raw_crash, content.digest(), copy), raw_crash, path)


def synthetic_crashes(root: Path, n: int, *, seed: int, symbols_bytes: int) -> Iterator[Crash]:
    """Yield *n* crashes of a fictional product; add its symbols to those of the spool *root*.

    Raises:
        InputError: the spool cannot be written.
    """
    from .synthetic import write_spool_dumps  # not needed by a running processor

    try:
        make_spool(root)
        with tempfile.TemporaryDirectory(prefix=".filling-", dir=root) as folder:
            write_spool_dumps(Path(folder), n, seed, symbols_bytes)
            made = Path(folder) / SYMBOLS
            for symbol_file in made.glob("*/*/*"):
                target = root / SYMBOLS / symbol_file.relative_to(made)
                target.parent.mkdir(parents=True, exist_ok=True)
                symbol_file.replace(target)
            yield from dump_crashes(find_dumps(Path(folder)))
    except OSError as error:
        raise InputError(f"cannot fill the spool {root}: {error.strerror}: {error.filename}") from error


def link_symbols(root: Path, symbols: Path) -> None:
    """Link the symbol store *symbols* into that of the spool, without a copy.

    Raises:
        InputError: there is no such store, or the spool cannot be written.
    """
    if not symbols.is_dir():
        raise InputError(f"no symbol folder {symbols}")
    try:
        for debug_id in symbols.glob("*/*"):
            target = root / SYMBOLS / debug_id.parent.name / debug_id.name
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists():
                target.unlink(missing_ok=True)  # a broken link, because its store has moved
                target.symlink_to(debug_id.absolute())
    except OSError as error:
        raise InputError(f"cannot fill the spool {root}: {error.strerror}: {error.filename}") from error


def _store(root: Path, crash: Crash, dump_field: str) -> str:
    """Store the crash completely or not at all; return its id."""
    folder = root / CRASHES / crash.crash_id
    if not folder.is_dir():
        beside = root / CRASHES / f".{crash.crash_id}.{os.getpid()}"
        beside.mkdir(exist_ok=True)
        shutil.copyfile(crash.dump, beside / f"{dump_field}.dump")
        (beside / RAW_CRASH).write_text(json.dumps(crash.raw_crash), encoding="utf-8")
        beside.rename(folder)
    return crash.crash_id


def _crash_id(raw_crash: dict[str, Any], digest: bytes, copy: int) -> str:
    """Return the crash's own id for its first copy; otherwise an id computed from its content."""
    own = str(raw_crash.get("uuid", ""))
    if copy == 0 and _CRASH_ID.fullmatch(own):
        return own
    return str(UUID(bytes=hashlib.sha256(digest + b"%d" % copy).digest()[:16], version=4))


def _annotations(dump: Path) -> dict[str, Any]:
    path = dump.with_suffix(".json")
    if not path.is_file():
        return {"ProductName": "unknown", "Version": "0"}
    try:
        raw_crash = json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise InputError(f"{path} is not JSON: {error}") from error
    if not isinstance(raw_crash, dict):
        raise InputError(f"{path} is not a JSON object of annotations")
    return raw_crash
