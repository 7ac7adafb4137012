"""Error of the analytic network relative to the simulation, for random services on a large host; its speed.

    python bench/model/analytic.py [--services 40] [--cores 24] [--physical 12] [--grid full] [--items 40000]
                                   [--seed 1] [--worst 10] [--json]

Every service is random: CPU from a fiftieth of a second to seconds, a random part of it with the GIL, waits
from none to ten times the CPU, 2 to 6 GIL visits, cv from 0.2 to 1. Each is simulated (`tuner-simulate`) and
predicted in every layout of the grid. An error is predicted / simulated - 1. "in a convoy" are layouts in
which a quarter of a thread or more waits for the GIL, per process. A service's regret is the loss of the
network's best layout relative to the simulation's best. wake_s is 0, because the simulation has no wake-ups
of threads that wait for the GIL.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random

from tuner.adapters.virtual.simulator import simulate_all
from tuner.core.domain.layout import Layout, divisors_grid, full_grid
from tuner.core.model.demand import Demands
from tuner.core.model.machine import Machine
from tuner.core.model.network import predict
from tuner.core.model.simulation.scenario import Simulated, scenario_of

CONVOY = 0.25  #: threads per process that wait for its GIL
WARM_SHARE = 0.1
TIMED_ROUNDS = 7


@dataclass(frozen=True)
class Case:
    """One service in one layout."""

    service: int
    demands: Demands
    layout: Layout
    simulated: Simulated
    throughput_per_s: float  #: predicted, as the rest
    load: float
    gil_utilization_ratio: float
    n_gil_waiting: float

    @property
    def throughput_error(self) -> float:
        return self.throughput_per_s / self.simulated.throughput_per_s - 1

    @property
    def load_error(self) -> float:
        return self.load / self.simulated.load - 1

    @property
    def is_convoy(self) -> bool:
        return self.simulated.n_gil_waiting >= CONVOY * self.layout.processes


def random_demands(random: Random) -> Demands:
    """A service: how much CPU, how it is divided, how much it waits."""
    cpu_s = math.exp(random.uniform(math.log(0.02), math.log(4)))
    gil, python, child = (random.expovariate(1) for _ in range(3))
    python *= random.random() < 0.4
    child *= random.random() < 0.8
    whole = gil + python + child
    waiting_s = cpu_s * math.exp(random.uniform(math.log(0.05), math.log(10))) * (random.random() < 0.9)
    blocked = random.random() * (random.random() < 0.5)
    return Demands(
        gil_s=cpu_s * gil / whole,
        python_s=cpu_s * python / whole,
        child_s=cpu_s * child / whole,
        asleep_s=waiting_s * (1 - blocked),
        blocked_s=waiting_s * blocked,
        spawn_s=0.003 * (child > 0),
        n_gil_visits=random.choice([2, 2, 3, 4, 6]),
        cv_ratio=random.choice([0.2, 0.5, 1.0]),
    )


def cases_of(options: argparse.Namespace, machine: Machine, layouts: Sequence[Layout]) -> list[Case]:
    random = Random(options.seed)
    cases = []
    for service in range(options.services):
        demands = random_demands(random)
        simulated = simulate_all(
            scenario_of(
                demands,
                machine,
                layout,
                seed=random.getrandbits(64),
                n_items=options.items,
                n_warm_items=int(options.items * WARM_SHARE),
            )
            for layout in layouts
        )
        said = predict(demands, machine, layouts)
        cases += [
            Case(
                service,
                demands,
                layout,
                simulated[i],
                throughput_per_s=float(said.throughput_per_s[i]),
                load=float(said.load[i]),
                gil_utilization_ratio=float(said.gil_utilization_ratio[i]),
                n_gil_waiting=float(said.n_gil_waiting[i]),
            )
            for i, layout in enumerate(layouts)
        ]
        if sys.stderr.isatty():
            print(f"\r{service + 1} of {options.services} services", end="", file=sys.stderr)
    return cases


def regrets(cases: Iterable[Case]) -> list[float]:
    """Return the cost of following the network by service, as a share of the best throughput."""
    services: dict[int, list[Case]] = {}
    for case in cases:
        services.setdefault(case.service, []).append(case)
    found = []
    for grid in services.values():
        best = max(case.simulated.throughput_per_s for case in grid)
        liked = max(grid, key=lambda case: case.throughput_per_s)
        found.append(1 - liked.simulated.throughput_per_s / best)
    return found


def figures(values: Iterable[float]) -> dict[str, float]:
    """Of absolute values: mean, 95th percentile, the largest; and the mean with its sign."""
    signed = list(values)
    ordered = sorted(map(abs, signed))
    if not ordered:
        return {"n": 0}
    return {
        "n": len(ordered),
        "mean": statistics.fmean(ordered),
        "p95": ordered[math.ceil(0.95 * len(ordered)) - 1],
        "max": ordered[-1],
        "bias": statistics.fmean(signed),
    }


def median_s(what: Callable[[], object]) -> float:
    times = []
    for _ in range(TIMED_ROUNDS):
        began_s = time.perf_counter()
        what()
        times.append(time.perf_counter() - began_s)
    return statistics.median(times)


def speeds(demands: Demands) -> dict[str, float]:
    """Seconds to predict a whole grid."""
    every = full_grid(24)[:150]
    many = sorted({Layout(p, t) for p in range(1, 97) for t in range(1, 289) if p * t <= 288})
    many = [many[i * len(many) // 1000] for i in range(1000)]
    return {
        "150 layouts, 24 cores": median_s(lambda: predict(demands, Machine(cores=24), every)),
        f"{len(many)} layouts, 96 cores": median_s(lambda: predict(demands, Machine(cores=96), many)),
    }


def report(cases: Sequence[Case]) -> dict[str, dict[str, float]]:
    convoy, calm = [one for one in cases if one.is_convoy], [one for one in cases if not one.is_convoy]
    table = {
        "throughput": figures(one.throughput_error for one in cases),
        "throughput, in a convoy": figures(one.throughput_error for one in convoy),
        "throughput, elsewhere": figures(one.throughput_error for one in calm),
        "load": figures(one.load_error for one in cases),
        "load, in a convoy": figures(one.load_error for one in convoy),
        "load, elsewhere": figures(one.load_error for one in calm),
        "GIL busy share (absolute)": figures(
            one.gil_utilization_ratio - one.simulated.gil_utilization_ratio for one in cases
        ),
        "threads in line (share of all threads)": figures(
            (one.n_gil_waiting - one.simulated.n_gil_waiting) / (one.layout.processes * one.layout.threads)
            for one in cases
        ),
        "regret of its best layout": figures(regrets(cases)),
        "the simulation's own standard error": figures(
            one.simulated.throughput_error_per_s / one.simulated.throughput_per_s for one in cases
        ),
    }
    for visits in sorted({one.demands.n_gil_visits for one in cases}):
        there = [one for one in cases if one.demands.n_gil_visits == visits]
        table[f"throughput, {visits} GIL visits"] = figures(one.throughput_error for one in there)
    for cv in sorted({one.demands.cv_ratio for one in cases}):
        there = [one for one in cases if one.demands.cv_ratio == cv]
        table[f"throughput, cv {cv}"] = figures(one.throughput_error for one in there)
    return table


def print_worst(cases: Sequence[Case], n: int) -> None:
    print("\n| error | load error | layout | GIL busy | in line | runnable | demands |\n|" + "---|" * 7)
    for one in sorted(cases, key=lambda one: -abs(one.throughput_error))[:n]:
        of, seen = one.demands, one.simulated
        parts = " ".join(
            f"{name[:-2]} {getattr(of, name):.3g}"
            for name in ("gil_s", "python_s", "child_s", "asleep_s", "blocked_s")
        )
        print(
            f"| {one.throughput_error:+.1%} | {one.load_error:+.1%} | {one.layout} "
            f"| {seen.gil_utilization_ratio:.2f} | {seen.n_gil_waiting:.1f} "
            f"| {seen.load - seen.n_blocked:.1f} "
            f"| {parts} visits {of.n_gil_visits} cv {of.cv_ratio} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--services", type=int, default=40)
    parser.add_argument("--cores", type=float, default=24)
    parser.add_argument("--physical", type=float, help="physical cores, for SMT (default: no SMT)")
    parser.add_argument("--grid", choices=("divisors", "full"), default="divisors")
    parser.add_argument("--items", type=int, default=40_000, help="measured per case")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--worst", type=int, default=0, help="cases to list")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    machine = Machine(cores=options.cores, physical_cores=options.physical, wake_s=0.0)
    layouts = (divisors_grid if options.grid == "divisors" else full_grid)(int(options.cores))
    began_s = time.perf_counter()
    cases = cases_of(options, machine, layouts)
    table = report(cases)
    took_s = time.perf_counter() - began_s
    timed = speeds(cases[0].demands)
    if options.json:
        print(json.dumps({"errors": table, "seconds": timed}, indent=2))
        return
    n_events = sum(one.simulated.n_events for one in cases)
    print(
        f"\n{options.services} services x {len(layouts)} layouts: "
        f"{n_events / 1e6:.0f} M events in {took_s:.0f} s\n"
    )
    print("| | cases | mean | p95 | max | bias |\n|" + "---|" * 6)
    for name, one in table.items():
        if one["n"]:
            cells = " | ".join(f"{one[key]:.2%}" for key in ("mean", "p95", "max", "bias"))
            print(f"| {name} | {one['n']} | {cells} |")
    print("\n| predicting | ms |\n|---|---|")
    for name, seconds in timed.items():
        print(f"| {name} | {1000 * seconds:.1f} |")
    if options.worst:
        print_worst(cases, options.worst)


if __name__ == "__main__":
    main()
