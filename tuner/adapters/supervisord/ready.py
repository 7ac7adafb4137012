"""Whether a launch that runs is ready to work: a program that is RUNNING may still be importing."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tuner.ports import ReadyCheck

_TICK_S = 0.1


@dataclass(frozen=True, slots=True)
class Readiness:
    """How a launch shows that it is ready to work."""

    check: ReadyCheck
    within_s: float  #: else the launch has failed


def await_ready(
    check: ReadyCheck, logs: Sequence[Path], patience_s: float, raise_if_dead: Callable[[], None]
) -> str:
    """What *check* still lacks after *patience_s*; empty, and sooner, when it lacks nothing.

    Raises:
        TunerError: what *raise_if_dead* raises meanwhile.
    """
    deadline = time.monotonic() + patience_s
    while lacking := check.lacks(logs):
        raise_if_dead()
        if time.monotonic() > deadline:
            return lacking
        time.sleep(_TICK_S)
    return ""
