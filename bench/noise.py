"""Coverage of the intervals of the noise, by simulation.

    python bench/noise.py [--studies 4000] [--seed 1]

Each line is one kind of study. Figures are the share of studies, in %, in which the nominal 95 % interval of
`stats.noise` contains the true standard deviation: of windows, of launches, and of the drift from block to
block. The second figure of each is the median of the upper end of the interval, divided by the truth.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
from dataclasses import dataclass, field

from tuner.core.stats.interval import Estimate, LaunchMean
from tuner.core.stats.two_way_anova import Observation, fit
from tuner.core.stats.variance import estimate_noise

SOURCES = ("window", "launch", "drift")


@dataclass(frozen=True)
class Case:
    name: str
    n_layouts: int
    n_blocks: int
    n_windows: int  # per launch
    window_sd: float = 0.05
    launch_sd: float = 0.015
    drift_sd: float = 0.06
    missing: float = 0.0  # share of launches that fail, and of windows that are void
    heavy: bool = False  # window noise from Student's t with 5 degrees of freedom

    def truth(self, source: str) -> float:
        return {"window": self.window_sd, "launch": self.launch_sd, "drift": self.drift_sd}[source]


CASES = [
    Case("6 layouts, 3 blocks of 2 windows", 6, 3, 2),
    Case("6 layouts, 3 blocks of 4 windows", 6, 3, 4),
    Case("6 layouts, 5 blocks of 4 windows", 6, 5, 4),
    Case("6 layouts, 3 blocks of 4 windows, launch sd 5 %", 6, 3, 4, launch_sd=0.05),
    Case("22 layouts, 3 blocks of 2 windows", 22, 3, 2),
    Case("22 layouts, 3 blocks of 1 window", 22, 3, 1),
    Case("2 layouts, 3 blocks of 2 windows", 2, 3, 2),
    Case("2 layouts, 10 blocks of 4 windows", 2, 10, 4),
    Case("6 layouts, 3 blocks of 2 windows, no drift", 6, 3, 2, drift_sd=0.0),
    Case("6 layouts, 3 blocks of 2 windows, drift 20 %", 6, 3, 2, drift_sd=0.2),
    Case("6 layouts, 3 blocks of 2 windows, no launch noise", 6, 3, 2, launch_sd=0.0),
    Case("6 layouts, 5 blocks of 3 windows, 1 in 5 missing", 6, 5, 3, missing=0.2),
    Case("outside the model: windows with heavy tails", 6, 5, 4, heavy=True),
]


@dataclass
class Outcome:
    n: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SOURCES, 0))
    covered: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SOURCES, 0))
    reach: dict[str, list[float]] = field(default_factory=lambda: {source: [] for source in SOURCES})


def simulate(case: Case, n_studies: int, seed: int) -> Outcome:
    random_ = random.Random(f"{seed} {case.name}")
    outcome = Outcome()
    for _ in range(n_studies):
        launches = launched(case, random_)
        layouts = sorted({launch.layout for launch in launches})
        if len(layouts) < case.n_layouts:
            continue
        fitted = fit(
            [Observation(one.layout, one.block, math.log(one.throughput_per_s)) for one in launches],
            len(layouts),
        )
        noise = estimate_noise(launches, fitted, 0.95)
        for source in SOURCES:
            estimate: Estimate | None = getattr(noise, source)
            if estimate is None or estimate.low is None or estimate.high is None:
                continue
            truth = case.truth(source)
            outcome.n[source] += 1
            outcome.covered[source] += estimate.low <= truth <= estimate.high
            if truth:
                outcome.reach[source].append(estimate.high / truth)
    return outcome


def launched(case: Case, random_: random.Random) -> list[LaunchMean]:
    launches = []
    for block in range(case.n_blocks):
        drift = random_.gauss(0, case.drift_sd)
        for layout in range(case.n_layouts):
            if random_.random() < case.missing:
                continue
            level = math.exp(drift + random_.gauss(0, case.launch_sd))
            windows = [
                level * math.exp(case.window_sd * drawn(case, random_))
                for index in range(case.n_windows)
                if index == 0 or random_.random() >= case.missing
            ]
            mean = statistics.fmean(windows)
            squares = sum((window / mean - 1) ** 2 for window in windows)
            launches.append(LaunchMean(layout, block, mean, len(windows), squares))
    return launches


def drawn(case: Case, random_: random.Random) -> float:
    if not case.heavy:
        return random_.gauss(0, 1)
    return random_.gauss(0, 1) / math.sqrt(random_.gammavariate(2.5, 2) / 5) * math.sqrt(3 / 5)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--studies", type=int, default=4000)
    arguments.add_argument("--seed", type=int, default=1)
    options = arguments.parse_args()
    print(
        f"{options.studies} studies a line, seed {options.seed}; window sd 5 %, launch sd 1.5 %, drift sd 6 %"
    )
    print("unless the line says otherwise; covers in %, and the median upper end / truth\n")
    print(f"{'':52}" + "".join(f"{source:>16}" for source in SOURCES))
    for case in CASES:
        got = simulate(case, options.studies, options.seed)
        cells = []
        for source in SOURCES:
            covers = f"{100 * got.covered[source] / got.n[source]:.1f}" if got.n[source] else "-"
            reach = f"{statistics.median(got.reach[source]):.1f}" if got.reach[source] else "-"
            cells.append(f"{covers:>9}{reach:>7}")
        print(f"{case.name:52}" + "".join(cells), flush=True)


if __name__ == "__main__":
    main()
