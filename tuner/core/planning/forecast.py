"""The estimated duration of a study: the real race, simulated with plausible throughputs and noise.

The cause that limits the duration is found by the same races on the same surfaces and random noise, with one
cause halved: the cause limits the study if the race then takes less time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf, sqrt
from random import Random
from statistics import fmean, stdev
from typing import Literal

from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Goal, Kind, Strategy
from tuner.core.planning.plausible import PlausibleStudy
from tuner.core.planning.replay import run
from tuner.core.search.heat_race import HeatRace
from tuner.core.search.strategies import make_strategy
from tuner.core.search.suite import Suite
from tuner.core.stats.quantiles import student_t_quantile

MARGINS = (0.01, 0.02, 0.05)
KINDS: tuple[Kind, ...] = ("strict", "calibrated")
CAP_WINDOWS = 1000  #: a simulated study is followed for so many windows, then counts as longer

Cause = Literal["launch", "window", "drift", "restart", "ties"]
CAUSES: tuple[Cause, ...] = ("launch", "window", "drift", "restart", "ties")
NEARLY = 0.8  #: a cause that saves this share of the first one's saving is named with it
LEAST_SAVED = 0.05  #: smallest saving, as a share, that makes a cause a limit
SURE = 0.95  #: confidence that such a saving is not chance
FEWEST_FOR_P90 = 10  #: fewer simulated studies do not show what nine in ten need


@dataclass(frozen=True, slots=True)
class ForecastOptions:
    """The study to simulate: its kind and margin, possibly with one cause halved."""

    kind: Kind
    within: float
    halved: Cause | None = None  #: cause that is halved; ties: layouts differ twice as much
    in_turns: bool = False  #: whether layouts take turns


@dataclass(frozen=True, slots=True)
class Basis:
    """The input of the simulated races; small enough to be sent to another process."""

    layouts: tuple[Layout, ...]
    studies: tuple[PlausibleStudy, ...]
    launch_s: float
    min_window_s: float
    max_window_s: float
    confidence: float
    cores: int | None
    seed: int
    n_resident: int = 1  #: most layouts that take turns; 1: they cannot take turns
    min_window_in_turns_s: float = 0.0


@dataclass(frozen=True, slots=True)
class SimulatedStudy:
    """The result and the cost of one simulated study."""

    n_windows: int
    n_launches: int
    hours: float
    answered: bool  #: False: stopped after CAP_WINDOWS
    right: bool


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of such studies. Means and quantiles are lower limits if some studies were cut off."""

    n: int  #: number of simulated studies
    n_cut_off: int  #: number of simulated studies without an answer after CAP_WINDOWS
    mean_windows: float
    p90_windows: int  #: number of windows that is enough for nine studies in ten
    mean_hours: float
    p90_hours: float
    mean_hours_se: float  #: standard error of *mean_hours*, from the number of simulated studies
    mean_launches: float
    mean_window_s: float
    right_ratio: float

    @property
    def is_mean_known(self) -> bool:
        """Whether no study was cut off."""
        return self.n_cut_off == 0

    @property
    def shows_p90(self) -> bool:
        """Whether there are enough studies for `p90_windows` and `p90_hours`."""
        return self.n >= FEWEST_FOR_P90

    @property
    def is_p90_known(self) -> bool:
        """Whether at least nine in ten studies had an answer."""
        return self.n_cut_off <= self.n - ceil(0.9 * self.n)


@dataclass(frozen=True, slots=True)
class Saving:
    """The effect of halving one cause on the requested study."""

    cause: Cause
    saved_ratio: float  #: saved share of the hours, on the same surfaces; may be negative by chance
    se: float  #: standard error of saved_ratio
    hours: float  #: duration of the study with the cause halved, hours
    n: int  #: number of simulated studies that were compared


def questions(kind: Kind, within: float, *, in_turns: bool = False) -> list[ForecastOptions]:
    """Return all studies to simulate: first the requested one (*kind*, *within*), last its halved causes.

    *in_turns*: also simulate the requested study with layouts that take turns.
    """
    asked = ForecastOptions(kind, within)
    turns = [ForecastOptions(kind, within, in_turns=True)] if in_turns else []
    margins = sorted({*MARGINS, within})
    others = [ForecastOptions(one, margin) for margin in margins for one in KINDS]
    halved = [ForecastOptions(kind, within, cause) for cause in CAUSES]
    return [asked, *turns, *(question for question in others if question != asked), *halved]


def simulate(basis: Basis, question: ForecastOptions, row: int) -> SimulatedStudy:
    """Simulate study *row* of *basis*; all questions get the same random numbers."""
    study, launch_s = basis.studies[row], basis.launch_s
    noise, surface = study.noise_in_turns if question.in_turns else study.noise, study.surface
    match question.halved:
        case "launch":
            noise = replace(noise, launch_sd=noise.launch_sd / 2)
        case "window":
            noise = replace(noise, window_sd=noise.window_sd / 2, sample_sd_1s=noise.sample_sd_1s / 2)
        case "drift":
            noise = replace(noise, drift_sd=noise.drift_sd / 2)
        case "restart":
            launch_s /= 2
        case "ties":
            best = max(surface)
            surface = tuple(best * (value / best) ** 2 for value in surface)
        case None:
            pass
    suite = Suite("plan", basis.layouts, (surface,), noise, question.within, basis.confidence, launch_s, None)
    goal = Goal(
        layouts=basis.layouts,
        within=question.within,
        confidence=basis.confidence,
        kind=question.kind,
        min_window_s=basis.min_window_in_turns_s if question.in_turns else basis.min_window_s,
        max_window_s=basis.max_window_s,
        cores=basis.cores,
    )
    stream = f"{basis.seed}/{row}"
    seed = Random(f"{stream}/strategy").getrandbits(32)
    if question.in_turns:
        strategy: Strategy = HeatRace(goal, seed, basis.n_resident)
    else:
        strategy = make_strategy("race", goal, seed)
    done = run(strategy, goal, suite.box(0, stream), cap=CAP_WINDOWS)
    return SimulatedStudy(done.n_windows, done.n_launches, done.hours, done.answered, done.right)


def cost_of(courses: Sequence[SimulatedStudy], launch_s: float) -> Cost:
    """Summarise one or more simulated studies."""
    n = len(courses)
    rank = ceil(0.9 * n) - 1
    hours = [one.hours for one in courses]
    windows_s = [(3600 * one.hours - one.n_launches * launch_s) / one.n_windows for one in courses]
    return Cost(
        n=n,
        n_cut_off=sum(not one.answered for one in courses),
        mean_windows=fmean(one.n_windows for one in courses),
        p90_windows=sorted(one.n_windows for one in courses)[rank],
        mean_hours=fmean(hours),
        p90_hours=sorted(hours)[rank],
        mean_hours_se=stdev(hours) / sqrt(n) if n > 1 else 0.0,
        mean_launches=fmean(one.n_launches for one in courses),
        mean_window_s=max(0.0, fmean(windows_s)),
        right_ratio=fmean(one.right for one in courses),
    )


def savings(
    asked: Mapping[int, SimulatedStudy], halved: Mapping[Cause, Mapping[int, SimulatedStudy]]
) -> tuple[Saving, ...]:
    """Compute the saving by halving each cause, largest first, by rows with equal surface and noise.

    A cause without a row in common with the requested study is left out.
    """
    found = []
    for cause, courses in halved.items():
        rows = sorted(asked.keys() & courses.keys())
        if not rows:
            continue
        before, after = [asked[row].hours for row in rows], [courses[row].hours for row in rows]
        ratio = fmean(after) / fmean(before)
        # Standard error of a ratio of means, by the delta method
        spread = [one - ratio * other for one, other in zip(after, before, strict=True)]
        se = stdev(spread) / sqrt(len(rows)) / fmean(before) if len(rows) > 1 else 0.0
        found.append(Saving(cause, 1 - ratio, se, fmean(after), len(rows)))
    return tuple(sorted(found, key=lambda one: -one.saved_ratio))


def limiting(found: Iterable[Saving]) -> tuple[Saving, ...]:
    """Return the cause that limits the study and those nearly as strong; *found* is sorted; may be empty."""
    kept = [one for one in found if one.saved_ratio >= max(LEAST_SAVED, _chance(one))]
    return tuple(one for one in kept if one.saved_ratio >= NEARLY * kept[0].saved_ratio)


def _chance(one: Saving) -> float:
    """Return the largest saving that chance explains; a single study shows none."""
    return student_t_quantile((1 + SURE) / 2, one.n - 1) * one.se if one.n > 1 else inf
