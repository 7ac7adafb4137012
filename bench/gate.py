"""Cost of switching from one resident launch to another: one is frozen, the other continues.

    python bench/gate.py [--processes 24] [--threads 2] [--switches 200] [--idle] [--way version-2,signals]

Each thread of the workers computes all the time, so that all of them run when they are frozen; with --idle
they wait. A thread that waits for a core stops only once it gets one, so a switch takes longer with more
threads than cores. Times are medians, with the 95th percentile. CPU is that of this process, which does the
work of tuner.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from contextlib import ExitStack

from launch import launcher

from tuner.adapters.proc.cgroup import launch_cgroups, own_freezer
from tuner.adapters.supervisord.launcher import SupervisordLauncher
from tuner.core.domain.layout import Layout
from tuner.core.domain.service import ServiceSpec

WORKER = """
import signal, sys, threading, time
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
def work():
    while True:
        time.sleep(0.01) if sys.argv[2] == "idle" else sum(range(10000))
for _ in range(int(sys.argv[1])):
    threading.Thread(target=work, daemon=True).start()
signal.sigwait([signal.SIGTERM])
"""
WAYS = ("version-2", "version-1", "signals")
SLICE_S = 0.05


def launcher_that_freezes(way: str, *, is_idle: bool) -> SupervisordLauncher:
    """One that freezes in this way, or raises SystemExit where the host does not permit it."""
    cgroups = launch_cgroups().parent if way == "version-2" else None
    freezers = own_freezer() if way == "version-1" else None
    if way in ("version-1", "version-2") and cgroups is None and freezers is None:
        raise SystemExit(f"this host has no cgroup of {way} that may be written")
    command = (sys.executable, "-c", WORKER, "{threads}", "idle" if is_idle else "computing")
    return launcher(ServiceSpec("gated", command), cgroups=cgroups, freezers=freezers)


def measure(way: str, layout: Layout, n_switches: int, *, is_idle: bool) -> None:
    """Print a line."""
    with ExitStack() as stack:
        launches = []
        for _ in range(2):
            one = stack.enter_context(launcher_that_freezes(way, is_idle=is_idle))
            launches.append(stack.enter_context(one.running(layout, {})))
            began_s = time.perf_counter()
            launches[-1].freeze()  # the first time: processes are moved to a cgroup
            first_ms = (time.perf_counter() - began_s) * 1000
        works, waits = launches
        works.thaw()
        freezing_ms, thawing_ms, cpu_ms = [], [], []
        for _ in range(n_switches):
            time.sleep(SLICE_S)
            cpu_s, began_s = time.process_time(), time.perf_counter()
            works.freeze()
            frozen_s = time.perf_counter()
            waits.thaw()
            thawed_s = time.perf_counter()
            cpu_ms.append((time.process_time() - cpu_s) * 1000)
            freezing_ms.append((frozen_s - began_s) * 1000)
            thawing_ms.append((thawed_s - frozen_s) * 1000)
            works, waits = waits, works
    whole_ms = [freezing + thawing for freezing, thawing in zip(freezing_ms, thawing_ms, strict=True)]
    print(
        f"{way}: {layout}, first freeze {first_ms:.1f} ms; a switch {spread(whole_ms)} ms"
        f" (freeze {spread(freezing_ms)}, thaw {spread(thawing_ms)}), CPU {spread(cpu_ms)} ms"
    )


def spread(values: list[float]) -> str:
    """Median and 95th percentile."""
    return f"{statistics.median(values):.2f} [{statistics.quantiles(values, n=20)[-1]:.2f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--processes", type=int, default=24)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--switches", type=int, default=200)
    parser.add_argument("--idle", action="store_true", help="workers wait 10 ms at a time")
    parser.add_argument("--way", default=",".join(WAYS))
    asked = parser.parse_args()
    for way in asked.way.split(","):
        measure(way, Layout(asked.processes, asked.threads), asked.switches, is_idle=asked.idle)
    print(f"load {os.getloadavg()[0]:.0f}")


if __name__ == "__main__":
    main()
