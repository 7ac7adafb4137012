"""The speed of the host: the CPU time of one fixed computation, now and then."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from random import Random
from statistics import median

EVERY_S = 5.0  #: between two looks
MOST_SHARE_RATIO = 0.001  #: of one core, for all looks; on a slow host they are rarer than `EVERY_S`
_N_OBJECTS = 1 << 15  #: 1 MB of integers: the caches of a core seldom still hold them after seconds
_N_STEPS = 12_000
_N_BEFORE_LAUNCH = 9  #: units before a launch; the first ones wake a core that slept


@cache
def _objects() -> tuple[list[int], list[int]]:
    """Integers, and their places in random order."""
    order = list(range(_N_OBJECTS))
    Random(1).shuffle(order)
    return [1000 + 3 * n for n in range(_N_OBJECTS)], order


def do_fixed_work() -> int:
    """Compute one unit: reads at random places in 1 MB of memory, and arithmetic within the core.

    Both take about equally long if the caches still hold the memory. Within a window they do not, and the
    reads take some five times as long: units before a launch and within windows cannot be compared.
    """
    values, order = _objects()
    found = sum(map(values.__getitem__, order))
    for _ in range(_N_STEPS):
        found = (found * 1_103_515_245 + 12_345) & 0x7FFF_FFFF
    return found


class HostSpeed:
    """Measures the speed of the host, at most every `EVERY_S` seconds.

    A unit takes longer if the clock is slower, if another program runs on the other hardware thread of the
    core, and if others use caches and memory. Time in which the thread waits for a core does not count.

    Args:
        monotonic_s: the time now.
        work: does one unit.
        cpu_s: the CPU time of this thread.
    """

    def __init__(
        self,
        monotonic_s: Callable[[], float],
        work: Callable[[], object] = do_fixed_work,
        cpu_s: Callable[[], float] = time.thread_time,
    ) -> None:
        self._monotonic_s, self._work, self._cpu_s = monotonic_s, work, cpu_s
        self._unit_cpu_s: float | None = None  #: of the latest look
        self._total = 0.0
        self._advanced_s = self._next_look_s = 0.0

    def before_launch(self) -> float:
        """The CPU seconds of one unit while no layout works: the median of some units, one after the other.

        Takes about 15 ms on the host of docs/method/robustness.md.
        """
        found = median(self._look() for _ in range(_N_BEFORE_LAUNCH))
        self._next_look_s = 0.0  # no window may count a look that was before it
        return found

    def total(self, at_s: float) -> float:
        """CPU seconds that one unit each second would have taken until *at_s*.

        Each look stands until the next.
        """
        if self._unit_cpu_s is None:
            self._look()
            self._advanced_s = at_s
        assert self._unit_cpu_s is not None
        self._total += self._unit_cpu_s * max(0.0, at_s - self._advanced_s)
        self._advanced_s = max(at_s, self._advanced_s)
        return self._total

    def look_if_due(self) -> None:
        """Do one unit if the latest look is old."""
        if self._monotonic_s() >= self._next_look_s:
            self._look()

    def _look(self) -> float:
        began_s = self._cpu_s()
        self._work()
        took_s = self._unit_cpu_s = self._cpu_s() - began_s
        self._next_look_s = self._monotonic_s() + max(EVERY_S, took_s / MOST_SHARE_RATIO)
        return took_s
