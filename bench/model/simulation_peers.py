"""The same network written for SimPy and for Ciw; `simulation.py` compares them.

SimPy has no processor sharing. `InterruptedCores` is the usual solution of its users: a server process that
waits for the next end and is interrupted by each arrival. `VirtualTimeCores` has tuner's algorithm instead,
which is the fastest possible with SimPy. The lock with forced hand-over uses plain events in both. Ciw has
processor sharing, but a customer cannot hold one node while another one serves it, so its networks have no
GIL.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from math import inf
from random import Random
from typing import Any, Protocol

import ciw
import simpy

from tuner.core.model.simulation.scenario import Scenario


@dataclass(frozen=True)
class PeerRun:
    """Result of a program for a network."""

    throughput_per_s: float
    n_events: int  #: counted as tuner counts: ends of stages, forced hand-overs
    took_s: float  #: of CPU


class Cores(Protocol):
    """Processor sharing."""

    def compute(self, work_s: float) -> simpy.Event:
        """An event for its end."""

    def take_back(self, job: simpy.Event) -> float:
        """Return the remaining work of a job that is interrupted."""


class InterruptedCores:
    """A server that stores the remaining work of every job, and is interrupted by arrivals and ends."""

    def __init__(self, env: simpy.Environment, scenario: Scenario) -> None:
        self._env = env
        self._rates = _rates(scenario)
        self._left_s: dict[simpy.Event, float] = {}
        self._at_s = 0.0
        self._server = env.process(self._serve())

    def compute(self, work_s: float) -> simpy.Event:
        self._advance()
        job = self._env.event()
        self._left_s[job] = work_s
        self._server.interrupt()
        return job

    def take_back(self, job: simpy.Event) -> float:
        self._advance()
        self._server.interrupt()
        return max(0.0, self._left_s.pop(job))

    def _advance(self) -> None:
        done_s = (self._env.now - self._at_s) * self._rates[len(self._left_s)]
        for job in self._left_s:
            self._left_s[job] -= done_s
        self._at_s = self._env.now

    def _serve(self) -> Generator[simpy.Event, Any, None]:
        while True:
            try:
                if not self._left_s:
                    yield self._env.event()
                first = min(self._left_s, key=self._left_s.__getitem__)
                yield self._env.timeout(max(0.0, self._left_s[first]) / self._rates[len(self._left_s)])
                self._advance()
                del self._left_s[first]
                first.succeed()
            except simpy.Interrupt:
                continue


class VirtualTimeCores:
    """Jobs that share cores equally: a heap of ends whose order a change of the rate keeps."""

    def __init__(self, env: simpy.Environment, scenario: Scenario) -> None:
        self._env = env
        self._rates = _rates(scenario)
        self._heap: list[tuple[float, int, simpy.Event]] = []
        self._ends_s: dict[simpy.Event, float] = {}  # of jobs that go on
        self._number = self._plan = 0
        self._virtual_s = self._at_s = 0.0

    def compute(self, work_s: float) -> simpy.Event:
        self._advance()
        self._number += 1
        job = self._env.event()
        self._ends_s[job] = self._virtual_s + work_s
        heappush(self._heap, (self._virtual_s + work_s, self._number, job))
        self._plan_next()
        return job

    def take_back(self, job: simpy.Event) -> float:
        self._advance()
        left_s = self._ends_s.pop(job) - self._virtual_s
        self._plan_next()
        return max(0.0, left_s)

    def _advance(self) -> None:
        self._virtual_s += (self._env.now - self._at_s) * self._rates[len(self._ends_s)]
        self._at_s = self._env.now

    def _plan_next(self) -> None:
        self._plan += 1
        while self._heap and self._heap[0][2] not in self._ends_s:
            heappop(self._heap)
        if self._heap:
            left_s = max(0.0, self._heap[0][0] - self._virtual_s) / self._rates[len(self._ends_s)]
            self._env.timeout(left_s).callbacks.append(partial(self._end, self._plan))

    def _end(self, plan: int, _: simpy.Event) -> None:
        if plan == self._plan:  # else something changed since
            self._virtual_s, _number, job = heappop(self._heap)
            self._at_s = self._env.now
            del self._ends_s[job]
            job.succeed()
            self._plan_next()


def _rates(scenario: Scenario) -> list[float]:
    """Work per second of each, with so many runnable."""
    speeds = scenario.speeds
    return [0.0] + [speeds[min(n, len(speeds)) - 1] / n for n in range(1, scenario.n_threads + 1)]


class ForcedLock:
    """A GIL: first come, first served, handed over by force after a while."""

    def __init__(self, env: simpy.Environment, cores: Cores, scenario: Scenario) -> None:
        self._env, self._cores = env, cores
        self._turn_s = scenario.machine.switch_interval_s
        self._handover_s = scenario.machine.handover_s
        self._line: deque[tuple[float, simpy.Event]] = deque()
        self._holder: tuple[simpy.Event, simpy.Event] | None = None  # the end of his visit, and of his job
        self._turn = 0
        self.n_forced = 0

    def visit(self, work_s: float) -> simpy.Event:
        """An event for the end of *work_s* of computing that holds the lock."""
        done = self._env.event()
        if self._holder is None:
            self._hold(work_s, done)
        else:
            self._line.append((work_s, done))
            if len(self._line) == 1:
                self._begin_turn()
        return done

    def _hold(self, work_s: float, done: simpy.Event) -> None:
        job = self._cores.compute(work_s)
        job.callbacks.append(self._release)
        self._holder = (done, job)

    def _release(self, _: simpy.Event) -> None:
        if self._holder is None:
            raise AssertionError("nobody holds what is released")
        done, self._holder = self._holder[0], None
        self._hand_over()
        done.succeed()

    def _hand_over(self) -> None:
        self._turn += 1
        if self._line:
            work_s, done = self._line.popleft()
            self._hold(work_s + self._handover_s, done)
            if self._line:
                self._begin_turn()

    def _begin_turn(self) -> None:
        self._turn += 1
        self._env.timeout(self._turn_s).callbacks.append(partial(self._force, self._turn))

    def _force(self, turn: int, _: simpy.Event) -> None:
        if turn != self._turn or self._holder is None:
            return
        done, job = self._holder
        self._line.append((self._cores.take_back(job), done))
        self.n_forced += 1
        self._hand_over()


def run_simpy(scenario: Scenario, make_cores: Callable[[simpy.Environment, Scenario], Cores]) -> PeerRun:
    """A process per thread, for ever."""
    env = simpy.Environment()
    cores = make_cores(env, scenario)
    locks = [ForcedLock(env, cores, scenario) for _ in range(scenario.layout.processes)]
    random = Random(scenario.seed)
    cv = scenario.demands.cv_ratio
    path = [(stage.kind, stage.mean_s * (1 - cv), cv * stage.mean_s) for stage in scenario.path]
    complete = env.event()
    warm_at_s = 0.0
    n_done = n_stages = 0

    def thread(lock: ForcedLock) -> Generator[simpy.Event, Any, None]:
        nonlocal n_done, n_stages, warm_at_s
        while True:
            for kind, fixed_s, random_s in path:
                length_s = fixed_s + random_s * random.expovariate(1.0)
                if kind == "gil":
                    yield lock.visit(length_s)
                elif kind == "core":
                    yield cores.compute(length_s)
                else:
                    yield env.timeout(length_s)
                n_stages += 1
            n_done += 1
            if n_done == scenario.n_warm_items:
                warm_at_s = env.now
            elif n_done == scenario.n_warm_items + scenario.n_items:
                complete.succeed()

    for number in range(scenario.n_threads):
        env.process(thread(locks[number % len(locks)]))
    began_s = time.process_time()
    env.run(complete)
    elapsed_s = env.now - warm_at_s
    took_s = time.process_time() - began_s
    return PeerRun(scenario.n_items / elapsed_s, n_stages + sum(lock.n_forced for lock in locks), took_s)


def run_ciw(scenario: Scenario, elapsed_s: float) -> PeerRun:
    """A ring of nodes, the threads as its customers, for *elapsed_s* after the warm-up."""
    path = scenario.path
    if any(stage.kind == "gil" for stage in path):
        raise ValueError("Ciw cannot hold a GIL while it computes")
    ring = len(path)
    cores, cv = scenario.speeds[-1], scenario.demands.cv_ratio
    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Sequential([1e-9, inf])] + [None] * (ring - 1),
        batching_distributions=[ciw.dists.Deterministic(scenario.n_threads)] * ring,
        service_distributions=[
            ciw.dists.Deterministic(stage.mean_s * (1 - cv)) + ciw.dists.Exponential(1 / (stage.mean_s * cv))
            for stage in path
        ],
        number_of_servers=[inf] * ring,
        ps_thresholds=[cores if stage.kind == "core" else 1 for stage in path],
        routing=[[float(to == (at + 1) % ring) for to in range(ring)] for at in range(ring)],
    )
    ciw.seed(scenario.seed)
    nodes = [ciw.PSNode if stage.kind == "core" else ciw.Node for stage in path]
    simulation = ciw.Simulation(network, node_class=nodes)
    warm_s = elapsed_s * scenario.n_warm_items / scenario.n_items
    began_s = time.process_time()
    simulation.simulate_until_max_time(warm_s + elapsed_s)
    took_s = time.process_time() - began_s
    records = simulation.get_all_records()
    n_items = sum(one.node == ring and one.exit_date > warm_s for one in records)
    return PeerRun(n_items / elapsed_s, len(records), took_s)
