"""Jobs that compute, and jobs that compute and sleep by turns, on four kinds of pools of threads.

Run as a file, by any Python; needs nothing but the standard library. A job computes in steps of a fixed CPU
time, which is measured when the program starts, and sleeps after each step. A heart beats beside them, so
that one sees how late a thread is that has next to nothing to do. It prints one JSON object of numbers.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from statistics import median, quantiles

BEAT_S = 0.005
CALIBRATE_S = 0.005  #: CPU time of a piece of work that is timed
N_TIMED = 7
AT_LEAST_S = 1.0  #: short batches are repeated for so long, and the middle one is told

Sleeps = Sequence[float]  #: after each step of a job, seconds


def in_c(units: int) -> None:
    """Work in C that lets go of the GIL."""
    hashlib.pbkdf2_hmac("sha256", b"password", b"salt", units)


def in_python(units: int) -> None:
    """Work under the GIL."""
    value = 1
    for _ in range(units):
        value = (1103515245 * value + 12345) & 0x7FFFFFFF


WORK = {"C": in_c, "Python": in_python}


class Work:
    """One step of a job, of a CPU time that is measured here, on this thread."""

    def __init__(self, unit: Callable[[int], None], step_s: float) -> None:
        self._unit = unit
        units = 64
        while self._timed(units) < CALIBRATE_S:
            units *= 2
        self.units = max(1, round(units * step_s / min(self._timed(units) for _ in range(N_TIMED))))

    def __call__(self) -> None:
        """Do it."""
        self._unit(self.units)

    def cpu_s(self, n_steps: int) -> float:
        """CPU time of so many steps."""
        return median(self._timed(self.units, n_steps) for _ in range(N_TIMED))

    def _timed(self, units: int, n_times: int = 1) -> float:
        begun_s = time.thread_time()
        for _ in range(n_times):
            self._unit(units)
        return time.thread_time() - begun_s


class Heart:
    """A thread that wants to do next to nothing every BEAT_S, and how late it was each time.

    A beat that is missed counts as well: each is due BEAT_S after the one before it was.
    """

    def __init__(self) -> None:
        self.late_s: list[float] = []
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._beat)

    def __enter__(self) -> Heart:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()

    def _beat(self) -> None:
        due_s = time.perf_counter()
        while not self._ends.is_set():
            due_s += BEAT_S
            time.sleep(max(0.0, due_s - time.perf_counter()))
            self.late_s.append(time.perf_counter() - due_s)


class Batch:
    """Jobs that are run to their end, and what was seen of them."""

    def __init__(self, work: Work, step_s: float, n_cores: int) -> None:
        self.work = work
        self.step_s = step_s  #: CPU time of a step
        self.n_cores = n_cores
        self.n_done = 0
        self.n_threads = 0  #: at most, beside the main one and the heart
        self.cpu_s = 0.0  #: of the threads, of jobs that have one to themselves
        self.waits_s: list[float] = []  #: how much later than it could a step ended, first steps left out
        self._lock = threading.Lock()

    def fixed(self, jobs: Sequence[Sleeps]) -> None:
        """As many threads as cores; each keeps its job to the end, sleeps included."""
        with ThreadPoolExecutor(self.n_cores) as pool:
            list(pool.map(self._job, jobs))

    def own_threads(self, jobs: Sequence[Sleeps]) -> None:
        """One thread per job."""
        self._in_threads(jobs, nullcontext())

    def semaphore(self, jobs: Sequence[Sleeps]) -> None:
        """One thread per job, and as many permits to compute as cores, given back for each sleep."""
        self._in_threads(jobs, threading.Semaphore(self.n_cores))

    def scheduled(self, jobs: Sequence[Sleeps]) -> None:
        """As many threads as cores, which are handed single steps; an event loop keeps the sleeps."""
        asyncio.run(self._scheduled(jobs))

    def _in_threads(self, jobs: Sequence[Sleeps], permit: AbstractContextManager[object]) -> None:
        threads = [threading.Thread(target=self._job, args=(sleeps, permit)) for sleeps in jobs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _job(self, sleeps: Sleeps, permit: AbstractContextManager[object] | None = None) -> None:
        permit = permit or nullcontext()
        self._count_threads()
        cpu_s, waits_s, due_s = time.thread_time(), [], time.perf_counter()
        for sleep_s in sleeps:
            with permit:
                self.work()
            ended_s = time.perf_counter()
            waits_s.append(ended_s - due_s - self.step_s)
            if sleep_s:
                time.sleep(sleep_s)
            due_s = ended_s + sleep_s
        self._done(waits_s, time.thread_time() - cpu_s)

    async def _scheduled(self, jobs: Sequence[Sleeps]) -> None:
        loop = asyncio.get_running_loop()

        def step() -> None:
            self._count_threads()
            self.work()

        async def job(sleeps: Sleeps) -> None:
            waits_s, due_s = [], time.perf_counter()
            for sleep_s in sleeps:
                await loop.run_in_executor(pool, step)
                ended_s = time.perf_counter()
                waits_s.append(ended_s - due_s - self.step_s)
                if sleep_s:
                    await asyncio.sleep(sleep_s)
                due_s = ended_s + sleep_s
            self._done(waits_s, 0.0)

        with ThreadPoolExecutor(self.n_cores) as pool:
            await asyncio.gather(*map(job, jobs))

    def _count_threads(self) -> None:
        self.n_threads = max(self.n_threads, threading.active_count() - 2)

    def _done(self, waits_s: list[float], cpu_s: float) -> None:
        with self._lock:
            self.n_done += 1
            self.cpu_s += cpu_s
            self.waits_s += waits_s[1:]


POOLS = {
    "fixed": Batch.fixed,
    "own threads": Batch.own_threads,
    "semaphore": Batch.semaphore,
    "scheduled": Batch.scheduled,
}


def sleeps_of(number: int, n_steps: int, asleep_s: float, jitter: float) -> list[float]:
    """The sleeps of a job: all alike, or unequal by up to *jitter* of their mean; in all *asleep_s*.

    The same *number* gives the same sleeps.
    """
    rng = random.Random(number)
    drawn = [1 + rng.uniform(-jitter, jitter) for _ in range(n_steps)]
    return [asleep_s * one / sum(drawn) for one in drawn]


def percentile(values: Sequence[float], percent: int) -> float:
    """Of two values or more."""
    return quantiles(values, n=100, method="inclusive")[percent - 1]


def busy_s() -> float:
    """How long the cores that this process may use were not free, added up, hypervisor's theft included."""
    cores = {f"cpu{number}" for number in os.sched_getaffinity(0)}
    ticks = 0
    with open("/proc/stat", encoding="ascii") as stat:
        for line in stat:
            name, *counts = line.split()
            if name in cores:
                user, nice, system, _, _, irq, softirq, steal = map(int, counts[:8])
                ticks += user + nice + system + irq + softirq + steal
    return ticks / os.sysconf("SC_CLK_TCK")


def physical_cores() -> dict[str, int]:
    """How many cores there are where two that share one count once; nothing where the kernel does not say."""
    told = Path("/sys/devices/system/cpu")
    siblings = [told / f"cpu{number}/topology/thread_siblings_list" for number in os.sched_getaffinity(0)]
    if not all(file.is_file() for file in siblings):
        return {}
    return {"n_physical": len({file.read_text(encoding="ascii") for file in siblings})}


def measured(asked: argparse.Namespace) -> dict[str, float]:
    """Run batches of the jobs that were asked for."""
    n_cores = len(os.sched_getaffinity(0))
    n_jobs = 1 if asked.alone else max(1, round(asked.jobs_per_core * n_cores))
    work = Work(WORK[asked.work], asked.cpu_s / asked.steps)
    job_cpu_s = work.cpu_s(asked.steps)
    batch = Batch(work, job_cpu_s / asked.steps, n_cores)
    jobs = [sleeps_of(number, asked.steps, asked.asleep_s, asked.jitter) for number in range(n_jobs)]
    took_s: list[float] = []
    before = (time.perf_counter(), time.process_time(), busy_s())
    with Heart() as heart:
        while sum(took_s) < AT_LEAST_S:
            begun_s = time.perf_counter()
            POOLS[asked.pool](batch, jobs)
            took_s.append(time.perf_counter() - begun_s)
    after = (time.perf_counter(), time.process_time(), busy_s())
    all_s, own_s, any_s = (late - early for early, late in zip(before, after, strict=True))
    if batch.n_done != n_jobs * len(took_s):
        sys.exit(f"{n_jobs * len(took_s) - batch.n_done} jobs were not done")
    batch_s = median(took_s)
    found = {
        "ratio": batch_s / job_cpu_s,
        "batch_s": batch_s,
        "job_cpu_s": job_cpu_s,
        "jobs_per_s": n_jobs / batch_s,
        "n_jobs": n_jobs,
        "n_cores": n_cores,
        **physical_cores(),
        "n_batches": len(took_s),
        "foreign_cores": max(0.0, any_s - own_s) / all_s,
        "n_threads": batch.n_threads,
        "beat_p99_ms": 1e3 * percentile(heart.late_s, 99),
        "beat_max_ms": 1e3 * max(heart.late_s),
    }
    if asked.asleep_s:
        found["wait_p99_ms"] = 1e3 * percentile(batch.waits_s, 99)
    if asked.alone:
        found["fill_core"] = batch_s * len(took_s) / batch.cpu_s
    return found


def main() -> None:
    """Run one kind of batch."""
    parser = argparse.ArgumentParser(description="Jobs that compute and sleep, on a pool.")
    parser.add_argument("--pool", choices=POOLS, required=True)
    parser.add_argument("--work", choices=WORK, required=True)
    parser.add_argument("--cpu-s", type=float, required=True, help="of a job")
    parser.add_argument("--asleep-s", type=float, default=0.0, help="of a job")
    parser.add_argument("--steps", type=int, required=True, help="a job computes, and then sleeps, so often")
    parser.add_argument("--jitter", type=float, default=0.0, help="of sleeps, 0 to 1")
    n_jobs = parser.add_mutually_exclusive_group(required=True)
    n_jobs.add_argument("--jobs-per-core", type=float)
    n_jobs.add_argument("--alone", action="store_true", help="one job, by a thread of its own")
    sys.stdout.write(json.dumps(measured(parser.parse_args())) + "\n")


if __name__ == "__main__":
    main()
