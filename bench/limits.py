"""Error rates of verdicts on limits and of Pareto fronts, by simulation; and the time to compute verdicts.

    python bench/limits.py [--studies 2000] [--seed 1]

Each line is one kind of study of 22 layouts. "Around": loads from a tenth of the limit to twice the limit,
and two layouts on it. "On": all layouts are on the limit, so that no verdict should be given. Figures in %:

- "wrong" is the share of studies in which any layout was ever called within the limit while it is beyond, or
  beyond while it is within (goal: at most 5 %; if all are on the limit 2.5 %, as an interval has two ends);
- "told" is the share of layouts with a verdict at the end, without those on the limit.

In studies with looks, all layouts are launched twice, and then always the open layout nearest to the limit,
16 times. Verdicts are computed after every launch. This is the worst case for wrong verdicts.

"Fronts": seven layouts, several of them on the margin of 2 % or equal. Any wrong statement counts.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import time
from dataclasses import dataclass

from tuner.core.domain.layout import Layout
from tuner.core.domain.limits import Limit, Verdict, verdicts
from tuner.core.domain.strategy import Kind, Observed
from tuner.core.ranking.pareto import Traded, pareto_front

LIMIT = Limit("load", 20.0)
LAYOUTS = [Layout(1, threads + 1) for threads in range(22)]
NEAR = 0.001  # as a ratio: nothing that noise lets anybody see
AROUND = [20.0, 20.0 * (1 + NEAR), *(20.0 * 2 ** (-3.3 + 4.3 * number / 19) for number in range(20))]
ON = [20.0 * (1 + NEAR * (number % 2)) for number in range(22)]


@dataclass(frozen=True)
class Case:
    name: str
    kind: Kind
    launch_sd: float = 0.02
    n_launches: int = 3  # of each layout, before the looks
    n_more: int = 0  # launches that are chosen by what was seen; 0: one look at the end
    drift_sd: float = 0.0  # of the load, alike for all layouts of a block
    uneven: bool = False  # half of the layouts have three times the noise
    heavy: bool = False  # Student's t with 4 degrees of freedom
    on: bool = False  # all layouts on the limit

    @property
    def truth(self) -> list[float]:
        return ON if self.on else AROUND


CASES = [
    Case("around: one look, 2 launches each, calibrated", "calibrated", n_launches=2),
    Case("around: one look, 3 launches each, calibrated", "calibrated"),
    Case("around: one look, 3 launches each, noise 10 %", "calibrated", launch_sd=0.1),
    Case("around: one look, 5 launches each, strict", "strict", n_launches=5),
    Case("around: looks, calibrated", "calibrated", n_launches=2, n_more=16),
    Case("around: looks, strict", "strict", n_launches=4, n_more=16),
    Case("on: one look, 3 launches each, calibrated", "calibrated", on=True),
    Case("on: one look, 5 launches each, strict", "strict", n_launches=5, on=True),
    Case("on: looks, calibrated", "calibrated", n_launches=2, n_more=16, on=True),
    Case("on: looks, strict", "strict", n_launches=2, n_more=16, on=True),
    Case("on, half three times as noisy: one look, calibrated", "calibrated", uneven=True, on=True),
    Case("on, half three times as noisy: looks, calibrated", "calibrated", 0.02, 2, 16, uneven=True, on=True),
    Case("on, half three times as noisy: looks, strict", "strict", 0.02, 2, 16, uneven=True, on=True),
    Case("on, heavy tails: one look, calibrated", "calibrated", heavy=True, on=True),
    Case("on, heavy tails: looks, strict", "strict", 0.02, 2, 16, heavy=True, on=True),
    Case("on, drift 4 % a block: one look, calibrated", "calibrated", drift_sd=0.04, on=True),
    Case("on, drift 4 % a block: looks, calibrated", "calibrated", 0.02, 2, 16, drift_sd=0.04, on=True),
]


def launched(case: Case, number: int, launch: int, drift: float, random_: random.Random) -> Observed:
    sd = case.launch_sd * (3 if case.uneven and number % 2 else 1)
    noise = random_.gauss(0, 1)
    if case.heavy:
        noise /= math.sqrt(random_.gammavariate(2, 2) / 4) * math.sqrt(2)
    load = case.truth[number] * math.exp(drift + sd * noise)
    return Observed(LAYOUTS[number], 1.0, launch, 0.0, 0.0, 600.0, usage={"load": load})


def is_wrong(case: Case, got: dict[Layout, Verdict]) -> bool:
    return any(
        (verdict.state == "within" and truth > LIMIT.at_most)
        or (verdict.state == "beyond" and truth <= LIMIT.at_most)
        for verdict, truth in zip(got.values(), case.truth, strict=True)
    )


def simulate(case: Case, n_studies: int, seed: int) -> tuple[float, float]:
    random_ = random.Random(f"{seed} {case.name}")
    n_wrong = n_reported = 0
    for _ in range(n_studies):
        windows: list[Observed] = []
        wrong = False
        for _ in range(case.n_launches):
            drift = random_.gauss(0, case.drift_sd)
            windows += [
                launched(case, number, len(windows) + number, drift, random_)
                for number in range(len(LAYOUTS))
            ]
            if case.n_more:
                wrong = wrong or is_wrong(case, judged(case, windows))
        got = judged(case, windows)
        wrong = wrong or is_wrong(case, got)
        for _ in range(case.n_more):
            open_ = [number for number, x in enumerate(LAYOUTS) if got[x].state == "open"]
            if not open_:
                break
            nearest = min(open_, key=lambda number: distance(got[LAYOUTS[number]]))
            drift = random_.gauss(0, case.drift_sd)
            windows.append(launched(case, nearest, len(windows), drift, random_))
            got = judged(case, windows)
            wrong = wrong or is_wrong(case, got)
        n_wrong += wrong
        n_reported += sum(got[x].state != "open" for x in LAYOUTS[2:])
    return n_wrong / n_studies, n_reported / n_studies / len(LAYOUTS[2:])


def judged(case: Case, windows: list[Observed]) -> dict[Layout, Verdict]:
    return verdicts([LIMIT], LAYOUTS, windows, 0.95, kind=case.kind, at_any_look=bool(case.n_more))


def distance(verdict: Verdict) -> float:
    level = verdict.findings[0].level
    return abs(math.log(level / LIMIT.at_most)) if level else 0.0


#: throughput and load of layouts that lie on, just within and just outside a margin of 2 %
TRADED = {
    Layout(24, 1): (100.0, 20.0),
    Layout(12, 2): (98.0, 16.0),
    Layout(8, 3): (97.99, 12.0),
    Layout(6, 4): (90.0, 8.0),
    Layout(4, 6): (90.0, 8.01),
    Layout(3, 8): (90.01, 8.0),
    Layout(2, 12): (60.0, 8.0),
}


@dataclass(frozen=True)
class Fronts:
    name: str
    noise: float = 0.01
    n_blocks: int = 4  # of all layouts
    n_more: int = 0  # launches of the two that look best, in turn; in blocks of four
    drift_sd: float = (
        0.06  # from block to block, and from one such launch to the next a random walk of a tenth
    )


FRONTS = [
    Fronts("fronts: 4 blocks"),
    Fronts("fronts: 4 blocks, noise 3 %", noise=0.03),
    Fronts("fronts: 10 blocks", n_blocks=10),
    Fronts("fronts: a race, 1 block and 40 launches in turn", n_blocks=1, n_more=40),
]


def simulate_fronts(case: Fronts, n_studies: int, seed: int) -> tuple[float, float]:
    """Return the share of studies with a wrong statement, and the number of statements per study."""
    random_ = random.Random(f"{seed} {case.name}")
    n_wrong = n_statements = 0
    for _ in range(n_studies):
        got = pareto_front(traded(case, random_), "load", confidence=0.95, within=0.02)
        wrong = False
        for place in got.places:
            items, load = TRADED[place.layout]
            is_dominated = any(more > items and less < load for more, less in TRADED.values())
            wrong |= place.is_on_front is not None and place.is_on_front == is_dominated
            n_statements += place.is_on_front is not None
        for trade in got.trades:
            share = TRADED[trade.layout][0] / TRADED[trade.against][0]
            saves = TRADED[trade.layout][1] < TRADED[trade.against][1]
            wrong |= not saves or (trade.kind == "matches" and not 0.98 <= share <= 1 / 0.98)
            wrong |= trade.kind == "less" and share >= 1
            n_statements += 1
        n_wrong += wrong
    return n_wrong / n_studies, n_statements / n_studies


def traded(case: Fronts, random_: random.Random) -> list[Traded]:
    seen: list[Traded] = []
    sums: dict[Layout, list[float]] = {layout: [] for layout in TRADED}

    def launch(layout: Layout, block: int, drift: float) -> None:
        items, load = TRADED[layout]
        gave = items * math.exp(drift + random_.gauss(0, case.noise))
        sums[layout].append(math.log(gave))
        seen.append(Traded(layout, block, gave, load * math.exp(random_.gauss(0, case.noise))))

    for block in range(case.n_blocks):
        drift = random_.gauss(0, case.drift_sd)
        for layout in TRADED:
            launch(layout, block, drift)
    for turn in range(case.n_more):
        drift += random_.gauss(0, case.drift_sd / 10)
        best = sorted(TRADED, key=lambda layout: -statistics.fmean(sums[layout]))[:2]
        launch(min(best, key=lambda layout: len(sums[layout])), case.n_blocks + turn // 4, drift)
    return seen


def time_of_many(n_windows: int, n_layouts: int) -> float:
    """CPU seconds for the verdicts on *n_windows* windows, each a launch, median of 9."""
    random_ = random.Random(1)
    layouts = [Layout(1, threads + 1) for threads in range(n_layouts)]
    windows = [
        Observed(
            random_.choice(layouts), 1.0, number, 0.0, 0.0, 600.0, usage={"load": random_.uniform(10, 30)}
        )
        for number in range(n_windows)
    ]
    taken = []
    for _ in range(9):
        start = time.process_time()
        verdicts([LIMIT], layouts, windows, 0.95)
        taken.append(time.process_time() - start)
    return statistics.median(taken)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--studies", type=int, default=2000)
    arguments.add_argument("--seed", type=int, default=1)
    options = arguments.parse_args()
    print(f"{options.studies} studies a line, seed {options.seed}; launch sd 2 % unless told otherwise\n")
    print(f"{'':52} wrong   told")
    for case in CASES:
        wrong, result = simulate(case, options.studies, options.seed)
        print(
            f"{case.name:52}{100 * wrong:6.2f} {'     -' if case.on else f'{100 * result:6.1f}'}", flush=True
        )
    print(f"\n{'':52} wrong  statements a study")
    for front in FRONTS:
        wrong, statements = simulate_fronts(front, options.studies, options.seed)
        print(f"{front.name:52}{100 * wrong:6.2f} {statements:6.1f}", flush=True)
    print("\nCPU time for all verdicts (median of 9)")
    for n_windows, n_layouts in ((200, 24), (1000, 24), (1000, 174)):
        taken_ms = 1000 * time_of_many(n_windows, n_layouts)
        print(f"{n_windows:5} windows of {n_layouts:3} layouts: {taken_ms:.2f} ms")


if __name__ == "__main__":
    main()
