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


#: starts so many workers as it is told, ends them when it is ended, and works on nothing itself
_MASTER = """\
import os, signal, sys

workers = []
for _ in range(int(sys.argv[1])):
    worker = os.fork()
    if not worker:
        break
    workers.append(worker)
else:
    signal.sigwait({signal.SIGTERM})
    for worker in workers:
        os.kill(worker, signal.SIGTERM)
    for worker in workers:
        os.waitpid(worker, 0)
    sys.exit()
"""


def sleeping_worker(item_s: str = "0.02") -> str:
    """The worker's source; *item_s* is Python for an item's seconds: of `n_threads` and `began_s`, say."""
    return _WORKER.replace("ITEM_S", item_s)


def sleeping_master() -> str:
    """The source of a program that starts such workers itself, as many as its first argument says."""
    return _MASTER.replace(
        "import os, signal, sys\n",
        "import os, signal, sys\n\nsignal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})\n",
    ) + ("signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})\n" + sleeping_worker())
