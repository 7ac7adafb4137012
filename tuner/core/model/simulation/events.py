"""The event loop of the simulated network, in Python. ``simulate.c`` is the same loop for speed.

Cores are shared equally by all runnable tasks (processor sharing), so every task's remaining work shrinks at
the same rate: *virtual time* is the work that each task got so far, and a task that needs *w* more ends at
virtual time now + *w*. A heap of virtual ends therefore never changes when the rate does, and an event costs
O(log n).

Events at the same moment have a fixed order: the end of computing, the end of a wait, a forced hand-over, an
arrival; among equal ones the lower thread first, among hand-overs the one that was due first. The order
decides which thread draws which random number, so both programs keep to it.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from math import inf

from tuner.core.model.simulation.scenario import STAGE_KINDS, Counts, Scenario
from tuner.core.model.simulation.tally import ARRIVAL, FORCED, Event, Exponentials, Tally

_STEPS = 2.0**48  #: number of turns up to which a clock of 53 bits resolves sixteenths of a turn


def run(scenario: Scenario, trajectory: list[Event] | None = None) -> Counts:
    """Simulate *scenario* and return its counts. If *trajectory* is given, every event is added to it.

    Raises:
        ValueError: the times are too long for a clock of 53 bits.
    """
    network = _Network(scenario, trajectory)
    network.open()
    while not network.tally.is_complete:
        network.step()
    return network.tally.counts(network.now_s)


class _Gil:
    """The GIL of one process: its holder, and the threads in line for it."""

    def __init__(self) -> None:
        self.holder: int | None = None
        self.line: deque[int] = deque()


class _Tasks:
    """Threads by the moment at which each finishes; the lower thread first among equals."""

    def __init__(self, n_threads: int) -> None:
        self._heap: list[tuple[float, int, int]] = []
        self._stamps = [0] * n_threads  # an entry with an old stamp was taken out

    def add(self, thread: int, at: float) -> None:
        self._stamps[thread] += 1
        heappush(self._heap, (at, thread, self._stamps[thread]))

    def take_out(self, thread: int) -> None:
        self._stamps[thread] += 1

    def first(self) -> tuple[float, int]:
        """Return moment and thread of the first to finish; (inf, 0) if there is none."""
        while self._heap:
            at, thread, stamp = self._heap[0]
            if stamp == self._stamps[thread]:
                return at, thread
            heappop(self._heap)
        return inf, 0


class _Network:
    """State of all threads, and the clock."""

    def __init__(self, scenario: Scenario, trajectory: list[Event] | None) -> None:
        n = scenario.n_threads
        speeds = scenario.speeds
        cv = scenario.demands.cv_ratio
        self.now_s = 0.0
        self.tally = Tally(scenario, trajectory)
        self._arrival_per_s = scenario.arrival_per_s
        self._turn_s = scenario.machine.switch_interval_s
        self._handover_s = scenario.machine.handover_s
        self._kinds = [STAGE_KINDS.index(stage.kind) for stage in scenario.path]
        self._fixed_s = [stage.mean_s * (1.0 - cv) for stage in scenario.path]
        self._random_s = [stage.mean_s * cv for stage in scenario.path]
        self._speeds = [0.0] + [speeds[min(k, len(speeds)) - 1] for k in range(1, n + 1)]
        # Time until which both clocks resolve a turn in 16 steps or more. Later the work of a turn could
        # be rounded away, turn after turn.
        rates = [1.0, *(self._speeds[k] / k for k in range(1, n + 1))]
        self._last_turn_s = self._turn_s * (min(rates) / max(rates)) * _STEPS
        self._exponentials = Exponentials(scenario.seed)
        self._virtual_s = 0.0
        self._computing = _Tasks(n)  # by virtual time
        self._waiting = _Tasks(n)  # asleep or blocked, by time
        self._gils = [_Gil() for _ in range(scenario.layout.processes)]
        self._turn_ends: dict[int, float] = {}  # process -> time; in order of time, as all turns are as long
        self._next_arrival_s = inf
        self._queue: deque[float] = deque()  # when items arrived that wait for a thread
        self._idle: deque[int] = deque()  # threads without an item, the longest idle first
        self._stage = [0] * n
        self._work_s = [0.0] * n  # of threads in line for a GIL: the work that they will do
        self._began_s = [0.0] * n
        self._ends_s = [0.0] * n  # of threads that compute: in virtual time

    def open(self) -> None:
        """Give every thread an item at time 0, or wait for the first arrival."""
        threads = range(len(self._stage))
        if self._arrival_per_s is not None:
            self._idle.extend(threads)
            self._next_arrival_s = self._exponentials.next() / self._arrival_per_s
        else:
            for thread in threads:
                self._begin_item(thread, 0.0)

    def step(self) -> None:
        """Advance to the next event, and process it."""
        n = self.tally.n_runnable
        end_virtual_s, computing = self._computing.first()
        end_s = inf
        if n:
            end_s = self.now_s + max(0.0, end_virtual_s - self._virtual_s) * (n / self._speeds[n])
        wait_end_s, waiting = self._waiting.first()
        process, turn_end_s = next(iter(self._turn_ends.items()), (0, inf))
        at_s = min(end_s, wait_end_s, turn_end_s, self._next_arrival_s)
        if at_s == inf:
            raise ValueError("nothing happens any more: the times are too long")
        passed_s = at_s - self.now_s
        self.tally.pass_time(passed_s, self._speeds[n])
        self.now_s = at_s
        if n and end_s == at_s:
            self._virtual_s = end_virtual_s
            self._end_computing(computing)
            return
        if n:
            self._virtual_s += passed_s * (self._speeds[n] / n)
        if wait_end_s == at_s:
            self._end_waiting(waiting)
        elif turn_end_s == at_s:
            self._force_handover(process)
        else:
            self._arrive()

    def _end_computing(self, thread: int) -> None:
        kind = self._kinds[self._stage[thread]]
        self.tally.note(self.now_s, kind, thread)
        self._computing.take_out(thread)
        self.tally.n_runnable -= 1
        if STAGE_KINDS[kind] == "gil":
            process = thread % len(self._gils)
            self._gils[process].holder = None
            self.tally.n_gil_held -= 1
            if self._gils[process].line:
                self._hand_over(process)
        self._next_stage(thread)

    def _end_waiting(self, thread: int) -> None:
        kind = self._kinds[self._stage[thread]]
        self.tally.note(self.now_s, kind, thread)
        self._waiting.take_out(thread)
        if STAGE_KINDS[kind] == "asleep":
            self.tally.n_asleep -= 1
        else:
            self.tally.n_blocked -= 1
        self._next_stage(thread)

    def _force_handover(self, process: int) -> None:
        """Move the holder to the end of the line with its remaining work."""
        gil = self._gils[process]
        holder = gil.holder
        if holder is None:
            raise AssertionError("nobody holds the GIL that is to be handed over")
        self.tally.note(self.now_s, FORCED, holder)
        self.tally.n_forced += 1
        self._computing.take_out(holder)
        self.tally.n_runnable -= 1
        self.tally.n_gil_held -= 1
        self._work_s[holder] = max(0.0, self._ends_s[holder] - self._virtual_s)
        gil.line.append(holder)
        self.tally.n_gil_waiting += 1
        self._hand_over(process)

    def _arrive(self) -> None:
        self.tally.note(self.now_s, ARRIVAL, 0)
        if self._arrival_per_s is None:
            raise AssertionError("an arrival where threads always have items")
        self._next_arrival_s = self.now_s + self._exponentials.next() / self._arrival_per_s
        if self._idle:
            self._begin_item(self._idle.popleft(), self.now_s)
            return
        self._queue.append(self.now_s)
        self.tally.n_queued += 1

    def _begin_item(self, thread: int, began_s: float) -> None:
        self._began_s[thread] = began_s
        self._stage[thread] = 0
        self._enter(thread)

    def _next_stage(self, thread: int) -> None:
        if self._stage[thread] + 1 < len(self._kinds):
            self._stage[thread] += 1
            self._enter(thread)
            return
        self.tally.end_item(self.now_s, self.now_s - self._began_s[thread])
        if self.tally.is_complete:
            return
        if self._arrival_per_s is None:
            self._begin_item(thread, self.now_s)
        elif self._queue:
            self.tally.n_queued -= 1
            self._begin_item(thread, self._queue.popleft())
        else:
            self._idle.append(thread)

    def _enter(self, thread: int) -> None:
        stage = self._stage[thread]
        length_s = self._fixed_s[stage]
        if self._random_s[stage] > 0:
            length_s += self._random_s[stage] * self._exponentials.next()
        kind = STAGE_KINDS[self._kinds[stage]]
        if kind == "gil":
            self._want_gil(thread, length_s)
        elif kind == "core":
            self._compute(thread, length_s)
        else:
            self._waiting.add(thread, self.now_s + length_s)
            if kind == "asleep":
                self.tally.n_asleep += 1
            else:
                self.tally.n_blocked += 1

    def _compute(self, thread: int, work_s: float) -> None:
        self._ends_s[thread] = self._virtual_s + work_s
        self._computing.add(thread, self._ends_s[thread])
        self.tally.n_runnable += 1

    def _want_gil(self, thread: int, work_s: float) -> None:
        process = thread % len(self._gils)
        gil = self._gils[process]
        if gil.holder is None:
            gil.holder = thread
            self.tally.n_gil_held += 1
            self._compute(thread, work_s)
            return
        self._work_s[thread] = work_s
        if not gil.line:
            self._begin_turn(process)
        gil.line.append(thread)
        self.tally.n_gil_waiting += 1

    def _hand_over(self, process: int) -> None:
        """Give the GIL to the first in line; its turn ends only if another thread wants the GIL."""
        gil = self._gils[process]
        thread = gil.line.popleft()
        self.tally.n_gil_waiting -= 1
        del self._turn_ends[process]
        if gil.line:
            self._begin_turn(process)
        gil.holder = thread
        self.tally.n_gil_held += 1
        self._compute(thread, self._work_s[thread] + self._handover_s)

    def _begin_turn(self, process: int) -> None:
        if self.now_s > self._last_turn_s:
            raise ValueError(
                "switch_interval_s is below the resolution of the clock after this time; increase it"
            )
        self._turn_ends[process] = self.now_s + self._turn_s
