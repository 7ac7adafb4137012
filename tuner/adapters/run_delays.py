"""How long the workers' threads waited for a core though they could have run, by the scheduler's clock."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tuner.adapters.process_tree import ProcessStat, ProcessTable, read_shown

_NS = 1e-9


class RunDelays:
    """Adds up the second field of /proc/PID/task/TID/schedstat over threads, ended ones included.

    What a thread waited between the last look at it and its end is lost: nobody keeps it.
    """

    def __init__(self, proc: Path) -> None:
        self._proc = str(proc)
        self._table = ProcessTable(proc)
        self._ended_ns = 0
        self._threads_ns: dict[tuple[int, int, int], int] = {}  # (pid, its start, thread) -> waited so far
        self._is_told = False

    def total_s(self, workers: Iterable[ProcessStat]) -> float | None:
        """Thread-seconds up to now; None where the kernel keeps no such account (no CONFIG_SCHED_INFO)."""
        seen = {}
        for worker in workers:
            for thread in self._table.thread_ids(worker.pid):
                line = read_shown(f"{self._proc}/{worker.pid}/task/{thread}/schedstat")
                if line:
                    ran_ns, waited_ns, _ = map(int, line.split())
                    self._is_told = self._is_told or ran_ns > 0  # a kernel that does not tell prints 0 0 0
                    seen[worker.pid, worker.started_ticks, thread] = waited_ns
        for thread_of, before_ns in self._threads_ns.items():
            if seen.get(thread_of, -1) < before_ns:  # ended; its number may be another thread's by now
                self._ended_ns += before_ns
        self._threads_ns = seen
        return (self._ended_ns + sum(seen.values())) * _NS if self._is_told else None
