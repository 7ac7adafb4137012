"""Why a process whose threads line up for the GIL has a higher load than its items ask for.

    python bench/model/convoy.py [--python PATH ...] [--threads 1,2,4,8] [--seconds 20] [--kernel-load]

The hypothesis: whoever waits for the GIL wakes once per switch interval to ask for it. When all cores are
busy, it stands in line for a core first, just to find that the GIL is still taken; in that line it is an
active task that no item asked for. One process runs T threads; an item is Python, a child, Python. Measured,
in tasks:

- holder: share of time in which a thread is running or wants to; one at a time can hold the GIL;
- waiters: further threads that run or wait for a core (the kernel's own clocks, schedstat, less the holder);
- children: running or waiting for a core, by looks;
- D: threads in uninterruptible waits, by looks: the other suspect, a parent that has vfork'ed;
- network: the load of the analytic network, calibrated with the same interpreter's one thread, where waiters
  sleep as they wait ("plain"), and as the model is today.

The excess is holder + waiters + children + D less "plain", and is told by cause: it is the waiters', D's, or
what is left. If the hypothesis holds, waiters explain it, only where cores are busy, and it falls as the
switch interval grows. One thread has no waiters: what stands there is the error of the method. At the end:
threads in D by how the child is started. Disturbances show as "others".
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

from mix_registry import HERE, compiled_child, turns_per_ms

from tuner.adapters.box_times import read_box_times
from tuner.core.layout import Layout
from tuner.core.load import mean_active_from_load1
from tuner.core.model.demand import Demands
from tuner.core.model.machine import Machine
from tuner.core.model.network import predict
from tuner.core.window import Sample

PYTHON_MS = 12.0
CHILDREN_MS = {"light": 2.0, "heavy": 12.0}
INTERVALS_MS = (1.0, 5.0, 20.0)
USUAL_MS = 5.0
SETTLING_S = 2.0
PROC = Path("/proc")
LOOKS_PER_S = 25.0
LOAD_LOOK_S = 1.0
SPAWNS = ("own group", "own group, files kept", "usual", "usual, files kept")
"""As `convoy_worker.SPAWNS` has them."""


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


@dataclass(frozen=True)
class Excess:
    """A run beside the network."""

    plain: float  #: the network's load if waiters sleep
    network: float  #: as it is today
    by_waiters: float
    by_blocked: float
    by_rest: float

    @property
    def total(self) -> float:
        return self.by_waiters + self.by_blocked + self.by_rest


def excess_of(seen: Seen, plain: float, network: float) -> Excess:
    """What a run has above *plain*, by cause; the causes add up to the whole."""
    rest = seen.service - plain - seen.waiters - seen.blocked
    return Excess(plain, network, seen.waiters, seen.blocked, rest)


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
    told: dict[str, float] = json.loads(worker.stdout.readline() or "null")
    if told is None:
        sys.exit(f"a worker ended with {worker.wait()}; its words stand above")
    return told


def service_cpu_s(told: dict[str, float]) -> float:
    return told["own_cpu_s"] + told["child_cpu_s"]


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
    """Look at a worker and the box for so long."""
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


def demands_of(alone: Seen) -> Demands:
    """What one thread shows: its CPU, its children's, and the rest is waiting."""
    rest_s = 1 / alone.items_per_s - alone.own_cpu_s - alone.child_cpu_s
    return Demands(gil_s=alone.own_cpu_s, child_s=alone.child_cpu_s, asleep_s=max(0.0, rest_s))


def version_of(python: str) -> str:
    code = "import sys; print('%d.%d.%d' % sys.version_info[:3])"
    return subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def cases_of(python: str, version: str, threads: Sequence[int]) -> list[Case]:
    """One thread first, for the network; then more, then what is changed at the most threads."""
    most = max(threads)
    counts = sorted({1, *threads})
    return [
        *(Case(python, version, n, child) for child in CHILDREN_MS for n in counts),
        *(
            Case(python, version, most, child, interval)
            for child in CHILDREN_MS
            for interval in INTERVALS_MS
            if interval != USUAL_MS and most > 1
        ),
        *(Case(python, version, most, "light", spawn=spawn) for spawn in SPAWNS[1:]),
    ]


def beside_network(case: Case, seen: Seen, alone: Seen, cores: float) -> Excess:
    """What *case* gave, beside what the network makes of what one thread of the same gave."""
    machine = Machine(
        cores=cores,
        switch_interval_s=case.interval_ms / 1000,
        foreign_cores=seen.others_cores,
    )
    plain = Machine(**{**asdict(machine), "wake_s": 0.0})
    layouts = [Layout(1, case.threads)]
    loads = [float(predict(demands_of(alone), one, layouts).load[0]) for one in (plain, machine)]
    return excess_of(seen, *loads)


HEADER = (
    "T  child  interval  items/s | holder waiters children     D = service  others  load1 | network:"
    " plain today | excess = waiters     D   rest | run delay  wakes/s"
)


def line(case: Case, seen: Seen, excess: Excess) -> str:
    load1 = "     -" if seen.load1 is None else f"{seen.load1:6.2f}"
    tasks = f"{seen.holder:6.2f} {seen.waiters:7.2f} {seen.children:8.2f} {seen.blocked:5.2f}"
    causes = f"{excess.by_waiters:7.2f} {excess.by_blocked:5.2f} {excess.by_rest:6.2f}"
    return (
        f"{case.threads:<2} {case.child:6} {case.interval_ms:5g} ms {seen.items_per_s:9.1f} |"
        f" {tasks} {seen.service:9.2f} {seen.box - seen.service:7.2f} {load1} |"
        f" {excess.plain:14.2f} {excess.network:5.2f} | {excess.total:6.2f}   {causes} |"
        f" {seen.run_delay:9.2f} {seen.wakes_per_s:8.0f}"
    )


def measure_one(
    python: str, child: Path, options: argparse.Namespace, left_s: float
) -> list[tuple[Case, Seen, Excess]]:
    """All cases of an interpreter, printed as they come."""
    version, threads = version_of(python), [int(one) for one in options.threads.split(",")]
    turns = turns_per_ms(python, child)
    alone: dict[str, Seen] = {}
    found: list[tuple[Case, Seen, Excess]] = []
    cores = float(len(os.sched_getaffinity(0)))
    children = " and ".join(f"{ms:g}" for ms in CHILDREN_MS.values())
    what = f"{cores:g} cores, {PYTHON_MS:g} ms of Python, children of {children} ms"
    say(options, f"\nPython {version}, {what}; all done in {left_s / 60:.0f} min\n{HEADER}")
    for case in cases_of(python, version, threads):
        with running(case, child, turns) as worker:
            seen = watch(worker, options.seconds, wants_load1=options.kernel_load)
        if case.threads == 1:
            alone.setdefault(case.child, seen)
        excess = beside_network(case, seen, alone[case.child], cores)
        found.append((case, seen, excess))
        if case.spawn == "own group":
            say(options, line(case, seen, excess))
        else:
            spawn = f"{case.spawn}:"
            say(options, f"   {spawn:24} {seen.blocked:.3f} threads in D, {seen.items_per_s:.1f} items/s")
    return found


def say(options: argparse.Namespace, text: str) -> None:
    """The table is the result, unless JSON is: then it is progress."""
    print(text, file=sys.stderr if options.json else sys.stdout, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", action="append", metavar="PATH", help="repeatable; default: this one")
    parser.add_argument("--threads", default="1,2,4,8", metavar="T,T")
    parser.add_argument("--seconds", type=float, default=20.0, help="per run; 60 or more with --kernel-load")
    parser.add_argument("--kernel-load", action="store_true", help="load1, too, turned back")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    pythons = options.python or [sys.executable]
    found: list[tuple[Case, Seen, Excess]] = []
    with tempfile.TemporaryDirectory(prefix="convoy-") as folder:
        child = compiled_child(Path(folder))
        n_cases = len(cases_of("", "", [int(one) for one in options.threads.split(",")]))
        each_s = n_cases * (options.seconds + SETTLING_S)
        for number, python in enumerate(pythons):
            found += measure_one(python, child, options, each_s * (len(pythons) - number))
    if options.json:
        json.dump(
            [{**asdict(case), **asdict(seen), **asdict(excess)} for case, seen, excess in found], sys.stdout
        )
        print()


if __name__ == "__main__":
    main()
