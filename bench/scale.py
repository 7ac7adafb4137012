"""Time, CPU and memory of the commands that read studies, and their growth with the size of the study.

    python bench/scale.py [--axis windows,samples,layouts,launches,parts,processes,real] [--most 10000]
                          [--commands rank,report,export,explain,watch,serve] [--keep DIR] [--picture FILE]

The store writes the studies from launches of `tuner grid --simulate`. A figure is of a whole process, from
its start to its end (`serve`: until its first page). The line below each table has the exponent of the growth
from one size to the next: 1 is proportional, 0 is constant. A command that takes longer than --limit is
ended, and printed as "over". parts are the steps of `rank` and of the model of `report` with the largest
study of windows, in this process. --keep keeps the studies in DIR, and uses existing ones. The page
docs/method/scale.md is of --most 100000, which writes studies of 648 MB.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from http.client import HTTPException
from itertools import pairwise
from math import log
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from scale_picture import render_curves
from scale_study import Size, write_study

from tuner.adapters.clock import SystemClock
from tuner.adapters.proc.procfs import ProcSampler
from tuner.adapters.supervisord.launcher import SupervisordLauncher
from tuner.adapters.virtual.box import VirtualBox, VirtualService, virtual_study
from tuner.adapters.virtual.memory import MemoryProgress, MemoryStore, PlannedStop
from tuner.core.domain.layout import Layout, divisors_grid
from tuner.core.domain.service import ServiceSpec
from tuner.core.domain.window import Reading
from tuner.core.model.simulation.scenario import Scenario
from tuner.core.search.strategies.of_study import strategy_of
from tuner.study.run import run_study

Answer = TypeVar("Answer")

TUNER = str(Path(sys.executable).with_name("tuner"))
COMMANDS: Mapping[str, Sequence[str]] = {
    "rank": ("rank", "STUDY"),
    "report": ("report", "STUDY", "--force", "-o", "PAGE"),
    "export": ("export", "STUDY", "--page"),
    "explain": ("explain", "STUDY"),
    "watch": ("watch", "STUDY", "--once"),
    "serve": ("serve", "STUDY", "--port", "0"),
}
USUAL = Size(n_windows=1000, n_samples=100_000, layouts=divisors_grid(24))
PAGE_TRIES_S = 0.05
LARGEST = Layout(512, 64)
N_ITEMS = 200_000
SIDES = [(p, t) for p in (1, 8, 64, 512) for t in (1, 8, 64)]  #: processes and threads


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one run of a command."""

    wall_s: float
    cpu_s: float
    peak_bytes: int


def sizes(axis: str, most: int) -> dict[int, Size]:
    """Return the sizes along *axis*: the study of each figure."""
    if axis == "windows":
        counts = [100, 1000, 10_000, 100_000]
        return {n: replace(USUAL, n_windows=n, n_samples=100 * n) for n in counts if n <= most}
    if axis == "samples":
        counts = [11_000, 100_000, 1_000_000, 10_000_000]
        return {n: replace(USUAL, n_samples=n) for n in counts if n <= 100 * most}
    if axis == "launches":
        return {USUAL.n_windows // n: replace(USUAL, windows_per_launch=n) for n in (50, 10, 5, 1)}
    counts = [2, 6, 20, 200, 2000]
    return {n: replace(USUAL, layouts=layouts(n), n_windows=max(1000, n)) for n in counts if n <= most}


def layouts(n: int) -> list[Layout]:
    """So many, of few threads: 1x1, 1x2, 1x3, 1x4, 2x1 ..."""
    return [Layout(1 + number // 4, 1 + number % 4) for number in range(n)]


def cost_of(
    command: Sequence[str], limit_s: float, ready: Callable[[subprocess.Popen[str]], None] | None = None
) -> Cost | None:
    """Run *command*; with *ready*, until it returns: it is given the process. None: it took too long."""
    began_s = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    before = signal.signal(signal.SIGALRM, lambda *_: os.kill(process.pid, signal.SIGKILL))
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        assert process.stdout is not None
        wall_s = None
        if ready is not None:
            ready(process)
            wall_s = time.monotonic() - began_s
            os.kill(process.pid, signal.SIGTERM)  # terminate() would take away what it used
        result = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        process.kill()  # nothing where it has ended
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    if process.returncode == -signal.SIGKILL:
        return None
    if process.returncode not in (0, 5) and ready is None:
        raise SystemExit(f"{' '.join(command)}: {result}")
    if wall_s is None:
        wall_s = time.monotonic() - began_s
    return Cost(wall_s, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)


def growth(points: Sequence[tuple[float, float]]) -> list[float]:
    """Exponents from one point to the next."""
    return [log(after / before) / log(to / of) for (of, before), (to, after) in pairwise(points)]


def show(axis: str, found: Mapping[str, Mapping[int, Cost | None]]) -> None:
    """A table of one axis: per command and size wall time, CPU and peak memory."""
    for command, costs in found.items():
        print(f"\n{command}, by {axis}")
        for n, cost in costs.items():
            text = (
                "over"
                if cost is None
                else f"{cost.wall_s:8.2f} s  CPU {cost.cpu_s:8.2f} s  {cost.peak_bytes / 1e6:6.0f} MB"
            )
            print(f"{n:10}  {text}")
        known = [(n, cost) for n, cost in costs.items() if cost is not None]
        of_cpu = growth([(n, cost.cpu_s) for n, cost in known])
        of_memory = growth([(n, float(cost.peak_bytes)) for n, cost in known])
        print("  grows as n^ CPU " + " ".join(f"{one:.2f}" for one in of_cpu), end="")
        print(", memory " + " ".join(f"{one:.2f}" for one in of_memory), flush=True)


def written(study: Path, size: Size) -> Path:
    """The file *study*, which is written if it is not there."""
    if not study.exists():
        began_s = time.monotonic()
        write_study(study, size)
        took_s = time.monotonic() - began_s
        print(f"{study.name}: {study.stat().st_size / 1e6:.0f} MB written in {took_s:.0f} s", file=sys.stderr)
    return study


def measure(axis: str, folder: Path, options: argparse.Namespace) -> dict[str, dict[int, Cost | None]]:
    """The costs of each command along *axis*."""
    found: dict[str, dict[int, Cost | None]] = {command: {} for command in options.commands}
    for n, size in sizes(axis, options.most).items():
        study = written(folder / f"{axis}-{n}.tuner.db", size)
        names = {"STUDY": str(study), "PAGE": str(folder / "page.html")}
        for command in options.commands:
            line = [TUNER, *(names.get(word, word) for word in COMMANDS[command])]
            ready = fetch if command == "serve" else None
            found[command][n] = cost_of(line, options.limit, ready)
    return found


def fetch(process: subprocess.Popen[str]) -> None:
    """Get the first page of a server that prints its address; return without it at the time limit."""
    assert process.stdout is not None
    line = process.stdout.readline()
    address = next((word for word in line.split() if word.startswith("http")), None)
    while not (end := ended(process, waits=address is None)):
        try:
            with urllib.request.urlopen(str(address)) as page:
                page.read()
        except urllib.error.HTTPError as error:
            error.close()
            raise SystemExit(f"{address}: {error}") from None
        except (OSError, HTTPException):  # not there yet, or ended while it answered
            time.sleep(PAGE_TRIES_S)
        else:
            return
    if end.si_status != signal.SIGKILL:
        raise SystemExit(f"no page of {process.args!r}: {line}{process.stdout.read()}")


def ended(process: subprocess.Popen[str], *, waits: bool) -> os.waitid_result | None:
    """Return how *process* ended, or None, without reaping it, so that its usage stays readable."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | (0 if waits else os.WNOHANG))


def parts(study: Path) -> None:
    """Print the time of the parts of `rank` for *study*, and the number of fits of a `report`."""
    from tuner.app.collection import pause_collection
    from tuner.bootstrap.stores import open_store
    from tuner.core.model.calibration.joint_fit import Problem
    from tuner.core.model.diagnosis.evidence import evidence_of
    from tuner.core.model.diagnosis.explanation import explain, gils_of, machine_of
    from tuner.core.ranking.ranking import rank
    from tuner.core.windows.launch_sums import tally
    from tuner.study.calibration_run import read_calibration

    print(f"\nparts of rank, of {study.name}: CPU seconds")

    def timed(what: str, do: Callable[[], Answer]) -> Answer:
        began_s = time.process_time()
        found = do()
        print(f"{what:46}{time.process_time() - began_s:8.2f} s", flush=True)
        return found

    fits = []

    def counted(problem: Problem, *arguments: Any) -> Any:
        fits.append(problem)
        return fit(problem, *arguments)

    with pause_collection():
        store = timed("opened, and its small tables checked", lambda: open_store(study, read_only=True))
        with store:
            launches = timed("launches, against their digests", store.launches)
            sums = timed("what their windows add up to, likewise", store.sums)
            record = store.study()
            ranking = timed("compared", lambda: rank(record, sums, launches=[x for _, x in launches]))
            seen = timed("added up, layout by layout", lambda: evidence_of(record, sums, ranking.verdicts))
            timed("explained", lambda: explain(seen, machine_of(record), gils=gils_of(record)))
            windows = timed("for report: windows, likewise", store.windows)
            timed("for report: the same sums, of windows", lambda: tally(windows))
            fit, Problem.fit = Problem.fit, counted  # type: ignore[method-assign,assignment]
            try:
                timed("for report: calibrated", lambda: read_calibration(store, study.name))
            finally:
                Problem.fit = fit  # type: ignore[method-assign]
    print(f"fits of the model, those to all layouts but some: {len(fits)}")


def real() -> None:
    """Print the cost of tuner's samples of P sleeping processes: one a second, and one every 5 s."""
    print("\nreal processes (sleep): started and gone in, CPU of a look a second and of one every 5 s")
    for count in (1, 50, 200):
        clock = SystemClock()
        launcher = SupervisordLauncher(
            ServiceSpec("scale", ("sleep", "100000")), cores=count, cpus=None, run_root=None, clock=clock,
            marker=uuid.uuid4().hex, keep_logs=None,
            warn=lambda slug, text: print(f"{slug}: {text}", file=sys.stderr),
        )  # fmt: skip
        with launcher:
            with (
                launcher.running(Layout(count, 1), {}) as launch,
                ProcSampler(clock).watching(launch, frozenset()) as watch,
            ):
                look_s = cpu_of(lambda: watch.sample(Reading(time.monotonic(), 0, 0)))
                usage_s = cpu_of(watch.usage)
                closing_s = cpu_of(lambda: watch.usage(closing=True))
                n_files = len(os.listdir("/proc/self/fd"))
                n_threads = len(os.listdir("/proc/self/task"))
                started_s, stopped_s = launch.running_after_s, time.monotonic()
            gone_s = time.monotonic() - stopped_s
        print(
            f"{count:4}x1  {started_s:5.1f} s, {gone_s:5.1f} s   {look_s * 1e3:6.2f} ms,"
            f" {usage_s * 1e3:6.2f} ms, with memory {closing_s * 1e3:6.2f} ms  "
            f" {n_files} files, {n_threads} threads",
            flush=True,
        )


def cpu_of(what: Callable[[], object]) -> float:
    """CPU seconds, median of 15."""
    taken = []
    for _ in range(15):
        began_s = time.process_time()
        what()
        taken.append(time.process_time() - began_s)
    return median(taken)


def processes() -> None:
    """Print the cost of a launch of P x T on the simulated host, and of the layout arithmetic."""
    print("\nvirtual box, 3 windows of 10 s of PxT: CPU seconds; most memory of the process by then")
    for count, threads in SIDES:
        layout = Layout(count, threads)
        service = VirtualService({layout: 50.0})
        store = MemoryStore(virtual_study(service, window_s=10.0, warmup_s=2.0))
        began_s = time.process_time()
        run_study(
            VirtualBox(service, cores=512).box(), store, MemoryProgress(), PlannedStop(),
            strategy_of(store.study()),
        )  # fmt: skip
        took_s = time.process_time() - began_s
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        assert len(store.windows()) >= 3
        print(f"{layout!s:>8}  {took_s:8.4f} s  {peak / 1e6:6.0f} MB")
    from tuner.core.domain.layout import full_grid
    from tuner.core.model.demand import Demands
    from tuner.core.model.machine import Machine
    from tuner.core.model.network import predict
    from tuner.core.model.simulation.scenario import scenario_of

    for name, made in (("divisors", divisors_grid), ("full", full_grid)):
        began_s = time.process_time()
        grid = made(512)
        print(f"{name} grid of 512 cores: {len(grid)} layouts in {time.process_time() - began_s:.4f} s")
    demands = Demands(gil_s=0.05, child_s=0.4, asleep_s=0.5)
    simulated(scenario_of(demands, Machine(512), LARGEST, n_items=N_ITEMS, n_warm_items=N_ITEMS // 10))
    for count, threads in SIDES:
        began_s = time.process_time()
        predict(demands, Machine(512), [Layout(count, threads)])
        took_s = time.process_time() - began_s
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(f"network of {count}x{threads} on 512 cores: {took_s:.3f} s, {peak / 1e6:.0f} MB")


def simulated(scenario: Scenario) -> None:
    """Print the cost of simulating *scenario* event by event."""
    from tuner.adapters.virtual.simulator import simulate_all

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    simulate_all([scenario])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    took_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    peak = f"{after.ru_maxrss * 1024 / 1e6:.0f} MB at most of any program"
    print(f"events of {LARGEST} on 512 cores, {N_ITEMS} items: {took_s:.1f} s, {peak}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--axis", default="windows,samples,layouts,launches,parts,processes,real")
    parser.add_argument("--commands", default=",".join(COMMANDS))
    parser.add_argument("--most", type=int, default=10_000, help="windows, layouts, samples/100 at most")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds that a command may take")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    options.commands = options.commands.split(",")
    day = time.strftime("%Y-%m-%d")
    stamp = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {day}"
    print(stamp)
    curves = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or Path(scratch)
        folder.mkdir(exist_ok=True)
        for axis in options.axis.split(","):
            if axis in ("processes", "real"):
                processes() if axis == "processes" else real()
                continue
            if axis == "parts":
                n, size = max(sizes("windows", options.most).items())
                parts(written(folder / f"windows-{n}.tuner.db", size))
                continue
            found = measure(axis, folder, options)
            show(axis, found)
            curves[axis] = {
                command: [(n, cost.cpu_s) for n, cost in costs.items() if cost is not None]
                for command, costs in found.items()
            }
    if options.picture is not None:
        options.picture.write_text(render_curves(curves, stamp), encoding="utf-8")


if __name__ == "__main__":
    main()
