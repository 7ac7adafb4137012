"""A user's own worker service whose items only sleep: what it does follows from its threads on any box."""

from __future__ import annotations

_WORKER = """\
import os, signal, threading, time
from tuner.probe import counter

stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
began_s = time.monotonic()
n_threads = int(os.environ["TUNER_THREADS"])


def work():
    slot = counter.open_counter().slot()
    while not stop.is_set():
        time.sleep(ITEM_S)
        slot.done()


threads = [threading.Thread(target=work) for _ in range(n_threads)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def sleeping_worker(item_s: str = "0.02") -> str:
    """The worker's source; *item_s* is Python for an item's seconds: of `n_threads` and `began_s`, say."""
    return _WORKER.replace("ITEM_S", item_s)
