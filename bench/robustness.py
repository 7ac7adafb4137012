"""How often answers are right in worlds that break what a study assumes. Worlds are files: add your own.

    python bench/robustness.py WORLD.json [...] [--kind strict|calibrated|grid] [--studies 300] [--json]

A world is a search suite as docs/method/replay.md describes it; `bench/worlds/` has some. Per world:

- "right": studies whose answer is within the margin of the best; studies without an answer count as right up
  to 5 % of all studies, and as wrong beyond. Claimed: 95 %.
- "false": studies that, after any block, call a layout slower than the named one although it is truly at
  least as good. Claimed: at most 5 %.
- "no answer": studies without an answer within 2000 windows. "windows": the mean of all studies.

With `--kind grid` each study is a full grid of `--blocks` blocks, ranked as `tuner rank` does. "false" are
studies that call a layout slower than the best measured one although it is truly at least as good; "covers"
is the share of the layouts' own intervals that hold the true throughput, "ratios" the share of studies in
which all intervals of ratios to the first layout hold. Intervals are Wilson's, 95 %.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any, Literal

from ranking import ratios_right, study, window

from tuner.adapters.processes.worker_processes import each_in_processes
from tuner.config.suite import read_suite
from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Answer, Observed, Proposal
from tuner.core.planning.replay import run
from tuner.core.ranking.ranking import rank
from tuner.core.search.strategies import make_strategy
from tuner.core.search.strategies.full_grid import FullGrid
from tuner.core.search.suite import SimulatedBox, Suite
from tuner.core.stats.binomial import wilson_interval

UNANSWERED_ALLOWED = 0.05  #: share of studies that may end without an answer
Kind = Literal["strict", "calibrated", "grid"]


@dataclass(frozen=True, slots=True)
class Job:
    """What each worker process needs."""

    world: Suite
    kind: Kind
    seed: int
    n_blocks: int


@dataclass(frozen=True, slots=True)
class Study:
    """The result of one study; a full grid has no answer, a race no intervals."""

    false: bool
    answered: bool = False
    right: bool = False
    n_windows: int = 0
    n_intervals: int = 0
    n_covering: int = 0
    ratios_hold: bool | None = None


@dataclass
class WatchedBox(SimulatedBox):
    """A simulated box that records which layouts were launched."""

    launched: set[Layout] = field(default_factory=set)

    def take(self, proposal: Proposal) -> list[Observed]:
        self.launched.add(proposal.layout)
        return super().take(proposal)


def one_study(job: Job, number: int) -> Study:
    """Run study *number*: its surface and its random streams follow from the number and the seed."""
    surface, repeat = number % job.world.n_surfaces, number // job.world.n_surfaces
    stream = f"{job.seed}/{surface}/{repeat}"
    box = WatchedBox(job.world, surface, stream)
    truth = dict(zip(job.world.layouts, job.world.surfaces[surface], strict=True))
    seed = Random(f"{stream}/strategy").getrandbits(32)
    return _grid(job, box, truth, seed) if job.kind == "grid" else _race(job, box, truth, seed)


def _race(job: Job, box: WatchedBox, truth: Mapping[Layout, float], seed: int) -> Study:
    assert job.kind != "grid"
    goal = job.world.goal(job.kind)
    false_looks = []

    def look(answer: Answer, _n_windows: int) -> None:
        named = answer.layout
        slower = box.launched - {named, *answer.ties} if named is not None else set()
        false_looks.append(named is not None and any(truth[layout] >= truth[named] for layout in slower))

    done = run(make_strategy("race", goal, seed), goal, box, look=look)
    return Study(any(false_looks), done.answered, done.right, done.n_windows)


def _grid(job: Job, box: WatchedBox, truth: Mapping[Layout, float], seed: int) -> Study:
    strategy = FullGrid(job.world.goal("strict"), seed, job.n_blocks)
    windows = []
    for block in range(job.n_blocks):
        taken = [one for proposal in strategy.propose() for one in box.take(proposal)]
        strategy.learn(taken)
        # items as fine as can be: the noise of counting is none of the world's
        windows += [window(one.launch, block, one.layout, 0, round(1000 * one.value)) for one in taken]
    means = {layout: 1000 * value for layout, value in truth.items()}
    first = job.world.layouts[0]
    ranking = rank(study(list(job.world.layouts), job.n_blocks, 1), windows, current=first)
    best = ranking.rows[0].layout
    slower = [row.layout for row in ranking.rows if row.rank is not None and row.rank > 1]
    estimates = [(row.layout, row.throughput_per_10min) for row in ranking.rows]
    intervals = [
        (layout, one.low, one.high)
        for layout, one in estimates
        if one.low is not None and one.high is not None
    ]
    return Study(
        any(truth[layout] >= truth[best] for layout in slower),
        n_windows=len(windows),
        n_intervals=len(intervals),
        n_covering=sum(low <= means[layout] <= high for layout, low, high in intervals),
        ratios_hold=ratios_right(ranking, means),
    )


def summary(name: str, kind: Kind, done: Sequence[Study]) -> dict[str, Any]:
    """The figures of one world: shares are 0 to 1, intervals are Wilson's."""
    n = len(done)
    found: dict[str, Any] = {"world": name, "kind": kind, "studies": n}
    found["false"] = _share(sum(one.false for one in done), n)
    if kind == "grid":
        n_intervals = sum(one.n_intervals for one in done)
        known = [one.ratios_hold for one in done if one.ratios_hold is not None]
        found["covers"] = sum(one.n_covering for one in done) / n_intervals if n_intervals else None
        found["ratios"] = _share(sum(known), len(known))
    else:
        n_unanswered = sum(not one.answered for one in done)
        allowed = min(n_unanswered, int(UNANSWERED_ALLOWED * n))
        found["right"] = _share(sum(one.right for one in done) + allowed, n)
        found["unanswered"] = n_unanswered / n
    found["mean_windows"] = fmean(one.n_windows for one in done)
    return found


def _share(n_hits: int, n: int) -> dict[str, float] | None:
    if not n:
        return None
    low, high = wilson_interval(n_hits, n)
    return {"share": n_hits / n, "low": low, "high": high}


def _line(found: Mapping[str, Any]) -> str:
    cells = [f"{found['world']:<28} {found['kind']:<10} false {_shown(found['false'])}"]
    if found["kind"] == "grid":
        covers = "-" if found["covers"] is None else f"{100 * found['covers']:.1f} %"
        cells.append(f"covers {covers:>7}  ratios {_shown(found['ratios'])}")
    else:
        cells.append(f"right {_shown(found['right'])}  no answer {100 * found['unanswered']:4.1f} %")
    return "  ".join([*cells, f"windows {found['mean_windows']:.1f}"])


def _shown(share: Mapping[str, float] | None) -> str:
    if share is None:
        return "-"
    return f"{100 * share['share']:5.1f} % ({100 * share['low']:.1f}-{100 * share['high']:.1f})"


def main() -> None:
    """Run the worlds that the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("worlds", nargs="+", type=Path, metavar="WORLD.json")
    parser.add_argument("--kind", choices=("strict", "calibrated", "grid"), default="strict")
    parser.add_argument("--studies", type=int, default=300)
    parser.add_argument("--blocks", type=int, default=3, help="of a full grid")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", action="store_true", help="print one JSON list, at the end")
    options = parser.parse_args()
    results = []
    for path in options.worlds:
        job = Job(read_suite(path), options.kind, options.seed, options.blocks)
        done = list(each_in_processes(one_study, job, range(options.studies), options.processes))
        results.append(summary(job.world.name, options.kind, done))
        if not options.json:
            print(_line(results[-1]), flush=True)
    if options.json:
        print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
