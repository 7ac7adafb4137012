"""Threads of the workers that compute without working on items, and the libraries that started them.

A thread computes if it wants a core for a tenth of the time or more, and uses more than 5 ms of CPU between
two sleeps. 5 ms is the time for which Python lets one thread keep the GIL while other threads wait for it.
Threads that take turns at Python code sleep more often, and so do threads that distribute work (the main
threads of gunicorn and Celery, the consumers of dramatiq) or send reports. A thread of BLAS or OpenMP
computes for the whole of its part of an item, and spins for a while before it sleeps. OpenMP sleeps after
each part if more threads than cores work, so with a library 2 ms are enough for threads in excess of the
layout's number. Smaller parts are not detected.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tuner.adapters.proc.process_tree import (
    TICKS_PER_S,
    ProcessStat,
    ProcessTable,
    parse_stat,
    read_if_visible,
)
from tuner.core.domain.layout import Computing, Layout, LoadedPools, Pool, loaded_pools

# Detection of the worker threads that work on items, by their activity, and their CPU time.
#
# A layout of 2x4 has four threads in each process that work on items. A process may have more: one that
# takes tasks from a queue and distributes them (Celery's main thread, gunicorn's, dramatiq's consumers), a
# scheduler (huey), a monitoring agent. Their names do not help: before Python 3.14 all threads have the name
# of the program. But threads that work on items are always busy, to about the same degree, and were started
# last: a pool starts its threads after all others, usually with the first items. So in a process with more
# threads than its layout:
#
# - idle threads are left out. With the layout's number n, a thread is idle if it used less than a tenth of
#   the CPU of the n-th most active thread, and was on a core less than a tenth as often;
# - of the other threads, the n that were started last work on items.
#
# If the layout has no choice of threads (a prefork pool, an event loop), all threads that are not idle work
# on items. If a process has no more threads than its layout, all of them do (greenlets share one).
#
# An agent that is as busy as the pool, and was started after it, is wrongly counted in place of one of the
# pool's threads.

IDLE_RATIO = 0.1  #: a thread with less than this share of the least busy pool thread's activity is idle
_MEMORY = 0.75  #: weight of the earlier samples in the recent activity of a thread
_NS = 1e-9


class ThreadClock(NamedTuple):
    """Times of a thread since its start, in nanoseconds."""

    ran_ns: int  #: time on a core
    waited_ns: int  #: time spent waiting for a core


@dataclass(slots=True)
class _Thread:
    """Totals and recent activity of a worker's thread."""

    began: tuple[int, int]  #: order of starts: ticks since boot, thread id
    ran_ns: int = 0
    waited_ns: int = 0
    n_turns: int = 0  #: turns on a core
    recent_ns: float = 0.0
    recent_turns: float = 0.0


@dataclass(frozen=True, slots=True)
class ItemUse:
    """Totals of the workers' threads since the launch, ended ones included; seconds x threads."""

    beside_cpu_s_total: float  #: CPU time of threads that do not work on items
    run_delay_s_total: float  #: time for which threads that work on items waited for a core
    beside_delay_s_total: float  #: time for which other threads, and masters, waited for a core


class ItemThreads:
    """Sum of /proc/PID/task/TID/schedstat over all threads of the workers.

    The time of a thread after its last reading is not read, nor is a thread that lives between two readings.
    Their CPU is known from their process, and that of ended workers from the process that reaped them. They
    count as threads that work on items, and their waiting for cores per second of CPU is assumed to equal
    that of the threads that were read lately.
    """

    def __init__(self, proc: Path) -> None:
        self._proc = str(proc)
        self._table = ProcessTable(proc)
        self._threads: dict[tuple[int, int], dict[int, _Thread]] = {}  # (pid, its start) -> thread -> it
        self._at_work: dict[int, frozenset[int]] = {}  # pid -> threads
        self._beside_ns = self._beside_delay_ns = 0
        self._delay_ns = self._unseen_ns = 0.0
        #: pid and its start -> ns on a core of its threads that were read, and of its other threads
        self._in_process: dict[tuple[int, int], tuple[int, float]] = {}
        self._recent_ns = self._recent_delay_ns = 0.0  #: of threads that work on items, in the last readings
        self._left_ns = 0.0  #: CPU that was not read, and whose waiting is not estimated yet
        self._is_told = False

    def look(
        self,
        workers: Iterable[ProcessStat],
        shape: Layout,
        *,
        masters: Iterable[ProcessStat] = (),
        unseen_cpu_s: float = 0.0,
    ) -> ItemUse | None:
        """Read the threads of *workers*; each worker has as many threads for items as *shape* has.

        No thread of *masters* works on items. *unseen_cpu_s* is the CPU time of ended workers that was never
        read. Return None if the kernel keeps no such account (no CONFIG_SCHED_INFO).
        """
        known, self._threads, self._at_work = self._threads, {}, {}
        item_ns = delay_ns = 0
        in_process, self._in_process = self._in_process, {}
        for worker in workers:
            threads, grown = self._look_at(worker, known)
            self._left_ns += self._unread_ns(worker, grown, in_process)
            at_work = self._at_work[worker.pid] = threads_at_work(
                {thread: (one.recent_ns, one.recent_turns, one.began) for thread, one in threads.items()},
                shape,
            )
            for thread, (ran_ns, waited_ns) in grown.items():
                if thread in at_work:
                    item_ns, delay_ns = item_ns + ran_ns, delay_ns + waited_ns
                else:
                    self._beside_ns += ran_ns
                    self._beside_delay_ns += waited_ns
        for master in masters:
            _, grown = self._look_at(master, known)
            self._beside_delay_ns += sum(waited_ns for _, waited_ns in grown.values())
        self._left_ns += unseen_cpu_s / _NS - self._unseen_ns
        self._unseen_ns = unseen_cpu_s / _NS
        self._recent_ns = _MEMORY * self._recent_ns + item_ns
        self._recent_delay_ns = _MEMORY * self._recent_delay_ns + delay_ns
        self._delay_ns += delay_ns
        if self._recent_ns:
            self._delay_ns += self._left_ns * self._recent_delay_ns / self._recent_ns
            self._left_ns = 0.0
        if not self._is_told:
            return None
        return ItemUse(self._beside_ns * _NS, self._delay_ns * _NS, self._beside_delay_ns * _NS)

    def of(self, pid: int) -> frozenset[int] | None:
        """Return the threads of worker *pid* that worked on items at the last reading; None if unknown."""
        return self._at_work.get(pid) if self._is_told else None

    def clocks(self, worker: ProcessStat) -> Mapping[int, ThreadClock]:
        """Return the times of each thread of *worker* at the last reading; empty if unknown."""
        threads = self._threads.get((worker.pid, worker.started_ticks), {}) if self._is_told else {}
        return {thread: ThreadClock(one.ran_ns, one.waited_ns) for thread, one in threads.items()}

    def _unread_ns(
        self,
        process: ProcessStat,
        grown: Mapping[int, tuple[int, int]],
        before: Mapping[tuple[int, int], tuple[int, float]],
    ) -> float:
        """Return by how many ns the CPU of threads of *process* that was not read has grown."""
        named = process.pid, process.started_ticks
        read_ns, other_ns = before.get(named, (0, 0.0))
        read_ns += sum(ran_ns for ran_ns, _ in grown.values())
        now_ns = max(other_ns, process.own_ticks / TICKS_PER_S / _NS - read_ns)
        self._in_process[named] = read_ns, now_ns
        return now_ns - other_ns

    def _look_at(
        self, process: ProcessStat, known: Mapping[tuple[int, int], Mapping[int, _Thread]]
    ) -> tuple[dict[int, _Thread], dict[int, tuple[int, int]]]:
        """Return the threads of *process*, and the growth of each one's CPU and waiting time in ns."""
        named, pid = (process.pid, process.started_ticks), process.pid
        before, grown = known.get(named, {}), {}
        threads = self._threads[named] = {}
        for thread, (ran_ns, waited_ns, n_turns) in self._read_threads(pid).items():
            one = before.get(thread)
            if one is None or one.ran_ns > ran_ns:  # that thread has ended, and a new one has its id
                one = _Thread(self._began(pid, thread))
            grown[thread] = ran_ns - one.ran_ns, waited_ns - one.waited_ns
            one.recent_ns = _MEMORY * one.recent_ns + ran_ns - one.ran_ns
            one.recent_turns = _MEMORY * one.recent_turns + n_turns - one.n_turns
            one.ran_ns, one.waited_ns, one.n_turns = ran_ns, waited_ns, n_turns
            threads[thread] = one
        return threads, grown

    def _read_threads(self, pid: int) -> Mapping[int, tuple[int, int, int]]:
        """Return for each thread: ns on a core, ns of waiting for one, and the number of its turns."""
        found = {}
        for thread in self._table.thread_ids(pid):
            line = read_if_visible(f"{self._proc}/{pid}/task/{thread}/schedstat")
            if line:
                ran_ns, waited_ns, n_turns = map(int, line.split())
                self._is_told = self._is_told or ran_ns > 0  # a kernel without this account prints 0 0 0
                found[thread] = ran_ns, waited_ns, n_turns
        return found

    def _began(self, pid: int, thread: int) -> tuple[int, int]:
        line = read_if_visible(f"{self._proc}/{pid}/task/{thread}/stat")
        return (parse_stat(line).started_ticks if line else 0), thread


def threads_at_work(
    threads: Mapping[int, tuple[float, float, tuple[int, int]]], shape: Layout
) -> frozenset[int]:
    """Return the threads of a process that work on items.

    *threads* has the CPU, the turns on a core and the start of each; *shape* has the number for items.
    """
    n = shape.threads
    if len(threads) <= n:
        return frozenset(threads)
    least_ns = IDLE_RATIO * _nth([ran_ns for ran_ns, _, _ in threads.values()], n)
    least_turns = IDLE_RATIO * _nth([turns for _, turns, _ in threads.values()], n)
    busy = {
        thread: began
        for thread, (ran_ns, turns, began) in threads.items()
        if ran_ns >= least_ns or turns >= least_turns
    }
    if not shape.has_threads:
        return frozenset(busy)
    return frozenset(sorted(busy, key=lambda thread: busy[thread])[-n:])


def _nth(values: Sequence[float], n: int) -> float:
    """Return the *n*-th largest value."""
    return sorted(values, reverse=True)[n - 1]


#: least CPU time between two sleeps of a computing thread: Python's sys.getswitchinterval()
KEEPS_CORE_NS = 5_000_000
#: the same in a process with a library that starts threads
WITH_LIBRARY_NS = 2_000_000
WANTS_CORE_RATIO = 0.1  #: least share of the time on a core or waiting for one
_SHORTEST_S = 0.5  #: least time between two samples; a shorter one is not evaluated
_MAPS_FIELDS = 6  #: fields in a line of /proc/PID/maps that names a file
_SLEEPS = re.compile(rb"^voluntary_ctxt_switches:\s*(\d+)", re.MULTILINE)
_CPUS = re.compile(rb"^Cpus_allowed:\s*([0-9a-f,]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _Look:
    """Totals of a thread at one reading."""

    at_s: float
    clock: ThreadClock
    n_sleeps: int | None  #: number of voluntary context switches; None: not read


@dataclass(frozen=True, slots=True)
class _WorkerProcess:
    """Constant facts of a worker process."""

    loaded: LoadedPools
    n_cores: int  #: number of cores on which it may run


class ComputingThreads:
    """Detection of computing threads in processes with more threads than their layout.

    It uses the times that *items* has read. A reading opens a file of each thread that wanted a core since
    the previous reading; the first reading opens those of all threads.
    """

    def __init__(self, proc: Path, items: ItemThreads) -> None:
        self._proc, self._items = str(proc), items
        self._before: dict[tuple[int, int, int], _Look] = {}  # (pid, its start, thread) -> the last look
        self._workers: dict[tuple[int, int], _WorkerProcess] = {}  # (pid, its start) -> it

    def look(
        self, workers: Iterable[ProcessStat], shape: Layout, at_s: float, *, at_edge: bool = False
    ) -> Computing | None:
        """Count the computing threads of *workers*; None without an earlier reading or without an account.

        *at_edge*: a slice begins or ends. Then the file of each thread is read, because threads that were
        idle before a slice are compared with their next reading.
        """
        before, self._before = self._before, {}
        n_inner, is_judged = 0, False
        pools: dict[Pool, None] = {}
        is_environment_read = True
        for worker in workers:
            clocks = self._items.clocks(worker)
            if len(clocks) <= shape.threads:
                is_judged |= bool(clocks)
                continue
            bursts = self._bursts(worker, clocks, before, at_s, at_edge=at_edge)
            if bursts is None:
                continue
            is_judged, known = True, self._worker_process(worker)
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
        *,
        at_edge: bool,
    ) -> Mapping[int, float] | None:
        """Return the CPU in nanoseconds between two sleeps, of threads that want a core; None without an
        earlier reading to compare with."""
        found: dict[int, float] = {}
        is_judged = False
        for thread, clock in clocks.items():
            key = (worker.pid, worker.started_ticks, thread)
            earlier = before.get(key)
            if earlier is None or earlier.clock.ran_ns > clock.ran_ns:  # or the id belongs to a new thread
                self._before[key] = _Look(at_s, clock, self._n_sleeps(worker.pid, thread))
            elif at_s - earlier.at_s < _SHORTEST_S:
                self._before[key] = earlier
            else:
                is_judged = True
                wants = wants_core(earlier.clock, clock, at_s - earlier.at_s)
                n_sleeps = self._n_sleeps(worker.pid, thread) if wants or at_edge else None
                self._before[key] = _Look(at_s, clock, n_sleeps)
                if not wants or earlier.n_sleeps is None or n_sleeps is None:
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
        """Return the number of computing threads in addition to the layout's, by their *bursts*.

        Without a library that starts threads, it is the excess over the layout's number. With one, it is the
        number that do not work on items (even if the item threads sleep and so do not compute), or the excess
        with shorter bursts (OpenMP), if larger. A layout without a choice of threads may be an event loop
        that runs functions in threads, so there only threads of a library count.
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
        if worker.pid in computing:  # a main thread that only distributes work does not compute
            others = (computing & at_work) - {worker.pid}
            return max(above, len(computing) - 1 - min(shape.threads - 1, len(others)))
        return max(above, len(computing - at_work))

    def _n_sleeps(self, pid: int, thread: int) -> int | None:
        """Return the number of voluntary sleeps of a thread, or None if it has ended."""
        found = _SLEEPS.search(read_if_visible(f"{self._proc}/{pid}/task/{thread}/status") or b"")
        return None if found is None else int(found[1])

    def _worker_process(self, worker: ProcessStat) -> _WorkerProcess:
        key = (worker.pid, worker.started_ticks)
        if key not in self._workers:
            mask = _CPUS.search(read_if_visible(f"{self._proc}/{worker.pid}/status") or b"")
            n_cores = 1 if mask is None else int(mask[1].replace(b",", b""), 16).bit_count()
            self._workers[key] = _WorkerProcess(pools_of(worker.pid, self._proc), n_cores)
        return self._workers[key]


def wants_core(before: ThreadClock, now: ThreadClock, elapsed_s: float) -> bool:
    """Return whether a thread was on a core, or waited for one, for a tenth of the time or more."""
    wanted_ns = (now.ran_ns - before.ran_ns) + (now.waited_ns - before.waited_ns)
    return wanted_ns >= WANTS_CORE_RATIO * elapsed_s * 1e9


def pools_of(pid: int, proc: str = "/proc") -> LoadedPools:
    """Return the loaded libraries of process *pid* that start threads; none if they are not readable."""
    lines = (read_if_visible(f"{proc}/{pid}/maps") or b"").splitlines()
    fields = (line.split(None, _MAPS_FIELDS - 1) for line in lines)
    files = {os.fsdecode(one[-1]) for one in fields if len(one) == _MAPS_FIELDS}
    environ = read_if_visible(f"{proc}/{pid}/environ")
    if environ is None:
        return loaded_pools(files, None)
    pairs = (os.fsdecode(entry).partition("=") for entry in environ.split(b"\0") if entry)
    return loaded_pools(files, {name: value for name, _, value in pairs})
