"""Common code of the workers of this folder: work until a signal, and counting of items.

In addition to the batches of `tuner lab`, each experiment is a worker for `tuner grid`: configs/lab/.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

from tuner.probe import counter

_END = {signal.SIGTERM, signal.SIGINT}


def run_until_stopped(work: Callable[[threading.Event], object]) -> None:
    """Run *work* in a separate thread; SIGTERM or SIGINT sets its event, and then it has to return.

    "working" is printed to standard output. An exception of *work* is raised here, at once.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _END)
    result = threading.Event()
    sys.stdout.write("working\n")
    sys.stdout.flush()
    with ThreadPoolExecutor(1) as own:
        working = own.submit(work, result)
        working.add_done_callback(lambda _: os.kill(os.getpid(), signal.SIGTERM))
        signal.sigwait(_END)
        result.set()
    working.result()


def slots(n: int) -> list[counter.Slot]:
    """Return *n* counter slots, each for use by one thread or coroutine at a time."""
    found: list[counter.Slot] = []
    for _ in range(n):
        one = threading.Thread(target=lambda: found.append(counter.open_counter().slot()))
        one.start()
        one.join()
    return found


def in_threads(n: int, item: Callable[[], object], stop: threading.Event) -> None:
    """Run *item* repeatedly in *n* threads until *stop*.

    An exception in one thread ends all of them.
    """

    def work(slot: counter.Slot) -> None:
        while not stop.is_set():
            item()
            slot.done()

    with ThreadPoolExecutor(n) as pool:
        working = [pool.submit(work, slot) for slot in slots(n)]
        wait(working, return_when=FIRST_EXCEPTION)
        stop.set()
    for one in working:
        one.result()
