"""Jobs that compute, or compute and sleep alternately, on four kinds of thread pools.

Run as a file, by any Python, with the standard library only. A job computes in steps of a number of
units of work, and sleeps after each step. Meanwhile a heartbeat thread measures the
delay of a thread with almost no work. The program prints one JSON object of numbers.
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
CALIBRATE_S = 0.005  #: least CPU time of the piece of work that is timed
N_LOOKS = 200  #: number of timings; the shortest one has the least disturbance
N_TIMED = 5
AT_LEAST_S = 1.0  #: short batches are repeated for this time; the median is reported

Sleeps = Sequence[float]  #: sleep after each step of a job, in seconds


def in_c(units: int) -> None:
    """Compute in C without the GIL."""
    hashlib.pbkdf2_hmac("sha256", b"password", b"salt", units)


def in_python(units: int) -> None:
    """Compute with the GIL."""
    value = 1
    for _ in range(units):
        value = (1103515245 * value + 12345) & 0x7FFFFFFF


WORK = {"C": in_c, "Python": in_python}


class Work:
    """One step of a job: a number of units of work."""

    def __init__(self, unit: Callable[[int], None], units: int) -> None:
        self._unit, self.units = unit, units

    @classmethod
    def that_takes(cls, unit: Callable[[int], None], step_s: float) -> Work:
        """Return a step that takes *step_s* seconds of CPU time, by the least of many timings."""
        work = cls(unit, 64)
        while work._time(work.units) < CALIBRATE_S:
            work.units *= 2
        least_s = min(work._time(work.units) for _ in range(N_LOOKS))
        return cls(unit, max(1, round(work.units * step_s / least_s)))

    def __call__(self) -> None:
        """Compute the step."""
        self._unit(self.units)

    def cpu_s(self, n_steps: int) -> float:
        """Return the CPU seconds of *n_steps* steps, the least of a few timings."""
        return min(self._time(self.units, n_steps) for _ in range(N_TIMED))

    def _time(self, units: int, n_times: int = 1) -> float:
        begun_s = time.thread_time()
        for _ in range(n_times):
            self._unit(units)
        return time.thread_time() - begun_s


class Heart:
    """A thread with almost no work every BEAT_S seconds, and its delay each time.

    Missed beats count as well: each is due BEAT_S after the due time of the previous one.
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
    """Jobs that run to their end, with their measurements."""

    def __init__(self, work: Work, step_s: float, n_cores: int) -> None:
        self.work = work
        self.step_s = step_s  #: CPU time of a step
        self.n_cores = n_cores
        self.n_done = 0
        self.n_threads = 0  #: largest number of threads, without the main thread and the heartbeat
        self.cpu_s = 0.0  #: CPU time of the threads, if each job has a separate thread
        #: delay of each step's end over the earliest possible end, without first steps
        self.waits_s: list[float] = []
        self._lock = threading.Lock()

    def fixed(self, jobs: Sequence[Sleeps]) -> None:
        """Run the jobs in as many threads as cores; each runs a job to its end, sleeps included."""
        with ThreadPoolExecutor(self.n_cores) as pool:
            list(pool.map(self._job, jobs))

    def own_threads(self, jobs: Sequence[Sleeps]) -> None:
        """Run the jobs in one thread per job."""
        self._in_threads(jobs, nullcontext())

    def semaphore(self, jobs: Sequence[Sleeps]) -> None:
        """Run one thread per job, with as many permits to compute as cores, released for each sleep."""
        self._in_threads(jobs, threading.Semaphore(self.n_cores))

    def scheduled(self, jobs: Sequence[Sleeps]) -> None:
        """Run single steps in as many threads as cores; an event loop does the sleeps."""
        asyncio.run(self._run_steps(jobs))

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
        self._count(waits_s, time.thread_time() - cpu_s)

    async def _run_steps(self, jobs: Sequence[Sleeps]) -> None:
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
            self._count(waits_s, 0.0)

        with ThreadPoolExecutor(self.n_cores) as pool:
            await asyncio.gather(*map(job, jobs))

    def _count_threads(self) -> None:
        self.n_threads = max(self.n_threads, threading.active_count() - 2)

    def _count(self, waits_s: list[float], cpu_s: float) -> None:
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
    """Return the sleeps of a job, which differ by up to *jitter* of their mean; their sum is *asleep_s*.

    The same *number* results in the same sleeps.
    """
    rng = random.Random(number)
    drawn = [1 + rng.uniform(-jitter, jitter) for _ in range(n_steps)]
    return [asleep_s * one / sum(drawn) for one in drawn]


def percentile(values: Sequence[float], percent: int) -> float:
    """Return a percentile of two or more values."""
    return quantiles(values, n=100, method="inclusive")[percent - 1]


def physical_cores() -> dict[str, int]:
    """Return the number of physical cores as ``n_physical``; empty if the kernel does not report it."""
    result = Path("/sys/devices/system/cpu")
    siblings = [result / f"cpu{number}/topology/thread_siblings_list" for number in os.sched_getaffinity(0)]
    if not all(file.is_file() for file in siblings):
        return {}
    return {"n_physical": len({file.read_text(encoding="ascii") for file in siblings})}


def calibrated(asked: argparse.Namespace) -> dict[str, float]:
    """Return the number of units per step, by kind of work."""
    step_s = asked.cpu_s / asked.steps
    return {f"{name}_units": Work.that_takes(unit, step_s).units for name, unit in WORK.items()}


def measured(asked: argparse.Namespace) -> dict[str, float]:
    """Run batches of the requested jobs; return the figures."""
    n_cores = asked.cores or len(os.sched_getaffinity(0))
    n_jobs = 1 if asked.alone else max(1, round(asked.jobs_per_core * n_cores))
    unit, step_s = WORK[asked.work], asked.cpu_s / asked.steps
    work = Work(unit, asked.units) if asked.units else Work.that_takes(unit, step_s)
    job_cpu_s = work.cpu_s(asked.steps)
    batch = Batch(work, job_cpu_s / asked.steps, n_cores)
    jobs = [sleeps_of(number, asked.steps, asked.asleep_s, asked.jitter) for number in range(n_jobs)]
    took_s: list[float] = []
    with Heart() as heart:
        while sum(took_s) < AT_LEAST_S:
            begun_s = time.perf_counter()
            POOLS[asked.pool](batch, jobs)
            took_s.append(time.perf_counter() - begun_s)
    if batch.n_done != n_jobs * len(took_s):
        sys.exit(f"{n_jobs * len(took_s) - batch.n_done} jobs were not done")
    batch_s = median(took_s)
    found = {
        "ratio": batch_s / asked.cpu_s,
        "batch_s": batch_s,
        "job_cpu_s": min(job_cpu_s, work.cpu_s(asked.steps)),
        "jobs_per_s": n_jobs / batch_s,
        "n_jobs": n_jobs,
        "n_cores": n_cores,
        **physical_cores(),
        "n_batches": len(took_s),
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
    parser.add_argument("--calibrate", action="store_true", help="only print how many units steps are")
    parser.add_argument("--pool", choices=POOLS, default="own threads")
    parser.add_argument("--work", choices=WORK, default="C")
    parser.add_argument("--units", type=int, help="of work in a step, as --calibrate prints them")
    parser.add_argument("--cores", type=int, help="that may be used; default: by affinity")
    parser.add_argument("--cpu-s", type=float, required=True, help="of a job")
    parser.add_argument("--asleep-s", type=float, default=0.0, help="of a job")
    parser.add_argument("--steps", type=int, required=True, help="a job computes, and then sleeps, so often")
    parser.add_argument("--jitter", type=float, default=0.0, help="of sleeps, 0 to 1")
    n_jobs = parser.add_mutually_exclusive_group()
    n_jobs.add_argument("--jobs-per-core", type=float, default=1.0)
    n_jobs.add_argument("--alone", action="store_true", help="one job, by a thread of its own")
    asked = parser.parse_args()
    sys.stdout.write(json.dumps(calibrated(asked) if asked.calibrate else measured(asked)) + "\n")


if __name__ == "__main__":
    main()
