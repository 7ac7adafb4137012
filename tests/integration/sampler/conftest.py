"""A launch made of processes with a known load (load.py)."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tuner.core.domain.layout import Layout
from tuner.core.domain.window import VoidReason

LOAD = Path(__file__).with_name("load.py")
PATIENCE_S = 60.0


class Workers:
    """Processes that were started here, as a launch."""

    running_after_s = 0.0
    shape = Layout(1, 64)  # of which all threads work on items

    def __init__(self) -> None:
        self.processes: list[subprocess.Popen[str]] = []

    def worker_pids(self) -> frozenset[int]:
        return frozenset(process.pid for process in self.processes if process.poll() is None)

    def overhead_pids(self) -> frozenset[int]:
        return frozenset()

    def problems(self, *, threads: bool = True) -> tuple[VoidReason, ...]:
        return ()


@pytest.fixture
def start() -> Iterator[Callable[..., Workers]]:
    """Start one worker for each mode of load.py that is named; they end with the test."""
    with ExitStack() as stack:

        def started(*modes: str) -> Workers:
            workers = Workers()
            for mode in modes:
                process = subprocess.Popen(
                    [sys.executable, LOAD, *mode.split()], text=True, stdout=subprocess.PIPE
                )
                workers.processes.append(stack.enter_context(process))
                stack.callback(process.kill)
            return workers

        yield started


@pytest.fixture
def wait_until() -> Callable[[Callable[[], bool], str], None]:
    """Wait for a state, with patience, and fail by its name."""

    def wait(seen: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not seen():
            assert time.monotonic() < deadline, f"never seen: {what}"
            time.sleep(0.05)

    return wait
