"""Worker of bench/overhead.py: TUNER_THREADS threads that count items and, without ``busy``, sleep."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

from tuner.probe.counter import open_counter

BURN = "import time\nwhile time.process_time() < 0.01: pass"


def main(busy: bool) -> None:
    counter = open_counter()

    def one_thread() -> None:
        slot = counter.slot()
        while True:
            if busy:
                subprocess.run([sys.executable, "-S", "-E", "-c", BURN], check=True)
            else:
                time.sleep(0.05)
            slot.done()

    for _ in range(int(os.environ["TUNER_THREADS"]) - 1):
        threading.Thread(target=one_thread, daemon=True).start()
    one_thread()


if __name__ == "__main__":
    main(sys.argv[1:] == ["busy"])
