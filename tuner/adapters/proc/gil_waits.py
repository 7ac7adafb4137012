"""Time that threads of Python workers wait for the GIL, found by the address they wait at.

A thread that wants the GIL waits on a condition variable inside ``_PyRuntime``, the interpreter's one global
structure. /proc/PID/task/TID/syscall shows whether a thread is in futex(2), and at which address. Only a
process that may trace the worker can read it (root, or the same user if Yama's ptrace_scope allows tracing of
descendants). So a few samples per second, at random moments, estimate the time that threads wait, without
changing or stopping the worker. `bench/gil_waits.py` measures the cost and the error.

A waiting thread wakes up each switch interval, and whenever the GIL is released, and then waits for a core
before it finds the GIL taken: it still waits for the GIL, though it is runnable. So if a process has waiting
threads, its runnable threads without a core also count, except one that may have the GIL. The number of
threads on a core is computed from the process's CPU clock during the sample. On a host without a free core,
threads that compute without the GIL are counted as waiting, because they cannot be distinguished.

Not detected: the separate GIL of a subinterpreter (Python 3.12).

Unknown: the waits of a Python that uses musl (Alpine Linux). The pthread_cond_timedwait of musl waits at an
address on the stack of the waiting thread, never inside the condition variable.
"""

from __future__ import annotations

import platform
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from tuner.adapters.proc.process_tree import ProcessTable
from tuner.adapters.proc.python_runtime import AddressRange, GilSeen, PythonRuntimes, read_gil
from tuner.adapters.proc.sampled_file import TOO_MANY_FILES, SampledFile

LOOKS_PER_S = 2.0
MOST_LOOKED_AT = 64  #: threads that are sampled, at 7 us each; they represent all threads
#: platform.machine() -> number of the system call futex(2)
FUTEX_CALLS = {"x86_64": 202, "aarch64": 98}
_WAITS = (0, 9)  #: FUTEX_WAIT and FUTEX_WAIT_BITSET; the flags (private, realtime) are higher bits
_OPERATION = 0x7F
#: weight of the earlier samples in the frequency with which a process has threads waiting for the GIL
_LINE_MEMORY = 0.75
_CPU_CLOCK = 2  #: CPUCLOCK_SCHED of a whole process, in include/linux/posix-timers.h
_MOST_TRIES = 10  #: attempts to find the interpreter of a process, which may not have loaded it yet

_RUNNABLE = (-1, -1)


@dataclass(frozen=True, slots=True)
class InLine:
    """Threads that wait for the GIL at one moment."""

    asleep: float = 0.0
    waking: float = 0.0  #: threads woken to request the GIL that wait for a core


_NOBODY = InLine()


def process_cpu_s(pid: int) -> float:
    """Return the CPU time of all threads of *pid*, to the nanosecond. Raise OSError if it has ended."""
    return time.clock_gettime((~pid << 3) | _CPU_CLOCK)


class GilWaits:
    """Threads of some processes that wait for the GIL, at one moment."""

    def __init__(
        self,
        proc: Path,
        machine: str | None = None,
        cpu_s: Callable[[int], float] = process_cpu_s,
        now_s: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Set up the reader; *machine* as in platform.machine() (default); unknown machines give no data."""
        self._cpu_s, self._now_s = cpu_s, now_s
        self._folder, self._proc = proc, str(proc)
        self._table = ProcessTable(proc)
        self._runtimes = PythonRuntimes(proc)
        self._futex = FUTEX_CALLS.get(platform.machine() if machine is None else machine)
        self._runtime_of: dict[int, AddressRange] = {}
        self._with_musl: set[int] = set()  # pids whose waits for the GIL are unknown
        self._tries: dict[int, int] = {}
        self._files: dict[int, dict[int, SampledFile]] = {}  # pid -> thread -> its file
        self._n_threads: dict[int, int] = {}
        self._items: dict[int, frozenset[int] | None] = {}  # pid -> threads that work on items; None: all
        self._line_ratio: dict[int, float] = {}  # pid -> recent share of samples with waiting threads

    def close(self) -> None:
        """Close every file."""
        self.follow(())

    def follow(
        self, pids: Iterable[int], items: Callable[[int], frozenset[int] | None] = lambda _pid: None
    ) -> None:
        """Sample the current threads of *pids* from now on, and no others.

        *items* returns the threads of a pid that work on items; only these count; None: all.
        """
        wanted = set(pids) if self._futex is not None else set()
        self._items = {pid: items(pid) for pid in wanted}
        for gone in self._tries.keys() - wanted:
            self._forget(gone)
        for pid in wanted - self._runtime_of.keys():
            self._find_runtime(pid)
        for pid in sorted(self._runtime_of):
            most = max(2, MOST_LOOKED_AT // len(self._runtime_of))
            self._follow_threads(pid, 0 if pid in self._with_musl else most)

    @property
    def is_known(self) -> bool:
        """Whether a thread can be sampled: of a Python worker without musl that this process may trace."""
        return any(self._files.values())

    def gils(self) -> list[GilSeen]:
        """Return the state of the GIL of each process where it is readable."""
        seen = (read_gil(self._folder, pid, runtime) for pid, runtime in self._runtime_of.items())
        return [one for one in seen if one is not None]

    def look(self) -> InLine:
        """Return the threads that wait for the GIL in all processes, extrapolated from the sampled ones."""
        lines = [self._in_line(pid) for pid, files in list(self._files.items()) if files]
        n_threads = sum(self._n_threads[pid] for pid, files in self._files.items() if files)
        n_all = sum(n for pid, n in self._n_threads.items() if pid not in self._with_musl)
        ratio = n_all / n_threads if n_threads else 0.0
        return InLine(ratio * sum(one.asleep for one in lines), ratio * sum(one.waking for one in lines))

    def _find_runtime(self, pid: int) -> None:
        tries = self._tries.get(pid, 0)
        if tries < _MOST_TRIES:
            self._tries[pid] = tries + 1
            if (found := self._runtimes.of(pid)) is not None:
                self._runtime_of[pid] = found
                if self._runtimes.uses_musl(pid):
                    self._with_musl.add(pid)

    def _follow_threads(self, pid: int, most: int) -> None:
        files, threads = self._files.setdefault(pid, {}), self._table.thread_ids(pid)
        self._n_threads[pid] = len(threads)
        for gone in files.keys() - set(threads):
            files.pop(gone).close()
        items = self._items.get(pid) or frozenset()
        for thread in sorted(threads, key=lambda thread: thread not in items):
            if thread not in files and len(files) < most and self._n_files() < MOST_LOOKED_AT:
                self._open(pid, thread)

    def _n_files(self) -> int:
        return sum(map(len, self._files.values()))

    def _in_line(self, pid: int) -> InLine:
        """Return the threads of *pid* that work on items and wait for its GIL, extrapolated to all threads.

        Any waiting thread shows that the GIL is on, and any thread may be on a core.
        """
        n_followed = len(self._files[pid])
        if n_followed < 2:  # a single thread never waits
            return _NOBODY
        try:
            began_s, cpu_before_s = self._now_s(), self._cpu_s(pid)
            data = self._calls(pid)
            elapsed_s, cpu_s = self._now_s() - began_s, self._cpu_s(pid) - cpu_before_s
        except OSError:  # it has ended
            return _NOBODY
        runtime, ratio = self._runtime_of[pid], self._n_threads[pid] / max(1, len(data))
        if len(data) < n_followed:
            self._follow_threads(pid, n_followed)
        asleep = {
            thread for thread, call in data.items() if call and call[0] in _WAITS and call[1] in runtime
        }
        runnable = {thread for thread, call in data.items() if call == _RUNNABLE}
        before = self._line_ratio.get(pid, 0.0)
        self._line_ratio[pid] = _LINE_MEMORY * before + (1 - _LINE_MEMORY) * bool(asleep)
        n_on_cores = cpu_s / elapsed_s if elapsed_s > 0 else 1.0
        n_without = max(0.0, ratio * len(runnable) - max(1.0, n_on_cores))
        n_waking = n_without * (1.0 if asleep else before)
        items = self._items.get(pid)
        if items is None:
            return InLine(ratio * len(asleep), n_waking)
        looked_at = items & data.keys()
        ratio = len(items) / len(looked_at) if looked_at else 0.0
        of_items = len(runnable & items) / len(runnable) if runnable else 0.0
        return InLine(ratio * len(asleep & items), of_items * n_waking)

    def _calls(self, pid: int) -> dict[int, tuple[int, int] | None]:
        """Return the call of each followed thread of *pid*; ended threads are followed no longer."""
        calls, files = {}, self._files[pid]
        for thread, file in list(files.items()):
            try:
                calls[thread] = self._call(file)
            except OSError as error:
                if error.errno not in TOO_MANY_FILES:  # it has ended
                    files.pop(thread).close()
                    self._n_threads[pid] -= 1
        return calls

    def _call(self, file: SampledFile) -> tuple[int, int] | None:
        """Return operation and address of a thread in futex(2), or `_RUNNABLE`; None: it waits elsewhere."""
        words = file.read(256).split(b" ", 3)
        if words[0].startswith(b"running"):
            return _RUNNABLE
        if len(words) < 4 or int(words[0]) != self._futex:
            return None
        return int(words[2], 16) & _OPERATION, int(words[1], 16)

    def _open(self, pid: int, thread: int) -> None:
        file = SampledFile(f"{self._proc}/{pid}/task/{thread}/syscall")
        try:
            file.read(1)
        except OSError:  # it has ended, or may not be traced
            file.close()
        else:
            self._files[pid][thread] = file

    def _forget(self, pid: int) -> None:
        for file in self._files.pop(pid, {}).values():
            file.close()
        self._with_musl.discard(pid)
        known: dict[int, Any]
        for known in (self._runtime_of, self._tries, self._line_ratio, self._n_threads, self._items):
            known.pop(pid, None)


class GilWatch:
    """Thread that samples `GilWaits` a few times per second, from ``start`` until ``close``."""

    def __init__(self, waits: GilWaits, now_s: Callable[[], float], looks_per_s: float = LOOKS_PER_S) -> None:
        self._waits, self._now_s, self._every_s = waits, now_s, 1 / looks_per_s
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._random = Random(1)
        self._asleep_s = self._waking_s = 0.0  #: seconds x threads
        self._seen: InLine | None = None  #: result of the last sample
        self._at_s = 0.0  #: time of the last sample
        self._is_known = self._has_failed = False
        self._has_gil: bool | None = None
        self._n_interpreters = 1
        self._thread = threading.Thread(target=self._run, name="gil-watch", daemon=True)

    def start(self) -> None:
        """Start sampling."""
        self._thread.start()

    def close(self) -> None:
        """Stop sampling."""
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._waits.close()

    def follow(
        self, pids: Iterable[int], items: Callable[[int], frozenset[int] | None] = lambda _pid: None
    ) -> None:
        """See `GilWaits.follow`."""
        with self._lock:
            self._waits.follow(pids, items)
            self._is_known = self._is_known or self._waits.is_known
            self._look_at_gils()

    def has_gil(self) -> bool | None:
        """Return whether the GIL of a process is on, or None if unknown.

        A GIL that was on once stays on. If no process shows it, waiting threads prove that there is one.
        """
        with self._lock:
            self._look_at_gils()
            return self._has_gil

    def n_interpreters(self) -> int:
        """Return the largest number of interpreters in a process, each with a separate GIL."""
        with self._lock:
            return self._n_interpreters

    def waited_s(self) -> tuple[float, float] | None:
        """Return the seconds x threads of waiting for the GIL so far, and the part of it that was awake.

        None if unknown.
        """
        with self._lock:
            self._advance(self._now_s())
            if self._has_failed or not self._is_known:
                return None
            return self._asleep_s + self._waking_s, self._waking_s

    def look(self) -> None:
        """Take a sample, which is valid until the next one."""
        with self._lock:
            now_s = self._now_s()
            self._advance(now_s)
            self._seen, self._at_s = self._waits.look(), now_s
            if self._seen.asleep and self._has_gil is None:
                self._has_gil = True

    def _look_at_gils(self) -> None:
        for seen in self._waits.gils():
            self._has_gil = self._has_gil or seen.is_on
            self._n_interpreters = max(self._n_interpreters, seen.n_interpreters)

    def _run(self) -> None:
        try:
            while not self._over.wait(self._every_s * self._random.uniform(0.5, 1.5)):
                self.look()
        except BaseException:  # its traceback is printed; the totals are incomplete
            with self._lock:
                self._has_failed = True
            raise

    def _advance(self, now_s: float) -> None:
        if self._seen is not None and now_s > self._at_s:
            elapsed_s = now_s - self._at_s
            self._asleep_s += self._seen.asleep * elapsed_s
            self._waking_s += self._seen.waking * elapsed_s
            self._at_s = now_s
