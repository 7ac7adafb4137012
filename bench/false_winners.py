"""Rate of false winners among identical layouts, and the time until a true difference of 5 % is found.

    python bench/false_winners.py [SUITE ...] [--studies 1000] [--kind strict] [--seed 1] [--processes N]

Each line is one of tuner's own suites in one setting of the host. A study counts as false if any of its looks
(one after every block) is false, not only the last one. The default suites are two-same, identical and
two-differ, each in every setting. The settings two-kinds (5 of 12 launches are 20 % slower) and own-noise
(half of the layouts have three times the noise) break assumptions of the race: that all layouts have the same
noise, and that all launches are of one kind.

- "false" is the share of studies that call a layout worse than the named one at any look, although it is as
  good (goal: at most 5 %). "at its end" is the same for the last look.
- "right" is the share of answers whose layout is within the margin of the best.
- "ends" is the mean number of windows. "no answer" is the share of studies without an answer at 2000 windows.
- "in 60" is the share of studies that name the better of two layouts 5 % apart within 60 windows (10 minutes
  each, one per launch). A test of fixed size needs 48 windows for a power of 90 %.
Intervals are Wilson's, 95 %.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass, field
from random import Random
from statistics import fmean

from tuner.adapters.processes.worker_processes import each_in_processes
from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Answer, Kind, Observed, Proposal
from tuner.core.planning.replay import run
from tuner.core.search.own_suites import own_suite
from tuner.core.search.strategies import make_strategy
from tuner.core.search.suite import SimulatedBox
from tuner.core.stats.interval import wilson_interval

SETTINGS = (
    "",
    "+drift",
    "+fast-drift",
    "+slow-drift",
    "+heavy-tails",
    "+two-kinds",
    "+low-noise+two-kinds",
    "+own-noise",
)
SUITES = ("two-same", "identical", "two-differ")


@dataclass
class WatchedBox(SimulatedBox):
    launched: set[Layout] = field(default_factory=set)

    def take(self, proposal: Proposal) -> list[Observed]:
        self.launched.add(proposal.layout)
        return super().take(proposal)


@dataclass(frozen=True)
class Study:
    false_at_any_look: bool
    false_at_its_end: bool
    answered: bool
    right: bool
    n_windows: int


def one_study(shared: tuple[str, Kind, int], number: int) -> Study:
    name, kind, seed = shared
    suite = own_suite(name)
    surface, repeat = number % len(suite.surfaces), number // len(suite.surfaces)
    stream = f"{seed}/{surface}/{repeat}"
    box = WatchedBox(suite, surface, stream)
    truth = dict(zip(suite.layouts, suite.surfaces[surface], strict=True))
    looks: list[bool] = []  # whether what is claimed is false

    def look(answer: Answer, _n_windows: int) -> None:
        named = answer.layout
        told_apart = box.launched - {named, *answer.ties} if named is not None else set()
        looks.append(any(truth[layout] >= truth[named] for layout in told_apart if named is not None))

    strategy = make_strategy("race", suite.goal(kind), Random(f"{stream}/strategy").getrandbits(32))
    done = run(strategy, suite.goal(kind), box, look=look)
    return Study(any(looks), looks[-1], done.answered, done.right, done.n_windows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("suites", nargs="*", metavar="SUITE")
    parser.add_argument("--studies", type=int, default=1000)
    parser.add_argument("--kind", choices=("strict", "calibrated"), default="strict")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    n = options.studies
    print(f"{n} studies each, {options.kind}")
    heads = f"{'false':>19} {'at its end':>10} {'in 60':>20} {'right':>20} {'ends':>7} {'no answer':>9}"
    print(f"{'':<30} {heads}")
    for suite in options.suites or [suite + setting for suite in SUITES for setting in SETTINGS]:
        shared = (suite, options.kind, options.seed)
        done = list(each_in_processes(one_study, shared, range(n), options.processes))
        false = share(sum(one.false_at_any_look for one in done), n)
        at_end = f"{100 * fmean([one.false_at_its_end for one in done]):.1f} %"
        soon = share(sum(one.right and one.n_windows <= 60 for one in done), n)
        answered = [one for one in done if one.answered]
        right = share(sum(one.right for one in answered), len(answered)) if answered else ""
        missing = f"{100 * fmean([not one.answered for one in done]):.1f} %"
        windows = f"{fmean([one.n_windows for one in done]):.1f}"
        soon = soon if suite.startswith("two-differ") else ""
        cells = f"{false:>19} {at_end:>10} {soon:>20} {right:>20} {windows:>7} {missing:>9}"
        print(f"{suite:<30} {cells}", flush=True)


def share(n_hits: int, n: int) -> str:
    low, high = wilson_interval(n_hits, n)
    return f"{100 * n_hits / n:.1f} % ({100 * low:.1f}-{100 * high:.1f})"


if __name__ == "__main__":
    main()
