"""Worker that runs jobs without end, which compute and sleep alternately, on four kinds of pools.

It is a worker for `tuner grid`. The processes of a layout (TUNER_PROCESSES) share the cores: pools that limit
the computing threads to the cores use the process's part of them.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext

from pi_pools import (  # type: ignore[import-not-found]  # beside this file, as it runs
    WORK,
    Sleeps,
    Work,
    sleeps_of,
)
from steady import in_threads, run_until_stopped, slots  # type: ignore[import-not-found]

from tuner.probe import counter


class Jobs:
    """Repeated jobs, *n* at a time, until a stop."""

    def __init__(
        self, work: Work, next_sleeps: Callable[[], Sleeps], n: int, n_cores: int, stop: threading.Event
    ) -> None:
        self._work, self._next_sleeps, self._n, self._n_cores, self._told = (
            work,
            next_sleeps,
            n,
            n_cores,
            stop,
        )

    def fixed(self) -> None:
        """Run one job after another in *n* threads."""
        in_threads(self._n, lambda: self._job(nullcontext()), self._told)

    def semaphore(self) -> None:
        """Run like `fixed`, with as many permits to compute as cores, released for each sleep."""
        permit = threading.Semaphore(self._n_cores)
        in_threads(self._n, lambda: self._job(permit), self._told)

    def own_threads(self) -> None:
        """Run each job in a new thread, which starts the thread of the next job at its end."""
        errors: list[BaseException] = []
        ended = threading.Semaphore(0)

        def job(slot: counter.Slot) -> None:
            try:
                self._job(nullcontext())
                slot.done()
                if not self._told.is_set():
                    threading.Thread(target=job, args=(slot,)).start()
                    return
            except BaseException as error:  # the main thread raises it
                errors.append(error)
                self._told.set()
            ended.release()

        for slot in slots(self._n):
            threading.Thread(target=job, args=(slot,)).start()
        for _ in range(self._n):
            ended.acquire()
        for error in errors:
            raise error

    def scheduled(self) -> None:
        """Run single steps in as many threads as cores; an event loop does the sleeps."""
        asyncio.run(self._run_steps())

    def _job(self, permit: AbstractContextManager[object]) -> None:
        for sleep_s in self._next_sleeps():
            with permit:
                self._work()
            if sleep_s:
                time.sleep(sleep_s)

    async def _run_steps(self) -> None:
        loop = asyncio.get_running_loop()

        async def jobs(slot: counter.Slot) -> None:
            while not self._told.is_set():
                for sleep_s in self._next_sleeps():
                    await loop.run_in_executor(pool, self._work)
                    if sleep_s:
                        await asyncio.sleep(sleep_s)
                slot.done()

        with ThreadPoolExecutor(self._n_cores) as pool:
            await asyncio.gather(*map(jobs, slots(self._n)))


POOLS = {
    "fixed": Jobs.fixed,
    "own-threads": Jobs.own_threads,
    "semaphore": Jobs.semaphore,
    "scheduled": Jobs.scheduled,
}


def main() -> None:
    """Work until SIGTERM."""
    parser = argparse.ArgumentParser(description="Jobs that compute and sleep, without end.")
    parser.add_argument("--pool", choices=POOLS, default="fixed")
    parser.add_argument("--work", choices=WORK, default="C")
    parser.add_argument("--cpu-s", type=float, required=True, help="of a job")
    parser.add_argument("--asleep-s", type=float, default=0.0, help="of a job")
    parser.add_argument("--steps", type=int, required=True, help="a job computes, and then sleeps, so often")
    parser.add_argument("--jitter", type=float, default=0.0, help="of sleeps, 0 to 1")
    parser.add_argument("--jobs", type=int, required=True, help="at a time")
    asked = parser.parse_args()
    n_cores = max(1, len(os.sched_getaffinity(0)) // int(os.environ.get("TUNER_PROCESSES", "1")))
    work = Work.that_takes(WORK[asked.work], asked.cpu_s / asked.steps)
    numbers = itertools.count()

    def next_sleeps() -> Sleeps:
        return sleeps_of(next(numbers), asked.steps, asked.asleep_s, asked.jitter)

    pool = POOLS[asked.pool]
    run_until_stopped(lambda stopped: pool(Jobs(work, next_sleeps, asked.jobs, n_cores, stopped)))


if __name__ == "__main__":
    main()
