"""Eight series, each read, worked on and written: in a loop, or by a pool of threads.

It works like Gnocchi's ``parallel_map``: one thread is a plain loop, more are a pool that is made for the
batch and ends with it. Batches in the loop and in the pool take turns, for equal conditions on the host. It
prints one JSON object with medians over the batches. Run as a file, by any Python that has redis; it starts
and ends a separate redis-server.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from statistics import median, quantiles

from gnocchi_stores import (  # type: ignore[import-not-found]  # beside this file, as it runs
    Store,
    store_of,
)

N_SERIES = 8
SERIES = bytes(4096)
N_PINGS = 300
N_UNTIMED = 5  #: untimed batches at the start
N_LOOKS = 20_000  #: timings of 2000 rounds each, about a second in all
AT_LEAST = 20  #: least number of timed batches, for any duration


def rounds_to_take(work_us: float) -> int:
    """Return the number of rounds of `work` that take *work_us*, by the least of many short timings."""
    n = 2_000
    best_s = min(_took_s(lambda: work(n)) for _ in range(N_LOOKS))
    return max(1, round(n * 1e-6 * work_us / best_s))


def work(n_rounds: int) -> None:
    """Hold the GIL for *n_rounds* rounds."""
    for _ in range(n_rounds):
        pass


def _took_s(what: Callable[[], object]) -> float:
    begun_s = time.perf_counter()
    what()
    return time.perf_counter() - begun_s


def measure(store: Store, n_threads: int, n_rounds: int, seconds: float) -> dict[str, float]:
    """Time batches, alternately in the loop and in the pool; return the figures."""
    names = [f"series{n}" for n in range(N_SERIES)]
    n_seen = 1

    def one(name: str) -> None:
        series = store.read(name)
        work(n_rounds)
        store.write(name, series)

    def in_the_loop() -> None:
        for name in names:
            one(name)

    def in_the_pool() -> int:
        with ThreadPoolExecutor(max_workers=n_threads) as pool:
            list(pool.map(one, names))
            return threading.active_count() - 1

    for name in names:
        store.write(name, SERIES)
    for _ in range(N_UNTIMED):
        in_the_loop()
        if n_threads > 1:
            n_seen = max(n_seen, in_the_pool())
    trips_s = [_took_s(store.ping) for _ in range(N_PINGS)]
    loop_s: list[float] = []
    busy_s: list[float] = []
    pool_s: list[float] = []
    end_s = time.monotonic() + seconds
    while len(loop_s) < AT_LEAST or time.monotonic() < end_s:
        begun_s = time.thread_time()
        loop_s.append(_took_s(in_the_loop))
        busy_s.append(time.thread_time() - begun_s)
        if n_threads > 1:
            pool_s.append(_took_s(in_the_pool))
    timed_s = pool_s or loop_s
    quarters = quantiles(timed_s, n=4)
    waits_s = [all_s - of_it_s for all_s, of_it_s in zip(loop_s, busy_s, strict=True)]
    return {
        "batch_ms": 1e3 * median(timed_s),
        "low_ms": 1e3 * quarters[0],
        "high_ms": 1e3 * quarters[2],
        "one_ms": 1e3 * median(loop_s),
        "gain": median(loop_s) / median(timed_s),
        "trip_us": 1e6 * median(trips_s),
        "busy_us": 1e6 * median(busy_s) / N_SERIES,
        "wait_us": 1e6 * max(0.0, median(waits_s)) / N_SERIES,
        "work_us": 1e6 * min(_took_s(lambda: work(n_rounds)) for _ in range(1000)),
        "n_threads": float(n_seen),
        "n_batches": float(len(timed_s)),
    }


def main() -> None:
    """Time batches on one store, with a number of threads."""
    parser = argparse.ArgumentParser(description="Read, work, write: a loop, or a pool of threads.")
    targets = ("local file", "local redis", "remote file", "remote redis")
    parser.add_argument("--calibrate", action="store_true", help="only print how many rounds the work is")
    parser.add_argument("--target", choices=targets, default=targets[0])
    parser.add_argument("--delay-us", type=float, default=0.0, help="of replies, where the target is remote")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--work-us", type=float, default=6.75, help="between reading and writing")
    parser.add_argument("--rounds", type=int, help="the same, as --calibrate prints it; goes before it")
    parser.add_argument("--seconds", type=float, default=3.0, help="of timed batches")
    asked = parser.parse_args()
    n_rounds = asked.rounds or rounds_to_take(asked.work_us)
    if asked.calibrate:
        sys.stdout.write(json.dumps({"rounds": n_rounds}) + "\n")
        return
    with store_of(asked.target, asked.delay_us) as store:
        found = measure(store, asked.threads, n_rounds, asked.seconds)
    if asked.target == "local file":
        del found["trip_us"]
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
