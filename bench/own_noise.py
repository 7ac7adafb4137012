"""Error rates of `tuner compare` for load, memory, CPU and p95, if layouts differ in noise.

    python bench/own_noise.py [--studies 1000] [--seed 1] [--processes N]

Each line is one kind of pair of studies of the same layouts. Figures are the share of pairs, in %, in which
the nominal 95 % intervals of all layouts contain the truth, and the median of their half widths, in %: with
the noise of each layout (`heteroscedastic_change`), and with one noise for all, as for throughput.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp
from random import Random
from statistics import median
from typing import Literal

from tuner.adapters.processes.worker_processes import each_in_processes
from tuner.core.domain.layout import Layout
from tuner.core.planning.heteroscedastic_change import estimate_changes
from tuner.core.ranking.study_difference import Changes, Side, changes
from tuner.core.search.recheck import Launched
from tuner.core.stats.interval import wilson_interval

SD = 0.01  #: of one launch of a usual layout

Unlike = Literal["alike", "as measured", "one is ten times as noisy", "half are ten times as noisy"]


@dataclass(frozen=True)
class Case:
    unlike: Unlike
    n_layouts: int
    n_launches: tuple[int, int]
    gap: float = 0.0  # what changed, the same for all, on the logarithmic scale
    noisier: float = 1.0  # sd of the second study to the first's
    drift: float = 0.0  # sd from block to block

    @property
    def name(self) -> str:
        text = (
            f"{self.unlike}: {self.n_layouts} layouts, {self.n_launches[0]} and {self.n_launches[1]} launches"
        )
        text += f", then {exp(self.gap):g} times" if self.gap else ""
        text += f", then {self.noisier:g} times as noisy" if self.noisier != 1 else ""
        return text + (f", drift {self.drift:.0%}" if self.drift else "")


CASES = [
    *(
        Case(unlike, k, (n, n))
        for unlike in ("alike", "as measured", "one is ten times as noisy", "half are ten times as noisy")
        for k in (2, 6, 24)
        for n in (2, 3, 4, 6)
    ),
    *(Case("as measured", k, (n, n), gap=0.5) for k in (6, 24) for n in (2, 3, 6)),
    Case("as measured", 6, (2, 6)),
    Case("as measured", 24, (2, 6), noisier=3.0),
    Case("as measured", 6, (3, 3), noisier=2.0),
    Case("as measured", 6, (6, 3), noisier=0.5),
    Case("as measured", 6, (3, 3), drift=0.01),
    Case("as measured", 24, (3, 3), drift=0.05),
]


def one_pair(shared: tuple[Case, int], number: int) -> tuple[tuple[bool, float | None], ...]:
    """Whether all intervals hold, and how far they go: by their own noise, by one."""
    case, seed = shared
    random = Random(f"{seed}/{case.name}/{number}")
    sds = [SD * times for times in times_of(case, random)]
    sides = [
        side(sds, case.n_launches[0], 0.0, case.drift, random),
        side([sd * case.noisier for sd in sds], case.n_launches[1], case.gap, case.drift, random),
    ]
    return tuple(judged(how(sides[0], sides[1], 0.95), case.gap) for how in (estimate_changes, changes))


def times_of(case: Case, random: Random) -> list[float]:
    """How noisy each layout is; "as measured" is the spread of load, 1x48 to 24x2, in simulated studies."""
    k = case.n_layouts
    if case.unlike == "alike":
        return [1.0] * k
    if case.unlike == "as measured":
        return [exp(random.gauss(0, 0.75)) for _ in range(k)]
    n_noisy = 1 if case.unlike == "one is ten times as noisy" else k // 2
    return [1.0] * (k - n_noisy) + [10.0] * n_noisy


def side(sds: Sequence[float], n_launches: int, level: float, drift: float, random: Random) -> Side:
    launches = []
    for block in range(n_launches):
        box = random.gauss(0, drift)
        for number, sd in enumerate(sds):
            value = level + box + random.gauss(0, sd)
            launches.append(Launched(block, Layout(number + 1, 1), value))
    return Side(launches)


def judged(found: Changes, gap: float) -> tuple[bool, float | None]:
    ratios = [one.ratio for one in found.layouts]
    holds = all(one.low is None or one.high is None or one.low <= exp(gap) <= one.high for one in ratios)
    reaches = [one.high / one.mean - 1 for one in ratios if one.high is not None and one.mean]
    return holds, median(reaches) if reaches else None


def line(name: str, outcomes: Sequence[tuple[tuple[bool, float | None], ...]]) -> str:
    cells = []
    for of_each in zip(*outcomes, strict=True):
        held = sum(holds for holds, _ in of_each)
        low, high = wilson_interval(held, len(of_each))
        known = [reach for _, reach in of_each if reach is not None]
        far = f"{100 * median(known):.1f}" if known else "-"
        cells.append(f"{100 * held / len(of_each):5.1f} ({100 * low:.1f} to {100 * high:.1f}) {far:>7}")
    return f"{name:<76} " + "  ".join(cells)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--studies", type=int, default=1000)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = arguments.parse_args()
    print(f"{'':<76} {'own noise, reach':<29}  {'one noise, reach':<29}")
    for case in CASES:
        found = each_in_processes(one_pair, (case, options.seed), range(options.studies), options.processes)
        print(line(case.name, list(found)), flush=True)


if __name__ == "__main__":
    main()
