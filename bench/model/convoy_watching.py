"""Measurements of convoy.py: a process whose threads wait for the GIL, observed from outside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from mix_registry import HERE

from tuner.adapters.proc.process_tree import read_box_times
from tuner.core.domain.window import Sample, mean_active_from_load1

PYTHON_MS = 12.0
CHILDREN_MS = {"light": 2.0, "heavy": 12.0}
USUAL_MS = 5.0  #: of the interpreter's switches
SETTLING_S = 2.0
LOOKS_PER_S = 25.0
LOAD_LOOK_S = 1.0
PROC = Path("/proc")


@dataclass(frozen=True)
class Case:
    python: str
    version: str
    threads: int
    child: str  #: light, heavy
    interval_ms: float = USUAL_MS  #: of the interpreter's switches
    spawn: str = "own group"


@dataclass(frozen=True)
class Seen:
    """Means over a run; tasks, but for the rates."""

    items_per_s: float
    own_cpu_s: float  #: per item
    child_cpu_s: float  #: per item
    holder: float
    waiters: float
    children: float
    blocked: float  #: threads in D
    run_delay: float  #: threads that wait for a core: of holder and waiters
    wakes_per_s: float  #: times a thread was put on a core
    box: float  #: active tasks of the whole box
    others_cores: float  #: CPU of all but the worker and its children
    load1: float | None  #: turned back into what it averages; None: not asked, or too short

    @property
    def service(self) -> float:
        return self.holder + self.waiters + self.children + self.blocked


@contextmanager
def running(case: Case, child: Path, turns_per_ms: dict[str, float]) -> Iterator[subprocess.Popen[str]]:
    """The worker, which ends with the block, or with us."""
    command = [
        case.python,
        str(HERE / "convoy_worker.py"),
        *("--threads", str(case.threads)),
        *("--python-turns", str(round(PYTHON_MS * turns_per_ms["python"]))),
        *("--child", str(child)),
        *("--child-turns", str(round(CHILDREN_MS[case.child] * turns_per_ms["child"]))),
        *("--interval-ms", str(case.interval_ms)),
        *("--spawn", case.spawn),
    ]
    worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield worker
    finally:
        worker.kill()
        worker.communicate()


def ask(worker: subprocess.Popen[str]) -> dict[str, float]:
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write("\n")
    worker.stdin.flush()
    data: dict[str, float] = json.loads(worker.stdout.readline() or "null")
    if data is None:
        sys.exit(f"a worker ended with {worker.wait()}; its words stand above")
    return data


def service_cpu_s(data: dict[str, float]) -> float:
    return data["own_cpu_s"] + data["child_cpu_s"]


def state_of(stat: str) -> str:
    """The letter after the name, which may hold brackets; empty for a task that is gone."""
    at = stat.rfind(")") + 2
    return stat[at : at + 1] if at > 1 else ""


def read(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def schedstat_of(pid: int) -> dict[str, tuple[int, int, int]]:
    """thread -> nanoseconds on a core, nanoseconds waiting for one, times put on one."""
    found = {}
    for thread in os.listdir(f"/proc/{pid}/task"):
        values = read(f"/proc/{pid}/task/{thread}/schedstat").split()
        if len(values) == 3:
            found[thread] = (int(values[0]), int(values[1]), int(values[2]))
    return found


def watch(worker: subprocess.Popen[str], seconds: float, *, wants_load1: bool) -> Seen:
    """Observe a worker and the host for so long."""
    pid, random = worker.pid, Random(0)
    ask(worker)  # it runs
    time.sleep(SETTLING_S)
    threads = os.listdir(f"/proc/{pid}/task")
    before, clocks, samples = ask(worker), schedstat_of(pid), list[Sample]()
    box_before = read_box_times(PROC)
    n = some_runs = blocked = children = box = 0
    ends_s = time.monotonic() + seconds
    next_load_s = 0.0
    while (now_s := time.monotonic()) < ends_s:
        load = read("/proc/loadavg").split()
        if now_s >= next_load_s:
            next_load_s = now_s + LOAD_LOOK_S
            samples.append(Sample(now_s, 0, 0, float(load[0]), float(load[1]), float(load[2]), None))
        states = [state_of(read(f"/proc/{pid}/task/{thread}/stat")) for thread in threads]
        own = [child for thread in threads for child in read(f"/proc/{pid}/task/{thread}/children").split()]
        n += 1
        some_runs += "R" in states
        blocked += states.count("D")
        children += sum(state_of(read(f"/proc/{child}/stat")) in ("R", "D") for child in own)
        box += int(load[3].partition("/")[0]) - 1
        time.sleep(random.uniform(0.5, 1.5) / LOOKS_PER_S)
    after, later, box_after = ask(worker), schedstat_of(pid), read_box_times(PROC)
    length_s = after["at_s"] - before["at_s"]
    n_done = after["n_done"] - before["n_done"]
    if not n_done or not n:
        sys.exit(f"no item was done in {length_s:.1f} s: give it more --seconds")
    own_cpu, delay, wakes = (
        sum(later[one][k] - clocks[one][k] for one in clocks) / length_s for k in (0, 1, 2)
    )
    holder = some_runs / n
    unused_s = box_after.idle_s + box_after.steal_s - box_before.idle_s - box_before.steal_s
    box_cores = box_after.n_cpus - unused_s / length_s
    return Seen(
        items_per_s=n_done / length_s,
        own_cpu_s=(after["own_cpu_s"] - before["own_cpu_s"]) / n_done,
        child_cpu_s=(after["child_cpu_s"] - before["child_cpu_s"]) / n_done,
        holder=holder,
        waiters=(own_cpu + delay) / 1e9 - holder,
        children=children / n,
        blocked=blocked / n,
        run_delay=delay / 1e9,
        wakes_per_s=wakes,
        box=box / n + blocked / n,
        others_cores=max(0.0, box_cores - (service_cpu_s(after) - service_cpu_s(before)) / length_s),
        load1=mean_active_from_load1(samples).mean if wants_load1 else None,
    )
