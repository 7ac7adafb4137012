"""A typical numpy service: threads that multiply matrices, and wait after each item.

    python inner_threads_worker.py THREADS

OpenBLAS computes the products, in the number of threads that its variables set.
"""

from __future__ import annotations

import signal
import sys
import threading
import time

import numpy as np

from tuner.probe import counter

SIZE = 384
PRODUCTS = 4  #: of an item
WAITS_S = 0.005


def work(stop: threading.Event) -> None:
    slot = counter.open_counter().slot()
    random = np.random.default_rng(threading.get_ident() % 1000)
    left, right = random.random((SIZE, SIZE)), random.random((SIZE, SIZE))
    while not stop.is_set():
        for _ in range(PRODUCTS):
            left = left @ right
            left /= np.abs(left).max()
        time.sleep(WAITS_S)
        slot.done()


def main() -> None:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    threads = [threading.Thread(target=work, args=(stop,)) for _ in range(int(sys.argv[1]))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
