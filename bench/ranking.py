"""Error rates of the ranking, by simulation, and its time.

    python bench/ranking.py [--studies 4000] [--seed 1]

Each line is one kind of study. Noise is multiplicative with mean 1; each launch has equally many windows.

- "false" is the share of studies of *identical* layouts that call any two layouts different (goal: 5 %). The
  second figure is that of Welch's t-test on windows with Bonferroni's correction, a common method.
- "covers" is the share of 95 % intervals that contain the layout's true mean, over all layouts and studies.
- "width" is the mean full width of these intervals, as a share of the mean.
- "ratios" is the share of studies in which all intervals of ratios to the first layout are right.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

from tuner.core.domain.layout import Layout
from tuner.core.domain.records import StudyRecord, WindowRecord
from tuner.core.domain.stored_config import StoredConfig
from tuner.core.domain.window import VoidReason
from tuner.core.ranking.ranked import Ranking
from tuner.core.ranking.ranking import rank
from tuner.core.stats.quantiles import student_t_tail

Draw = Callable[[random.Random], float]


@dataclass(frozen=True)
class Case:
    name: str
    n_layouts: int
    n_blocks: int
    n_windows: int = 1  # per launch
    window_sd: float = 0.05
    launch_sd: float = 0.015
    drift_sd: float = 0.06
    missing: float = 0.0  # share of launches that fail
    drift_memory: float = 0.0  # correlation of one block's drift with the next one's
    heavy: bool = False  # launch noise from Student's t with 4 degrees of freedom
    uneven: bool = False  # half of the layouts have three times the launch noise
    differ: float = 0.0  # sd of the layouts' true means


CASES = [
    Case("2 layouts, 2 blocks", 2, 2),
    Case("2 layouts, 3 blocks", 2, 3),
    Case("6 layouts, 2 blocks", 6, 2),
    Case("6 layouts, 3 blocks", 6, 3),
    Case("6 layouts, 5 blocks", 6, 5),
    Case("22 layouts, 3 blocks", 22, 3),
    Case("22 layouts, 3 blocks, no drift", 22, 3, drift_sd=0.0),
    Case("1 layout, 3 blocks", 1, 3),
    Case("1 layout, 5 blocks", 1, 5),
    Case("6 layouts, 3 blocks of 6 windows, launch sd 3 %", 6, 3, n_windows=6, launch_sd=0.03),
    Case("6 layouts, 2 blocks of 20 windows, launch sd 3 %", 6, 2, n_windows=20, launch_sd=0.03),
    Case("6 layouts, 3 blocks, no drift", 6, 3, drift_sd=0.0),
    Case("6 layouts, 3 blocks, drift 20 %", 6, 3, drift_sd=0.20),
    Case("6 layouts, 3 blocks, 1 in 5 launches missing", 6, 3, missing=0.2),
    Case("6 layouts, 5 blocks, 1 in 3 launches missing", 6, 5, missing=0.33),
    Case("6 layouts that differ by 20 %, 3 blocks", 6, 3, differ=0.2),
    Case("6 layouts that differ by 20 %, 5 blocks, 1 in 5 missing", 6, 5, differ=0.2, missing=0.2),
    Case("outside the model: heavy tails, 3 blocks", 6, 3, heavy=True, launch_sd=0.05, window_sd=0.0),
    Case(
        "outside the model: half of 6 three times as noisy", 6, 3, uneven=True, launch_sd=0.03, window_sd=0.01
    ),
    Case("outside the model: drift remembers 0.7 a block, 5 blocks", 6, 5, drift_memory=0.7),
]


def factor(random_: random.Random, sd: float, *, heavy: bool = False) -> float:
    """A positive factor of mean 1 (but for heavy tails, of median 1)."""
    if heavy:
        chi = math.sqrt(random_.gammavariate(2, 2) / 4)
        return math.exp(sd / math.sqrt(2) * random_.gauss(0, 1) / chi)
    log_sd = math.sqrt(math.log1p(sd * sd))
    return math.exp(log_sd * random_.gauss(0, 1) - log_sd * log_sd / 2)


def simulated(case: Case, random_: random.Random) -> tuple[StudyRecord, list[WindowRecord], list[float]]:
    """A study, its windows and the true means of its layouts in items per ten minutes."""
    layouts = [Layout(1, threads + 1) for threads in range(case.n_layouts)]
    truth = [2000.0 * factor(random_, case.differ) if case.differ else 2000.0 for _ in layouts]
    log_sd = math.sqrt(math.log1p(case.drift_sd**2))
    drift = random_.gauss(0, log_sd)
    windows = []
    launch_id = 0
    for block in range(case.n_blocks):
        if block:
            fresh = math.sqrt(1 - case.drift_memory**2)
            drift = case.drift_memory * drift + fresh * random_.gauss(0, log_sd)
        for number, layout in enumerate(layouts):
            launch_id += 1
            if random_.random() < case.missing:
                continue
            noisy = case.uneven and number % 2
            launch = factor(random_, case.launch_sd * (3 if noisy else 1), heavy=case.heavy)
            level = truth[number] * math.exp(drift - log_sd * log_sd / 2) * launch
            for index in range(case.n_windows):
                n_done = 1000 * level * factor(random_, case.window_sd)  # no counting noise
                windows.append(window(launch_id, block, layout, index, round(n_done)))
    return study(layouts, case.n_blocks, case.n_windows), windows, [1000 * mean for mean in truth]


def study(layouts: list[Layout], n_blocks: int, windows_per_launch: int) -> StudyRecord:
    return StudyRecord(
        service="simulated", strategy="all", layouts=tuple(layouts), cores=24, box_cores=24, window_s=600.0,
        warmup_s=30.0, n_blocks=n_blocks, windows_per_launch=windows_per_launch, seed=1, budget_s=None,
        created_wall_s=0.0, config=StoredConfig("{}"),
    )  # fmt: skip


def window(
    launch_id: int, block: int, layout: Layout, index: int, n_done: int, void: tuple[VoidReason, ...] = ()
) -> WindowRecord:
    return WindowRecord(
        launch_id=launch_id, block=block, layout=layout, box="box", index=index, attempt=1, void=void,
        started_wall_s=0.0, length_s=600.0, n_done=n_done, n_failed=0, load1_mean=1.0, load1_max=2.0,
        n_active_mean=1.0, service_cpu_s=600.0, tuner_cpu_s=0.1, backend_cpu_s=0.0, foreign_cpu_s=0.0,
        steal_s=0.0, pss_bytes=1e8,
    )  # fmt: skip


def welch_calls_any_different(windows: list[WindowRecord]) -> bool:
    by_layout: dict[Layout, list[float]] = {}
    for one in windows:
        by_layout.setdefault(one.layout, []).append(float(one.n_done))
    samples = [values for values in by_layout.values() if len(values) > 1]
    n_pairs = len(samples) * (len(samples) - 1) / 2
    for first, second in combinations(samples, 2):
        v, w = statistics.variance(first) / len(first), statistics.variance(second) / len(second)
        df = (v + w) ** 2 / (v * v / (len(first) - 1) + w * w / (len(second) - 1))
        t = abs(statistics.fmean(first) - statistics.fmean(second)) / math.sqrt(v + w)
        if 2 * student_t_tail(t, df) < 0.05 / n_pairs:
            return True
    return False


def ratios_right(ranking: Ranking, truth: dict[Layout, float]) -> bool | None:
    current = ranking.current
    assert current is not None
    checked = []
    for row in ranking.rows:
        ratio = row.ratio_to_current
        if row.layout == current or ratio is None or ratio.low is None or ratio.high is None:
            continue
        checked.append(ratio.low <= truth[row.layout] / truth[current] <= ratio.high)
    return all(checked) if checked else None


@dataclass
class Outcome:
    n: int = 0
    n_false: int = 0
    n_welch: int = 0
    n_intervals: int = 0
    n_covered: int = 0
    width: float = 0.0
    n_ratios: int = 0
    n_ratios_right: int = 0


def simulate(case: Case, n_studies: int, seed: int) -> Outcome:
    random_ = random.Random(f"{seed} {case.name}")
    outcome = Outcome()
    for _ in range(n_studies):
        record, windows, means = simulated(case, random_)
        truth = dict(zip(record.layouts, means, strict=True))
        current = windows[0].layout if windows else record.layouts[0]
        ranking = rank(record, windows, current=current)
        outcome.n += 1
        outcome.n_false += any(row.rank is not None and row.rank > 1 for row in ranking.rows)
        outcome.n_welch += welch_calls_any_different(windows)
        for row in ranking.rows:
            low, high = row.throughput_per_10min.low, row.throughput_per_10min.high
            if low is not None and high is not None:
                outcome.n_intervals += 1
                outcome.n_covered += low <= truth[row.layout] <= high
                outcome.width += (high - low) / truth[row.layout]
        right = ratios_right(ranking, truth)
        if right is not None:
            outcome.n_ratios += 1
            outcome.n_ratios_right += right
    return outcome


def time_of_many(n_windows: int, n_layouts: int, missing: float) -> float:
    """CPU seconds to rank *n_windows* windows of *n_layouts* layouts, median of 5."""
    random_ = random.Random(1)
    layouts = [Layout(1, threads + 1) for threads in range(n_layouts)]
    n_blocks = n_windows // n_layouts // 5
    windows = [
        window(block * n_layouts + number, block, layout, index, round(random_.gauss(2000, 100)))
        for block in range(n_blocks)
        for number, layout in enumerate(layouts)
        if random_.random() >= missing
        for index in range(5)
    ]
    record = study(layouts, n_blocks, 5)
    taken = []
    for _ in range(5):
        start = time.process_time()
        rank(record, windows)
        taken.append(time.process_time() - start)
    return statistics.median(taken)


def percent(part: float, whole: int) -> str:
    return f"{100 * part / whole:6.2f}" if whole else "     -"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--studies", type=int, default=4000)
    arguments.add_argument("--seed", type=int, default=1)
    options = arguments.parse_args()
    print(f"{options.studies} studies a line, seed {options.seed}; all figures in %\n")
    print(f"{'':58} false  Welch  covers  width  ratios")
    for case in CASES:
        got = simulate(case, options.studies, options.seed)
        false = percent(got.n_false, got.n) if not case.differ else "     -"
        welch = percent(got.n_welch, got.n) if not case.differ else "     -"
        print(
            f"{case.name:58}{false} {welch}  {percent(got.n_covered, got.n_intervals)} "
            f"{percent(got.width, got.n_intervals)}  {percent(got.n_ratios_right, got.n_ratios)}",
            flush=True,
        )
    print("\nCPU time to rank (median of 5)")
    for n_windows, n_layouts, missing in (
        (1000, 22, 0),
        (100_000, 22, 0),
        (100_000, 174, 0),
        (100_000, 174, 0.1),
    ):
        what = f"{n_windows:8} windows of {n_layouts:3} layouts"
        note = ", 1 in 10 launches missing" if missing else ""
        print(f"{what}{note}: {time_of_many(n_windows, n_layouts, missing):.3f} s")


if __name__ == "__main__":
    main()
