"""The network event by event: `simulate` in readable Python, the twin of the C program ``tuner-simulate``.

A closed network of P x T threads that always have items (or, with a rate of arrivals, an open one). Both
programs follow the same trajectory for the same seed; the Python twin is the reference of the tests, and
large numbers of scenarios are run in C (`virtual.simulator`). This module has the inputs and outputs;
`events` advances time, and `tally` counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate, pairwise, repeat
from math import ceil, inf, sqrt
from operator import mul
from typing import Literal

import numpy as np

from tuner.core.domain.layout import Layout
from tuner.core.model.demand import NO_TERMS, Demands, Terms, layout_demands
from tuner.core.model.machine import Machine

# The path of an item, stage by stage.

#: "gil" and "core" compute, on shared cores; the others wait: "blocked" uninterruptibly, in the load average.
StageKind = Literal["gil", "core", "asleep", "blocked"]
STAGE_KINDS: tuple[StageKind, ...] = ("gil", "core", "asleep", "blocked")


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of an item's path, which every item passes."""

    kind: StageKind
    mean_s: float  #: above 0


def path_of(demands: Demands, *, has_gil: bool) -> tuple[Stage, ...]:
    """Return the stages of an item, in order; stages of zero mean are left out.

    One GIL visit, the wait asleep, the child's start, the child, Python without the GIL, one GIL visit, the
    uninterruptible wait. The GIL is visited ``n_gil_visits`` times for an equal share of ``gil_s``. Visits
    beyond two come before the child, with an equal part of the wait asleep before each; with one visit alone
    it is the first. Without a GIL its visits are plain work.
    """
    n_before = max(1, int(demands.n_gil_visits) - 1)
    n_waits = max(1, n_before - 1)
    of_gil: StageKind = "gil" if has_gil else "core"
    visit = Stage(of_gil, demands.gil_s / demands.n_gil_visits)
    wait = Stage("asleep", demands.asleep_s / n_waits)
    path = [visit, wait]
    path += [visit, wait] * (n_before - 2)
    path += [visit] * (n_before > 1)
    path += [
        Stage("blocked", demands.spawn_s),
        Stage("core", demands.child_s),
        Stage("core", demands.python_s),
    ]
    path += [visit] * (demands.n_gil_visits > 1)
    path.append(Stage("blocked", demands.blocked_s))
    return tuple(stage for stage in path if stage.mean_s > 0)


N_BATCHES = 20  #: number of batches whose scatter gives the standard error
BUCKET_RATIO = 1.01  #: width of a bucket of residence times, as a ratio
N_BUCKETS = 2800  #: number of buckets, from 1e-4 to 1e8 times an item's demands
#: most GIL visits of an item; it then has about 4000 stages, the limit of the program
_MOST_GIL_VISITS = 2000
_LEAST_RESIDENCE_RATIO = 1e-4
_LEAST_TURN_S = 1e-9
_LEAST_ARRIVAL_PER_S = 1e-12
_HANDOVER_SHARE = 0.1  #: largest cost of a hand-over, as a share of the switch interval


@dataclass(frozen=True, slots=True)
class Scenario:
    """A layout to simulate, with demands, machine and length of the simulation."""

    layout: Layout
    demands: Demands  #: demands of this layout with terms applied, see `scenario_of`
    machine: Machine
    seed: int = 1  #: 0 to 2**64 - 1
    n_items: int = 20_000  #: number of measured items, at least 20
    n_warm_items: int = 2_000  #: number of items before the measurement
    #: rate of Poisson arrivals to one queue; None: threads always have items
    arrival_per_s: float | None = None
    process_cores: float = 0.0  #: cores that the processes use in addition to their items

    def __post_init__(self) -> None:
        if self.n_items < N_BATCHES or self.n_warm_items < 0:
            raise ValueError(
                f"n_items should be {N_BATCHES} or more and n_warm_items 0 or more, "
                f"got {self.n_items} and {self.n_warm_items}"
            )
        if not 0 <= self.seed < 2**64:
            raise ValueError(f"seed should be 0 to 2**64 - 1, got {self.seed}")
        if not 0 <= self.process_cores < inf:
            raise ValueError(f"process_cores should be 0 or more, got {self.process_cores!r}")
        if self.demands.n_gil_visits > _MOST_GIL_VISITS:
            raise ValueError(
                f"n_gil_visits should be at most {_MOST_GIL_VISITS}, got {self.demands.n_gil_visits}"
            )
        if not self.machine.switch_interval_s >= _LEAST_TURN_S:
            raise ValueError(
                f"switch_interval_s should be {_LEAST_TURN_S} or more, got {self.machine.switch_interval_s!r}"
            )
        if not 0 <= self.machine.handover_s < inf:
            raise ValueError(f"handover_s should be 0 or more, got {self.machine.handover_s!r}")
        if self.arrival_per_s is not None:
            self._refuse_a_flood(self.arrival_per_s)
        if self.machine.has_gil and self.demands.gil_s and self.layout.threads > 1:
            self._refuse_a_livelock()

    def _refuse_a_flood(self, arrival_per_s: float) -> None:
        """Raise ValueError if the layout could not keep up with the arrivals in any order of events."""
        if not _LEAST_ARRIVAL_PER_S <= arrival_per_s < inf:
            raise ValueError(f"arrival_per_s should be {_LEAST_ARRIVAL_PER_S} or more, got {arrival_per_s!r}")
        if arrival_per_s >= self.most_per_s:
            raise ValueError(
                f"arrival_per_s should be below {self.most_per_s:.6g}, the most that {self.layout} can do, "
                f"got {arrival_per_s!r}"
            )

    def _refuse_a_livelock(self) -> None:
        """Raise ValueError if a forced hand-over costs so much CPU that no time is left for work."""
        turn_s, handover_s = self.machine.switch_interval_s, self.machine.handover_s
        if handover_s > _HANDOVER_SHARE * turn_s:
            raise ValueError(
                f"handover_s should be at most a tenth of switch_interval_s ({turn_s} s): "
                f"it is microseconds, got {handover_s!r} s"
            )
        n, speeds = self.most_runnable, self.speeds
        stretch = max(k / speeds[min(k, len(speeds)) - 1] for k in range(1, n + 1))
        if handover_s * stretch > turn_s / 2:
            raise ValueError(
                f"{n} tasks on these cores need {handover_s * stretch:.3g} s for a hand-over of the GIL: "
                f"more than half of switch_interval_s ({turn_s} s)"
            )

    @property
    def n_threads(self) -> int:
        """Return the threads of all processes."""
        return self.layout.processes * self.layout.threads

    @property
    def path(self) -> tuple[Stage, ...]:
        """Return the stages of an item; see `path_of`."""
        return path_of(self.demands, has_gil=self.machine.has_gil)

    @property
    def most_runnable(self) -> int:
        """Return how many tasks may compute at once: one per thread, or per process if all need the GIL."""
        return self.n_threads if any(stage.kind == "core" for stage in self.path) else self.layout.processes

    @property
    def most_per_s(self) -> float:
        """Return an upper bound of items per second, by cores, GILs and threads separately.

        It ignores contention between these, and hand-overs: a layout reaches less, mostly a little.
        """
        demands = self.demands
        bounds = [self.n_threads / demands.total_s]
        if demands.cpu_s:
            bounds.append(max(self.speeds[: self.most_runnable]) / demands.cpu_s)
        if demands.gil_s and self.machine.has_gil:
            bounds.append(self.layout.processes / demands.gil_s)
        return min(bounds)

    @property
    def cores(self) -> float:
        """Return the cores that tasks may keep busy."""
        return float(self.machine.cores_left(self.process_cores))

    @property
    def speeds(self) -> tuple[float, ...]:
        """Return the work per second, in cores, with 1, 2 ... runnable tasks; the last one holds for more."""
        runnable = np.arange(1, self.n_threads + 1, dtype=float)
        speeds = [float(one) for one in self.machine.total_speed(runnable, self.process_cores)]
        while len(speeds) > 1 and speeds[-1] == speeds[-2]:
            speeds.pop()
        return tuple(speeds)


def scenario_of(
    demands: Demands,
    machine: Machine,
    layout: Layout,
    terms: Terms = NO_TERMS,
    *,
    seed: int = 1,
    n_items: int = 20_000,
    n_warm_items: int = 2_000,
) -> Scenario:
    """Return the scenario of *layout*, with *terms* applied to its *demands*."""
    of = layout_demands(demands, terms, [layout.processes], [layout.threads])
    there = replace(
        demands,
        gil_s=float(of.gil_s[0]),
        python_s=float(of.python_s[0]),
        child_s=float(of.child_s[0]),
        asleep_s=float(of.asleep_s[0]),
        blocked_s=float(of.blocked_s[0]),
        spawn_s=float(of.spawn_s[0]),
    )
    return Scenario(
        layout=layout,
        demands=there,
        machine=machine,
        seed=seed,
        n_items=n_items,
        n_warm_items=n_warm_items,
        process_cores=float(of.process_cores[0]),
    )


@dataclass(frozen=True, slots=True)
class TaskSeconds:
    """Number of tasks in each state times seconds: integrals over the measured time."""

    runnable_s: float  #: task-seconds of running and of waiting for a core
    work_s: float  #: work done, in core-seconds at full speed
    busy_s: float  #: core-seconds in use, regardless of the speed of second threads
    gil_held_s: float
    gil_waiting_s: float
    asleep_s: float
    blocked_s: float
    queued_s: float  #: item-seconds of waiting for a thread; 0 if threads always have items


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of a run while it measured."""

    elapsed_s: float  #: simulated time from the last item of the warm-up to the last item
    tasks: TaskSeconds
    residence_sum_s: float  #: sum of the residence times of the measured items
    batch_ends_s: tuple[float, ...]  #: end times of the batches of items, after the warm-up
    #: (bucket, items in it) in the order of buckets, without empty ones
    histogram: tuple[tuple[int, int], ...]
    n_forced: int  #: number of hand-overs of the GIL forced by the switch interval
    n_events: int  #: number of events of the whole run, including the warm-up
    digest: int  #: hash of the time, kind and thread of all events: equal for equal trajectories


@dataclass(frozen=True, slots=True)
class Simulated:
    """Simulated figures of one layout: the means of `network.Prediction`, and more."""

    throughput_per_s: float  #: items per second
    load: float  #: tasks that run, wait for a core or are uninterruptible: the steady value of load1
    cpu_cores: float  #: work of workers and children, in full-speed cores
    busy_cores: float  #: busy cores in the kernel's CPU accounting
    core_utilization_ratio: float  #: share of the host's speed in use, 0 to 1
    #: share of time in which the GIL of a process is held, 0 to 1; 0 without GIL
    gil_utilization_ratio: float
    n_gil_waiting: float  #: threads that wait for the GIL, in all processes
    n_core_waiting: float  #: tasks that wait for a core, or for the rest of a shared one
    n_asleep: float  #: threads in interruptible waits
    n_blocked: float  #: threads in uninterruptible waits
    n_queued: float  #: items that wait for a thread; 0 if threads always have items
    residence_s: float  #: seconds from the beginning of an item (its arrival, if items arrive) to its end
    residence_p50_s: float
    residence_p95_s: float
    residence_p99_s: float
    throughput_error_per_s: float  #: standard error of throughput_per_s, from batch means
    n_forced_per_s: float  #: hand-overs of the GIL forced by the switch interval, per second
    n_events: int  #: number of events of the whole run, including the warm-up
    digest: int  #: 64-bit hash of the trajectory: equal for equal trajectories


def simulate(scenario: Scenario) -> Simulated:
    """Simulate *scenario*, event by event; slower than the C program, with the same result to the last bit.

    Raises:
        ValueError: the times are too long for a clock of 53 bits.
    """
    from tuner.core.model.simulation.events import run

    return summary(scenario, run(scenario))


def summary(scenario: Scenario, counts: Counts) -> Simulated:
    """Return the figures that follow from *counts*."""
    elapsed_s = counts.elapsed_s
    work = counts.tasks.work_s / elapsed_s
    runnable = counts.tasks.runnable_s / elapsed_s
    blocked = counts.tasks.blocked_s / elapsed_s
    throughput = scenario.n_items / elapsed_s
    full_speed = float(scenario.machine.total_speed(np.array(inf), scenario.process_cores))
    return Simulated(
        throughput_per_s=throughput,
        load=runnable + blocked + scenario.process_cores,
        cpu_cores=work + scenario.process_cores,
        busy_cores=counts.tasks.busy_s / elapsed_s + scenario.process_cores,
        core_utilization_ratio=work / full_speed,
        gil_utilization_ratio=counts.tasks.gil_held_s / (elapsed_s * scenario.layout.processes),
        n_gil_waiting=counts.tasks.gil_waiting_s / elapsed_s,
        n_core_waiting=runnable - work,
        n_asleep=counts.tasks.asleep_s / elapsed_s,
        n_blocked=blocked,
        n_queued=counts.tasks.queued_s / elapsed_s,
        residence_s=counts.residence_sum_s / scenario.n_items,
        residence_p50_s=residence_quantile(scenario, counts, 0.50),
        residence_p95_s=residence_quantile(scenario, counts, 0.95),
        residence_p99_s=residence_quantile(scenario, counts, 0.99),
        throughput_error_per_s=throughput * _relative_error(scenario, counts),
        n_forced_per_s=counts.n_forced / elapsed_s,
        n_events=counts.n_events,
        digest=counts.digest,
    )


def batch_ends(n_items: int) -> tuple[int, ...]:
    """Return how many items are done at the end of each batch."""
    return tuple(n_items * (batch + 1) // N_BATCHES for batch in range(N_BATCHES))


def least_residence_s(scenario: Scenario) -> float:
    """Return the lower end of the buckets of residence times in seconds."""
    return scenario.demands.total_s * _LEAST_RESIDENCE_RATIO


def residence_quantile(scenario: Scenario, counts: Counts, share: float) -> float:
    """Return the residence time in seconds that *share* of the items stay below, to 1 %."""
    edges = list(accumulate(repeat(BUCKET_RATIO, N_BUCKETS), mul, initial=least_residence_s(scenario)))
    rank = max(1, ceil(share * scenario.n_items))
    below = 0
    for bucket, n_in_it in counts.histogram:
        if below + n_in_it >= rank:
            return edges[bucket] + (edges[bucket + 1] - edges[bucket]) * ((rank - below - 0.5) / n_in_it)
        below += n_in_it
    raise ValueError(f"the histogram holds {below} items, not {scenario.n_items}")


def _relative_error(scenario: Scenario, counts: Counts) -> float:
    """Return the standard error of the mean time between items, over that mean."""
    lengths = [end - begin for begin, end in pairwise((0.0, *counts.batch_ends_s))]
    sizes = [end - begin for begin, end in pairwise((0, *batch_ends(scenario.n_items)))]
    apart = [length / size for length, size in zip(lengths, sizes, strict=True)]
    mean = sum(apart) / N_BATCHES
    variance = sum((one - mean) ** 2 for one in apart) / (N_BATCHES - 1)
    return sqrt(variance / N_BATCHES) / mean
