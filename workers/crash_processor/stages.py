"""Stopwatch for the stages of an item."""

from __future__ import annotations

import time


class Stages:
    """A stopwatch for one item in one thread: wall and thread CPU of each stage, the child's CPU, waits.

    The stages are claim, fetch, rules, stackwalk, analyse, save, acknowledge.
    """

    def __init__(self, claim_wall_ns: int = 0, claim_cpu_ns: int = 0) -> None:
        self.wall_ns = {"claim": claim_wall_ns}
        self.cpu_ns = {"claim": claim_cpu_ns}
        self.child_cpu_ns = 0
        self.waiting_ns = 0
        self._wall_ns = time.perf_counter_ns()
        self._cpu_ns = time.thread_time_ns()

    def finish(self, stage: str) -> None:
        """Count the time since the last call, or since the beginning, for *stage*."""
        wall_ns, cpu_ns = time.perf_counter_ns(), time.thread_time_ns()
        self.wall_ns[stage] = self.wall_ns.get(stage, 0) + wall_ns - self._wall_ns
        self.cpu_ns[stage] = self.cpu_ns.get(stage, 0) + cpu_ns - self._cpu_ns
        self._wall_ns, self._cpu_ns = wall_ns, cpu_ns

    def running_cpu_ns(self) -> int:
        """Return this thread's CPU nanoseconds for the item so far, including an unfinished stage."""
        return sum(self.cpu_ns.values()) + time.thread_time_ns() - self._cpu_ns

    @property
    def python_cpu_ns(self) -> int:
        """CPU nanoseconds of this thread in all finished stages."""
        return sum(self.cpu_ns.values())

    def in_ms(self) -> dict[str, dict[str, float]]:
        """Return wall and CPU milliseconds by stage, for a saved result."""
        return {
            stage: {"wall_ms": round(wall / 1e6, 3), "cpu_ms": round(self.cpu_ns[stage] / 1e6, 3)}
            for stage, wall in self.wall_ns.items()
        }
