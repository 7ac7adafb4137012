"""What kills may cost, what they have cost, and how a study file is looked at."""

from __future__ import annotations

import json
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tuner.adapters.sqlite.store import SqliteStore

PATIENCE_S = 120.0


class BrokenPromise(AssertionError):
    """A fault cost more than it may."""


@dataclass
class Toll:
    """What a campaign has cost."""

    kills: Counter[str] = field(default_factory=Counter)
    n_windows: int = 0  #: that were finished and kept
    n_spoilt: int = 0  #: launches that failed or were cut off; each costs the window it was at
    n_named: int = 0  #: of those that failed: who was killed is told
    n_failed: int = 0
    n_void: int = 0  #: windows that were taken again
    n_studies: int = 0
    n_identical: int = 0  #: studies whose exports are those of the uncut one
    n_folders_left: int = 0  #: in TMPDIR, by a tuner killed moments after its guardian: nobody tidies up
    n_midway: int = 0  #: kills of a simulation that had measured since the last one
    longest_s: float = 0.0  #: from a kill of tuner to the end of the last process
    ended_by_itself: list[str] = field(default_factory=list)  #: what a tuner said that nobody had killed
    unnamed: list[str] = field(default_factory=list)

    def told(self) -> str:
        return json.dumps({**asdict(self), "kills": dict(self.kills), "n_kills": self.kills.total()})


def kept(study: Path) -> list[dict[str, Any]]:
    """Every window in the file, in the order they were taken."""
    with SqliteStore.open(study, read_only=True) as store:
        return [asdict(window) for window in store.windows()]


def check_whole(study: Path) -> None:
    """The file itself is sound."""
    with closing(sqlite3.connect(study)) as connection:
        said = connection.execute("PRAGMA integrity_check").fetchall()
    if said != [("ok",)]:
        raise BrokenPromise(f"{study}: {said}")


def wait_until(condition: Callable[[], object], what: str, within_s: float = PATIENCE_S) -> None:
    deadline_s = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline_s:
            raise BrokenPromise(f"not within {within_s:g} s: {what}")
        time.sleep(0.005)
