"""Number of active tasks ten times a second, in addition to the samples of tuner once a second.

A window of half a minute has 30 samples of tuner and 6 of the kernel: too few to measure a load within a
tenth. The samples here are at random times, so that they are not in step with the service. They are stored in
a separate file: one line a second, ``begin,end,looks,running,active`` (wall seconds, a count, two sums over
the samples).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import IO

from tuner.adapters.proc.task_states import ActiveTasks
from tuner.core.domain.window import Reading, Sample, Usage
from tuner.core.errors import MeasurementError
from tuner.ports import Launch, Sampler, Watch

LOOKS_PER_S = 10.0
_PROC = Path("/proc")


@dataclass(frozen=True)
class Looks:
    """Samples of about a second, as sums over *n* samples."""

    begin_s: float
    end_s: float
    n: int
    running: int  #: tasks running or waiting for a core, the looking one left out
    active: int  #: these and the uninterruptible ones


class DenseSampler:
    """A sampler that samples more often than *inner*, and appends to *file*."""

    def __init__(self, inner: Sampler, file: Path, looks_per_s: float = LOOKS_PER_S) -> None:
        self._inner, self._file, self._looks_per_s = inner, file, looks_per_s

    def idle_fixed_work_cpu_s(self) -> float | None:
        return self._inner.idle_fixed_work_cpu_s()

    @contextmanager
    def watching(self, launch: Launch, extra_pids: frozenset[int]) -> Iterator[Watch]:
        with (
            self._inner.watching(launch, extra_pids) as watch,
            self._file.open("a", encoding="ascii") as output,
        ):
            looker = _Looker(output, 1 / self._looks_per_s)
            looker.pids = launch.worker_pids()
            looker.start()
            try:
                yield _DenseWatch(watch, launch, looker)
            finally:
                looker.end()


class _DenseWatch:
    """A watch that also gives the thread of the samples the pids of the workers."""

    def __init__(self, inner: Watch, launch: Launch, looker: _Looker) -> None:
        self._inner, self._launch, self._looker = inner, launch, looker

    def sample(self, reading: Reading) -> Sample:
        self._looker.pids = self._launch.worker_pids()
        return self._inner.sample(reading)

    def has_gil(self) -> bool | None:
        return self._inner.has_gil()

    def n_interpreters(self) -> int:
        return self._inner.n_interpreters()

    def next_sample_s(self, now_s: float, by_s: float) -> float:
        return self._inner.next_sample_s(now_s, by_s)

    def usage(self, *, closing: bool = False, at_edge: bool = False) -> Usage:
        return self._inner.usage(closing=closing, at_edge=at_edge)


class _Looker(threading.Thread):
    def __init__(self, output: IO[str], every_s: float) -> None:
        super().__init__(daemon=True)
        self.pids: frozenset[int] = frozenset()
        self._output, self._every_s = output, every_s
        self._over = threading.Event()
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            self._look()
        except BaseException as error:  # told by end(), in the thread that can do something about it
            self._error = error

    def end(self) -> None:
        self._over.set()
        self.join()
        if self._error is not None:
            raise MeasurementError(f"the active count was not seen: {self._error}") from self._error

    def _look(self) -> None:
        random, tasks = Random(0), ActiveTasks(_PROC)
        try:
            with (_PROC / "loadavg").open("rb", buffering=0) as load:
                if self._output.tell():
                    self._output.write("\n")  # whoever was killed may have left half a line
                while not self._over.is_set():
                    tasks.follow(self.pids)
                    self._one_second(random, tasks, load)
        finally:
            tasks.close()

    def _one_second(self, random: Random, tasks: ActiveTasks, load: IO[bytes]) -> None:
        begin_s, ends_s = time.time(), time.monotonic() + 1
        n = running = active = 0
        while time.monotonic() < ends_s and not self._over.wait(self._every_s * random.uniform(0.5, 1.5)):
            load.seek(0)
            now = int(load.read(128).split()[3].partition(b"/")[0])
            n, running, active = n + 1, running + max(0, now - 1), active + tasks.n_active(now)
        if n:
            self._output.write(f"{begin_s:.3f},{time.time():.3f},{n},{running},{active}\n")
            self._output.flush()


def read_looks(file: Path) -> list[Looks]:
    """Return all samples in time order, without an incomplete last line."""
    found = []
    for line in file.read_text(encoding="ascii").split("\n"):
        parts = line.split(",")
        if len(parts) == 5 and all(parts):
            found.append(Looks(float(parts[0]), float(parts[1]), int(parts[2]), int(parts[3]), int(parts[4])))
    return found


def mean_active(looks: Sequence[Looks], begin_s: float, end_s: float) -> tuple[float, int] | None:
    """Mean active count over the seconds that lie within *begin_s* to *end_s*, and how many looks that is.

    None: nothing was seen.
    """
    within = [one for one in looks if begin_s <= one.begin_s and one.end_s <= end_s]
    n = sum(one.n for one in within)
    return (sum(one.active for one in within) / n, n) if n else None
