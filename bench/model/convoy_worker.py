"""Worker of bench/model/convoy.py: threads that endlessly run Python, a child, and Python.

It answers each line on its standard input with a line of JSON: finished items, CPU of its threads and of its
children, and the time. It ends at the end of its input, so that nothing remains if its parent is killed. Only
the standard library, Python 3.11 or later.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import threading
import time
from typing import Any

from mix_worker import burn

#: how Popen is told to start a child; see `subprocess.Popen._execute_child` for what that leads to
SPAWNS: dict[str, dict[str, Any]] = {
    "own group": {"process_group": 0},  # vfork, as the crash processor does
    "own group, files kept": {"process_group": 0, "close_fds": False},
    "usual": {},  # vfork up to 3.12, posix_spawn from 3.13 on
    "usual, files kept": {"close_fds": False},  # posix_spawn
}


def cpu_s(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--threads", "--python-turns", "--child-turns"):
        parser.add_argument(name, type=int, required=True)
    parser.add_argument("--child", required=True)
    parser.add_argument("--interval-ms", type=float, required=True)
    parser.add_argument("--spawn", choices=SPAWNS, required=True)
    options = parser.parse_args()
    sys.setswitchinterval(options.interval_ms / 1000)
    done = [0] * options.threads
    how: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, **SPAWNS[options.spawn]}

    def work(thread: int) -> None:
        try:
            while True:
                burn(options.python_turns // 2)
                if subprocess.Popen([options.child, str(options.child_turns)], **how).wait():
                    raise ChildProcessError(f"{options.child} failed")
                burn(options.python_turns - options.python_turns // 2)
                done[thread] += 1
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(70)

    for thread in range(options.threads):
        threading.Thread(target=work, args=(thread,), daemon=True).start()
    while sys.stdin.readline():
        data = {
            "n_done": sum(done),
            "own_cpu_s": cpu_s(resource.RUSAGE_SELF),
            "child_cpu_s": cpu_s(resource.RUSAGE_CHILDREN),
            "at_s": time.monotonic(),
        }
        print(json.dumps(data), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
