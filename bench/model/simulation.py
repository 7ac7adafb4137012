"""Events per second of the simulation, in C and in Python, compared with SimPy and Ciw on the same networks.

    python bench/model/simulation.py [--rounds 5] [--items 20000] [--c-items 1000000] [--json]

The dependency group `bench-model` installs SimPy and Ciw. The programs alternate, with another seed in every
round; figures are medians over rounds. An event is the end of a stage, or a forced hand-over of the GIL, for
all programs; SimPy and Ciw schedule more than these. Time is CPU time, which a busy host changes less: that
of the run, and for the C program that of its whole process. Throughput is the mean over rounds, and must
agree within 1 %; otherwise the exit code is 1. Ciw's customers cannot hold a GIL while they compute, so its
network has none.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import time
from dataclasses import dataclass, replace

from simulation_peers import InterruptedCores, PeerRun, VirtualTimeCores, run_ciw, run_simpy

from tuner.adapters.virtual.simulator import simulate_all
from tuner.core.domain.layout import Layout
from tuner.core.model.demand import Demands
from tuner.core.model.machine import Machine
from tuner.core.model.simulation.scenario import Scenario, Simulated, scenario_of, simulate

WARM_SHARE = 0.1
AGREE = 0.01
OURS = "tuner-simulate (C)"
#: in order; without a GIL for Ciw's sake
NETWORKS = {
    "24x1, no GIL, 12 cores": (
        Layout(24, 1),
        Demands(gil_s=0.0, child_s=1.0, asleep_s=0.4, blocked_s=0.1, cv_ratio=0.5),
        Machine(cores=12, has_gil=False),
    ),
    "4x6, GIL, 24 cores": (
        Layout(4, 6),
        Demands(gil_s=0.006, child_s=0.05, asleep_s=0.02, blocked_s=0.01, spawn_s=0.002, cv_ratio=0.5),
        Machine(cores=24),
    ),
    "8x8, GIL, long visits, 24 cores": (
        Layout(8, 8),
        Demands(gil_s=0.08, child_s=0.5, asleep_s=0.3, blocked_s=0.1, cv_ratio=0.5),
        Machine(cores=24),
    ),
}


@dataclass(frozen=True)
class Row:
    network: str
    program: str
    events_per_s: float
    throughput_per_s: float
    ours_over_it: float  #: median over rounds of the ratio in the same round
    apart: float  #: its throughput over ours, less 1


def timed_c(scenario: Scenario) -> PeerRun:
    began_s = _children_cpu_s()
    (one,) = simulate_all([scenario])
    return _run_of(one, _children_cpu_s() - began_s)


def timed_twin(scenario: Scenario) -> PeerRun:
    began_s = time.process_time()
    one = simulate(scenario)
    return _run_of(one, time.process_time() - began_s)


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _run_of(one: Simulated, took_s: float) -> PeerRun:
    return PeerRun(one.throughput_per_s, one.n_events, took_s)


def measure(name: str, options: argparse.Namespace) -> list[Row]:
    layout, demands, machine = NETWORKS[name]
    runs: dict[str, list[PeerRun]] = {}
    for seed in range(options.rounds):
        scenario = scenario_of(
            demands,
            machine,
            layout,
            seed=seed,
            n_items=options.items,
            n_warm_items=int(options.items * WARM_SHARE),
        )
        long = replace(scenario, n_items=options.c_items, n_warm_items=int(options.c_items * WARM_SHARE))
        ours = timed_c(long)
        runs.setdefault(OURS, []).append(ours)
        runs.setdefault("twin (Python)", []).append(timed_twin(scenario))
        runs.setdefault("SimPy", []).append(run_simpy(scenario, InterruptedCores))
        runs.setdefault("SimPy, virtual time", []).append(run_simpy(scenario, VirtualTimeCores))
        if not machine.has_gil:
            runs.setdefault("Ciw", []).append(run_ciw(scenario, scenario.n_items / ours.throughput_per_s))
        print(f"{name}: round {seed + 1} of {options.rounds}", file=sys.stderr)
    mean = {program: statistics.fmean(one.throughput_per_s for one in all_) for program, all_ in runs.items()}
    return [
        Row(
            network=name,
            program=program,
            events_per_s=statistics.median(map(events_per_s, all_)),
            throughput_per_s=mean[program],
            ours_over_it=statistics.median(
                events_per_s(ours) / events_per_s(one) for ours, one in zip(runs[OURS], all_, strict=True)
            ),
            apart=mean[program] / mean[OURS] - 1,
        )
        for program, all_ in runs.items()
    ]


def events_per_s(run: PeerRun) -> float:
    return run.n_events / run.took_s


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--items", type=int, default=20_000, help="measured items, in Python")
    parser.add_argument("--c-items", type=int, default=1_000_000, help="measured items, in C")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = [row for name in NETWORKS for row in measure(name, options)]
    if options.json:
        print(json.dumps([row.__dict__ for row in rows], indent=2))
    else:
        print(
            "| network | program | events/s | C is so many times as fast | items/s | apart |\n|" + "---|" * 6
        )
        for row in rows:
            print(
                f"| {row.network} | {row.program} | {row.events_per_s:,.0f} | {row.ours_over_it:,.0f} "
                f"| {row.throughput_per_s:.2f} | {row.apart:+.2%} |"
            )
    return 0 if all(abs(row.apart) <= AGREE for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
