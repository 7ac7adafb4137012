"""Time that several hosts save, and the CPU of the strategy on many hosts.

    python bench/fleet.py [SUITE ...] [--boxes 2 4 8] [--strategies race all] [--kinds strict calibrated]
                          [--studies 20] [--level 0.05] [--spread 0] [--plan 1000] [--seed 1]
                          [--processes N] [--json]

SUITE is a suite's JSON file or the name of one of tuner's own (`docs/method/replay.md`); the default is
`curve` and `ties`. Hosts are simulated event by event. Each host has its own noise, drift and level (standard
deviation --level) and, with --spread, an interaction with each layout. Each study runs on one host and on
several, on the same surface: a race until it has an answer (launches in progress are not awaited), a grid
until all blocks are complete. "of ideal" is the time on one host, divided by the number of hosts and by the
time on them, for medians and means. "right": the answer is within the margin of the best, on average over
hosts; in brackets Wilson's 95 % interval. Bars: `all` 0.9 of ideal; `race` 0.85 on 2, 0.75 on 4, 0.6 on 8.

--plan measures the CPU seconds of the strategy per second of a study on that many hosts (bar: 0.1): for a
grid of one block per host, and for a race. The remaining time is requested every 30 s, as a coordinator does.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from heapq import heappop, heappush
from math import exp
from random import Random
from statistics import fmean, median
from time import process_time
from typing import TypeVar

from suites_named import suite_named

from tuner.adapters.processes.worker_processes import each_in_processes
from tuner.core.domain.fleet import Done, Place
from tuner.core.domain.strategy import Answer, Goal, Kind, Observed, Proposal
from tuner.core.search.fleet_strategy import SpreadingStrategy
from tuner.core.search.strategies.fleet_grid import FleetGrid
from tuner.core.search.strategies.fleet_race import FleetRace
from tuner.core.search.suite import SimulatedBox, Suite
from tuner.core.stats.interval import wilson_interval
from tuner.study.fleet.places import FORESEES_EVERY_S

Result = TypeVar("Result")

CAP_LAUNCHES = 100000
BARS = {"all": {2: 0.9, 4: 0.9, 8: 0.9}, "race": {2: 0.85, 4: 0.75, 8: 0.6}}


@dataclass(frozen=True)
class Job:
    """Settings that the studies of several lines share."""

    suite: Suite
    strategy: str
    kind: Kind
    boxes: tuple[int, ...]
    level_sd: float
    spread_sd: float
    seed: int


@dataclass(frozen=True)
class Led:
    """Result of one study on a number of hosts."""

    n_boxes: int
    hours: float
    n_launches: int
    answered: bool
    right: bool


@dataclass(frozen=True)
class Line:
    """The studies of a suite on a number of hosts."""

    suite: str
    strategy: str
    boxes: int
    n: int
    median_hours: float
    mean_hours: float
    of_ideal: float  #: by medians
    of_ideal_by_means: float
    bar: float | None
    mean_launches: float
    right_ratio: float
    right_low: float
    right_high: float
    unanswered_ratio: float


class Timed:
    """A strategy, and the CPU seconds that it took."""

    def __init__(self, strategy: SpreadingStrategy) -> None:
        self._strategy = strategy
        self.cpu_s = 0.0

    def next_for(self, box: str, under_way: Sequence[Place], boxes: Sequence[str]) -> Place | None:
        return self._timed(self._strategy.next_for, box, under_way, boxes)

    def learn(self, done: Done) -> None:
        self._timed(self._strategy.learn, done)

    def expected_rest(self, under_way: Sequence[Place]) -> Sequence[Proposal] | None:
        return self._timed(self._strategy.expected_rest, under_way)

    def answer(self) -> Answer:
        return self._timed(self._strategy.answer)

    def _timed(self, call: Callable[..., Result], *given: object) -> Result:
        began_s = process_time()
        found = call(*given)
        self.cpu_s += process_time() - began_s
        return found


class SimulatedFleet:
    """Hosts that measure one surface on a simulated clock."""

    def __init__(self, job: Job, surface: int, stream: str, n_boxes: int) -> None:
        self.names = [f"box-{n + 1}" for n in range(n_boxes)]
        self._boxes = {name: _own_box(job, surface, f"{stream}/{name}") for name in self.names}
        self.now_s = 0.0
        self.n_launches = 0

    def lead(self, strategy: Timed, *, races: bool, foresees: bool = False, cap: int = CAP_LAUNCHES) -> None:
        """Run until a race has an answer, nothing more is proposed, or *cap* launches were made."""
        under_way: dict[str, Place] = {}
        events: list[tuple[float, int, Place, list[Observed]]] = []
        foreseen_s = 0.0
        while self.n_launches < cap:
            for name in self.names:
                if name not in under_way:
                    place = strategy.next_for(name, list(under_way.values()), self.names)
                    if place is not None:
                        under_way[name] = place
                        windows = self._taken(place)
                        heappush(events, (self._boxes[name].now_s, self.n_launches, place, windows))
            if not events:
                return
            self.now_s, _, place, windows = heappop(events)
            del under_way[place.box]
            strategy.learn(Done(place, windows))
            if foresees and self.now_s >= foreseen_s + FORESEES_EVERY_S:
                foreseen_s = self.now_s
                strategy.expected_rest(list(under_way.values()))
            if races and strategy.answer().reached:
                return

    def _taken(self, place: Place) -> list[Observed]:
        box = self._boxes[place.box]
        box.now_s = max(box.now_s, self.now_s)
        self.n_launches += 1
        return [replace(window, launch=self.n_launches, box=place.box) for window in box.take(place.asked)]


def _own_box(job: Job, surface: int, stream: str) -> SimulatedBox:
    """Return a host with its own level, and with its own effect on each layout."""
    random = Random(f"{stream}/box")
    level = random.gauss(0, job.level_sd)
    row = [value * exp(level + random.gauss(0, job.spread_sd)) for value in job.suite.surfaces[surface]]
    return replace(job.suite, surfaces=(tuple(row),)).box(0, stream)


def make(name: str, goal: Goal, seed: int, n_blocks: int | None = None) -> SpreadingStrategy:
    return FleetRace(goal, seed) if name == "race" else FleetGrid(goal, seed, n_blocks)


def one_study(job: Job, number: int) -> list[Led]:
    """Run the same study on each number of hosts, in turn."""
    surface, repeat = number % job.suite.n_surfaces, number // job.suite.n_surfaces
    stream = f"{job.seed}/{surface}/{repeat}"
    found = []
    for n_boxes in job.boxes:
        fleet = SimulatedFleet(job, surface, stream, n_boxes)
        seed = Random(f"{stream}/strategy").getrandbits(32)
        strategy = Timed(make(job.strategy, job.suite.goal(job.kind), seed))
        fleet.lead(strategy, races=job.strategy == "race")
        answer = strategy.answer()
        answered = answer.layout is not None and (answer.reached or answer.kind == "none")
        right = answered and job.suite.box(surface, "").is_right(answer.layout)  # type: ignore[arg-type]
        found.append(Led(n_boxes, fleet.now_s / 3600, fleet.n_launches, answered, right))
    return found


def lines_of(job: Job, studies: Sequence[Sequence[Led]]) -> list[Line]:
    lines = []
    alone = [next(one for one in study if one.n_boxes == 1) for study in studies]
    for place, n_boxes in enumerate(job.boxes):
        led = [study[place] for study in studies]
        n_right = sum(one.right for one in led)
        hours = [one.hours for one in led]
        lines.append(
            Line(
                job.suite.name,
                "all" if job.strategy == "all" else f"race, {job.kind}",
                n_boxes,
                len(led),
                median(hours),
                fmean(hours),
                median(one.hours for one in alone) / median(hours) / n_boxes,
                fmean(one.hours for one in alone) / fmean(hours) / n_boxes,
                BARS[job.strategy].get(n_boxes),
                fmean(one.n_launches for one in led),
                n_right / len(led),
                *wilson_interval(n_right, len(led)),
                sum(not one.answered for one in led) / len(led),
            )
        )
    return lines


def told(line: Line) -> str:
    right = f"{100 * line.right_ratio:.0f} % ({100 * line.right_low:.0f}-{100 * line.right_high:.0f})"
    bar = "" if line.bar is None else f"{line.bar:.2f}"
    without = f"  no answer in {100 * line.unanswered_ratio:.0f} %" if line.unanswered_ratio else ""
    return (
        f"{line.suite:<16} {line.strategy:<16} {line.boxes:>2} {line.n:>4}  {line.median_hours:>7.2f}"
        f"  {line.of_ideal:>5.2f} ({line.of_ideal_by_means:.2f}) {bar:>5}  {line.mean_launches:>7.1f}"
        f"  {right}{without}"
    )


def plan(suite: Suite, name: str, n_boxes: int, seed: int) -> dict[str, object]:
    """Print the cost of a strategy on so many hosts."""
    job = Job(suite, name, "strict", (n_boxes,), 0.05, 0.0, seed)
    fleet = SimulatedFleet(job, 0, f"{seed}/plan", n_boxes)
    strategy = Timed(make(name, suite.goal("strict"), seed, n_boxes))
    fleet.lead(strategy, races=name == "race", foresees=True)
    return {
        "strategy": name,
        "boxes": n_boxes,
        "launches": fleet.n_launches,
        "hours": fleet.now_s / 3600,
        "cpu_s": strategy.cpu_s,
        "cpu_share": strategy.cpu_s / fleet.now_s,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("suites", nargs="*", default=["curve", "ties"], metavar="SUITE")
    parser.add_argument("--boxes", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--strategies", nargs="+", choices=("race", "all"), default=["race", "all"])
    parser.add_argument(
        "--kinds", nargs="+", choices=("strict", "calibrated"), default=["strict", "calibrated"]
    )
    parser.add_argument("--studies", type=int, default=20)
    parser.add_argument("--level", type=float, default=0.05)
    parser.add_argument("--spread", type=float, default=0.0)
    parser.add_argument("--plan", type=int, default=1000, help="boxes; 0: no plan")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    suites = [suite_named(name) for name in options.suites]
    found: dict[str, list[dict[str, object]]] = {"lines": [], "plan": []}
    if not options.json:
        print("suite            strategy     boxes    n  median h  of ideal      bar  launches  right")
    for suite in suites:
        for name in options.strategies if options.studies else ():
            for kind in options.kinds if name == "race" else options.kinds[:1]:
                boxes = tuple(sorted({1, *options.boxes}))
                job = Job(suite, name, kind, boxes, options.level, options.spread, options.seed)
                studies = list(each_in_processes(one_study, job, range(options.studies), options.processes))
                for line in lines_of(job, studies):
                    found["lines"].append(asdict(line))
                    if not options.json:
                        print(told(line), flush=True)
    for name in options.strategies if options.plan else ():
        one = plan(suites[0], name, options.plan, options.seed)
        found["plan"].append(one)
        if not options.json:
            print(
                f"{name} on {options.plan} boxes: {one['launches']} launches in {one['hours']:.1f} h,"
                f" {one['cpu_s']:.1f} s of CPU: {100 * float(str(one['cpu_share'])):.2f} % of a core"
            )
    if options.json:
        print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
