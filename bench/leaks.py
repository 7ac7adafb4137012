"""Rates of detected and of false memory leaks.

    python bench/leaks.py [--studies 400] [--races 40] [--seed 1]

Each line is one design with 30 minutes of windows of the best layout. In every study, the best layout runs
with others that have no leak and as many launches. A layout has 1 to 24 processes of 40 to 100 MB. The memory
of a launch also has

- a start: 5 to 60 MB are filled with a time constant of 20 to 120 s, partly during the warm-up;
- garbage collection: in each process a saw-tooth of 0.2 to 3 MB, with a period of 10 to 200 s;
- steps of 0.1 to 1 MB, up as often as down, in each process at most one in ten minutes;
- scatter of 0.1 % of the memory between samples, which are 5 to 15 s apart.

"Found" is the share of studies that report a leak of 1 MB/min of the best layout (bar: 95 %). "false" is the
share that report a leak where there is none (bar: 5 %). "slow" is the same with a start of 10 minutes (no
bar: in launches of ten minutes, such a start looks like a leak). Studies that report a leak launch the best
layout and another one for an hour each, as a race does: "longer" is the share of all studies that then still
report the leak. Intervals are Wilson's, 95 %. "Growth" is the median of the reported growth, in MB/min.

Then the bench simulates races of the best layout of the world `leaking-best`, its two rivals and one other
layout, in windows of ten minutes. The best layout loses 0, 5 or 20 % of its throughput per hour. "Longer" is
the share of races that launch it for longer. "overtaken" is the share that name no layout because it falls
below its rival there. "windows" is the mean number of windows.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

from tuner.adapters.virtual.box import Noise, VirtualBox, VirtualService, virtual_study
from tuner.adapters.virtual.memory import MemoryProgress, MemoryStore, PlannedStop
from tuner.config.suite import read_suite
from tuner.core.ranking.aging import LongerLaunch
from tuner.core.search.strategies.of_study import strategy_of
from tuner.core.search.suite import Suite
from tuner.core.stats.interval import wilson_interval
from tuner.core.windows.memory_growth import Look, MemoryGrowth, pool_growth
from tuner.study.aging import longer_launch_result
from tuner.study.run import run_study

MB = 1e6
CONFIDENCE = 0.95
HORIZON_S = 86_400.0
WARMUP_S = 45.0
LONGER_S = 3600.0
WORLD = Path(__file__).parent / "worlds" / "leaking-best.json"
LOSSES = (0.0, 0.05, 0.2)


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
) -> tuple[MemoryGrowth | None, MemoryGrowth | None]:
    """Return the reports on the best layout, also after the longer launches; None: no report."""
    services = [Service.drawn(draw, None if number else start_s) for number in range(1 + design.n_others)]
    launches: dict[int, list[list[Look]]] = {
        number: [
            launch(of, draw, design.window_s, 0.0 if number else leak_per_min)
            for _ in range(design.n_launches)
        ]
        for number, of in enumerate(services)
    }
    found = reported(launches)
    if found is None or not found.is_shown:
        return found, None
    for number, of in list(enumerate(services))[:2]:
        launches[number].append(launch(of, draw, LONGER_S, 0.0 if number else leak_per_min))
    return found, reported(launches)


def reported(launches: dict[int, list[list[Look]]]) -> MemoryGrowth | None:
    memory = {
        number: statistics.fmean(value for looks in own for _, value in looks)
        for number, own in launches.items()
    }
    return pool_growth(launches, memory, CONFIDENCE, HORIZON_S).get(0)


def share(n: int, of: int) -> str:
    low, high = wilson_interval(n, of)
    return f"{100 * n / of:4.1f} % ({100 * low:.1f}-{100 * high:.1f})"


def race(world: Suite, number: int, loss_per_h: float, seed: int) -> tuple[LongerLaunch | None, int]:
    """Return the result of the longer launches of a race, if any, and its number of windows."""
    surface = number % len(world.surfaces)
    rates = sorted(zip(world.surfaces[surface], world.layouts, strict=True), reverse=True)[:4]
    items_per_s = {layout: per_10min / 600 for per_10min, layout in rates}
    best = max(items_per_s, key=lambda layout: items_per_s[layout])
    service = VirtualService(items_per_s, trend_per_h={best: math.log(1 - loss_per_h)})
    store = MemoryStore(
        virtual_study(
            service,
            strategy="race",
            kind="strict",
            n_blocks=0,
            within_ratio=world.within,
            cores=world.cores,
            warms_cache=False,
            seed=seed + number,
        )
    )
    noise = Noise(window_sd=world.noise.window_sd, launch_sd=world.noise.launch_sd)
    box = VirtualBox(service, noise, seed=f"{seed}/{number}/{loss_per_h}").box()
    strategy = strategy_of(store.study())
    run_study(box, store, MemoryProgress(), PlannedStop(), strategy)
    return longer_launch_result(store, store.sums(), strategy.answer()), len(store.windows())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--studies", type=int, default=400)
    parser.add_argument("--races", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    columns = [f"{kind}{when}" for kind in ("found", "false", "slow") for when in ("", ", longer")]
    print(f"{'design':41}  {'  '.join(f'{one:>18}' for one in columns)}  growth")
    for design in DESIGNS if asked.studies else ():
        began_s = time.process_time()
        shares: list[str] = []
        seen: list[float] = []
        for kind, (leak, start_s) in enumerate([(1.0, None), (0.0, None), (0.0, 600.0)]):
            draw = random.Random(f"{asked.seed}/{design.name}/{kind}")
            for studies in zip(
                *(study(design, draw, leak, start_s) for _ in range(asked.studies)), strict=True
            ):
                shown = [one for one in studies if one is not None and one.is_shown]
                shares.append(share(len(shown), asked.studies))
                if leak and not seen:
                    seen = [(one.per_h.mean or 0.0) / MB / 60 for one in shown]
        growth = statistics.median(seen) if seen else math.nan
        figures = "  ".join(f"{one:>18}" for one in shares)
        print(
            f"{design.name:41}  {figures}  {growth:.2f}  ({time.process_time() - began_s:.0f} s of CPU)",
            flush=True,
        )
    world = read_suite(WORLD)
    print(f"\n{'loss per hour':>13}  {'longer':>18}  {'overtaken':>18}  windows")
    for loss in LOSSES if asked.races else ():
        began_s = time.process_time()
        found = [race(world, number, loss, asked.seed) for number in range(asked.races)]
        longer = [one for one, _ in found if one is not None]
        figures = "  ".join(
            f"{share(n, asked.races):>18}" for n in (len(longer), sum(one.is_overtaken for one in longer))
        )
        windows = statistics.fmean(n for _, n in found)
        lasted_s = time.process_time() - began_s
        print(f"{100 * loss:11.0f} %  {figures}  {windows:.1f}  ({lasted_s:.0f} s of CPU)", flush=True)


if __name__ == "__main__":
    main()
