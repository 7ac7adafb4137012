"""Error rates of `tuner compare`, by simulation.

    python bench/compare.py [--studies 2000] [--races 200] [--seed 1] [--processes N]

Each line is one kind of pair of studies without any change between them. Figures are the share of pairs, in
%, in which the nominal 95 % intervals contain the truth: that of the change that all layouts share, those of
the whole changes of all layouts, and those of all layouts' changes relative to the others. 100 minus one of
the last two is the rate of false changes. "reach" is the median half width of the intervals, in %. "told" is
the share of pairs with a note that the host drifted within blocks, so that the shared interval may be too
narrow.

Races are those of tuner, on its own suites with their drift. Their measurements depend on earlier results.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, log
from random import Random
from statistics import median

from tuner.adapters.processes.worker_processes import each_in_processes
from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Observed, Proposal
from tuner.core.planning.compared import drifts_on
from tuner.core.planning.replay import run
from tuner.core.ranking.anova import blocks_of
from tuner.core.ranking.study_difference import Side, changes
from tuner.core.search.own_suites import own_suite
from tuner.core.search.recheck import Launched
from tuner.core.search.strategies import make_strategy
from tuner.core.search.suite import Drift, SimulatedBox
from tuner.core.stats.interval import Estimate, wilson_interval
from tuner.core.windows.launch_sums import LaunchTally

LAUNCH_S = 720.0  #: one launch with its window


@dataclass(frozen=True)
class Noise:
    n_blocks: int
    sd: float = 0.025  # of one launch with its window
    drift_sd: float = 0.06  # from block to block
    drift_ar1: float | None = None  # after 600 s: drift goes on within blocks; None: it does not
    missing: float = 0.0


@dataclass(frozen=True)
class Case:
    name: str
    n_layouts: int
    before: Noise
    after: Noise


def both(name: str, n_layouts: int, noise: Noise) -> Case:
    return Case(name, n_layouts, noise, noise)


CASES = [
    *(
        both(f"{k} layouts, {n} launches of each, drift {drift:.0%}", k, Noise(n, drift_sd=drift))
        for k in (2, 6, 24)
        for n in (2, 3, 5, 10)
        for drift in (0.0, 0.06)
    ),
    Case("6 layouts, 2 launches, then 10", 6, Noise(2), Noise(10)),
    Case("6 layouts, 10 launches, then 2 of three times the noise", 6, Noise(10), Noise(2, 0.075)),
    Case("2 layouts, 2 launches, then 2 of three times the noise", 2, Noise(2), Noise(2, 0.075)),
    Case("2 layouts, 3 launches, then 3 of ten times the noise", 2, Noise(3), Noise(3, 0.25)),
    Case("6 layouts, 3 launches, drift 20 %, then none", 6, Noise(3, drift_sd=0.2), Noise(3, drift_sd=0.0)),
    both("6 layouts, 5 launches, 1 in 5 missing", 6, Noise(5, missing=0.2)),
    both("24 layouts, 3 launches, 1 in 5 missing", 24, Noise(3, missing=0.2)),
    both("outside: 6 layouts, 5 launches, drift that goes on (0.9 after 600 s)", 6, Noise(5, drift_ar1=0.9)),
    both("outside: 24 layouts, 3 launches, such a drift", 24, Noise(3, drift_ar1=0.9)),
]
RACES = [
    (suite, kinds)
    for suite in ("identical", "identical+drift", "two-differ", "two-differ+drift")
    for kinds in (("strict", "strict"), ("calibrated", "calibrated"), ("grid", "strict"))
]


@dataclass(frozen=True)
class Outcome:
    shared: bool
    ratios: bool
    beside: bool | None
    reach_shared: float | None
    reach_ratio: float | None
    reach_beside: float | None
    is_told: bool = False  # that the box of one of them drifted on


def one_pair(shared: tuple[Case, int], number: int) -> Outcome:
    case, seed = shared
    random = Random(f"{seed}/{case.name}/{number}")
    layouts = [Layout(place + 1, 1) for place in range(case.n_layouts)]
    truth = dict.fromkeys(layouts, 0.0)
    sides = grid(layouts, case.before, random), grid(layouts, case.after, random)
    result = any(drifts_on(one.launches) for one in sides)
    return replace(outcome(*sides, truth, truth), is_told=result)


def grid(layouts: Sequence[Layout], noise: Noise, random: Random) -> Side:
    launches, at_s = [], 0.0
    drift = None if noise.drift_ar1 is None else Drift(noise.drift_sd, noise.drift_ar1, random)
    for block in range(noise.n_blocks):
        level = random.gauss(0, noise.drift_sd)
        for layout in random.sample(layouts, len(layouts)):
            at_s += LAUNCH_S
            if random.random() < noise.missing:
                continue
            box = level if drift is None else drift.at(at_s)
            launches.append(Launched(block, layout, box + random.gauss(0, noise.sd)))
    return Side(launches)


def race_pair(shared: tuple[str, tuple[str, str], int], number: int) -> Outcome:
    name, kinds, seed = shared
    suite = own_suite(name)
    surface = number % suite.n_surfaces
    truth = {layout: log(value) for layout, value in zip(suite.layouts, suite.surfaces[surface], strict=True)}
    sides = [race(name, kind, surface, f"{seed}/{number}/{place}") for place, kind in enumerate(kinds)]
    return outcome(sides[0], sides[1], truth, truth)


@dataclass
class KeptBox(SimulatedBox):
    """A simulated host that keeps its windows."""

    taken: list[list[Observed]] | None = None

    def take(self, proposal: Proposal) -> list[Observed]:
        windows = super().take(proposal)
        self.taken = [*(self.taken or []), windows]
        return windows


def race(name: str, kind: str, surface: int, stream: str) -> Side:
    suite = own_suite(name)
    box = KeptBox(suite, surface, stream)
    goal = suite.goal("strict" if kind == "grid" else kind)  # type: ignore[arg-type]
    if kind == "grid":
        strategy = make_strategy("all", goal, 1, 4 * len(suite.layouts))
    else:
        strategy = make_strategy("race", goal, Random(stream).getrandbits(32), None)
    ends = [0]
    run(strategy, goal, box, (surface, 0), 300, lambda _, n: ends.append(n))
    tallies, seen, block = [], 0, 0
    for windows in box.taken or []:
        while seen >= ends[min(block + 1, len(ends) - 1)] and block + 1 < len(ends):
            block += 1
        seen += len(windows)
        tallies.append(LaunchTally(windows[0].layout, ("", block), windows[0].launch))
    block_of = blocks_of(tallies, joins_single=kind != "grid")
    launches = [
        Launched(block_of[w[0].launch], w[0].layout, log(sum(x.value for x in w) / len(w)))
        for w in box.taken or []
    ]
    return Side(launches, is_adaptive=kind != "grid")


def outcome(before: Side, after: Side, was: dict[Layout, float], becomes: dict[Layout, float]) -> Outcome:
    found = changes(before, after, 0.95)
    gaps = {one.layout: becomes[one.layout] - was[one.layout] for one in found.layouts}
    besides = [one for one in found.layouts if one.beside is not None]
    shared = sum(gaps[one.layout] for one in besides) / len(besides) if besides else 0.0
    return Outcome(
        shared=found.shared is None or holds(found.shared, shared),
        ratios=all(holds(one.ratio, gaps[one.layout]) for one in found.layouts),
        beside=all(
            one.beside is not None and holds(one.beside, gaps[one.layout] - shared) for one in besides
        ),
        reach_shared=None if found.shared is None else reach(found.shared),
        reach_ratio=middle([reach(one.ratio) for one in found.layouts]),
        reach_beside=middle([reach(one.beside) for one in besides if one.beside is not None]),
    )


def holds(estimate: Estimate, gap: float) -> bool:
    """Whether its interval has the truth; one without ends does."""
    if estimate.low is None or estimate.high is None:
        return True
    return estimate.low <= exp(gap) <= estimate.high


def reach(estimate: Estimate) -> float | None:
    return None if estimate.high is None or not estimate.mean else estimate.high / estimate.mean - 1


def middle(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def line(name: str, outcomes: Sequence[Outcome]) -> str:
    cells = []
    for what in ("shared", "ratios", "beside"):
        held = sum(bool(getattr(one, what)) for one in outcomes)
        low, high = wilson_interval(held, len(outcomes))
        of = {"shared": "reach_shared", "ratios": "reach_ratio", "beside": "reach_beside"}[what]
        far = middle([getattr(one, of) for one in outcomes])
        shown = "-" if far is None else f"{100 * far:.1f}"
        cells.append(f"{100 * held / len(outcomes):5.1f} ({100 * low:.1f} to {100 * high:.1f}) {shown:>7}")
    result = sum(one.is_told for one in outcomes) / len(outcomes)
    return f"{name:<72} " + "  ".join([*cells, f"{100 * result:5.1f}"])


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--studies", type=int, default=2000)
    arguments.add_argument("--races", type=int, default=200)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = arguments.parse_args()
    heads = "  ".join(f"{head:<29}" for head in ("shared, reach", "all ratios, reach", "all beside, reach"))
    print(f"{'':<72} {heads}  told")
    for case in CASES:
        found = each_in_processes(one_pair, (case, options.seed), range(options.studies), options.processes)
        print(line(case.name, list(found)), flush=True)
    for suite, kinds in RACES:
        shared = (suite, kinds, options.seed)
        found = each_in_processes(race_pair, shared, range(options.races), options.processes)
        print(line(f"race: {suite}, {kinds[0]} then {kinds[1]}", list(found)), flush=True)


if __name__ == "__main__":
    main()
