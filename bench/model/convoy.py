"""Cause of the additional load of a process whose threads wait for the GIL.

    python bench/model/convoy.py [--python PATH ...] [--threads 1,2,4,8] [--seconds 20] [--kernel-load]

The hypothesis: a thread that waits for the GIL wakes once per switch interval to request it. If all cores are
busy, it first waits for a core, and then finds that the GIL is still held. While it waits for a core, it is
an active task that no item needs. One process runs T threads; an item is Python, a child, Python. Measured,
in tasks:

- holder: share of time in which a thread runs or waits for a core; one at a time can hold the GIL;
- waiters: further threads that run or wait for a core (the kernel's clocks, schedstat, minus the holder);
- children: running or waiting for a core, by samples;
- D: threads in uninterruptible waits, by samples: the alternative cause, a parent that called vfork;
- network: the load of the analytic network, calibrated with one thread of the same interpreter: with waiters
  that sleep while they wait ("plain"), and with the model of today.

The excess is holder + waiters + children + D minus "plain", split by cause: the waiters, D, and the rest. If
the hypothesis holds, waiters explain it, only if cores are busy, and it decreases with a longer switch
interval. One thread has no waiters: its figure is the error of the method. The last table has the threads in
D by the way to start the child. Disturbances are printed as "others".
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from convoy_watching import CHILDREN_MS, PYTHON_MS, SETTLING_S, USUAL_MS, Case, Seen, running, watch
from mix_registry import compiled_child, turns_per_ms

from tuner.core.domain.layout import Layout
from tuner.core.errors import TunerError
from tuner.core.model.demand import Demands
from tuner.core.model.machine import Machine
from tuner.core.model.network import predict

INTERVALS_MS = (1.0, 5.0, 20.0)
#: as `convoy_worker.SPAWNS` has them
SPAWNS = ("own group", "own group, files kept", "usual", "usual, files kept")


@dataclass(frozen=True)
class Excess:
    """A run compared with the network."""

    plain: float  #: the network's load if waiters sleep
    network: float  #: as it is today
    by_waiters: float
    by_blocked: float
    by_rest: float

    @property
    def total(self) -> float:
        return self.by_waiters + self.by_blocked + self.by_rest


def excess_of(seen: Seen, plain: float, network: float) -> Excess:
    """Return the load of a run above *plain*, split by cause."""
    rest = seen.service - plain - seen.waiters - seen.blocked
    return Excess(plain, network, seen.waiters, seen.blocked, rest)


def demands_of(alone: Seen) -> Demands:
    """Return the demands of one thread: its CPU, that of its children, and the rest as a wait."""
    rest_s = (1 - alone.run_delay) / alone.items_per_s - alone.own_cpu_s - alone.child_cpu_s
    return Demands(gil_s=alone.own_cpu_s, child_s=alone.child_cpu_s, asleep_s=max(0.0, rest_s))


def version_of(python: str) -> str:
    code = "import sys; print('%d.%d.%d' % sys.version_info[:3])"
    return subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def cases_of(python: str, version: str, threads: Sequence[int]) -> list[Case]:
    """Return the cases: one thread for the network, then more, then other settings of the most threads."""
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
    """Return the result of *case*, with the network's prediction from one thread."""
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
    turns = turns_per_ms(python, child)
    version = version_of(python)
    alone: dict[str, Seen] = {}
    found: list[tuple[Case, Seen, Excess]] = []
    cores = float(len(os.sched_getaffinity(0)))
    children = " and ".join(f"{ms:g}" for ms in CHILDREN_MS.values())
    what = f"{cores:g} cores, {PYTHON_MS:g} ms of Python, children of {children} ms"
    say(options, f"\nPython {version}, {what}; all done in {left_s / 60:.0f} min\n{HEADER}")
    for case in cases_of(python, version, options.threads):
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


def counts(text: str) -> list[int]:
    found = [int(one) for one in text.split(",")]
    if min(found) < 1:
        raise ValueError(text)
    return found


def length_s(text: str) -> float:
    seconds = float(text)
    if not 1 <= seconds < float("inf"):
        raise ValueError(text)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", action="append", metavar="PATH", help="repeatable; default: this one")
    parser.add_argument("--threads", type=counts, default=[1, 2, 4, 8], metavar="T,T")
    parser.add_argument(
        "--seconds", type=length_s, default=20.0, help="per run; 60 or more with --kernel-load"
    )
    parser.add_argument("--kernel-load", action="store_true", help="load1, too, turned back")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    try:
        experiment(options)
    except TunerError as error:
        print("\n".join(filter(None, [f"Error: {error}", error.hint])), file=sys.stderr)
        sys.exit(error.exit_code)


def experiment(options: argparse.Namespace) -> None:
    """All interpreters, one after the other."""
    pythons = options.python or [sys.executable]
    found: list[tuple[Case, Seen, Excess]] = []
    with tempfile.TemporaryDirectory(prefix="convoy-") as folder:
        child = compiled_child(Path(folder))
        n_cases = len(cases_of("", "", options.threads))
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
