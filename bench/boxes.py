"""Error rates of the statements about several hosts, by simulation.

    python bench/boxes.py [--studies 2000] [--seed 1]

Each line is one kind of study, with layouts that are equally fast on average over all possible hosts. Figures
are in %. Noise is normal on the logarithmic scale: of each launch, of each block of a host (drift), of each
host (its level), and of each layout on each host (the host-by-layout interaction).

- "false": studies that call any two layouts different on hosts like these (goal: at most 5). "one box" uses
  only the noise of launches, as for blocks on one host. "tested" does the same unless a test at 25 % shows an
  interaction.
- "wide": the mean half width of the interval of a difference, and the same for "one box".
- "values": 95 % intervals that contain the mean throughput of a layout on these hosts.
- "levels": studies in which the intervals of all hosts' levels contain the true levels.
- "between", "apart": studies in which the interval of that standard deviation contains the true value.
- "shown": studies that report an interaction. "lost": studies that report a layout which is best on one host
  and far behind on another (margin 2 %).
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import combinations

from tuner.core.domain.layout import Layout
from tuner.core.ranking.host_effects import estimate_host_effects
from tuner.core.stats.groups import Comparison, compare
from tuner.core.stats.interval import Estimate, LaunchMean
from tuner.core.stats.mixed_model import BoxTable, box_table, estimate_on_boxes
from tuner.core.stats.quantiles import f_quantile
from tuner.core.stats.two_way_anova import Observation

COLUMNS = (
    "false",
    "one box",
    "tested",
    "wide",
    "one box",
    "values",
    "levels",
    "between",
    "apart",
    "shown",
    "lost",
)


@dataclass(frozen=True)
class Case:
    name: str
    n_layouts: int
    blocks: tuple[int, ...]  # of each box
    noise: float = 0.02
    drift: float = 0.02
    level: float = 0.05
    apart: float = 0.0
    missing: float = 0.0  # share of launches that fail
    collapse: bool = False  # the first layout gives 10 % more, and a third less on the last box

    @property
    def population_mean(self) -> float:
        """Return the mean throughput of a layout over all possible hosts."""
        return math.exp((self.level**2 + self.apart**2) / 2)


def cases() -> list[Case]:
    found = []
    for apart in (0.0, 0.02, 0.1):
        text = f"apart {100 * apart:g} %"
        for n_layouts, n_boxes, n_blocks in (
            (2, 2, 3), (2, 4, 3), (6, 2, 3), (6, 4, 1), (6, 4, 2), (6, 8, 3), (22, 2, 2), (22, 8, 1),
        ):  # fmt: skip
            name = f"{n_layouts} layouts, {n_boxes} boxes of {n_blocks}, {text}"
            found.append(Case(name, n_layouts, (n_blocks,) * n_boxes, apart=apart))
    for apart in (0.0, 0.02):
        text = f"apart {100 * apart:g} %"
        found += [
            Case(f"6 layouts, boxes of 3, 2 and 1, {text}", 6, (3, 2, 1), apart=apart),
            Case(f"6 layouts, 4 boxes of 2, 1 in 5 missing, {text}", 6, (2,) * 4, apart=apart, missing=0.2),
            Case(f"6 layouts, 4 boxes of 3, no drift, {text}", 6, (3,) * 4, drift=0.0, apart=apart),
            Case(f"6 layouts, 4 boxes of 3, drift 10 %, {text}", 6, (3,) * 4, drift=0.1, apart=apart),
        ]
    found.append(Case("6 layouts, 4 boxes of 3, noise 10 %", 6, (3,) * 4, noise=0.1))
    found.append(Case("6 layouts, 4 boxes of 3, one collapses", 6, (3,) * 4, collapse=True))
    return found


@dataclass
class Study:
    seen: list[Observation]
    box_of: dict[int, int]
    values: list[float]  # per layout, on these boxes on average: not logarithms
    levels: list[float]  # per box, their mean at 0


def simulated(case: Case, random_: random.Random) -> Study | None:
    """Simulate a study; None if a layout or a host has no launch."""
    n_boxes = len(case.blocks)
    levels = [random_.gauss(0, case.level) for _ in case.blocks]
    apart = [[random_.gauss(0, case.apart) for _ in case.blocks] for _ in range(case.n_layouts)]
    if case.collapse:
        apart[0] = [0.1] * (n_boxes - 1) + [-0.4]
    seen, box_of, block = [], {}, 0
    for box, n_blocks in enumerate(case.blocks):
        for _ in range(n_blocks):
            drift = random_.gauss(0, case.drift)
            for layout in range(case.n_layouts):
                if random_.random() < case.missing:
                    continue
                value = levels[box] + apart[layout][box] + drift + random_.gauss(0, case.noise)
                seen.append(Observation(layout, block, value))
                box_of[block] = box
            block += 1
    if len({one.layout for one in seen}) < case.n_layouts or len(set(box_of.values())) < n_boxes:
        return None
    on_box = [levels[box] + statistics.fmean(own[box] for own in apart) for box in range(n_boxes)]
    mean = statistics.fmean(on_box)
    return Study(
        seen,
        box_of,
        [statistics.fmean(math.exp(levels[box] + own[box]) for box in range(n_boxes)) for own in apart],
        [one - mean for one in on_box],
    )


@dataclass
class Outcome:
    right: Counter[str] = field(default_factory=Counter)
    asked: Counter[str] = field(default_factory=Counter)
    sums: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def add(self, name: str, *, holds: bool) -> None:
        self.asked[name] += 1
        self.right[name] += holds

    def told(self, name: str) -> str:
        n = self.asked[name]
        if not n:
            return f"{'-':>8}"
        return f"{100 * (self.sums[name] if name in self.sums else self.right[name]) / n:8.1f}"


def any_called(comparison: Comparison, n_layouts: int) -> bool:
    return any(comparison.n_better(range(n_layouts)))


def tested(table: BoxTable, over: Comparison, plain: Comparison) -> Comparison:
    noise, left = table.within.residual_variance, over.fit.residual_variance
    if noise is None or left is None:
        return over
    limit = f_quantile(0.75, over.fit.residual_df, table.within.residual_df)
    return over if left > limit * table.noise_share * noise else plain


def widths(comparison: Comparison, n_layouts: int) -> list[float]:
    halves = [comparison.half_width(*pair) for pair in combinations(range(n_layouts), 2)]
    return [half for half in halves if half is not None]


def holds(estimate: Estimate | None, truth: float) -> bool | None:
    if estimate is None or estimate.low is None or estimate.high is None:
        return None
    return estimate.low <= truth <= estimate.high


def simulate(case: Case, n_studies: int, seed: int) -> Outcome:
    random_ = random.Random(f"{seed} {case.name}")
    outcome = Outcome()
    layouts = [Layout(1, number + 1) for number in range(case.n_layouts)]
    boxes = [f"box-{number + 1}" for number in range(len(case.blocks))]
    for _ in range(n_studies):
        made = simulated(case, random_)
        if made is None:
            continue
        table = box_table(made.seen, made.box_of, case.n_layouts)
        over = compare(table.observations, case.n_layouts, 0.95)
        plain = compare(made.seen, case.n_layouts, 0.95)
        if not case.collapse:
            outcome.add("tested", holds=any_called(tested(table, over, plain), case.n_layouts))
        for place, comparison in enumerate((over, plain)):
            if not case.collapse:
                outcome.add(f"false {place}", holds=any_called(comparison, case.n_layouts))
            if found := widths(comparison, case.n_layouts):
                outcome.asked[f"wide {place}"] += 1
                outcome.sums[f"wide {place}"] += statistics.fmean(found)
        launches = [LaunchMean(one.layout, one.block, math.exp(one.value), 1, 0.0) for one in made.seen]
        drifts = bool(table.within.block_df)
        for layout, estimate in enumerate(estimate_on_boxes(launches, table, over.fit, 0.95)):
            truth = made.values[layout] if drifts else case.population_mean
            if (right := holds(estimate, truth)) is not None:
                outcome.add("values", holds=right)
        found_boxes = estimate_host_effects(
            table, over.fit, boxes=boxes, layouts=layouts, confidence=0.95, within=0.02
        )
        reported = [
            holds(one.level, math.exp(level))
            for one, level in zip(found_boxes.levels, made.levels, strict=True)
        ]
        if None not in reported:
            outcome.add("levels", holds=all(reported))
        # What a level is of is the boxes' own and the mean of what their layouts have more there.
        between = math.hypot(case.level, case.apart / math.sqrt(case.n_layouts))
        if not drifts:
            between = math.hypot(between, case.drift, case.noise / math.sqrt(case.n_layouts))
        if not case.collapse:
            for name, sd, truth in (
                ("between", found_boxes.between, between),
                ("apart", found_boxes.apart, case.apart),
            ):
                if (right := holds(sd, truth)) is not None:
                    outcome.add(name, holds=right)
        if found_boxes.is_apart is not None:
            outcome.add("shown", holds=found_boxes.is_apart)
        outcome.add("lost", holds=bool(found_boxes.collapses))
    return outcome


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--studies", type=int, default=2000)
    arguments.add_argument("--seed", type=int, default=1)
    options = arguments.parse_args()
    print(f"{options.studies} studies a line, seed {options.seed}; all figures in %\n")
    print(f"{'':52}" + "".join(f"{name:>8}" for name in COLUMNS))
    for case in cases():
        got = simulate(case, options.studies, options.seed)
        names = ("false 0", "false 1", "tested", "wide 0", "wide 1", *COLUMNS[5:])
        print(f"{case.name:52}" + "".join(got.told(name) for name in names), flush=True)


if __name__ == "__main__":
    main()
