"""Accuracy of the sampler on any host: other processes are also measured directly.

    python bench/sampler_accuracy.py [--seconds 10] [--repeats 5]

1. CPU of other processes. The sampler computes it as the CPU of the host minus that of the service and of
   tuner. The bench compares it with the CPU of all other processes and of their reaped children. The
   difference is the bias; a window is invalid at 0.15 core.
2. Active tasks. For two minutes, 3 busy loops and 2 processes in vfork run: the mean of the task states that
   are read each second, and the value computed from load1.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean, median
from typing import cast

from tuner.adapters.clock import SystemClock
from tuner.adapters.proc.process_tree import TICKS_PER_S, ProcessTable
from tuner.adapters.proc.procfs import ProcSampler
from tuner.core.domain.layout import Layout
from tuner.core.domain.window import Reading, Sample, VoidReason, mean_active_from_load1
from tuner.ports import Launch

LOAD = Path(__file__).resolve().parent.parent / "tests" / "integration" / "sampler" / "load.py"
LOADS = {  # name -> modes of load.py
    "idle": [],
    "children of 5-50 ms, all cores busy": ["spawning 3 5 50 0"] * 4,
    "children of 0-5 ms, all cores busy": ["spawning 3 0 5 0"] * 4,
    "children of 5-50 ms, with pauses": ["spawning 1 5 50 60"] * 3,
    "children of 0-5 ms, with pauses": ["spawning 2 0 5 20"] * 2,
    "24 processes, children of 5-50 ms": ["spawning 2 5 50 0"] * 24,
}


class Workers:
    """The part of a launch that the sampler reads."""

    running_after_s = 0.0
    shape = Layout(24, 64)  # of which all threads work on items

    def __init__(self, processes: list[subprocess.Popen[bytes]]) -> None:
        self.processes = processes

    def worker_pids(self) -> frozenset[int]:
        return frozenset(process.pid for process in self.processes)

    def overhead_pids(self) -> frozenset[int]:
        return frozenset()

    def problems(self, *, threads: bool = True) -> tuple[VoidReason, ...]:  # noqa: ARG002
        return ()


@contextmanager
def running(modes: list[str]) -> Iterator[Workers]:
    processes = [subprocess.Popen([sys.executable, LOAD, *mode.split()]) for mode in modes]
    try:
        yield Workers(processes)
    finally:
        for process in processes:
            process.kill()
            process.wait()


def strangers_cpu_s(table: ProcessTable, workers: Workers, own_pid: int) -> float:
    ours = {own_pid, *table.trees(sorted(workers.worker_pids())).members}
    stats = (table.stat(pid) for pid in table.pids() if pid not in ours)
    return sum(stat.own_ticks + stat.reaped_ticks for stat in stats if stat) / TICKS_PER_S


def foreign_bias(seconds: float, repeats: int) -> None:
    clock, table = SystemClock(), ProcessTable(Path("/proc"))
    own_pid = int(Path("/proc/self").readlink().name)
    print(f"{'':38} {'service':>8} {'foreign':>8} {'really':>8} {'bias':>8}   cores, median of {repeats}")
    for name, modes in LOADS.items():
        rows: list[tuple[float, ...]] = []
        with (
            running(modes) as workers,
            ProcSampler(clock).watching(cast(Launch, workers), frozenset()) as watch,
        ):
            clock.sleep_until(clock.monotonic_s() + 2)
            for _ in range(repeats):
                before, strangers = watch.usage(), strangers_cpu_s(table, workers, own_pid)
                clock.sleep_until(before.at_s + seconds)
                after, strangers = watch.usage(), strangers_cpu_s(table, workers, own_pid) - strangers
                elapsed_s = after.at_s - before.at_s
                service = (after.service_cpu_s_total - before.service_cpu_s_total) / elapsed_s
                foreign = (after.foreign_cpu_s_total - before.foreign_cpu_s_total) / elapsed_s
                rows.append((service, foreign, strangers / elapsed_s, foreign - strangers / elapsed_s))
        print(
            f"{name:38} " + " ".join(f"{median(column):8.3f}" for column in zip(*rows, strict=True)),
            flush=True,
        )


def active_agreement(seconds: int = 120) -> None:
    clock = SystemClock()
    samples: list[Sample] = []
    modes = ["busy"] * 3 + ["vfork"] * 2
    with running(modes) as workers, ProcSampler(clock).watching(cast(Launch, workers), frozenset()) as watch:
        began_s = clock.monotonic_s() + 2
        for second in range(seconds + 1):
            clock.sleep_until(began_s + second)
            samples.append(watch.sample(Reading(clock.monotonic_s(), 0, 0)))
    kernel = mean_active_from_load1(samples)
    assert kernel.mean is not None
    assert kernel.low is not None
    assert kernel.high is not None
    states = fmean(float(sample.n_active) for sample in samples if sample.n_active is not None)
    load1 = fmean(sample.load1 for sample in samples)
    print(
        f"active tasks over {seconds} s: {states:.2f} from task states, {kernel.mean:.2f} "
        f"({kernel.low:.2f} to {kernel.high:.2f}) from the inverse of load1; load1 itself {load1:.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    foreign_bias(options.seconds, options.repeats)
    active_agreement()


if __name__ == "__main__":
    main()
