"""The calibrated race with and without the network as its guide: cost, and share of right answers.

    python bench/model/guide.py [SUITE ...] [--studies 1000] [--seed 1] [--processes N] [--json]

SUITE is a suite's JSON file or the name of one of tuner's own (`docs/method/replay.md`); the default is
`wall` and `curve`. Both lines of a suite have the same surfaces and random numbers. "off" is the share of
studies that switched the guide off. "foretold" is its median error for layouts without a window, and in
brackets that of the filters without a model for the same layouts (medians over studies). If there are more
studies than surfaces, surfaces are repeated with other random numbers. Intervals are Wilson's, 95 %; +- is a
standard error.

The last lines have the time to the first proposal for 22 and 174 layouts, if a process solves the network,
and the time from a window to the next proposal on the last SUITE: the mean and the largest of ten studies.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from statistics import fmean, median, stdev
from time import perf_counter

from tuner.adapters.processes.worker_processes import each_in_processes
from tuner.config.suite import read_suite
from tuner.core.domain.layout import divisors_grid, full_grid
from tuner.core.domain.strategy import Goal, Guidance, Observed
from tuner.core.planning.replay import run
from tuner.core.search.own_suites import own_suite
from tuner.core.search.racing import Race
from tuner.core.search.suite import Suite
from tuner.core.stats.interval import wilson_interval

TIMED = 10  #: studies in which decisions are timed


@dataclass(frozen=True)
class Shared:
    """Settings that the studies of a line share."""

    suite: Suite
    guided: bool
    seed: int


@dataclass(frozen=True)
class Study:
    """Result of one study."""

    right: bool
    n_windows: int
    hours: float
    guidance: Guidance | None


@dataclass(frozen=True)
class Line:
    """A suite's studies, with the guide or without."""

    suite: str
    guided: bool
    n: int
    windows: float
    hours: float
    cost_se: float  #: standard error: of the hours where lengths are free, else of the windows
    right_ratio: float
    right_low: float
    right_high: float
    off_ratio: float | None
    error_ratio: float | None
    error_without_ratio: float | None


def one_study(shared: Shared, number: int) -> Study:
    suite = shared.suite
    surface, repeat = number % suite.n_surfaces, number // suite.n_surfaces
    stream = f"{shared.seed}/{surface}/{repeat}"
    goal = replace(suite.goal("calibrated"), guided=shared.guided)
    race = Race(goal, Random(f"{stream}/strategy").getrandbits(32))
    done = run(race, goal, suite.box(surface, stream), (surface, repeat))
    return Study(done.right, done.n_windows, done.hours, race.answer().guidance)


def line_of(suite: Suite, guided: bool, studies: Sequence[Study]) -> Line:
    n, n_right = len(studies), sum(one.right for one in studies)
    low, high = wilson_interval(n_right, n)
    costs = [one.hours if suite.window_s is None else one.n_windows for one in studies]
    guides = [one.guidance for one in studies if one.guidance is not None]
    errors = [one.error_ratio for one in guides if one.error_ratio is not None]
    without = [one.error_without_ratio for one in guides if one.error_without_ratio is not None]
    return Line(
        suite=suite.name,
        guided=guided,
        n=n,
        windows=fmean(one.n_windows for one in studies),
        hours=fmean(one.hours for one in studies),
        cost_se=stdev(costs) / n**0.5 if n > 1 else 0.0,
        right_ratio=n_right / n,
        right_low=low,
        right_high=high,
        off_ratio=fmean(not one.used for one in guides) if guides else None,
        error_ratio=median(errors) if errors else None,
        error_without_ratio=median(without) if without else None,
    )


def told(line: Line, free: bool) -> str:
    cost = (
        f"{line.hours:.2f} +- {line.cost_se:.2f} h" if free else f"{line.windows:.1f} +- {line.cost_se:.1f}"
    )
    right = f"{100 * line.right_ratio:.1f} % ({100 * line.right_low:.1f}-{100 * line.right_high:.1f})"
    name = "guided" if line.guided else "without"
    said = f"{line.suite:<18} {name:<8} {line.n:>5} {cost:>16} {right:>20}"
    if line.off_ratio is None or line.error_ratio is None or line.error_without_ratio is None:
        return said
    foretold = f"{100 * line.error_ratio:.1f} % ({100 * line.error_without_ratio:.1f} %)"
    return f"{said} {100 * line.off_ratio:>6.1f} % {foretold:>16}"


def decide_ms(suite: Suite, guided: bool) -> tuple[float, float]:
    """Milliseconds from a window to the next proposal, in TIMED studies: the mean and the largest."""
    goal = replace(suite.goal("calibrated"), guided=guided)
    took = []
    for surface in range(TIMED):
        race, box = Race(goal, surface), suite.box(surface, f"time/{surface}")
        race.learn([one for proposal in race.propose() for one in box.take(proposal)])
        while not race.answer().reached:
            began_s = perf_counter()
            proposals = race.propose()
            thought_s = perf_counter() - began_s
            windows: list[Observed] = [one for proposal in proposals for one in box.take(proposal)]
            began_s = perf_counter()
            race.learn(windows)
            race.answer()
            took.append(thought_s + perf_counter() - began_s)
    return 1000 * fmean(took), 1000 * max(took)


def first_ms(goal: Goal) -> float:
    """Milliseconds to the first proposal: a process solves the network for *goal*'s layouts once."""
    began_s = perf_counter()
    Race(goal, 1).propose()
    return 1000 * (perf_counter() - began_s)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("suites", nargs="*", default=["wall", "curve"], metavar="SUITE")
    parser.add_argument("--studies", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not options.json:
        print(f"{'':<27} {'n':>5} {'cost':>16} {'right':>20} {'off':>8} {'foretold':>16}")
    lines = []
    for name in options.suites:
        suite = read_suite(Path(name)) if name.endswith(".json") else own_suite(name)
        for guided in (False, True):
            shared = Shared(suite, guided, options.seed)
            studies = list(each_in_processes(one_study, shared, range(options.studies), options.processes))
            lines.append(line_of(suite, guided, studies))
            if not options.json:
                print(told(lines[-1], suite.window_s is None), flush=True)
    if options.json:
        print(json.dumps([asdict(line) for line in lines], indent=2))
        return
    for layouts in (divisors_grid(24), full_grid(24)):
        goal = Goal(tuple(layouts), kind="calibrated", cores=24)
        print(f"{len(layouts)} layouts: first proposal after {first_ms(goal):.0f} ms")
    for guided in (False, True):
        mean, most = decide_ms(suite, guided)
        name = "guided" if guided else "without"
        print(f"{suite.name}, {name}: next after {mean:.1f} ms in the mean, {most:.1f} at most")


if __name__ == "__main__":
    main()
