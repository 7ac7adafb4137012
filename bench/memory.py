"""Memory measured while processes start and end, compared with that of the same processes while stopped.

    python bench/memory.py                   # main processes of workers that live for 20 to 500 ms
    python bench/memory.py --pid PID ...     # existing processes and their descendants

At random moments, tuner's reader and this program read the memory of all processes in turn. This program
stops them first (SIGSTOP), so that none starts or ends, adds up their PSS, and continues them. The result is
the ratio of the means.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import fmean, stdev

from tuner.adapters.proc.process_tree import ProcessTable
from tuner.adapters.proc.pss import PssReader

LOAD = Path(__file__).resolve().parent.parent / "tests" / "integration" / "sampler" / "load.py"
CASES = {  # MiB of the master, workers at a time, ms that each computes
    "2 workers of 20 ms": "master 60 2 20",
    "8 workers of 100 ms": "master 60 8 100",
    "1 worker of 500 ms": "master 60 1 500",
}
PROC = Path("/proc")


def stopped_tree(roots: Sequence[int]) -> list[int]:
    """Stop all processes below *roots*, so that none of them can start another one."""
    stopped: dict[int, None] = {}
    while True:
        waiting, new = list(roots), []
        while waiting:
            pid = waiting.pop()
            new += [pid] if pid not in stopped else []
            for task in PROC.glob(f"{pid}/task/*/children"):
                with suppress(OSError):
                    waiting += map(int, task.read_text().split())
        if not new:
            return list(stopped)
        for pid in new:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
            while state(pid) not in "TtZX":
                time.sleep(0.0002)
            stopped[pid] = None


def state(pid: int) -> str:
    try:
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def pss_of_stopped(roots: Sequence[int]) -> int:
    """Bytes of the whole tree at one moment."""
    pids = stopped_tree(roots)
    try:
        total_kb = 0
        for pid in pids:
            with suppress(OSError):
                text = (PROC / str(pid) / "smaps_rollup").read_text()
                total_kb += int(text.split("\nPss:", 1)[1].split()[0])
        return total_kb * 1024
    finally:
        for pid in reversed(pids):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def compared(roots: Sequence[int], n_looks: int) -> str:
    draw, reader, table = random.Random(1), PssReader(PROC, platform.machine()), ProcessTable(PROC)
    ours, truth, costs_s, n_missed, n_read = [], [], [], 0, 0
    for _ in range(n_looks):
        time.sleep(draw.uniform(0.05, 0.25))
        began_s = time.thread_time()
        seen = reader.read(lambda: table.trees(roots).members.values())
        costs_s.append(time.thread_time() - began_s)
        assert seen is not None
        ours.append(seen.pss_bytes / 2**20)
        n_missed, n_read = n_missed + seen.n_missed, n_read + seen.n_read
        time.sleep(draw.uniform(0.05, 0.25))
        truth.append(pss_of_stopped(roots) / 2**20)
    off = fmean(ours) / fmean(truth) - 1
    se = (stdev(ours) ** 2 / n_looks + stdev(truth) ** 2 / n_looks) ** 0.5 / fmean(truth)
    return (
        f"{fmean(ours):6.1f} MiB, stopped {fmean(truth):6.1f} MiB: {100 * off:+.1f} %"
        f" (standard error {100 * se:.1f}); {n_missed} of {n_missed + n_read} missed;"
        f" {1000 * fmean(costs_s):.1f} ms of CPU a reading"
    )


@contextmanager
def running(mode: str) -> Iterator[int]:
    with subprocess.Popen([sys.executable, LOAD, *mode.split()], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield process.pid
        finally:
            process.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pid", type=int, nargs="+", default=[])
    parser.add_argument("--looks", type=int, default=60)
    asked = parser.parse_args()
    if asked.pid:
        print(compared(asked.pid, asked.looks))
        return
    for name, mode in CASES.items():
        with running(mode) as pid:
            print(f"{name:<20}", compared([pid], asked.looks), flush=True)


if __name__ == "__main__":
    main()
