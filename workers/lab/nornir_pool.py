"""A nornir task that waits, on every host of an inventory, by a pool of threads.

Run as a file, by any Python that has nornir; ``--pool asyncio`` needs only the standard library. It prints
one JSON object: the numbers of finished hosts and of threads, and the duration of the run in seconds.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections.abc import Callable


def with_nornir(n_tasks: int, wait_s: float, n_workers: int) -> tuple[int, int]:
    """Run the task by nornir's threaded runner; return (finished hosts, largest number of threads)."""
    return run_of_nornir(n_tasks, wait_s, n_workers)()


def run_of_nornir(
    n_tasks: int, wait_s: float, n_workers: int, sleep: Callable[[float], object] = time.sleep
) -> Callable[[], tuple[int, int]]:
    """Return a function that runs the task on one inventory, with the result of `with_nornir`."""
    from nornir.core import Nornir
    from nornir.core.inventory import Defaults, Groups, Host, Hosts, Inventory
    from nornir.core.task import Result, Task
    from nornir.plugins.runners import ThreadedRunner

    hosts = Hosts({name: Host(name=name) for name in (f"host{number}" for number in range(n_tasks))})
    inventory = Inventory(hosts=hosts, groups=Groups(), defaults=Defaults())
    nornir = Nornir(inventory=inventory, runner=ThreadedRunner(num_workers=n_workers))

    def run() -> tuple[int, int]:
        most = 0

        def wait(task: Task) -> Result:
            nonlocal most
            most = max(most, threading.active_count() - 1)
            sleep(wait_s)
            return Result(host=task.host)

        done = nornir.run(task=wait)
        return sum(1 for result in done.values() if not result.failed), most

    return run


def with_asyncio(n_tasks: int, wait_s: float, n_workers: int) -> tuple[int, int]:
    """Run the task in *n_tasks* coroutines, of which *n_workers* wait at a time, in one thread."""
    import asyncio

    async def all_of_them() -> int:
        free = asyncio.Semaphore(n_workers)

        async def wait() -> bool:
            async with free:
                await asyncio.sleep(wait_s)
            return True

        return sum(await asyncio.gather(*(wait() for _ in range(n_tasks))))

    return asyncio.run(all_of_them()), 1


POOLS = {"nornir": with_nornir, "asyncio": with_asyncio}


def main() -> None:
    """Run one batch."""
    parser = argparse.ArgumentParser(description="Tasks that wait, on a pool.")
    parser.add_argument("--pool", choices=POOLS, default="nornir")
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--wait-s", type=float, required=True)
    parser.add_argument("--workers", type=int, required=True)
    asked = parser.parse_args()
    begun_s = time.perf_counter()
    n_done, n_threads = POOLS[asked.pool](asked.tasks, asked.wait_s, asked.workers)
    took_s = time.perf_counter() - begun_s
    sys.stdout.write(json.dumps({"n_done": n_done, "n_threads": n_threads, "run_s": took_s}) + "\n")


if __name__ == "__main__":
    main()
