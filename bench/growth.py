"""Error rate of strict races over grids that scouts have enlarged.

    python bench/growth.py [CASE ...] [--studies 1000] [--seed 1] [--processes N]

Each study is complete: scouts walk from the edge of the grid of 4 cores without a known bottleneck, so only
the measured gain decides; the grid grows; a strict race measures the grown grid. *Right*: the named layout is
within 2 % of the best of the grown grid (goal: 95 %). The services are difficult:

- step: each doubling gives exactly 5 % more, so that noise alone decides each step of the walk. For each
  number of threads, two layouts are just outside the margin (by a factor of 1.02).
- level: more threads give nothing, so that a grid grows only by chance; again with two such rivals.
- drift: as step, on a host that drifts by 6 %.
- knee: services that wait, with random waits; layouts deviate by 2 %.

*Fixed* is the same race over the most frequent grown grid, given as an option. *Counted* is a race that also
uses the scouts' windows, which tuner does not do. Both are of step and level. Intervals are Wilson's, 95 %.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import exp, log
from random import Random
from statistics import fmean

from tuner.adapters.processes.worker_processes import each_in_processes
from tuner.core.domain.layout import Layout, divisors_grid
from tuner.core.domain.strategy import Goal, Observed, Proposal
from tuner.core.planning.replay import run
from tuner.core.search.growth import Scout, added_layouts, walk
from tuner.core.search.racing import Race
from tuner.core.search.suite import Suite, SuiteNoise
from tuner.core.stats.interval import wilson_interval

MARGIN = -log(0.98)
CORES, MOST = 4, 1024  #: threads in all: beyond it no layout is measured here
SCOUT_S, WINDOW_S = 600.0, 600.0  #: as long as the race's: then their noise is as large as can be
_SIDE = {4: 0.0, 2: 1.02 * MARGIN, 1: 1.02 * MARGIN}  #: how far below the best of as many threads in all
Truth = Callable[[Layout, Random], float]


@dataclass(frozen=True, slots=True)
class Case:
    """One line of the table."""

    name: str
    sd: float
    drift_sd: float
    counts: bool = False
    fixed: tuple[Layout, ...] = ()
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Done:
    """Result of one study."""

    right: bool
    n_windows: int
    layouts: tuple[Layout, ...]
    n_scouts: int


def step(layout: Layout, _: Random) -> float:
    doublings = log(layout.total_threads / (2 * CORES)) / log(2)
    return 2600 * exp(log(1.05) * doublings - _SIDE[min(4, layout.processes)])


def level(layout: Layout, _: Random) -> float:
    few = layout.total_threads < 2 * CORES
    return 1900.0 if few else 2600 * exp(-_SIDE[min(4, layout.processes)])


def knee(layout: Layout, random: Random) -> float:
    wait_s, cpu_s = 0.012 * exp(random.uniform(0, 5)), 0.012
    own = Random(f"{random.random()}/{layout}").gauss(0, 0.02)
    alone = layout.total_threads / (wait_s + cpu_s)
    most = min(layout.processes, CORES) / cpu_s
    return 600 * exp(own) * most * (1 - exp(-alone / most))


TRUTHS: dict[str, Truth] = {"step": step, "drift": step, "level": level, "knee": knee}


def every_layout() -> list[Layout]:
    """All that a walk of this grid may come to."""
    found = set(divisors_grid(CORES))
    processes = 1
    while processes <= MOST:
        found |= {Layout(processes, 2**n) for n in range(11) if processes * 2**n <= MOST}
        processes *= 2
    return sorted(found)


def study(case: Case, number: int) -> Done:
    stream = f"{case.seed}/{case.name}/{number}"
    layouts = every_layout()
    truth = {layout: TRUTHS[case.name](layout, Random(stream)) for layout in layouts}
    noise = SuiteNoise(window_sd=case.sd, drift_sd=case.drift_sd, drift_ar1_per_600s=0.95)
    row = tuple(truth[layout] for layout in layouts)
    suite = Suite("growth", tuple(layouts), (row,), noise, window_s=WINDOW_S, cores=CORES)
    box = suite.box(0, stream)
    grid = divisors_grid(CORES)
    scouts: list[Scout] = []
    windows: list[Observed] = []

    def refuses(layout: Layout) -> str | None:
        return None if layout in truth else "too large"

    while not case.fixed and (next_one := (ways := walk(grid, scouts, refuses))[-1].next) is not None:
        (window,) = box.take(Proposal(next_one, SCOUT_S))
        windows.append(window)
        scouts.append(Scout(next_one, window.value))
    of_study = case.fixed or (*grid, *added_layouts(grid, ways, refuses))
    goal = Goal(tuple(of_study), cores=CORES, min_window_s=WINDOW_S, max_window_s=WINDOW_S)
    race = Race(goal, Random(f"{stream}/strategy").getrandbits(32))
    if case.counts:
        race.learn([window for window in windows if window.layout in of_study])
    before = box.n_windows
    done = run(race, goal, box)
    best = max(truth[layout] for layout in of_study)
    right = done.answered and done.layout is not None and truth[done.layout] >= 0.98 * best * (1 - 1e-12)
    return Done(right, done.n_windows - before, tuple(of_study), len(scouts))


def told(case: Case, runs: Sequence[Done]) -> str:
    right = sum(one.right for one in runs)
    low, high = wilson_interval(right, len(runs))
    grown = sum(len(one.layouts) > len(divisors_grid(CORES)) for one in runs) / len(runs)
    kind = "fixed" if case.fixed else "counted" if case.counts else "grown"
    return (
        f"{case.name:<6} {kind:<8} noise {100 * case.sd:.2f} %, drift {100 * case.drift_sd:.0f} %:"
        f" grew in {100 * grown:5.1f} %, {fmean([len(one.layouts) for one in runs]):4.1f} layouts,"
        f" {fmean([one.n_scouts for one in runs]):4.1f} scouts, {fmean([one.n_windows for one in runs]):5.1f}"
        f" windows, right {100 * right / len(runs):5.1f} % ({100 * low:.1f}-{100 * high:.1f})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--studies", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("cases", nargs="*", default=["step", "drift", "level", "knee"])
    options = parser.parse_args()

    def each(case: Case) -> list[Done]:
        return list(each_in_processes(study, case, range(options.studies), options.processes))

    for name in options.cases:
        plain = Case(name, 0.0522, 0.06 if name == "drift" else 0.0, seed=options.seed)
        grown = each(plain)
        print(told(plain, grown), flush=True)
        usual, _ = Counter(one.layouts for one in grown).most_common(1)[0]
        for case in (replace(plain, fixed=usual), replace(plain, counts=True)):
            if name in ("step", "level"):
                print(told(case, each(case)), flush=True)


if __name__ == "__main__":
    main()
