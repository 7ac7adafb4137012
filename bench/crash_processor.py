"""Cost of the crash processor in addition to its work: claims per second, start-up, and the parts of an item.

python bench/crash_processor.py [--seconds 3] [--processes 24]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

from tuner_workers.crash_processor.fill import enqueue_files
from tuner_workers.crash_processor.sources.fs import FileSystemCrashSource
from tuner_workers.crash_processor.spool import make_spool

COMMAND = [sys.executable, "-m", "tuner_workers.crash_processor"]
LAYOUTS = ((1, 1), (1, 4), (2, 2), (4, 1))


def _claim(root: Path, until_s: float, counts: multiprocessing.SimpleQueue[int]) -> None:
    source = FileSystemCrashSource(root, endless=True)
    n = 0
    while time.monotonic() < until_s:
        taken = source.new_crashes()
        if taken is not None and source.ack(taken[1]):
            n += 1
    source.close()
    counts.put(n)


def claims_per_s(n_processes: int, n_items: int, seconds: float) -> float:
    """Items taken and given back per second by so many processes that do nothing else."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        make_spool(root)
        enqueue_files(root)([f"item{n}" for n in range(n_items)])
        counts: multiprocessing.SimpleQueue[int] = multiprocessing.SimpleQueue()
        until_s = time.monotonic() + 0.5 + seconds
        processes = [
            multiprocessing.Process(target=_claim, args=(root, until_s, counts)) for _ in range(n_processes)
        ]
        started_s = time.monotonic()
        for process in processes:
            process.start()
        n = sum(counts.get() for _ in processes)
        for process in processes:
            process.join()
        return n / (time.monotonic() - started_s)


def _children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def start_up(root: Path) -> tuple[float, float]:
    """CPU and wall milliseconds of a processor that finds nothing to do and ends."""
    cpu_s, wall_s = _children_cpu_s(), time.monotonic()
    options = ["--quit-on-empty-queue", "--profile", "socorro-2014", "--number-of-threads", "4"]
    subprocess.run([*COMMAND, "run", "--fs-root", root, *options], check=True, stderr=subprocess.DEVNULL)
    return (_children_cpu_s() - cpu_s) * 1000, (time.monotonic() - wall_s) * 1000


def shares(root: Path, n_processes: int, n_threads: int, seconds: float) -> str:
    """Return the parts of an item that processors with the profile of 2014 report."""
    options = ["--endless", "--profile", "socorro-2014", "--number-of-threads", str(n_threads)]
    processes = [
        subprocess.Popen([*COMMAND, "run", "--fs-root", root, *options], stderr=subprocess.PIPE, text=True)
        for _ in range(n_processes)
    ]
    time.sleep(seconds)
    for process in processes:
        process.terminate()
    said = [process.communicate()[1].splitlines()[-1] for process in processes]
    n_done = sum(int(re.findall(r"(\d+) done", line)[0]) for line in said)
    return f"{n_done / seconds:6.1f} items/s  {said[0].partition('per item: ')[2]}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--processes", type=int, default=24)
    options = parser.parse_args()
    load = os.getloadavg()[0]
    box = f"{platform.machine()}, {os.cpu_count()} cores, load {load:.1f}"
    print(f"{date.today()}  {box}, Python {platform.python_version()}")
    print("claims and acknowledgements per second, file system, median of 3:")
    for n_processes in (1, 4, options.processes):
        for n_items in (50, 1000, 20_000):
            rates = [claims_per_s(n_processes, n_items, options.seconds / 3) for _ in range(3)]
            print(f"  {n_processes:3} processes, {n_items:6} items: {statistics.median(rates):9.0f}")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        make_spool(root)
        costs = [start_up(root) for _ in range(9)]
        cpu_ms, wall_ms = (statistics.median(values) for values in zip(*costs, strict=True))
        print(f"start-up, empty queue, end: {cpu_ms:.0f} ms CPU, {wall_ms:.0f} ms wall (medians of 9)")
        subprocess.run(
            [*COMMAND, "fill", "--fs-root", root, "--synthetic", "300"], check=True, stdout=subprocess.DEVNULL
        )
        print("shares of an item, profile socorro-2014:")
        for n_processes, n_threads in LAYOUTS:
            print(f"  {n_processes}x{n_threads}: {shares(root, n_processes, n_threads, options.seconds * 2)}")
    print(json.dumps(json.loads(subprocess.check_output([*COMMAND, "spawn-path", "--json"]))))


if __name__ == "__main__":
    main()
