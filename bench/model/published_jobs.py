"""The facts of pi_pools_2023 (JVM jobs that compute and sleep, 12 cores), by the network and by simulation.

There are two hosts: one of 12 full cores, and one of 6 cores with two threads each, where a gain of 25 %
makes 4.8 s with 12 jobs out of 3 s alone, as published. Neither reproduces all facts.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

import numpy as np

from tuner.core.domain.layout import Layout
from tuner.core.model.demand import Demands
from tuner.core.model.machine import Machine
from tuner.core.model.network import predict
from tuner.core.model.pools import (
    PoolJob,
    by_turns_s,
    fixed_pool_s,
    in_step_s,
    own_threads_s,
    threads_to_fill,
)
from tuner.core.model.simulation.scenario import Scenario, simulate

Verdict = Literal["yes", "in part", "no", "put in"]  #: whether it is reproduced; or what the model was given
Kind = Literal["own threads", "semaphore", "scheduled", "fixed"]

CORES = 12
JOB = PoolJob(cpu_s=3.0, asleep_s=52.0, n_turns=104)  # 104 sleeps of 500 ms: 55 s, 18 to 1
PLAIN = PoolJob(cpu_s=3.0, asleep_s=0.0)  # the same without sleeps
FULL = Machine(cores=CORES, has_gil=False)
SMT = Machine(cores=CORES, physical_cores=6, smt_gain_ratio=0.25, has_gil=False)
N_JOBS = (12, 60, 120, 144, 180, 240, 300)
JITTER = 0.1  #: standard deviation of turns and sleeps over their means
FLAT_RATIO = 1.10  #: a time up to so much over that of 12 jobs still is flat
THREAD_START_S = 1e-4


@dataclass(frozen=True)
class Run:
    """One batch, to its last job, seconds."""

    n_jobs: int
    own_threads_s: float  #: network, out of step
    own_threads_simulated_s: float  #: the same by tuner's simulation, in steady state
    in_step_s: float  #: nobody out of step
    own_threads_in_step_events_s: float  #: events without jitter
    own_threads_events_s: float  #: with jitter
    semaphore_s: float  #: events, with jitter
    scheduled_s: float
    by_turns_s: float  #: closed form
    told_s: float  #: max(55, jobs x 3 / 12)
    fixed_s: float  #: closed form
    fixed_events_s: float


@dataclass(frozen=True)
class Fact:
    told: str
    model: str
    verdict: Verdict


def run_jobs(
    kind: Kind, n_jobs: int, job: PoolJob, machine: Machine, jitter: float = 0.0, seed: int = 1
) -> float:
    """Event by event, the time of the last job.

    "own threads": whoever is runnable shares the cores. "semaphore" and "scheduled": CORES run to the end of
    their turn, others stand in line, first come first served; the scheduled pool starts no thread per job.
    "fixed": CORES threads, each with its job to the end.
    """
    rng = random.Random(seed)
    cores = int(machine.cores)
    n_running = np.arange(n_jobs + 1.0)
    speed = (machine.total_speed(n_running) / np.maximum(n_running, 1)).tolist()  # of each of them
    turn_s, sleep_s = job.cpu_s / job.n_turns, job.asleep_s / job.n_turns
    start_s = 0.0 if kind == "scheduled" else THREAD_START_S

    def drawn(mean_s: float) -> float:
        return mean_s * rng.gammavariate(jitter**-2, jitter**2) if jitter else mean_s

    now_s = work_s = 0.0  # work_s: how much each of those who run has been given since the start
    running: list[tuple[float, int]] = []  # when work_s gets there, the job's turn is over
    line: deque[int] = deque()
    turns_left = [job.n_turns] * n_jobs
    not_begun = deque(range(n_jobs))
    n_first = min(cores, n_jobs) if kind == "fixed" else n_jobs
    waking = [(number * start_s, not_begun.popleft()) for number in range(n_first)]
    n_done = 0
    while n_done < n_jobs:
        each = speed[len(running)]
        ends_s = now_s + (running[0][0] - work_s) / each if running else math.inf
        if waking and waking[0][0] < ends_s:
            at_s, number = heapq.heappop(waking)
            work_s += (at_s - now_s) * each
            now_s = at_s
            if not turns_left[number]:
                n_done += 1
                if not_begun:
                    heapq.heappush(waking, (now_s, not_begun.popleft()))
            elif kind in ("semaphore", "scheduled") and len(running) >= cores:
                line.append(number)
            else:
                heapq.heappush(running, (work_s + drawn(turn_s), number))
            continue
        now_s = ends_s
        work_s, number = heapq.heappop(running)
        turns_left[number] -= 1
        heapq.heappush(waking, (now_s + drawn(sleep_s), number))
        if line:
            heapq.heappush(running, (work_s + drawn(turn_s), line.popleft()))
    return now_s


def in_steady_state_s(n_jobs: int, job: PoolJob, machine: Machine) -> float:
    """The mean time of a job with a thread per job, by `simulate`; an item is one turn and its sleep."""
    demands = Demands(
        gil_s=0.0,
        python_s=job.cpu_s / job.n_turns,
        asleep_s=job.asleep_s / job.n_turns,
        cv_ratio=JITTER,
    )
    scenario = Scenario(Layout(1, n_jobs), demands, machine, n_items=60 * n_jobs, n_warm_items=20 * n_jobs)
    return job.n_turns * simulate(scenario).residence_s


def runs(machine: Machine, n_jobs: Sequence[int] = N_JOBS, n_seeds: int = 2) -> list[Run]:
    def events(kind: Kind, n: int) -> float:
        return fmean(run_jobs(kind, n, JOB, machine, JITTER, seed) for seed in range(1, n_seeds + 1))

    return [
        Run(
            n_jobs=n,
            own_threads_s=own_threads_s(n, JOB, machine),
            own_threads_simulated_s=in_steady_state_s(n, JOB, machine),
            in_step_s=in_step_s(n, JOB, machine),
            own_threads_in_step_events_s=run_jobs("own threads", n, JOB, machine),
            own_threads_events_s=events("own threads", n),
            semaphore_s=events("semaphore", n),
            scheduled_s=events("scheduled", n),
            by_turns_s=by_turns_s(n, JOB, machine),
            told_s=max(55.0, n * 3 / 12),
            fixed_s=fixed_pool_s(n, JOB, machine, CORES),
            fixed_events_s=run_jobs("fixed", n, JOB, machine),
        )
        for n in n_jobs
    ]


def flat_until(found: Sequence[Run], field: str) -> int:
    """Up to how many jobs the time is flat."""
    first = getattr(found[0], field)
    flat = 0
    for run in found:
        if getattr(run, field) > FLAT_RATIO * first:
            break
        flat = run.n_jobs
    return flat


def facts(full: Sequence[Run], smt: Sequence[Run]) -> list[Fact]:
    plain = Demands(gil_s=0.0, python_s=PLAIN.cpu_s)
    alone, twelve, more = predict(plain, SMT, [Layout(1, n) for n in (1, 12, 48)]).residence_s.tolist()
    per_job = [run.fixed_events_s / (run.n_jobs / CORES) for run in full]
    knees = [flat_until(found, "own_threads_events_s") / CORES for found in (full, smt)]
    off_full = max(abs(run.semaphore_s / run.told_s - 1) for run in full)
    off_smt = max(abs(run.semaphore_s / run.told_s - 1) for run in smt)
    alike = max(abs(run.scheduled_s / run.semaphore_s - 1) for run in [*full, *smt])
    saved = max(run.own_threads_in_step_events_s / run.semaphore_s for run in full)
    apart = max(run.own_threads_events_s / run.semaphore_s for run in [*full, *smt])
    filled = threads_to_fill(CORES, 0.054)
    return [
        Fact(
            "a job without sleeps takes 3 s alone, 4.8 s when 12 run on 12 cores",
            f"{alone:.1f} s and {twelve:.1f} s on 6 cores x 2 whose gain is set to 25 % for that",
            "put in",
        ),
        Fact(
            "more threads than cores never help it",
            f"48 threads do {48 / more / (12 / twelve):.3f} of what 12 do",
            yes_if(48 / more <= 12 / twelve * 1.001),
        ),
        Fact(
            "with sleeps it takes 55 s, 18 to 1",
            f"{JOB.alone_s:.0f} s, {JOB.alone_s / JOB.cpu_s:.1f}",
            "put in",
        ),
        Fact(
            "a fixed pool of 12 grows linearly with the jobs",
            f"events: {min(per_job):.1f} to {max(per_job):.1f} s for each 12 jobs",
            yes_if(max(per_job) <= 1.02 * min(per_job)),
        ),
        Fact(
            "one thread per job stays flat to about 10 x 12 jobs, then rises",
            f"events, {100 * JITTER:.0f} % jitter: flat to {knees[0]:.0f} x 12 on full cores, "
            f"{knees[1]:.0f} x 12 on 6 x 2",
            yes_if(
                8 <= knees[1] <= 12 and full[-1].own_threads_events_s > 1.3 * full[0].own_threads_events_s
            ),
        ),
        Fact(
            "... through thread starvation, which a semaphore of 12 permits mends",
            f"only where jobs stay in step: there it takes up to {saved:.2f} x the semaphore's time, "
            f"out of step up to {apart:.2f} x; a cost of switching is not in the model",
            "in part" if saved > 1.2 else "no",
        ),
        Fact(
            "the semaphore follows max(55, jobs x 3 / 12)",
            f"events: within {100 * off_full:.1f} % on full cores, {100 * off_smt:.0f} % off on 6 x 2, "
            "which follow jobs x 4.8 / 12",
            "in part" if off_full <= 0.05 else "no",
        ),
        Fact(
            "a scheduled pool of 12 does as well as the semaphore",
            f"events: within {100 * alike:.1f} %",
            yes_if(alike <= 0.02),
        ),
        Fact(
            "threads = cores / utilization = 222",
            f"12 / 0.054 = {filled:.0f}; from 3 s of 55 s: {threads_to_fill(CORES, JOB.utilization):.0f}",
            yes_if(round(filled) == 222),
        ),
    ]


def yes_if(holds: bool) -> Verdict:
    return "yes" if holds else "no"


def as_json(found: Sequence[Run]) -> list[dict[str, Any]]:
    return [{name: getattr(run, name) for name in run.__dataclass_fields__} for run in found]
