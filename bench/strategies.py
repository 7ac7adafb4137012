"""Strategies compared on the same surfaces with the same noise, in one run.

    python bench/strategies.py SUITE ... [--studies 200] [--slow-studies 40] [--seed 1] [--processes N]

SUITE is a suite's JSON file or the name of one of tuner's own (`docs/method/replay.md`). A table per suite:

- "ends at": the mean cost of a strategy that ends by itself, "right" its share of right answers;
- "at the race's cost": its share of right answers with the mean cost of the strict race as its budget (the
  mean of all studies: a race needs more on hard surfaces, but the budget is the same on all);
- "95 % right at": the least budget of a ladder with 95 % right answers, or "never".

Costs are windows. If the suite leaves the length of windows free, costs are hours, and all strategies but the
race use windows of ten minutes. The grid ("all") that chooses its size, and F-race, have no budget (6000
windows at most). Optuna and SMAC3 run only on the first --slow-studies surfaces, because SMAC3 takes seconds
of CPU per study. At 95 %, a share has a standard error of 1.5 points in 200 studies, and of 3.4 points in 40.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from statistics import fmean

from search_peers import OptunaTpe, Smac, missing
from suites_named import suite_named

from tuner.adapters.processes.worker_processes import each_in_processes
from tuner.core.defaults import WINDOW_S
from tuner.core.domain.strategy import Answer, Goal, Strategy
from tuner.core.planning.replay import run
from tuner.core.search.strategies import make_strategy
from tuner.core.search.suite import SimulatedBox, Suite

Make = Callable[[Goal, int, int], Strategy]  #: goal, seed, budget in windows

STRICT, CALIBRATED = -1, -2
MOST_WINDOWS = 6000
EACH = (1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 25, 32, 40, 50, 64, 83)  #: the ladder: windows per layout


@dataclass(frozen=True)
class Contestant:
    name: str
    make: Make
    ends: bool  #: by itself
    most_each: int  #: the end of its ladder; 0: none is tried
    package: str | None = None  #: what it needs beside tuner; such are slow
    at_any_time: bool = False  #: it does the same whatever its budget, and names its best after each window


def ours(name: str, goal: Goal, seed: int, n_windows: int | None) -> Strategy:
    return make_strategy(name, goal, seed, n_windows)


def ours_alone(name: str, goal: Goal, seed: int, _n_windows: int) -> Strategy:
    return make_strategy(name, goal, seed, MOST_WINDOWS if name == "f-race" else None)


def optuna(names: str, goal: Goal, seed: int, n_windows: int) -> Strategy:
    return OptunaTpe(goal, seed, n_windows, names)


CONTESTANTS = (
    Contestant("all, sized by power analysis", partial(ours_alone, "all"), True, 0),
    Contestant("all", partial(ours, "all"), False, 83),
    Contestant("in order (2014)", partial(ours, "in-order"), False, 83),
    Contestant("successive halving", partial(ours, "successive-halving"), False, 83),
    Contestant("F-race", partial(ours_alone, "f-race"), True, 0),
    Contestant("Optuna TPE, best trial", partial(optuna, "best trial"), False, 20, "optuna", True),
    Contestant("Optuna TPE, best mean", partial(optuna, "best mean"), False, 20, "optuna", True),
    Contestant("SMAC3", Smac, True, 0, "smac"),
)


@dataclass(frozen=True)
class Task:
    """One study of one contestant."""

    contestant: int  #: STRICT, CALIBRATED, or a place in CONTESTANTS
    n_windows: int
    surface: int
    looks_at: tuple[int, ...] = ()  #: budgets below n_windows, for what names its best at any time


@dataclass(frozen=True)
class Shared:
    suite: Suite
    seed: int


@dataclass(frozen=True)
class Cost:
    right: bool
    n_windows: int
    hours: float
    right_at: tuple[bool, ...] = ()  #: at each budget that was to be looked at


def one_study(shared: Shared, task: Task) -> Cost:
    """Run every strategy on the same host, whose noise depends on the seed and the surface only."""
    suite = shared.suite
    stream = f"{shared.seed}/{task.surface}/0"
    goal = suite.goal("calibrated" if task.contestant == CALIBRATED else "strict")
    seed = Random(f"{stream}/strategy").getrandbits(32)
    if task.contestant < 0:
        strategy = make_strategy("race", goal, seed)
    else:
        strategy = CONTESTANTS[task.contestant].make(goal, seed, task.n_windows)
    box = SimulatedBox(suite, task.surface, stream)
    right_at = dict.fromkeys(task.looks_at, False)

    def look(answer: Answer, n_windows: int) -> None:
        for budget in task.looks_at:
            if n_windows <= budget and answer.layout is not None:
                right_at[budget] = box.is_right(answer.layout)

    done = run(strategy, goal, box, cap=task.n_windows, look=look)
    # A budget that is over names what is best by then; only the race has to be sure.
    right = done.right if task.contestant < 0 else done.layout is not None and box.is_right(done.layout)
    return Cost(right, done.n_windows, done.hours, tuple(right_at.values()))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("suites", nargs="+", metavar="SUITE")
    parser.add_argument("--studies", type=int, default=200)
    parser.add_argument("--slow-studies", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    for package in ("optuna", "smac"):
        if missing(package):
            print(f"{package} is not installed (dependency group bench-search): its rows are left out.")
    for text in options.suites:
        print_table(suite_named(text), options)


def print_table(suite: Suite, options: argparse.Namespace) -> None:
    free = suite.window_s is None
    n_fast = min(options.studies, len(suite.surfaces))
    n_slow = min(options.slow_studies, n_fast)

    def studied(contestant: int, budgets: Sequence[int], n: int) -> list[list[Cost]]:
        tasks = [Task(contestant, n_windows, surface) for n_windows in budgets for surface in range(n)]
        costs = list(each_in_processes(one_study, Shared(suite, options.seed), tasks, options.processes))
        return [costs[first : first + n] for first in range(0, len(costs), n)]

    def right_at(number: int, budgets: Sequence[int], n: int) -> list[float]:
        """How often a contestant is right with each of *budgets*."""
        if not CONTESTANTS[number].at_any_time:
            return [fmean([one.right for one in of]) for of in studied(number, budgets, n)]
        tasks = [Task(number, max(budgets), surface, tuple(budgets)) for surface in range(n)]
        costs = list(each_in_processes(one_study, Shared(suite, options.seed), tasks, options.processes))
        return [fmean(rights) for rights in zip(*(one.right_at for one in costs), strict=True)]

    def cost(of: list[Cost]) -> str:
        return (
            f"{fmean([one.hours for one in of]):.2f} h" if free else f"{fmean([x.n_windows for x in of]):.1f}"
        )

    def budget(n_windows: int) -> str:
        return f"{n_windows * window_and_launch_s / 3600:.1f} h" if free else str(n_windows)

    window_and_launch_s = suite.launch_s + (suite.window_s or WINDOW_S)
    says = f"{suite.floor_hours:g} h" if suite.floor_hours else suite.floor_windows
    noise = f"floor (strict, variances known) {says}" if says else "no floor known"
    print(f"\n{suite.name}: {len(suite.layouts)} layouts, {n_fast} studies, {noise}")
    print(
        f"{'':<30} {'ends at':>9} {'right':>8} {'at the race s cost':>19} {'95 % right at':>14}".replace(
            " s ", "'s "
        )
    )
    (race,) = studied(STRICT, [2000], n_fast)
    row("race, strict", cost(race), share(race))
    (calibrated,) = studied(CALIBRATED, [2000], n_fast)
    row("race, calibrated", cost(calibrated), share(calibrated))
    if free:
        equal = max(1, round(fmean([one.hours for one in race]) * 3600 / window_and_launch_s))
    else:
        equal = round(fmean([one.n_windows for one in race]))
    for number, contestant in enumerate(CONTESTANTS):
        if contestant.package is not None and missing(contestant.package):
            continue
        n = n_slow if contestant.package else n_fast
        if contestant.ends:
            alone, *at_equal = studied(number, [MOST_WINDOWS, *([equal] if contestant.package else [])], n)
            row(contestant.name, cost(alone), share(alone), *map(share, at_equal))
            continue
        steps = [step for step in ladder(suite, contestant.most_each) if step != equal]
        at_race, *at_steps = right_at(number, [equal, *steps], n)
        enough = next((step for step, ratio in zip(steps, at_steps, strict=True) if ratio >= 0.95), None)
        last = f"> {budget(steps[-1])}"
        row(contestant.name, "", "", f"{100 * at_race:.1f} %", budget(enough) if enough else last)


def ladder(suite: Suite, most_each: int) -> list[int]:
    return [each * len(suite.layouts) for each in EACH if each <= most_each]


def share(of: list[Cost]) -> str:
    return f"{100 * fmean([one.right for one in of]):.1f} %"


def row(name: str, *cells: str) -> None:
    widths = (9, 8, 19, 14)
    print(f"{name:<30} " + " ".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=False)))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
