"""Memory of processes with a mark in their environment, read independently of tuner's code."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from types import TracebackType

PAUSE_S = 1.0


class MemorySampler:
    """Reads the proportional set size of the service's processes, those with NAME=VALUE, once a second."""

    def __init__(self, name: str, value: str) -> None:
        self._mark = f"{name}={value}".encode()
        self._seen: list[tuple[float, int]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> MemorySampler:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def mean_bytes(self, begin_s: float, end_s: float) -> float | None:
        """The mean of the readings in [begin, end] of the monotonic clock; None: there is none."""
        within = [n_bytes for at_s, n_bytes in self._seen if begin_s <= at_s <= end_s]
        return fmean(within) if within else None

    def _run(self) -> None:
        while not self._over.wait(PAUSE_S):
            at_s = time.monotonic()
            self._seen.append((at_s, sum(_pss_bytes(process) for process in self._marked())))

    def _marked(self) -> Iterator[Path]:
        for process in Path("/proc").iterdir():
            if process.name.isdigit():
                try:
                    environment = (process / "environ").read_bytes()
                except OSError:  # ended meanwhile
                    continue
                if self._mark in environment.split(b"\0") and _is_supervised(process):
                    yield process


def _is_supervised(process: Path) -> bool:
    """Whether supervisord started it: tuner's own helpers carry the service's environment as well."""
    try:
        while process.name != "1":
            parent = (process / "stat").read_bytes().rpartition(b")")[2].split()[1].decode()
            process = process.parent / parent
            if b"supervisord" in (process / "cmdline").read_bytes():
                return True
    except OSError:  # ended meanwhile
        pass
    return False


def _pss_bytes(process: Path) -> int:
    try:
        text = (process / "smaps_rollup").read_text()
    except OSError:  # ended meanwhile
        return 0
    for line in text.splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0
