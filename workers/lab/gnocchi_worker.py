"""Worker that processes batches of eight series without end, in a loop or by a pool; an item is a series.

It is a worker for `tuner grid`. Each process has a separate store: files in a folder, or a redis-server that
it starts and ends. ``--pool made`` makes a pool for each batch, as Gnocchi does; ``kept`` keeps one.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from gnocchi_batch import (  # type: ignore[import-not-found]  # beside this file, as it runs
    N_SERIES,
    SERIES,
    rounds_to_take,
    work,
)
from gnocchi_stores import Store, store_of  # type: ignore[import-not-found]
from steady import run_until_stopped, slots  # type: ignore[import-not-found]


def work_on(store: Store, pool: str, n_threads: int, n_rounds: int, stop: threading.Event) -> None:
    """Process batches until *stop*. Each series has a counter slot, used by one thread at a time."""
    place_of = {f"series{number}": slot for number, slot in enumerate(slots(N_SERIES))}
    for name in place_of:
        store.write(name, SERIES)

    def one(name: str) -> None:
        series = store.read(name)
        work(n_rounds)
        store.write(name, series)
        place_of[name].done()

    with ExitStack() as stack:
        kept = stack.enter_context(ThreadPoolExecutor(n_threads)) if pool == "kept" else None
        while not stop.is_set():
            if pool == "loop":
                for name in place_of:
                    one(name)
            elif kept is not None:
                list(kept.map(one, place_of))
            else:
                with ThreadPoolExecutor(n_threads) as made:
                    list(made.map(one, place_of))


def end(*_: object) -> None:
    """Exit during the start, with cleanup, and ignore further signals."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit()


def main() -> None:
    """Work until SIGTERM."""
    parser = argparse.ArgumentParser(description="Read, work, write, without end.")
    targets = ("local file", "local redis", "remote file", "remote redis")
    parser.add_argument("--target", choices=targets, required=True)
    parser.add_argument("--delay-us", type=float, default=0.0, help="of replies, where the target is remote")
    parser.add_argument("--pool", choices=("loop", "made", "kept"), default="made")
    parser.add_argument("--threads", type=int, default=1, help="of a pool")
    parser.add_argument("--work-us", type=float, default=6.75, help="between reading and writing")
    asked = parser.parse_args()
    n_rounds = rounds_to_take(asked.work_us)
    signal.signal(signal.SIGTERM, end)  # no signal mask, which servers would inherit
    with store_of(asked.target, asked.delay_us) as store:
        run_until_stopped(lambda stopped: work_on(store, asked.pool, asked.threads, n_rounds, stopped))


if __name__ == "__main__":
    main()
