"""Folders of synthetic crashes, for a spool or as a corpus with expected results."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

from .crash import SyntheticCrash, make_crash
from .world import World, make_world

SYMBOLS_FOLDER = "symbols"
_SHARES = {"windows": 60, "linux": 30, "macos": 10}  #: of a hundred crashes


def write_spool_dumps(folder: Path, n: int, seed: int, symbols_bytes: int) -> list[Path]:
    """Write *n* crashes of all three systems and the symbols they share.

    Each crash is `CRASH_ID.dmp` with its raw crash `CRASH_ID.json`; the symbol store is `symbols/`.

    Returns:
        The paths of the dumps, in the order of their creation.
    """
    worlds = {name: make_world(seed, symbols_bytes=symbols_bytes, os_name=name) for name in _SHARES}
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for crash in _crashes(worlds, n, seed):
        path = folder / f"{crash.raw_crash['uuid']}.dmp"
        path.write_bytes(crash.dump)
        path.with_suffix(".json").write_text(json.dumps(crash.raw_crash), encoding="utf-8")
        paths.append(path)
    for world in worlds.values():
        world.write_symbols(folder / SYMBOLS_FOLDER)
    return paths


def _crashes(worlds: dict[str, World], n: int, seed: int) -> Iterator[SyntheticCrash]:
    random = Random(f"spool {seed}")
    for name in random.choices(list(_SHARES), list(_SHARES.values()), k=n):
        yield make_crash(random.getrandbits(63), worlds[name])
