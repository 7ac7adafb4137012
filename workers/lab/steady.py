"""What the workers of this folder have in common: they work until they are told to end, and count each item.

Beside the batches of `tuner lab` each experiment is a worker for `tuner grid`: configs/lab/.
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
    """Do *work* in a thread of its own; its event is set by SIGTERM or SIGINT, and then it has to end.

    It says "working" on standard output. What it raises is raised here, at once.
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
    """So many places to count in; each is for one at a time, whichever thread or coroutine that is."""
    found: list[counter.Slot] = []
    for _ in range(n):
        one = threading.Thread(target=lambda: found.append(counter.open_counter().slot()))
        one.start()
        one.join()
    return found


def in_threads(n: int, item: Callable[[], object], stop: threading.Event) -> None:
    """So many threads, each of which works on item after item.

    What one raises ends them all.
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
