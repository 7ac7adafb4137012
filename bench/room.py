"""Disk space and open files of studies and the crash processor, compared with estimates of `tuner doctor`.

    python bench/room.py [--study FILE ...] [--crashes 100]

Studies are simulated, with windows of 20 seconds, of one and of ten minutes; --study adds files of `tuner
grid`. The space for a second of a launch is the size of the file minus that of an empty one, divided by the
seconds. Sizes are in blocks of the disk of the temporary folder. The files of a worker are counted while it
works; the figure is the highest of a hundred counts.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from tuner.adapters.sqlite.store import SqliteStore
from tuner.adapters.virtual.box import VirtualBox, VirtualClock, VirtualService, virtual_study
from tuner.adapters.virtual.memory import MemoryProgress, PlannedStop
from tuner.core.domain.layout import divisors_grid
from tuner.core.search.strategies.of_study import strategy_of
from tuner.study.run import run_study

PROCESSOR = (sys.executable, "-m", "tuner_workers.crash_processor")
SERVICE = VirtualService({layout: 5.0 + layout.total_threads for layout in divisors_grid(24)})


def simulated(file: Path, window_s: float, n_windows: int) -> int:
    """Write a study of 22 layouts; the bytes of one that had just begun."""
    record = virtual_study(SERVICE, n_blocks=2, window_s=window_s, windows_per_launch=n_windows)
    with SqliteStore.create(file, record) as store:
        empty_bytes = size_bytes([file])
        box = VirtualBox(SERVICE, clock=VirtualClock.resumed(store)).box()
        run_study(box, store, MemoryProgress(), PlannedStop(), strategy_of(record))
    return empty_bytes


def size_bytes(paths: Iterable[Path]) -> int:
    return sum(path.stat().st_blocks * 512 for path in paths if path.is_file())


def launched_s(file: Path) -> float:
    """Seconds that launches of a study lasted, all together."""
    with SqliteStore.open(file, read_only=True) as store:
        return sum(
            launch.ended_wall_s - launch.started_wall_s
            for _, launch in store.launches()
            if launch.ended_wall_s is not None
        )


def studies(folder: Path, given: Iterable[Path]) -> None:
    for window_s, n_windows in ((20.0, 1), (60.0, 1), (600.0, 1), (600.0, 3)):
        file = folder / f"{window_s:.0f}-{n_windows}.tuner.db"
        empty_bytes = simulated(file, window_s, n_windows)
        say(f"simulated, {n_windows} of {window_s:.0f} s a launch", file, empty_bytes)
    print(f"  an empty file: {empty_bytes / 1000:.0f} kB")
    for file in given:
        say(file.name, file, empty_bytes)


def say(what: str, file: Path, empty_bytes: int) -> None:
    per_s = (size_bytes([file]) - empty_bytes) / launched_s(file)
    print(f"  {what:40}{per_s:8.0f} bytes a second of a launch")


def fill(spool: Path, *options: str) -> None:
    subprocess.run([*PROCESSOR, "fill", "--fs-root", spool, *options], check=True, stdout=subprocess.DEVNULL)


def spools(folder: Path, n: int) -> None:
    one, many, large = folder / "one", folder / "many", folder / "large"
    fill(one, "--synthetic", "1")
    fill(many, "--synthetic", str(n + 1))
    per_crash = (size_bytes(many.rglob("*")) - size_bytes(one.rglob("*"))) / n
    print(f"  a synthetic crash{per_crash / 1000:29.1f} kB")
    for symbols_bytes in (560_000, 5_600_000):
        fill(large, "--synthetic", "1", "--symbols-bytes", str(symbols_bytes))
        symbols = [path for path in (large / "symbols").rglob("*") if path.is_file()]
        ratio = size_bytes(symbols) / max(path.stat().st_size for path in symbols)
        print(f"  symbols, of the largest of them ({symbols_bytes / 1e6:.2g} MB){ratio:8.1f} times")


def files_of_worker(spool: Path, n_threads: int) -> tuple[int, int]:
    """Return the open files of a crash processor with so many threads: at first, and the most."""
    options = ["--endless", "--number-of-threads", str(n_threads)]
    with subprocess.Popen(
        [*PROCESSOR, "run", "--fs-root", spool, *options], stderr=subprocess.DEVNULL
    ) as worker:
        try:
            seen = []
            for _ in range(100):
                time.sleep(0.05)
                seen.append(len(os.listdir(f"/proc/{worker.pid}/fd")))
        finally:
            worker.send_signal(signal.SIGTERM)
    return seen[0], max(seen)


def main() -> None:
    parser = argparse.ArgumentParser(description="What studies and crashes take of disks and open files.")
    parser.add_argument("--study", type=Path, nargs="*", default=[], metavar="FILE")
    parser.add_argument("--crashes", type=int, default=100)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print("the study's file")
        studies(folder, options.study)
        print("the spool")
        spools(folder, options.crashes)
        first, most = files_of_worker(folder / "many", 6)
        print(f"open files of a worker with 6 threads: {most} at most, {first} at its start")


if __name__ == "__main__":
    main()
