"""The race: its cost on suites, its error rate in the worst cases, and the cost of a proof.

    python bench/race.py [SUITE ...] [--studies 1000] [--hard-studies 2000] [--proven-studies 100]
                         [--known-studies 0] [--seed 1]

SUITE is a suite's JSON file or the name of one of tuner's own (`docs/method/replay.md`).

1. Each SUITE, strict and calibrated: the mean cost, and the share of right answers.
2. Strict races in their worst case: one layout is best, some rivals are just outside the margin (1.02 of
   it), and all others far below. Goal: 95 % right on each line.
3. The cost of a proof, on the first SUITE: leader and nearest rival alternate until a rule decides that is
   proven for normal windows of unknown variance without drift, at any look and for any choice of layouts (see
   `Proven`). The cost is in windows; --proven-studies of each surface in order.
4. With --known-studies: the cost of not knowing the noise, on each SUITE of fixed windows. The strict race is
   compared with the same race that is given the noise of windows and the drift of the host, on the same
   surfaces and random numbers.
5. The time to choose the next launch, after 1000 windows.

Intervals are Wilson's, 95 %.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from math import exp, hypot, log, pi, sqrt
from random import Random
from statistics import fmean
from time import perf_counter

import numpy as np
from suites_named import suite_named

from tuner.adapters.processes.worker_processes import each_in_processes
from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Answer, Goal, Kind, Observed, Proposal
from tuner.core.planning.replay import ReplayedStudy, ReplayJob, replay, run
from tuner.core.search.posterior import DIFFUSE, Posterior
from tuner.core.search.racing import N_REPLICATES, Race
from tuner.core.search.suite import DRIFT_STEP_S, Suite, SuiteNoise
from tuner.core.stats.interval import wilson_interval

MARGIN = -log(0.98)
HARD = (  # rivals at the margin, layouts in all, sd of a window, sd of the drift
    (1, 24, 0.0522, 0.0),
    (2, 24, 0.0522, 0.0),
    (4, 24, 0.0522, 0.0),
    (2, 24, 0.0224, 0.0),
    (4, 24, 0.0335, 0.0),
    (1, 2, 0.0522, 0.0),
    (3, 4, 0.0522, 0.0),
    (1, 24, 0.0522, 0.06),
    (2, 24, 0.0522, 0.06),
    (1, 2, 0.0522, 0.06),
)


class Proven(Race):
    """Ends when an e-process speaks against every rival.

    Is layout j better than i by the margin? Over the windows of i and j, from the second of each on, the
    product of what was foretold (a normal with the mean and the pooled variance of the windows before) is set
    against the largest likelihood that any means with j above i by the margin, and any variance, give them.
    Where j truly is, that ratio passes (K - 1) / doubt with a probability of doubt / (K - 1) at most, at any
    look and whatever was measured when (Ville); K - 1 layouts may wrongly be named, so these add up.
    Source: Wasserman, Ramdas & Balakrishnan, Universal inference (2020), section 8.
    """

    def __init__(self, goal: Goal, seed: int) -> None:
        super().__init__(goal, seed)
        self._seen: dict[Layout, list[float]] = {}
        self._predicted_moments: dict[Layout, float] = {}
        self._squares, self._df = 0.0, 0

    def learn(self, windows: Sequence[Observed], failed: Sequence[Layout] = ()) -> None:
        super().learn(windows, failed)
        for window in windows:
            seen, y = self._seen.setdefault(window.layout, []), log(window.value)
            if seen:
                n, mean = len(seen), fmean(seen)
                variance = max(self._squares / self._df, 1e-8) * (1 + 1 / n) if self._df >= 3 else 0.1**2
                result = -0.5 * (log(2 * pi * variance) + (y - mean) ** 2 / variance)
                self._predicted_moments[window.layout] = (
                    self._predicted_moments.get(window.layout, 0.0) + result
                )
                self._squares += (y - mean) ** 2 * n / (n + 1)
                self._df += 1
            seen.append(y)

    def propose(self) -> Sequence[Proposal]:
        if self._ends():
            return []
        first = super().answer().layout
        if first is None or len(self._seen) < len(self._goal.layouts):
            return super().propose()
        rivals = [layout for layout in self._goal.layouts if layout != first]
        nearest = min(rivals, key=lambda rival: self._against(first, rival))
        least = min((first, nearest), key=lambda layout: len(self._seen[layout]))
        return [Proposal(least, self._goal.max_window_s)]

    def answer(self) -> Answer:
        known = super().answer()
        return Answer(known.layout, self._ends(), known.kind, known.ties)

    def _ends(self) -> bool:
        first = super().answer().layout
        if first is None or len(self._seen) < len(self._goal.layouts):
            return False
        bar = log((len(self._goal.layouts) - 1) / (1 - self._goal.confidence))
        return all(self._against(first, rival) >= bar for rival in self._goal.layouts if rival != first)

    def _against(self, first: Layout, rival: Layout) -> float:
        ours, theirs = self._seen[first][1:], self._seen[rival][1:]
        if not ours or not theirs:
            return 0.0
        n, mean, other = len(ours) + len(theirs), fmean(ours), fmean(theirs)
        squares = sum((y - mean) ** 2 for y in ours) + sum((y - other) ** 2 for y in theirs)
        short = max(0.0, mean - other + self._margin)
        squares += short**2 / (1 / len(ours) + 1 / len(theirs))
        if squares <= 0:
            return 0.0
        most = -0.5 * n * (log(2 * pi * squares / n) + 1)
        return self._predicted_moments[first] + self._predicted_moments[rival] - most


class Told(Race):
    """A strict race that is given the noise of a suite whose windows have one length."""

    def __init__(self, goal: Goal, seed: int, noise: SuiteNoise) -> None:
        super().__init__(goal, seed)
        self._noise = noise

    def _new_bank(self) -> Posterior:
        """One filter: the noise as it is, worth more windows than there will ever be."""
        length_s, noise = self._goal.max_window_s, self._noise
        sd = hypot(noise.window_sd, noise.launch_sd, noise.sample_sd_1s / sqrt(length_s))
        correlation = noise.drift_ar1_per_600s if noise.drift_sd else 0.5
        n = len(self._goal.layouts)
        bank = Posterior(
            DIFFUSE * np.eye(n)[None],
            share=np.zeros(1),
            ratio=np.array([noise.drift_sd / sd]),
            tau_s=np.array([-DRIFT_STEP_S / log(correlation)]),
            log_weight=np.zeros(1),
            skips_first=True,
            prior_df=1e9,
            prior_sigma=sd,
        )
        bank.n_replicates = N_REPLICATES
        return bank


def hard_suite(rivals: int, n: int, sd: float, drift_sd: float) -> Suite:
    row = [2600.0] + [2600.0 * exp(-1.02 * MARGIN)] * rivals + [1900.0] * (n - 1 - rivals)
    return Suite(
        name="hard",
        layouts=tuple(Layout(1, threads) for threads in range(1, n + 1)),
        surfaces=(tuple(row),),
        noise=SuiteNoise(window_sd=sd, drift_sd=drift_sd, drift_ar1_per_600s=0.95),
        within=0.02,
        confidence=0.95,
        launch_s=120.0,
        window_s=600.0,
        cores=24,
    )


def suite_of(job: ReplayJob) -> Suite:
    """Return the suite of *job*; a recorded study has no surfaces."""
    assert isinstance(job.suite, Suite)
    return job.suite


def one_run(job: ReplayJob, number: int) -> ReplayedStudy:
    n = len(suite_of(job).surfaces)
    return replay(job, number % n, number // n)


def one_proven(job: ReplayJob, number: int) -> ReplayedStudy:
    suite = suite_of(job)
    n = len(suite.surfaces)
    stream = f"{job.seed}/{number % n}/{number // n}"
    goal = suite.goal("strict")
    strategy = Proven(goal, Random(stream).getrandbits(32))
    return run(strategy, goal, suite.box(number % n, stream), (number % n, number // n))


def describe_one(job: ReplayJob, number: int) -> ReplayedStudy:
    """The run that `one_run` makes, knowing the noise."""
    suite = suite_of(job)
    n = len(suite.surfaces)
    stream = f"{job.seed}/{number % n}/{number // n}"
    goal = suite.goal("strict")
    strategy = Told(goal, Random(stream).getrandbits(32), suite.noise)
    return run(strategy, goal, suite.box(number % n, stream), (number % n, number // n))


def told(runs: Sequence[ReplayedStudy], free: bool) -> str:
    right = sum(one.right for one in runs)
    low, high = wilson_interval(right, len(runs))
    cost = fmean([one.hours for one in runs]) if free else fmean([one.n_windows for one in runs])
    unit = "h" if free else "windows"
    return f"{cost:8.2f} {unit:<8} right {100 * right / len(runs):6.2f} % ({100 * low:.1f}-{100 * high:.1f})"


def decide_ms(n_layouts: int, n_windows: int, kind: Kind) -> float:
    layouts = tuple(Layout(1 + k // 6, 1 + k % 6) for k in range(n_layouts))
    race, random = Race(Goal(layouts, kind=kind), 1), Random(1)
    for n in range(n_windows):
        window = Observed(
            layouts[n % n_layouts], exp(random.gauss(0, 0.05)), n, 720.0 * n, 720.0 * n + 120, 600.0
        )
        race.learn([window])
    began_s = perf_counter()
    for n in range(20):
        race.propose()
        race.learn(
            [
                Observed(
                    layouts[n % n_layouts],
                    1.0,
                    n_windows + n,
                    720.0 * (n_windows + n),
                    720.0 * (n_windows + n),
                    600.0,
                )
            ]
        )
    return 1000 * (perf_counter() - began_s) / 20


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("suites", nargs="*", default=["curve", "ties"])
    parser.add_argument("--studies", type=int, default=1000)
    parser.add_argument("--hard-studies", type=int, default=2000)
    parser.add_argument("--proven-studies", type=int, default=100)
    parser.add_argument("--known-studies", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    suites = [suite_named(name) for name in options.suites]

    def each(function: object, job: ReplayJob, n: int) -> list[ReplayedStudy]:
        return list(each_in_processes(function, job, range(n), options.processes))  # type: ignore[arg-type]

    for suite in suites:
        for kind in ("strict", "calibrated"):
            job = ReplayJob(suite, "race", kind, options.seed)
            n = min(options.studies, len(suite.surfaces) if options.studies <= 1000 else options.studies)
            print(
                f"{suite.name:<10} {kind:<11} {told(each(one_run, job, n), suite.window_s is None)}",
                flush=True,
            )
    for rivals, n, sd, drift in HARD if options.hard_studies else ():
        job = ReplayJob(hard_suite(rivals, n, sd, drift), "race", "strict", options.seed)
        name = f"{rivals} of {n} at the margin, window {100 * sd:.2f} %, drift {100 * drift:.0f} %"
        print(f"{name:<55} {told(each(one_run, job, options.hard_studies), False)}", flush=True)
    if options.proven_studies:
        for strategy, function in (("race, strict", one_run), ("proven", one_proven)):
            job = ReplayJob(suites[0], "race", "strict", options.seed)
            runs = each(function, job, options.proven_studies)
            print(f"{suites[0].name:<10} {strategy:<13} {told(runs, suites[0].window_s is None)}", flush=True)
    for suite in suites if options.known_studies else ():
        if suite.window_s is None:
            print(f"{suite.name:<10} is left out: how long its windows are is the race's choice")
            continue
        for strategy, function in (("race, strict", one_run), ("noise known", describe_one)):
            job = ReplayJob(suite, "race", "strict", options.seed)
            runs = each(function, job, options.known_studies)
            print(f"{suite.name:<10} {strategy:<13} {told(runs, free=False)}", flush=True)
    cases: list[tuple[int, Kind]] = [(24, "strict"), (24, "calibrated"), (174, "strict")]
    for n_layouts, kind in cases:
        print(
            f"next of {n_layouts} layouts at 1000 windows, {kind}: {decide_ms(n_layouts, 1000, kind):.2f} ms"
        )


if __name__ == "__main__":
    main()
