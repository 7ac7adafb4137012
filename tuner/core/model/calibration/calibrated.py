"""A calibrated service, with its measurements and the error of the model on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from statistics import NormalDist, fmean
from typing import TYPE_CHECKING

from tuner.core.domain.layout import Layout
from tuner.core.domain.records import simulated_sentence
from tuner.core.model.demand import SECONDS, Demands, with_some_demand
from tuner.core.model.prediction.extrapolation import CalibratedRange, smt_gains_about
from tuner.core.model.prediction.memory import MemoryFit
from tuner.core.model.prediction.trust import CONFIDENCE
from tuner.core.model.profile import Profile
from tuner.core.stats.interval import Estimate
from tuner.core.text.figures import pluralize

if TYPE_CHECKING:
    from tuner.core.model.calibration.calibrate import Calibration

_N_DRAWS = 64
_MOST_FOREIGN_CORES = 0.15
#: mean error for left-out layouts up to which the model is a good guide to the layouts worth measuring
_MOST_ERROR_RATIO = 0.05


@dataclass(frozen=True, slots=True)
class Measured:
    """Mean measured values of one layout; None: not measured."""

    layout: Layout
    throughput_per_s: float
    load: float | None  #: mean number of tasks that run or are uninterruptible; None: not measured
    cpu_cores: float | None
    pss_bytes: float | None
    n_windows: int


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A layout, and its prediction by a fit without it."""

    layout: Layout
    measured_per_s: float
    predicted_per_s: float
    measured_load: float | None = None  #: mean number of active tasks; None: not measured
    predicted_load: float | None = None
    measured_bytes: float | None = None  #: memory (PSS); None: not measured
    predicted_bytes: float | None = None  #: None: the other layouts do not determine it

    @property
    def error_ratio(self) -> float:
        """Return the relative error of the predicted throughput; positive if it is too high."""
        return self.predicted_per_s / self.measured_per_s - 1

    @property
    def load_error_ratio(self) -> float | None:
        """Return the relative error of the predicted load; None if the load was not measured."""
        if not self.measured_load or self.predicted_load is None:
            return None
        return self.predicted_load / self.measured_load - 1

    @property
    def memory_error_ratio(self) -> float | None:
        """Return the relative error of the predicted memory; None if it was not measured or predicted."""
        if not self.measured_bytes or self.predicted_bytes is None:
            return None
        return self.predicted_bytes / self.measured_bytes - 1


@dataclass(frozen=True, slots=True)
class LeftOutErrors:
    """All layouts that were left out in turn."""

    rows: tuple[LeftOut, ...]  #: at least one

    @property
    def mean_ratio(self) -> float:
        """Return the mean absolute relative error of throughput."""
        return fmean(abs(row.error_ratio) for row in self.rows)

    @property
    def load_mean_ratio(self) -> float | None:
        """Return the mean absolute relative error of the load; None if it was not measured."""
        errors = [abs(error) for row in self.rows if (error := row.load_error_ratio) is not None]
        return fmean(errors) if errors else None

    @property
    def memory_errors(self) -> list[float]:
        """Return the absolute relative errors of the memory, of the layouts for which it is known."""
        return [abs(error) for row in self.rows if (error := row.memory_error_ratio) is not None]

    @property
    def memory_mean_ratio(self) -> float | None:
        """Return the mean absolute relative error of the memory; None if it is not known."""
        return fmean(errors) if (errors := self.memory_errors) else None

    @property
    def worst(self) -> LeftOut:
        """Return the layout with the largest error."""
        return max(self.rows, key=lambda row: abs(row.error_ratio))


@dataclass(frozen=True, slots=True)
class Calibrated:
    """Output of `tuner calibrate`, and input of `tuner predict`."""

    service: str
    where: str  #: host and day, or source of a profile; empty: unknown
    calibration: Calibration
    seen: CalibratedRange
    memory: MemoryFit | None  #: None: memory was not measured
    measured: tuple[Measured, ...] = ()  #: empty: the figures come from a profile
    left_out: LeftOutErrors | None = None  #: None: there were too few layouts to leave one out
    foreign_cores: float = 0.0  #: mean number of cores that other processes used during the measurement
    simulated: tuple[str, ...] = ()  #: sentence on the simulation; empty: the figures were measured

    @property
    def is_disturbed(self) -> bool:
        """Return whether other processes used so much CPU that a quiet host would give other results."""
        return self.foreign_cores > _MOST_FOREIGN_CORES

    @property
    def is_too_inexact(self) -> bool:
        """Return whether the error on left-out layouts is too large to call a layout best or slower."""
        return self.left_out is not None and self.left_out.mean_ratio > _MOST_ERROR_RATIO


def demands_from_intervals(profile: Profile) -> tuple[Demands, ...]:
    """Draw the demands of a *profile* from its intervals: independent, normal, none below 0.

    The sum of each draw is above 0. Without intervals there is one draw, the demands themselves.
    """
    random = Random(1)
    known = {name: sd for name, one in profile.intervals.items() if (sd := _sd_of(one))}
    if not known:
        return (profile.demands,)
    drawn = [{name: getattr(profile.demands, name) for name in SECONDS} for _ in range(_N_DRAWS)]
    for name, sd in known.items():
        scores = [NormalDist().inv_cdf((rank + 0.5) / _N_DRAWS) for rank in range(_N_DRAWS)]
        random.shuffle(scores)
        for one, score in zip(drawn, scores, strict=True):
            one[name] = max(0.0, one[name] + sd * score)
    return tuple(with_some_demand(one, profile.demands) for one in drawn)


def of_profile(profile: Profile) -> Calibrated:
    """Return the calibrated service of a profile; without measured layouts in the profile, 1x1 is assumed."""
    from tuner.core.model.calibration.calibrate import ASSUMED_MISFIT_SD, Calibration

    return Calibrated(
        service=profile.name,
        where=profile.source,
        calibration=Calibration(
            profile=profile,
            method="alone",
            n_windows=0,
            draws=demands_from_intervals(profile),
            misfit_sd=ASSUMED_MISFIT_SD if profile.noise.model_sd is None else profile.noise.model_sd,
        ),
        seen=CalibratedRange(
            replace(profile.machine, foreign_cores=0.0),
            profile.measured or (Layout(1, 1),),
            smt_gains_about(profile.machine.smt_gain_ratio),
            busy_cores=profile.busy_cores or 0.0,
        ),
        memory=None
        if profile.memory.process_bytes is None
        else MemoryFit(profile.memory, error_ratio=None, df=0),
        foreign_cores=profile.machine.foreign_cores,
        simulated=(simulated_sentence(profile.simulated, profile.machine.cores),)
        if profile.simulated
        else (),
    )


def measured_sentence(rows: Sequence[Measured]) -> str:
    """Return a phrase with the number of windows and layouts."""
    n_windows = sum(row.n_windows for row in rows)
    layouts = pluralize(len(rows), "layout") if len(rows) != 1 else f"{rows[0].layout} alone"
    return f"{pluralize(n_windows, 'window')} of {layouts}"


def _sd_of(estimate: Estimate) -> float:
    if estimate.low is None or estimate.high is None:
        return 0.0
    return (estimate.high - estimate.low) / (2 * NormalDist().inv_cdf((1 + CONFIDENCE) / 2))
