"""Pools: batches of waiting tasks and of computing jobs, and the fit of their costs.

A batch has an end, so its result is a total time, not a throughput. There are two kinds, because both are
published with figures (`docs/method/published.md`): thread pools of an interpreter with a GIL whose tasks
only wait, and pools of threads without a GIL whose jobs compute and sleep in turns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from math import ceil, inf
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from tuner.core.domain.layout import Layout
from tuner.core.model.demand import Demands
from tuner.core.model.machine import Machine
from tuner.core.model.network import predict

#: rule for the waiting thread that gets the GIL next
Turn = Literal["first come", "returning first", "handing in first"]


@dataclass(frozen=True, slots=True)
class PoolCosts:
    """Costs of a thread pool of waiting tasks, in addition to the waiting, in seconds, each 0 or more."""

    start_s: float  #: "t0": time until the first task is submitted, and after the last has returned
    task_s: float  #: "e": GIL time per task: half for its submission, half when its wait has ended
    thread_s: float  #: "k": GIL to start one thread
    wake_s: float = 0.0  #: "d": delay of the end of a wait, without the GIL

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if not 0 <= value < inf:
                raise ValueError(f"{name} should be 0 or more, got {value!r}")


@dataclass(frozen=True, slots=True)
class PoolRun:
    """Result of one batch."""

    total_s: float  #: time from start to end, including start_s
    n_threads: int  #: number of threads that were started
    gil_s: float  #: part of total_s for which the GIL was held


def run_waiting_pool(
    n_tasks: int, wait_s: float, n_workers: int, costs: PoolCosts, turn: Turn = "first come"
) -> PoolRun:
    """Run *n_tasks* that wait for *wait_s* each on a pool of at most *n_workers* threads, event by event.

    One thread submits all tasks, as fast as it gets the GIL. It starts a thread for a task if none is idle
    and fewer than *n_workers* exist (as concurrent.futures does since Python 3.8), else the task waits in the
    pool's queue. A thread whose wait is over requests the GIL, and takes the next task from the queue. The
    GIL serves one at a time; *turn* sets which, if both request it. Nothing is random, and all waits are
    equally long, so they end in the order of their start: a batch of 10 000 takes milliseconds to compute.

    Raises:
        ValueError: no tasks, no workers, or a wait below 0.
    """
    if min(n_tasks, n_workers) < 1 or not 0 <= wait_s < inf:
        raise ValueError(
            f"a pool needs tasks, workers and a wait, got {n_tasks!r}, {n_workers!r}, {wait_s!r}"
        )
    half_s, away_s = costs.task_s / 2, wait_s + costs.wake_s
    thread_s, first_come, returning_first = costs.thread_s, turn == "first come", turn == "returning first"
    free_at = asked_at = 0.0  # when the GIL is free; since when the submitting thread requests it
    n_in = n_back = n_idle = n_threads = n_queued = 0
    back: list[float] = []  # when the waits end, in order
    for _ in range(2 * n_tasks):  # each is submitted, and returns; few calls, because fits run this often
        back_at = back[n_back] if n_back < n_in - n_queued else inf
        if first_come:
            hands_in = asked_at <= back_at
        elif returning_first:
            hands_in = back_at > free_at
        else:
            hands_in = True  # it requests the GIL again as soon as it has released it
        if hands_in and n_in < n_tasks:
            n_in += 1
            free_at += half_s
            if n_idle:
                n_idle -= 1
                back.append(free_at + away_s)
            elif n_threads < n_workers:
                n_threads += 1
                free_at += thread_s
                back.append(free_at + away_s)
            else:
                n_queued += 1
            asked_at = free_at
        else:
            n_back += 1
            if back_at > free_at:
                free_at = back_at
            free_at += half_s
            if n_queued:
                n_queued -= 1
                back.append(free_at + away_s)
            else:
                n_idle += 1
    held_s = n_tasks * costs.task_s + n_threads * costs.thread_s
    return PoolRun(costs.start_s + free_at, n_threads, held_s)


def waiting_pool_bound_s(n_tasks: int, wait_s: float, n_workers: int, costs: PoolCosts) -> float:
    """Return a lower bound of the seconds of such a batch; it is low if two terms are nearly equal.

    - Some thread serves ceil(tasks / workers) tasks, one after the other.
    - All tasks are submitted one after the other; the last one waits, and returns.
    - The GIL serves every task twice, and starts the threads: one per task until the first returns.
    """
    half_s, away_s = costs.task_s / 2, wait_s + costs.wake_s
    n_before_any_is_back = n_tasks
    if n_tasks * (half_s + costs.thread_s) > away_s:
        n_before_any_is_back = min(n_tasks, 1 + int(away_s / (half_s + costs.thread_s)))
    handing_in_s = n_tasks * half_s + min(n_workers, n_before_any_is_back) * costs.thread_s
    return costs.start_s + max(
        half_s + costs.thread_s + ceil(n_tasks / n_workers) * (away_s + half_s),
        handing_in_s + away_s + half_s,
        handing_in_s + n_tasks * half_s,
    )


@dataclass(frozen=True, slots=True)
class PoolJob:
    """A job that computes and sleeps in turns."""

    cpu_s: float  #: CPU time on a core without contention, in all turns together
    asleep_s: float  #: time of all its sleeps
    n_turns: int = 1  #: number of turns, each of which computes and then sleeps

    @property
    def alone_s(self) -> float:
        """Return the duration in seconds without contention."""
        return self.cpu_s + self.asleep_s

    @property
    def utilization(self) -> float:
        """Return the share of a core that the job uses while it runs alone, 0 to 1."""
        return self.cpu_s / self.alone_s


def own_threads_s(n_jobs: int, job: PoolJob, machine: Machine) -> float:
    """Return the mean seconds of a job if all run at once, one thread each and out of step, without a GIL.

    All runnable jobs share the cores equally; in the network's steady state every job is at a different place
    in its cycle. `in_step_s` is the time if all are at the same place.
    """
    demands = Demands(gil_s=0.0, python_s=job.cpu_s, asleep_s=job.asleep_s)
    return float(predict(demands, machine, [Layout(1, n_jobs)]).residence_s[0])


def in_step_s(n_jobs: int, job: PoolJob, machine: Machine) -> float:
    """Return the seconds of a job if all run at once, one thread each and in step: the worst case of sharing.

    Jobs that began together share the cores until all have finished their turn, at about the same moment.
    Then all sleep, and the cores are idle. No computing overlaps with the sleep of other jobs.
    """
    return job.asleep_s + n_jobs * job.cpu_s / _speed(n_jobs, machine)


def by_turns_s(n_jobs: int, job: PoolJob, machine: Machine) -> float:
    """Return the seconds of a job if at most `cores` jobs compute, each to the end of its turn.

    That is a semaphore released around each sleep, or a scheduled pool of `cores` threads. Turns in sequence
    bring jobs out of step, so that some compute while the rest sleep: the result is the time of the cores'
    work or of a single job, whichever is longer.
    """
    return max(in_step_s(1, job, machine), n_jobs * job.cpu_s / _speed(n_jobs, machine))


def fixed_pool_s(n_jobs: int, job: PoolJob, machine: Machine, n_threads: int) -> float:
    """Return the seconds of a fixed pool whose threads keep a job to its end, sleeps included.

    Jobs run wave after wave; the last wave has the jobs that are left.
    """
    n_full, n_left = divmod(n_jobs, n_threads)
    full_s = n_full * own_threads_s(n_threads, job, machine) if n_full else 0.0
    return full_s + (own_threads_s(n_left, job, machine) if n_left else 0.0)


def threads_to_fill(cores: float, utilization: float) -> float:
    """Return how many threads, each busy for *utilization* (0 to 1) of its time, keep *cores* busy.

    Raises:
        ValueError: *utilization* is not above 0 and at most 1.
    """
    if not 0 < utilization <= 1:
        raise ValueError(f"utilization should be above 0 and at most 1, got {utilization!r}")
    return cores / utilization


def _speed(n_runnable: int, machine: Machine) -> float:
    return float(machine.total_speed(np.array(float(n_runnable))))


# The costs of a pool of waiting tasks, estimated from the durations of some batches.


Array = NDArray[np.float64]

GUESS = PoolCosts(0.3, 60e-6, 100e-6, 2e-3)  #: starting point of the fits
MOST = PoolCosts(1.5, 1e-3, 1e-3, 1e-2)  #: bounds of the fits
FREE = ("start_s", "task_s", "thread_s", "wake_s")  #: costs that are fitted by default
NEAR = 0.03  #: logarithm of an error up to which it is squared
STEP = 3e-3  #: relative step of finite differences
N_STARTS = 7


@dataclass(frozen=True, slots=True)
class WaitingBatch:
    """A batch of waiting tasks, and its measured duration."""

    n_tasks: int
    wait_s: float  #: seconds that each task waits
    n_workers: int  #: largest number of threads
    total_s: float


#: (batch, costs, lot) -> seconds; *lot* tasks, and as many workers, are treated as one
TotalS = Callable[[WaitingBatch, PoolCosts, int], float]


def batch_s(batch: WaitingBatch, costs: PoolCosts, lot: int = 1, turn: Turn = "first come") -> float:
    """Return the seconds of *batch* by `run_waiting_pool`, with *lot* tasks, and as many workers, as one."""
    costs = replace(costs, task_s=lot * costs.task_s, thread_s=lot * costs.thread_s)
    n_tasks, n_workers = max(1, batch.n_tasks // lot), max(1, batch.n_workers // lot)
    return run_waiting_pool(n_tasks, batch.wait_s, n_workers, costs, turn).total_s


def fit_pool_costs(
    batches: Sequence[WaitingBatch], total_s: TotalS = batch_s, free: Sequence[str] = FREE
) -> PoolCosts:
    """Fit the costs with which *total_s* is closest to *batches*; costs that are not *free* are 0.

    Errors are logarithms, squared up to NEAR and absolute beyond: single runs have outliers. Sums have kinks
    where a wave begins or ends, so the fit has several starts. For speed these count ten tasks, and ten
    workers, as one; the best of them is refined exactly. The same batches give the same costs.
    """
    guess = np.array([getattr(GUESS, name) / getattr(MOST, name) for name in free])
    noise = np.random.default_rng(1)
    starts = [guess, *(guess * np.exp(noise.uniform(-1, 1, len(guess))) for _ in range(N_STARTS - 1))]
    lots = [_search(batches, total_s, free, np.clip(start, 0.0, 1.0), lot=10, most=30) for start in starts]
    best = min(lots, key=lambda one: float(one.cost))
    exact = _search(batches, total_s, free, best.x, lot=1, most=6)
    return costs_of(free, exact.x)


def residuals(
    batches: Sequence[WaitingBatch], total_s: TotalS, free: Sequence[str], shares: Array, lot: int = 1
) -> Array:
    """Return logarithms of modelled over measured time, with costs given as *shares* of MOST."""
    costs = costs_of(free, shares)
    found: Array = np.log([total_s(batch, costs, lot) / batch.total_s for batch in batches])
    return found


def costs_of(free: Sequence[str], shares: Array) -> PoolCosts:
    """Return the costs given as *shares* of MOST, 0 to 1."""
    value = {name: float(share) * getattr(MOST, name) for name, share in zip(free, shares, strict=True)}
    return PoolCosts(**{field.name: value.get(field.name, 0.0) for field in fields(PoolCosts)})


def cpu_line(runs: Sequence[PoolRun], cpu_s: Sequence[float]) -> tuple[float, float]:
    """Fit CPU seconds by a constant and a part per started thread, by least squares; return both."""
    design = np.array([[1.0, run.n_threads] for run in runs])
    found = np.linalg.lstsq(design, np.array(cpu_s))[0]
    return float(found[0]), float(found[1])


def _search(
    batches: Sequence[WaitingBatch], total_s: TotalS, free: Sequence[str], start: Array, lot: int, most: int
) -> Any:
    return least_squares(
        lambda at: residuals(batches, total_s, free, at, lot),
        np.clip(start, 1e-9, 1 - 1e-9),
        bounds=(0, 1),
        loss="soft_l1",
        f_scale=NEAR,
        diff_step=STEP,
        x_scale=np.maximum(start, 0.01),
        ftol=1e-4,
        xtol=1e-4,
        max_nfev=most,
    )
