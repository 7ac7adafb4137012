"""What the feeding process is told."""

from __future__ import annotations

import json
import mmap
import os
import struct
from dataclasses import asdict, dataclass
from pathlib import Path

from tuner.adapters.queues.queue import Claim

# What the feeding process tells while it runs: a few numbers in a file that it maps into memory.

_LAYOUT = struct.Struct("=8sdd")
_MAGIC = b"tunfeed1"


@dataclass(frozen=True, slots=True)
class State:
    """How feeding goes."""

    best_per_s: float  #: the best rate seen
    dry_at_s: float  #: when nothing waited for the last time, monotonic; 0: never


class StateWriter:
    """Makes the file once the queue is full for the first time; readers find it whole or not at all."""

    def __init__(self, path: Path) -> None:
        draft = path.with_name(f"{path.name}.{os.getpid()}")
        descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.truncate(descriptor, _LAYOUT.size)
            self._mapped = mmap.mmap(descriptor, _LAYOUT.size)
        finally:
            os.close(descriptor)
        self.write(State(0.0, 0.0))
        os.replace(draft, path)

    def write(self, state: State) -> None:
        """Put *state* where readers see it."""
        _LAYOUT.pack_into(self._mapped, 0, _MAGIC, state.best_per_s, state.dry_at_s)


def read_state(path: Path) -> State | None:
    """What was told last; None before the queue was full for the first time."""
    try:
        magic, best_per_s, dry_at_s = _LAYOUT.unpack(path.read_bytes())
    except FileNotFoundError:
        return None
    if magic != _MAGIC:
        raise ValueError(f"{path} holds no state of a feeder")
    return State(best_per_s, dry_at_s)


@dataclass(frozen=True, slots=True)
class FeedOrder:
    """A run of the feeding process."""

    url: str
    form: str
    queue: str
    sample: str  #: file of recorded messages
    claim: Claim
    timeout_s: float  #: for one answer of the broker
    n_threads: int  #: of the layout, in all
    dry_below: int  #: so few waiting count as none
    depth: int | None = None  #: messages that are to wait; None: found by the rate
    best_per_s: float = 0.0  #: the best rate of launches before
    keeps_little: bool = False  #: it is paused often, so what waits has to be gone soon
    gate_descriptor: int | None = None  #: of the socket by which it is asked to pause; None: nobody asks

    def write(self, path: Path) -> None:
        """Keep it where only this user reads it: the url may hold a password."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(asdict(self), file)


def read_order(path: Path) -> FeedOrder:
    """What ``FeedOrder.write`` kept."""
    data = json.loads(path.read_text(encoding="utf-8"))
    return FeedOrder(**{**data, "claim": Claim(**data["claim"])})
