"""The services of bench/model/bound.py: TUNER_THREADS threads with one bottleneck each.

    python bound_worker.py gil|cores|waiting

gil: some 4 ms of Python and 4 ms asleep. cores: a shell that computes for some 60 ms, 0.5 ms of Python.
waiting: 80 ms asleep, 0.5 ms of Python. Only the standard library and tuner's counter are used.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

from tuner.probe import counter

TURNS_PER_MS = (
    20_000  #: of the loop below, about: on a slow core an item takes longer, and nothing else changes
)
SHELL = "i=0; while [ $i -lt 12000 ]; do i=$((i+1)); done"


def burn(ms: float) -> None:
    """Python with the GIL."""
    x = 0
    for turn in range(int(ms * TURNS_PER_MS)):
        x += turn


def gil() -> None:
    burn(8)
    time.sleep(0.004)


def cores() -> None:
    burn(1)
    subprocess.run(["sh", "-c", SHELL], check=True, process_group=0)


def waiting() -> None:
    burn(1)
    time.sleep(0.08)


ITEMS: dict[str, Callable[[], None]] = {"gil": gil, "cores": cores, "waiting": waiting}


def main() -> None:
    item = ITEMS[sys.argv[1]]
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())

    def work() -> None:
        slot = counter.open_counter().slot()
        while not stop.is_set():
            item()
            slot.done()

    threads = [threading.Thread(target=work) for _ in range(int(os.environ["TUNER_THREADS"]))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
