"""Which threads of the workers compute beside those that work on items, and which library started them.

A thread computes when it wants a core for a tenth of the time or more, and keeps it once it has one: it uses
more than 5 ms of CPU between two times that it goes to sleep. So long does Python let one thread have the GIL
while others wait for it. Threads that take turns at Python code sleep more often, and so do those that deal
out work (the main threads of gunicorn and Celery, the consumers of dramatiq) or report to somebody. A thread
of BLAS or OpenMP computes for as long as its part of an item takes, and spins for a while before it sleeps.
OpenMP sleeps after each part where more threads than cores work, so with a library 2 ms are enough for what
is above the layout's number. Where parts are smaller, they are not seen.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tuner.adapters.proc.item_threads import ItemThreads, ThreadClock
from tuner.adapters.proc.process_tree import ProcessStat, read_shown
from tuner.core.domain.computing import Computing, LoadedPools, Pool, loaded_pools
from tuner.core.domain.layout import Layout

KEEPS_CORE_NS = 5_000_000  #: of CPU between two sleeps: Python's sys.getswitchinterval()
WITH_LIBRARY_NS = 2_000_000  #: likewise of all threads together, where a library is loaded that starts some
WANTS_CORE_RATIO = 0.1  #: of the time: on a core, or waiting for one
_SHORTEST_S = 0.5  #: between two looks; less says nothing
_MAPS_FIELDS = 6  #: in a line of /proc/PID/maps that has a file
_SLEEPS = re.compile(rb"^voluntary_ctxt_switches:\s*(\d+)", re.MULTILINE)
_CPUS = re.compile(rb"^Cpus_allowed:\s*([0-9a-f,]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _Look:
    """At a thread: its totals by then."""

    at_s: float
    clock: ThreadClock
    n_sleeps: int | None  #: how often it gave up its core by itself; None: nobody asked


@dataclass(frozen=True, slots=True)
class _WorkerProcess:
    """What does not change of a worker process."""

    loaded: LoadedPools
    n_cores: int  #: it may run on


class ComputingThreads:
    """Looks at threads that *items* has read, where a process has more than its layout.

    A look reads a file of each thread that wanted a core since the look before; the first one of all.
    """

    def __init__(self, proc: Path, items: ItemThreads) -> None:
        self._proc, self._items = str(proc), items
        self._before: dict[tuple[int, int, int], _Look] = {}  # (pid, its start, thread) -> the last look
        self._workers: dict[tuple[int, int], _WorkerProcess] = {}  # (pid, its start) -> it

    def look(self, workers: Iterable[ProcessStat], shape: Layout, at_s: float) -> Computing | None:
        """Look at *workers* now. None: no two looks can be compared, or the kernel keeps no such account."""
        before, self._before = self._before, {}
        n_inner, is_judged = 0, False
        pools: dict[Pool, None] = {}
        is_environment_read = True
        for worker in workers:
            clocks = self._items.clocks(worker)
            if len(clocks) <= shape.threads:
                is_judged |= bool(clocks)
                continue
            bursts = self._bursts(worker, clocks, before, at_s)
            if bursts is None:
                continue
            is_judged, known = True, self._known(worker)
            pools |= dict.fromkeys(known.loaded.pools)
            is_environment_read &= known.loaded.is_environment_read
            n_inner += self._n_inner(worker, bursts, len(clocks), shape, known)
        return Computing(n_inner, LoadedPools(tuple(pools), is_environment_read)) if is_judged else None

    def _bursts(
        self,
        worker: ProcessStat,
        clocks: Mapping[int, ThreadClock],
        before: Mapping[tuple[int, int, int], _Look],
        at_s: float,
    ) -> Mapping[int, float] | None:
        """Of threads that want a core, CPU in nanoseconds between two sleeps; None: none can be compared with
        an earlier look."""
        found: dict[int, float] = {}
        is_judged = False
        for thread, clock in clocks.items():
            key = (worker.pid, worker.started_ticks, thread)
            earlier = before.get(key)
            if earlier is None or earlier.clock.ran_ns > clock.ran_ns:  # or the number is another's by now
                self._before[key] = _Look(at_s, clock, self._n_sleeps(worker.pid, thread))
            elif at_s - earlier.at_s < _SHORTEST_S:
                self._before[key] = earlier
            else:
                is_judged = True
                wants = wants_core(earlier.clock, clock, at_s - earlier.at_s)
                n_sleeps = self._n_sleeps(worker.pid, thread) if wants else None
                self._before[key] = _Look(at_s, clock, n_sleeps)
                if earlier.n_sleeps is None or n_sleeps is None:
                    continue
                n_slept = max(1, n_sleeps - earlier.n_sleeps)
                found[thread] = (clock.ran_ns - earlier.clock.ran_ns) / n_slept
        return found if is_judged else None

    def _n_inner(
        self,
        worker: ProcessStat,
        bursts: Mapping[int, float],
        n_threads: int,
        shape: Layout,
        known: _WorkerProcess,
    ) -> int:
        """How many threads of a process compute beside its layout's, by their *bursts*.

        Without a library that starts threads, those above the layout's number are. With one, all that do not
        work on items are, though these sleep between items and so do not compute, and those above the
        layout's number that compute for a shorter time (OpenMP). A layout that has no
        threads to choose may have an event loop that hands functions to threads: there a library is needed.
        """
        computing = {thread for thread, burst_ns in bursts.items() if burst_ns > KEEPS_CORE_NS}
        above = max(0, len(computing) - shape.threads)
        if not known.loaded.causes:
            return above if shape.has_threads else 0
        is_main_alone = shape.threads == 1 and n_threads == 1 + known.loaded.n_started(known.n_cores)
        at_work = self._items.of(worker.pid) or frozenset()
        above = sum(burst_ns > WITH_LIBRARY_NS for burst_ns in bursts.values()) - shape.threads
        if not shape.has_threads or is_main_alone:
            return len(computing - {worker.pid})
        if worker.pid in computing:  # a main thread that only deals out work does not
            others = (computing & at_work) - {worker.pid}
            return max(above, len(computing) - 1 - min(shape.threads - 1, len(others)))
        return max(above, len(computing - at_work))

    def _n_sleeps(self, pid: int, thread: int) -> int | None:
        """None: the thread is gone."""
        found = _SLEEPS.search(read_shown(f"{self._proc}/{pid}/task/{thread}/status") or b"")
        return None if found is None else int(found[1])

    def _known(self, worker: ProcessStat) -> _WorkerProcess:
        key = (worker.pid, worker.started_ticks)
        if key not in self._workers:
            mask = _CPUS.search(read_shown(f"{self._proc}/{worker.pid}/status") or b"")
            n_cores = 1 if mask is None else int(mask[1].replace(b",", b""), 16).bit_count()
            self._workers[key] = _WorkerProcess(pools_of(worker.pid, self._proc), n_cores)
        return self._workers[key]


def wants_core(before: ThreadClock, now: ThreadClock, elapsed_s: float) -> bool:
    """Whether a thread was on a core, or waited for one, for a tenth of the time or more."""
    wanted_ns = (now.ran_ns - before.ran_ns) + (now.waited_ns - before.waited_ns)
    return wanted_ns >= WANTS_CORE_RATIO * elapsed_s * 1e9


def pools_of(pid: int, proc: str = "/proc") -> LoadedPools:
    """The libraries that process *pid* has loaded which start threads; none where they are hidden from us."""
    lines = (read_shown(f"{proc}/{pid}/maps") or b"").splitlines()
    fields = (line.split(None, _MAPS_FIELDS - 1) for line in lines)
    files = {os.fsdecode(one[-1]) for one in fields if len(one) == _MAPS_FIELDS}
    environ = read_shown(f"{proc}/{pid}/environ")
    if environ is None:
        return loaded_pools(files, None)
    pairs = (os.fsdecode(entry).partition("=") for entry in environ.split(b"\0") if entry)
    return loaded_pools(files, {name: value for name, _, value in pairs})
