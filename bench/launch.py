"""Time to start and to stop a layout, and the CPU of supervision, in interleaved runs.

    python bench/launch.py [--rounds 5] [--processes 1,2,4,8,16,24] [--idle 30] [--worker sleep ...]

"running" lasts from the call until every worker is verified: executed, RUNNING for supervisord, and alive 0.5
s later (the figure includes this half second). "gone" lasts from the end of the block until workers are
stopped and reaped, supervisord has ended, the host has no remains, and the folder is removed. Figures are
medians, with the slowest in brackets. "idle" is the CPU of supervisord, guardian and one check a second, with
the most processes, in percent of one core.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections import defaultdict
from pathlib import Path

from tuner.adapters.clock import SystemClock
from tuner.adapters.supervisord.launcher import SupervisordLauncher
from tuner.core.domain.layout import Layout
from tuner.core.domain.service import ServiceSpec

LOOK_EVERY_S = 1.0
PYTHON_WORKER = """
import signal, threading
ended = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: ended.set())
ended.wait()
"""


def specs(spool: Path) -> dict[str, ServiceSpec]:
    """Return the services to launch: a C program, a small Python one, and the built-in worker."""
    commands = {"sleep": ("sleep", "100000"), "python": (sys.executable, "-c", PYTHON_WORKER)}
    if shutil.which("crash-processor"):
        options = ("--fs-root", str(spool), "--number-of-threads", "{threads}", "--endless")
        commands["crash-processor"] = ("crash-processor", "run", *options)
    return {name: ServiceSpec(name, command) for name, command in commands.items()}


def launcher(
    spec: ServiceSpec, *, cgroups: Path | None = None, freezers: Path | None = None
) -> SupervisordLauncher:
    return SupervisordLauncher(
        spec,
        cores=len(os.sched_getaffinity(0)),
        cpus=None,
        run_root=None,
        clock=SystemClock(),
        marker=uuid.uuid4().hex,
        keep_logs=None,
        warn=lambda slug, text: print(f"{slug}: {text}", file=sys.stderr),
        cgroups=cgroups,
        freezers=freezers,
    )


def measure_times(launchers: dict[str, SupervisordLauncher], processes: list[int], rounds: int) -> None:
    running = defaultdict[tuple[str, int], list[float]](list)
    gone = defaultdict[tuple[str, int], list[float]](list)
    for name, one in launchers.items():  # starts the guardians
        with one.running(Layout(1, 1), {}):
            print(f"{name} runs", file=sys.stderr)
    for _ in range(rounds):
        for count in processes:
            for name, one in launchers.items():
                with one.running(Layout(count, 1), {}) as launch:
                    running[name, count].append(launch.running_after_s)
                    stopped_s = time.monotonic()
                gone[name, count].append(time.monotonic() - stopped_s)
    print("| P |" + "".join(f" {name}: running | gone |" for name in launchers))
    print("|---|" + "---|---|" * len(launchers))
    for count in processes:
        cells = (f" {told(running[name, count])} | {told(gone[name, count])} |" for name in launchers)
        print(f"| {count} |" + "".join(cells))


def told(seconds: list[float]) -> str:
    return f"{statistics.median(seconds):.2f} s [{max(seconds):.2f}]"


def measure_idle(one: SupervisordLauncher, processes: int, length_s: float) -> None:
    with one.running(Layout(processes, 1), {}) as launch:
        names = {
            pid: "guardian" if pid == one.guardian_pid else "supervisord" for pid in launch.overhead_pids()
        }
        time.sleep(3.0)
        begun_s, own_s, before = time.monotonic(), time.process_time(), {pid: cpu_s(pid) for pid in names}
        while time.monotonic() < begun_s + length_s:
            time.sleep(LOOK_EVERY_S)
            assert launch.problems() == (), launch.problems()
        took_s = time.monotonic() - begun_s
        spent = {name: cpu_s(pid) - before[pid] for pid, name in names.items()}
        spent["looking"] = time.process_time() - own_s
        sizes = {name: memory_mb(pid) for pid, name in names.items()}
    parts = (f"{name} {100 * cpu / took_s:.3f} %" for name, cpu in spent.items())
    total = 100 * sum(spent.values()) / took_s
    print(
        f"idle, {processes} processes, {took_s:.0f} s: {', '.join(parts)}; together {total:.3f} % of one core"
    )
    print("memory (PSS): " + ", ".join(f"{name} {size:.1f} MB" for name, size in sizes.items()))


def cpu_s(pid: int) -> float:
    """To the nanosecond, unlike utime and stime."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def memory_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--processes", default="1,2,4,8,16,24")
    parser.add_argument("--idle", type=float, default=30.0, help="seconds; 0 leaves it out")
    parser.add_argument(
        "--worker", action="append", help="sleep, python or crash-processor; default: all there are"
    )
    asked = parser.parse_args()
    processes = [int(count) for count in asked.processes.split(",")]
    print(f"load when begun: {os.getloadavg()[0]:.2f}, cores: {len(os.sched_getaffinity(0))}")
    with tempfile.TemporaryDirectory(prefix="bench-launch-") as folder:
        spool = Path(folder) / "spool"
        known = specs(spool)
        names = asked.worker or list(known)
        if "crash-processor" in names:
            fill = ["crash-processor", "fill", "--synthetic", "50", "--fs-root", str(spool)]
            subprocess.run(fill, check=True, stdout=subprocess.DEVNULL)
        launchers = {name: launcher(known[name]) for name in names}
        try:
            measure_times(launchers, processes, asked.rounds)
            if asked.idle:
                measure_idle(launchers[names[0]], max(processes), asked.idle)
        finally:
            for one in launchers.values():
                one.close()


if __name__ == "__main__":
    main()
