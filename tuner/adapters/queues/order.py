"""What the feeding process is told."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from tuner.adapters.queues.queue import Claim


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

    def write(self, path: Path) -> None:
        """Keep it where only this user reads it: the url may hold a password."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(asdict(self), file)


def read_order(path: Path) -> FeedOrder:
    """What ``FeedOrder.write`` kept."""
    data = json.loads(path.read_text(encoding="utf-8"))
    return FeedOrder(**{**data, "claim": Claim(**data["claim"])})
