"""Worker that runs waiting tasks without end, by nornir's threaded runner, plain threads, or coroutines.

It is a worker for `tuner grid`: nornir runs its task on one inventory repeatedly, with a new pool of threads
for each run; plain threads and coroutines run one task after another.
"""

from __future__ import annotations

import argparse
import asyncio
import threading
import time

from nornir_pool import run_of_nornir  # type: ignore[import-not-found]  # beside this file, as it runs
from steady import in_threads, run_until_stopped, slots  # type: ignore[import-not-found]

from tuner.probe import counter


def with_nornir_again(n_hosts: int, wait_s: float, n_workers: int, stop: threading.Event) -> None:
    """Repeat runs until *stop*, which skips the remaining hosts."""
    counts = counter.open_counter()

    def sleep(seconds: float) -> None:
        if not stop.is_set():
            time.sleep(seconds)
            counts.slot().done()

    run = run_of_nornir(n_hosts, wait_s, n_workers, sleep)
    while not stop.is_set():
        n_done, _ = run()
        if n_done != n_hosts:
            raise RuntimeError(f"{n_hosts - n_done} hosts failed")


async def with_asyncio_again(wait_s: float, n_workers: int, stop: threading.Event) -> None:
    """Run tasks in *n_workers* coroutines until *stop*, each with a separate counter slot."""

    async def work(slot: counter.Slot) -> None:
        while not stop.is_set():
            await asyncio.sleep(wait_s)
            slot.done()

    await asyncio.gather(*map(work, slots(n_workers)))


def main() -> None:
    """Work until SIGTERM."""
    parser = argparse.ArgumentParser(description="Tasks that wait, without end.")
    parser.add_argument("--pool", choices=("nornir", "threads", "asyncio"), default="nornir")
    parser.add_argument("--hosts", type=int, default=1000, help="of nornir's inventory")
    parser.add_argument("--wait-s", type=float, required=True)
    parser.add_argument("--workers", type=int, required=True)
    asked = parser.parse_args()

    def work(stop: threading.Event) -> None:
        if asked.pool == "nornir":
            with_nornir_again(asked.hosts, asked.wait_s, asked.workers, stop)
        elif asked.pool == "threads":
            in_threads(asked.workers, lambda: time.sleep(asked.wait_s), stop)
        else:
            asyncio.run(with_asyncio_again(asked.wait_s, asked.workers, stop))

    run_until_stopped(work)


if __name__ == "__main__":
    main()
