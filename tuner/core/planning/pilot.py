"""Results of a pilot: throughputs, noise by source, and the time that a launch takes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, fsum, log
from statistics import fmean

from tuner.core.defaults import CONFIDENCE
from tuner.core.domain.layout import Layout
from tuner.core.domain.records import LaunchRecord, WindowRecord
from tuner.core.ranking.anova import blocks_of, launch_value
from tuner.core.stats.interval import Estimate, LaunchMean
from tuner.core.stats.two_way_anova import AdditiveFit, Observation, fit
from tuner.core.stats.variance import MeanSquare, estimate_noise, estimate_sd, estimate_sd_beyond
from tuner.core.windows.launch_sums import LaunchTally
from tuner.core.windows.slices import N_BATCHES

DRIFT_TAU_S = 3600.0  #: assumed time constant of the host's drift, which a pilot is too short to estimate


@dataclass(frozen=True, slots=True)
class PilotLevel:
    """A layout's level: the logarithm of items per second (or per CPU second)."""

    log_value: float
    n_launches: int


@dataclass(frozen=True, slots=True)
class DriftSquare:
    """The variance between blocks."""

    square: MeanSquare
    per_variance: float  #: increase of its expectation per unit of the variance of the drift over hours


@dataclass(frozen=True, slots=True)
class Squares:
    """The mean squares of a pilot: variances of the logarithm of throughput."""

    residual: MeanSquare  #: of a launch, around layout and block
    #: of a window, around its launch; None: no launch has two windows, or launches took turns
    windows: MeanSquare | None
    #: of one second, by what varies within a window, without the changes that launches in turns shared; None:
    #: not separable from the noise of launches
    second: MeanSquare | None
    second_alone: MeanSquare | None  #: the same with these changes; None: as *second*
    window_s: float  #: mean length of a window
    per_window: float  #: mean of 1 / the number of windows of a launch
    per_second: float  #: mean of 1 / the length of a launch in seconds
    drift: DriftSquare | None = None  #: None: there was one block


@dataclass(frozen=True, slots=True)
class Pilot:
    """The noise of a study. Standard deviations are ratios of the throughput."""

    levels: Mapping[Layout, PilotLevel]
    #: noise of one window of *window_s*, of layouts that took turns without the changes that they shared;
    #: None: not separable from the noise of launches
    window: Estimate | None
    launch: Estimate  #: noise between launches; includes the noise of windows if *window* is None
    drift: Estimate | None  #: drift of the host between blocks; None: there was one block
    squares: Squares
    window_s: float  #: mean length of a window
    launch_s: float  #: time of a launch without its windows, seconds
    n_windows: int
    n_launches: int
    n_blocks: int
    confidence: float


def pilot_of(
    windows: Sequence[WindowRecord],
    measured: Sequence[LaunchTally],
    *,
    launch_s: float,
    objective: str = "throughput",
    within_window: Callable[[], MeanSquare | None] = lambda: None,
    in_slices: MeanSquare | None = None,
    confidence: float = CONFIDENCE,
) -> Pilot | None:
    """Read a study as a pilot; None: no layout was launched twice, so the noise of launches is unknown.

    Args:
        windows: all windows of the study; invalid ones are left out.
        measured: the sums of each launch.
        launch_s: duration of a launch without its windows, in seconds.
        objective: the figure to maximise.
        within_window: returns the variance of one second within a window, as a ratio of the throughput.
        in_slices: the same for launches that took turns, without the changes that they shared.
        confidence: of the intervals.
    """
    compared = _compare(measured, objective)
    if compared is None:
        return None
    tallies, block_of, layouts = compared.tallies, compared.block_of, compared.layouts
    fitted, within = compared.fitted, within_window()
    launch, window = compared.noise(lambda: within, in_slices, confidence)
    drift = estimate_noise(compared.launches, fitted, confidence).drift
    n_of: dict[int, int] = defaultdict(int)
    for one in compared.launches:
        n_of[one.layout] += 1
    return Pilot(
        levels={
            layout: PilotLevel(effect, n_of[number])
            for number, (layout, effect) in enumerate(zip(layouts, fitted.effects, strict=True))
        },
        window=window,
        launch=launch,
        drift=drift,
        squares=compared.squares(within, in_slices, windows),
        window_s=compared.window_s,
        launch_s=launch_s,
        n_windows=sum(one.n_windows for one in tallies),
        n_launches=len(tallies),
        n_blocks=len(set(block_of.values())),
        confidence=confidence,
    )


def noise_of(
    measured: Sequence[LaunchTally],
    *,
    objective: str = "throughput",
    within_window: Callable[[], MeanSquare | None] = lambda: None,
    in_slices: MeanSquare | None = None,
    confidence: float = CONFIDENCE,
) -> tuple[Estimate, Estimate | None] | None:
    """Estimate only `Pilot.launch` and `Pilot.window`, which need no windows; arguments as of `pilot_of`."""
    compared = _compare(measured, objective)
    return None if compared is None else compared.noise(within_window, in_slices, confidence)


@dataclass(frozen=True, slots=True)
class _Compared:
    """Launches, with the fit of layouts and blocks."""

    tallies: Sequence[LaunchTally]
    launches: Sequence[LaunchMean]  #: means of the same launches
    layouts: Sequence[Layout]
    block_of: Mapping[int, int]
    fitted: AdditiveFit

    @property
    def residual(self) -> MeanSquare:
        """The variance of a launch's logarithm around the fit."""
        return MeanSquare(self.fitted.residual_ss / self.fitted.residual_df, self.fitted.residual_df)

    @property
    def window_s(self) -> float:
        """The mean length of a window in seconds."""
        return fsum(one.length_s for one in self.tallies) / sum(one.n_windows for one in self.tallies)

    @property
    def took_turns(self) -> bool:
        """Whether launches took turns, so that most changes of the host are not in the residual."""
        return any(one.heat is not None for one in self.tallies)

    def squares(
        self, within: MeanSquare | None, in_slices: MeanSquare | None, windows: Sequence[WindowRecord]
    ) -> Squares:
        """Return all mean squares; *within* is that of one second, by the samples within windows."""
        second, of_window = within, None
        if self.took_turns:
            second = in_slices
        elif (between := _per_second(self.tallies, self.launches)) is not None:
            if within is None:
                second = between
            else:
                of_window = MeanSquare(between.value / self.window_s, between.df)
        return Squares(
            residual=self.residual,
            windows=of_window,
            second=second,
            second_alone=within if self.took_turns else None,
            window_s=self.window_s,
            per_window=fmean(1 / one.n_windows for one in self.tallies),
            per_second=fmean(1 / one.length_s for one in self.tallies),
            drift=_drift(self.fitted, windows, self.block_of),
        )

    def noise(
        self, within_window: Callable[[], MeanSquare | None], in_slices: MeanSquare | None, confidence: float
    ) -> tuple[Estimate, Estimate | None]:
        """Estimate `Pilot.launch` and `Pilot.window`."""
        second = in_slices
        if not self.took_turns:
            second = _per_second(self.tallies, self.launches) or within_window()
        if second is None:
            return estimate_sd(self.residual, confidence), None
        share = fmean([1 / one.length_s for one in self.tallies])
        launch = estimate_sd_beyond(self.residual, second, confidence, of_part=share)
        return launch, estimate_sd(second, confidence, per_unit=1 / self.window_s)


def _compare(measured: Sequence[LaunchTally], objective: str) -> _Compared | None:
    """Fit layouts and blocks to the launches; None: no layout was launched twice."""
    tallies = [one for one in measured if one.n_done and launch_value(one, objective) > 0]
    block_of = blocks_of(tallies, joins_single=True)
    layouts = sorted({one.layout for one in tallies})
    if not layouts:
        return None
    number = {layout: index for index, layout in enumerate(layouts)}
    launches = [_launch_mean(one, number, block_of[one.launch], objective) for one in tallies]
    seen = [Observation(one.layout, one.block, log(one.throughput_per_s)) for one in launches]
    fitted = fit(seen, len(layouts))
    return _Compared(tallies, launches, layouts, block_of, fitted) if fitted.residual_df else None


def batch_square(rates: Sequence[Sequence[float]], batch_s: float) -> MeanSquare | None:
    """Estimate the variance of one second from the rates of batches of *batch_s* seconds; None: too few.

    If throughput drifts slowly, neighbouring batches are more similar than windows. Then the result is too
    small, and the difference is attributed to the noise of launches.
    """
    squares, df = 0.0, 0
    for of_window in rates:
        mean = fmean(of_window) if of_window else 0.0
        if len(of_window) > 1 and mean > 0:
            squares += fsum((rate / mean - 1) ** 2 for rate in of_window)
            df += len(of_window) - 1
    return MeanSquare(squares / df * batch_s, df) if df else None


def slices_square(launches: Iterable[LaunchRecord]) -> MeanSquare | None:
    """Estimate the variance of one second of *launches* that took turns, without the changes that they
    shared; None: it is unknown.

    Of n launches in a group, n - 1 differ independently.
    """
    groups: defaultdict[tuple[str, int, int], list[float]] = defaultdict(list)
    for one in launches:
        if one.heat is not None and one.noise_of_second_ratio is not None:
            groups[one.box, one.block, one.heat].append(one.noise_of_second_ratio**2)
    squares = [square for own in groups.values() for square in own]
    df = (N_BATCHES - 1) * sum(len(own) - 1 for own in groups.values())
    return MeanSquare(fmean(squares), df) if df else None


def _launch_mean(one: LaunchTally, number: Mapping[Layout, int], block: int, objective: str) -> LaunchMean:
    window_ss = max(0.0, one.squares / (one.rates / one.n_windows) ** 2 - one.n_windows)
    value = launch_value(one, objective)
    return LaunchMean(number[one.layout], block, value, one.n_windows, window_ss)


def _per_second(tallies: Sequence[LaunchTally], launches: Sequence[LaunchMean]) -> MeanSquare | None:
    """Return the variance between windows of one launch, scaled to windows of one second."""
    df = sum(one.n_windows - 1 for one in launches)
    if not df:
        return None
    total = fsum(
        mean.window_ss * one.length_s / one.n_windows for one, mean in zip(tallies, launches, strict=True)
    )
    return MeanSquare(total / df, df)


def _drift(
    fitted: AdditiveFit, windows: Sequence[WindowRecord], block_of: Mapping[int, int]
) -> DriftSquare | None:
    """Return the variance between blocks, and the share of the drift over hours in it.

    Blocks minutes apart differ by less: of a process with the correlation rho(t) = exp(-t / tau), the
    expected variance between blocks is sd**2 * (1 - mean rho over pairs of blocks).
    """
    if fitted.block_df < 1 or not fitted.block_ss_per_variance:
        return None
    times: dict[int, list[float]] = defaultdict(list)
    for window in windows:
        if window.launch_id in block_of and not window.void:
            times[block_of[window.launch_id]].append(window.started_wall_s + window.length_s / 2)
    middles = [fmean(times[block]) for block in sorted(times)][:200]  # pairs grow as the square
    pairs = [exp(-abs(one - other) / DRIFT_TAU_S) for n, one in enumerate(middles) for other in middles[:n]]
    alike = min(0.99, fmean(pairs)) if pairs else 0.0
    return DriftSquare(
        MeanSquare(fitted.block_ss / fitted.block_df, fitted.block_df),
        (1 - alike) * fitted.block_ss_per_variance / fitted.block_df,
    )
