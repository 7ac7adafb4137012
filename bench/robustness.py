"""Share of right answers in worlds that break the assumptions of a study. Worlds are files: add your own.

    python bench/robustness.py WORLD.json [...] [--kind strict|calibrated|grid|check|check-strict]
                               [--slices [--own-second SD] | --hosts N] [--json]

A world is a search suite as docs/method/replay.md describes it; `bench/worlds/` has some. Per world:

- "right": studies whose answer is within the margin of the best; studies without an answer count as right up
  to 5 % of all studies, and as wrong beyond. Claimed: 95 %. "in these hours": the same, where the truth is
  the mean over the time that the study took, as for full grids, and over the ages of launches measured.
- "false": studies that, after any block, call a layout slower than the named one although it is truly at
  least as good. Claimed: at most 5 %.
- "no answer": studies without an answer within 2000 windows. "windows", "hours": the mean of all studies.
- "warned": studies whose answer states that the ratio of two layouts changed during the study, or that
  layouts react differently to the host's speed. "wrong unwarned": studies whose answer is wrong at any hour,
  without such a statement.

With `--slices` up to four layouts of a race take turns, as with `tuner grid --slices auto`: drift, tide and
spells of the host are the same for all layouts of a heat, all other noise differs between launches. With
`--own-second SD` the noise of windows is the host's, except for a standard deviation of SD in each second,
and the race chooses the length of windows.

With `--hosts N` a race uses N hosts, as with `tuner grid --fleet`: hosts differ in drift, in noise and in
speed (standard deviation 5 %); "in these hours" equals "right", because the truth is the mean of all hosts.

With `--kind grid` each study is a full grid of `--blocks` blocks, ranked as `tuner rank` does. "false" are
studies that call a layout slower than the best measured one although it is truly at least as good; "covers"
is the share of the layouts' own intervals that hold the true throughput, "ratios" the share of studies in
which all intervals of ratios to the first layout hold. Each stands twice: the truth "in these hours" is the
mean over the time that the study took, which is what a ranking claims; the truth "at any hour" is that of the
suite over all hours, which a study shorter than the host's changes cannot know. "width" is the mean of
(high - low) / mean, "of ratios" that of the intervals of ratios. Intervals are Wilson's, 95 %.

With `--kind check` (calibrated) or `check-strict` each study is such a full grid and, at a random moment of
the two weeks after it, a check of its winner against the runner-up and a random layout in use (`tuner
check`). "stale" are checks that call the winner stale although it is truly within the margin of the layout
that they call better, "right" those that call it right although one of the two is truly better by more than
the margin, at any hour and in the check's hours.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, log, sqrt
from random import Random
from statistics import fmean
from typing import Any, Literal, get_args

from fleet import Job as FleetJob
from fleet import SimulatedFleet, Timed
from ranking import ratios_right, study, window
from suites_named import suite_named

from tuner.adapters.processes.worker_processes import each_in_processes
from tuner.core.defaults import WINDOW_S
from tuner.core.domain.fleet import Done
from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Answer, Observed, Proposal
from tuner.core.planning.replay import CAP_WINDOWS, run
from tuner.core.ranking.ranking import rank
from tuner.core.search.heat_race import HeatRace
from tuner.core.search.recheck import Asked, Launched
from tuner.core.search.strategies import make_strategy
from tuner.core.search.strategies.fleet_race import FleetRace
from tuner.core.search.strategies.full_grid import FullGrid
from tuner.core.search.strategies.recheck import Recheck
from tuner.core.search.suite import Host, SimulatedBox, Suite
from tuner.core.stats.interval import Estimate, wilson_interval
from tuner.core.windows.slices import MOST_RESIDENT
from tuner.study.recheck_plan import past_of

UNANSWERED_ALLOWED = 0.05  #: share of studies that may end without an answer
HOUR_STEP_S = 60.0  #: between the moments that the mean over a study's hours is taken of
TWO_WEEKS_S = 14 * 86_400.0
HOST_LEVEL_SD = 0.05  #: what hosts differ by, with --hosts
MOST_CHECKED = 25  #: blocks, after which a check counts as undecided
Kind = Literal["strict", "calibrated", "grid", "check", "check-strict"]


@dataclass(frozen=True, slots=True)
class Job:
    """Arguments of each worker process."""

    world: Suite
    kind: Kind
    seed: int
    n_blocks: int
    in_turns: bool = False  #: races by heats
    n_hosts: int = 1  #: races on several hosts


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
    false_in_hours: bool = False
    n_covering_in_hours: int = 0
    ratios_hold_in_hours: bool | None = None
    width: float = 0.0  #: sum over the intervals, as a share of the mean
    n_ratios: int = 0
    ratio_width: float = 0.0  #: sum over the intervals of ratios
    right_in_hours: bool = False
    hours: float = 0.0
    warned: bool = False  #: the answer states that layouts reacted differently to the host


@dataclass(frozen=True, slots=True)
class CheckedStudy:
    """The result of one check; wrong verdicts: that it is stale, that it is right."""

    state: str
    wrong: tuple[bool, bool]
    wrong_in_hours: tuple[bool, bool]
    n_windows: int


@dataclass
class WatchedBox(SimulatedBox):
    """A simulated host that records the launched layouts, and the age of launches in windows."""

    launched: set[Layout] = field(default_factory=set)
    ages_s: list[float] = field(default_factory=list)  #: of launches, in the middle of their windows

    def take(self, proposal: Proposal) -> list[Observed]:
        self.launched.add(proposal.layout)
        windows = super().take(proposal)
        self.ages_s += [one.began_s + one.length_s / 2 - one.launch_began_s for one in windows]
        return windows


class Watched(Timed):
    """A race on several hosts whose answers are recorded."""

    def __init__(self, strategy: FleetRace, look: Callable[[Answer, set[Layout]], None]) -> None:
        super().__init__(strategy)
        self._look, self._launched = look, set[Layout]()

    def learn(self, done: Done) -> None:
        self._launched.update(window.layout for window in done.windows)
        super().learn(done)

    def answer(self) -> Answer:
        answer = super().answer()
        self._look(answer, self._launched)
        return answer


def one_study(job: Job, number: int) -> Study | CheckedStudy:
    """Run study *number*: its surface and its random streams follow from the number and the seed."""
    surface, repeat = number % job.world.n_surfaces, number // job.world.n_surfaces
    stream = f"{job.seed}/{surface}/{repeat}"
    box = WatchedBox(job.world, surface, stream)
    truth = box.truth
    seed = Random(f"{stream}/strategy").getrandbits(32)
    if job.kind == "grid":
        return _grid(job, box, truth, seed)
    if job.kind in ("check", "check-strict"):
        return _check(job, box, truth, seed)
    return _race(job, box, truth, seed)


def with_own_second(world: Suite, second_sd: float) -> Suite:
    """The same world with noise as measured in slices: *second_sd* is a layout's own, for one second.

    The noise of launches is a layout's own, too; the rest of the noise of windows is of the host. The
    strategy chooses the length of windows.
    """
    noise = world.noise
    of_host = noise.window_sd**2 + (noise.sample_sd_1s**2 - second_sd**2) / WINDOW_S
    if of_host < 0:
        raise SystemExit(f"{world.name}: windows have less noise than --own-second {second_sd:g}")
    drift_sd = sqrt(noise.drift_sd**2 + of_host)
    noise = replace(noise, window_sd=0.0, sample_sd_1s=second_sd, drift_sd=drift_sd)
    return replace(world, noise=noise, window_s=None)


def _race(job: Job, box: WatchedBox, truth: Mapping[Layout, float], seed: int) -> Study:
    assert job.kind in ("strict", "calibrated")
    goal = job.world.goal(job.kind)
    false_looks, warned = [], False

    def look(answer: Answer, launched: set[Layout]) -> None:
        nonlocal warned
        named, warned = answer.layout, bool(answer.changed or answer.reaction)
        slower = launched - {named, *answer.ties} if named is not None else set()
        false_looks.append(named is not None and any(truth[layout] >= truth[named] for layout in slower))

    if job.n_hosts > 1:
        strategy = Watched(FleetRace(goal, seed), look)
        of_fleet = FleetJob(job.world, "race", job.kind, (job.n_hosts,), HOST_LEVEL_SD, 0.0, job.seed)
        fleet = SimulatedFleet(of_fleet, box.surface, box.stream, job.n_hosts)
        fleet.lead(strategy, races=True, cap=CAP_WINDOWS)
        answer = strategy.answer()
        answered = answer.reached and answer.layout is not None
        right = answer.reached and answer.layout is not None and box.is_right(answer.layout)
        n_windows = fleet.n_launches if answered else CAP_WINDOWS
        hours = fleet.now_s / 3600
        return Study(
            any(false_looks), answered, right, n_windows, right_in_hours=right, hours=hours, warned=warned
        )
    race = HeatRace(goal, seed, MOST_RESIDENT) if job.in_turns else make_strategy("race", goal, seed)
    done = run(race, goal, box, look=lambda answer, _n_windows: look(answer, box.launched))
    in_hours = _truth_in_hours(job, box)
    least = (1 - goal.within) * max(in_hours.values()) * (1 - 1e-12)
    right = done.answered and done.layout is not None and in_hours[done.layout] >= least
    return Study(
        any(false_looks),
        done.answered,
        done.right,
        done.n_windows,
        right_in_hours=right,
        hours=done.hours,
        warned=warned,
    )


def _grid(job: Job, box: WatchedBox, truth: Mapping[Layout, float], seed: int) -> Study:
    strategy = FullGrid(job.world.goal("strict"), seed, job.n_blocks)
    windows = []
    for block in range(job.n_blocks):
        taken = [one for proposal in strategy.propose() for one in box.take(proposal)]
        strategy.learn(taken)
        # items as fine as can be: the noise of counting is none of the world's
        windows += [window(one.launch, block, one.layout, 0, round(1000 * one.value)) for one in taken]
    ranking = rank(study(list(job.world.layouts), job.n_blocks, 1), windows, current=job.world.layouts[0])
    best = ranking.rows[0].layout
    slower = [row.layout for row in ranking.rows if row.rank is not None and row.rank > 1]
    intervals = _ends([(row.layout, row.throughput_per_10min) for row in ranking.rows])
    ratios = _ends(
        [(row.layout, row.ratio_to_current) for row in ranking.rows if row.layout != ranking.current]
    )
    of_sense = []
    for true in (truth, _truth_in_hours(job, box)):
        means = {layout: 1000 * value for layout, value in true.items()}
        of_sense.append(
            (
                any(true[layout] >= true[best] * (1 - 1e-9) for layout in slower),
                sum(low <= means[layout] <= high for layout, low, high in intervals),
                ratios_right(ranking, means),
            )
        )
    return Study(
        of_sense[0][0],
        n_windows=len(windows),
        n_intervals=len(intervals),
        n_covering=of_sense[0][1],
        ratios_hold=of_sense[0][2],
        false_in_hours=of_sense[1][0],
        n_covering_in_hours=of_sense[1][1],
        ratios_hold_in_hours=of_sense[1][2],
        width=sum((high - low) / (1000 * truth[layout]) for layout, low, high in intervals),
        n_ratios=len(ratios),
        ratio_width=sum(high - low for _, low, high in ratios),
    )


def _check(job: Job, box: WatchedBox, truth: Mapping[Layout, float], seed: int) -> CheckedStudy:
    """A full grid, and a check of its winner later on."""
    goal = job.world.goal("strict" if job.kind == "check-strict" else "calibrated")
    grid = FullGrid(goal, seed, job.n_blocks)
    launches = []
    for block in range(job.n_blocks):
        taken = [one for proposal in grid.propose() for one in box.take(proposal)]
        grid.learn(taken)
        launches += [Launched(block, one.layout, log(one.value)) for one in taken]
    estimates = grid.estimates()
    ranked = sorted(truth, key=lambda layout: -(estimates[layout].mean or 0.0))
    winner, random = ranked[0], Random(f"{box.stream}/check")
    others = tuple(dict.fromkeys((random.choice(ranked[1:]), ranked[1])))
    asked = Asked(winner, others, goal.within, goal.confidence, goal.kind)
    box.now_s += random.random() * TWO_WEEKS_S
    began_s, n_before = box.now_s, box.n_windows
    recheck = Recheck(asked, past_of(asked, launches), seed, goal.max_window_s)
    for _ in range(MOST_CHECKED):
        proposals = recheck.propose()
        if not proposals:
            break
        recheck.learn([one for proposal in proposals for one in box.take(proposal)])
    check, wrong = recheck.check(), []
    for true in (truth, _truth_in_hours(job, box, began_s)):
        least = true[winner] / (1 - goal.within) * (1 + 1e-9)  # from there on another is better
        stale_wrongly = check.better is not None and true[check.better] <= least
        wrong.append((stale_wrongly, check.state == "right" and any(true[other] > least for other in others)))
    return CheckedStudy(check.state, wrong[0], wrong[1], box.n_windows - n_before)


def _ends(estimates: Sequence[tuple[Layout, Estimate | None]]) -> list[tuple[Layout, float, float]]:
    """The intervals of those that have one."""
    return [
        (layout, one.low, one.high)
        for layout, one in estimates
        if one is not None and one.low is not None and one.high is not None
    ]


def _truth_in_hours(job: Job, box: WatchedBox, began_s: float = 0.0) -> dict[Layout, float]:
    """What each layout gives on average over the time that *box* has simulated since *began_s*.

    A throughput that changes from the start of a launch on is that of the windows measured.
    """
    world, host = job.world, Host(job.world.noise, box.stream)
    n_steps = max(1, round((box.now_s - began_s) / HOUR_STEP_S))
    mean = fmean(host.at(began_s + (step + 0.5) * HOUR_STEP_S) for step in range(n_steps))
    age_h = fmean(box.ages_s) / 3600
    factors, trends = (
        rows[box.surface if len(rows) > 1 else 0] if rows else (usual,) * len(world.layouts)
        for rows, usual in ((world.drift_factors, 1.0), (world.trends_per_h, 0.0))
    )
    return {
        layout: value * exp(factor * mean + trend * age_h)
        for layout, value, factor, trend in zip(
            world.layouts, world.surfaces[box.surface], factors, trends, strict=True
        )
    }


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
        found["false_in_hours"] = _share(sum(one.false_in_hours for one in done), n)
        found["covers_in_hours"] = (
            sum(one.n_covering_in_hours for one in done) / n_intervals if n_intervals else None
        )
        known = [one.ratios_hold_in_hours for one in done if one.ratios_hold_in_hours is not None]
        found["ratios_in_hours"] = _share(sum(known), len(known))
        found["width"] = sum(one.width for one in done) / n_intervals if n_intervals else None
        n_ratios = sum(one.n_ratios for one in done)
        found["ratio_width"] = sum(one.ratio_width for one in done) / n_ratios if n_ratios else None
    else:
        n_unanswered = sum(not one.answered for one in done)
        allowed = min(n_unanswered, int(UNANSWERED_ALLOWED * n))
        found["right"] = _share(sum(one.right for one in done) + allowed, n)
        found["right_in_hours"] = _share(sum(one.right_in_hours for one in done) + allowed, n)
        found["unanswered"] = n_unanswered / n
        found["warned"] = _share(sum(one.warned for one in done), n)
        found["wrong_unwarned"] = _share(
            sum(one.answered and not one.right and not one.warned for one in done), n
        )
        found["mean_hours"] = fmean(one.hours for one in done)
    found["mean_windows"] = fmean(one.n_windows for one in done)
    return found


def check_summary(name: str, kind: Kind, done: Sequence[CheckedStudy]) -> dict[str, Any]:
    """The same of checks."""
    n = len(done)
    found: dict[str, Any] = {"world": name, "kind": kind, "studies": n}
    for place, verdict in enumerate(("stale", "right")):
        found[f"wrongly_{verdict}"] = _share(sum(one.wrong[place] for one in done), n)
        found[f"wrongly_{verdict}_in_hours"] = _share(sum(one.wrong_in_hours[place] for one in done), n)
        found[verdict] = sum(one.state == verdict for one in done) / n
    found["mean_windows"] = fmean(one.n_windows for one in done)
    return found


def _share(n_hits: int, n: int) -> dict[str, float] | None:
    if not n:
        return None
    low, high = wilson_interval(n_hits, n)
    return {"share": n_hits / n, "low": low, "high": high}


def _line(found: Mapping[str, Any]) -> str:
    if "wrongly_stale" in found:
        cells = [f"{found['world']:<28} {found['kind']:<12}"]
        for verdict in ("stale", "right"):
            cells.append(f"says {verdict} {100 * found[verdict]:4.1f} %, wrongly")
            cells.append(_shown(found[f"wrongly_{verdict}"]))
            cells.append(f"in its hours {_shown(found[f'wrongly_{verdict}_in_hours'])}")
        return "  ".join([*cells, f"windows {found['mean_windows']:.1f}"])
    cells = [f"{found['world']:<28} {found['kind']:<10} false {_shown(found['false'])}"]
    if found["kind"] == "grid":
        covers, in_hours, width, ratio_width = (
            "-" if found[key] is None else f"{100 * found[key]:.1f} %"
            for key in ("covers", "covers_in_hours", "width", "ratio_width")
        )
        cells.append(f"covers {covers}  ratios {_shown(found['ratios'])}")
        cells.append(f"in these hours: false {_shown(found['false_in_hours'])}  covers {in_hours}")
        cells.append(f"ratios {_shown(found['ratios_in_hours'])}  width {width}, of ratios {ratio_width}")
    else:
        cells.append(f"right {_shown(found['right'])}  in these hours {_shown(found['right_in_hours'])}")
        cells.append(f"no answer {100 * found['unanswered']:4.1f} %")
        cells.append(f"warned {_shown(found['warned'])}  wrong unwarned {_shown(found['wrong_unwarned'])}")
        cells.append(f"hours {found['mean_hours']:.2f}")
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
    parser.add_argument("worlds", nargs="+", metavar="WORLD.json")
    parser.add_argument("--kind", choices=get_args(Kind), default="strict")
    parser.add_argument("--studies", type=int, default=300)
    parser.add_argument("--blocks", type=int, default=3, help="of a full grid")
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument("--slices", action="store_true", help="layouts of a race take turns")
    ways.add_argument("--hosts", type=int, default=1, help="of a race")
    parser.add_argument("--own-second", type=float, metavar="SD", help="noise of a layout, with --slices")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", action="store_true", help="print one JSON list, at the end")
    options = parser.parse_args()
    if (options.slices or options.hosts != 1) and options.kind not in ("strict", "calibrated"):
        parser.error("--slices and --hosts are for races")
    if options.own_second is not None and not options.slices:
        parser.error("--own-second is for --slices")
    results = []
    for name in options.worlds:
        world = suite_named(name)
        if options.own_second is not None:
            world = with_own_second(world, options.own_second)
        job = Job(world, options.kind, options.seed, options.blocks, options.slices, options.hosts)
        done = list(each_in_processes(one_study, job, range(options.studies), options.processes))
        checks = [one for one in done if isinstance(one, CheckedStudy)]
        races = [one for one in done if isinstance(one, Study)]
        results.append(
            check_summary(job.world.name, options.kind, checks)
            if checks
            else summary(job.world.name, options.kind, races)
        )
        if not options.json:
            print(_line(results[-1]), flush=True)
    if options.json:
        print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
