"""How often a leak of memory is found, and a false one reported.

    python bench/leaks.py [--studies 400] [--seed 1]

Each line is one design with 30 minutes of windows of the best layout. In every study the best layout runs
with others that have no leak and as many launches. A layout has 1 to 24 processes of 40 to 100 MB.
The memory of a launch also has

- a start: 5 to 60 MB are filled with a time constant of 20 to 120 s, of which the warm-up sees a part;
- garbage collection: in each process a saw-tooth of 0.2 to 3 MB, with a period of 10 to 200 s;
- steps of 0.1 to 1 MB, up as often as down, in each process up to one in ten minutes;
- scatter of 0.1 % of the memory from look to look, which are 5 to 15 s apart.

"Found" is the share of studies that report a leak of 1 MB/min of the best layout (bar: 95 %), "false" the
share that report one where there is none (bar: 5 %), "slow" the same where the start takes 10 minutes (no
bar: launches of ten minutes cannot tell it from a leak). "Growth" is the median of what is reported of the
leak, in MB/min.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import time
from dataclasses import dataclass

from tuner.core.stats.slopes import pool_slopes
from tuner.core.windows.memory_growth import Look, MemoryGrowth, growth_slopes

MB = 1e6
CONFIDENCE = 0.95
HORIZON_S = 86_400.0
WARMUP_S = 45.0


@dataclass(frozen=True)
class Design:
    name: str
    n_launches: int
    window_s: float
    n_others: int


DESIGNS = [
    Design("3 launches of 10 minutes, 23 other layouts", 3, 600, 23),
    Design("3 launches of 10 minutes, 5 other layouts", 3, 600, 5),
    Design("3 launches of 10 minutes, 1 other layout", 3, 600, 1),
    Design("3 launches of 10 minutes alone", 3, 600, 0),
    Design("6 launches of 5 minutes, 5 other layouts", 6, 300, 5),
    Design("2 launches of 15 minutes, 5 other layouts", 2, 900, 5),
    Design("1 launch of 30 minutes alone", 1, 1800, 0),
]


@dataclass(frozen=True)
class Service:
    """The properties that the launches of a layout share; sizes in MB."""

    n_processes: int
    of_each: float
    start: float
    start_s: float
    tooth: float
    period_s: float
    step: float
    steps_per_s: float
    look_s: float

    @classmethod
    def drawn(cls, draw: random.Random, start_s: float | None) -> Service:
        return cls(
            n_processes=round(math.exp(draw.uniform(0, math.log(24)))),
            of_each=draw.uniform(40, 100),
            start=draw.uniform(5, 60),
            start_s=math.exp(draw.uniform(math.log(20), math.log(120))) if start_s is None else start_s,
            tooth=draw.uniform(0.2, 3),
            period_s=math.exp(draw.uniform(math.log(10), math.log(200))),
            step=draw.uniform(0.1, 1),
            steps_per_s=draw.uniform(0, 1) / 600,
            look_s=draw.uniform(5, 15),
        )


def launch(of: Service, draw: random.Random, window_s: float, leak_per_min: float) -> list[Look]:
    looks, at_s = [], WARMUP_S
    phases = [draw.random() for _ in range(of.n_processes)]
    usual = of.n_processes * of.of_each
    while at_s <= WARMUP_S + window_s:
        memory = usual + of.start * (1 - math.exp(-at_s / of.start_s)) + leak_per_min * at_s / 60
        memory += of.tooth * sum(phase % 1.0 for phase in phases) + draw.gauss(0, 0.001 * usual)
        looks.append((at_s, memory * MB))
        passed_s = of.look_s * draw.uniform(0.8, 1.2)
        at_s += passed_s
        phases = [phase + passed_s / of.period_s * draw.uniform(0.8, 1.2) for phase in phases]
        if draw.random() < of.n_processes * of.steps_per_s * passed_s:
            usual += draw.choice((-1, 1)) * of.step
    return looks


def study(
    design: Design, draw: random.Random, leak_per_min: float, start_s: float | None = None
) -> MemoryGrowth | None:
    groups = {}
    for number in range(1 + design.n_others):
        of = Service.drawn(draw, None if number else start_s)
        own = [
            launch(of, draw, design.window_s, 0.0 if number else leak_per_min)
            for _ in range(design.n_launches)
        ]
        groups[number] = growth_slopes(own)
        if not number:
            memory = statistics.fmean(value for looks in own for _, value in looks)
    found = pool_slopes(groups, 2 * CONFIDENCE - 1).get(0)
    return None if found is None else MemoryGrowth(found, memory, HORIZON_S)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--studies", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    print(f"{'design':45}  {'found':>6}  {'false':>6}  {'slow':>6}  growth")
    for design in DESIGNS:
        began_s = time.process_time()
        shares, seen = [], []
        for kind, (leak, start_s) in enumerate([(1.0, None), (0.0, None), (0.0, 600.0)]):
            draw = random.Random(f"{asked.seed}/{design.name}/{kind}")
            all_found = [study(design, draw, leak, start_s) for _ in range(asked.studies)]
            shown = [one for one in all_found if one is not None and one.is_shown]
            shares.append(len(shown) / asked.studies)
            if leak:
                seen = [(one.per_h.mean or 0.0) / MB / 60 for one in shown]
        growth = statistics.median(seen) if seen else math.nan
        figures = "  ".join(f"{100 * share:4.1f} %" for share in shares)
        print(f"{design.name:45}  {figures}  {growth:.2f}  ({time.process_time() - began_s:.0f} s of CPU)")


if __name__ == "__main__":
    main()
