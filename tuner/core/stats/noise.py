"""How noisy windows, launches and the box are, told apart, each with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum

from tuner.core.stats.interval import Estimate, LaunchMean
from tuner.core.stats.two_way_anova import AdditiveFit
from tuner.core.stats.variance import MeanSquare, estimate_sd, estimate_sd_beyond


@dataclass(frozen=True, slots=True)
class Noise:
    """Standard deviations as ratios of the throughput, told apart; None where the study cannot tell."""

    #: from one window of a launch to its next
    window: Estimate | None
    #: from one launch of a layout to the next in the same block, its windows' noise taken off
    launch: Estimate | None
    #: of the whole box from block to block
    drift: Estimate | None
    #: from one launch of a layout to the next in the same block, its windows' noise included
    residual: Estimate | None = None


def estimate_noise(launches: Sequence[LaunchMean], fit: AdditiveFit, confidence: float) -> Noise:
    """Split the noise by its source: analysis of variance, with estimates below 0 set to 0.

    Each interval holds at *confidence* by itself. ``launch`` needs a launch with two windows to take the
    windows' share off; with unequal numbers of windows, or holes in the blocks, intervals are approximate.
    """
    window = _window_square(launches)
    residual = MeanSquare(fit.residual_ss / fit.residual_df, fit.residual_df) if fit.residual_df else None
    launch = None
    if residual is not None and window is not None:
        share = fsum(1 / one.n_windows for one in launches) / len(launches)
        launch = estimate_sd_beyond(residual, window, confidence, of_part=share)
    return Noise(
        window=None if window is None else estimate_sd(window, confidence),
        launch=launch,
        drift=_drift(fit, residual, confidence),
        residual=None if residual is None else estimate_sd(residual, confidence),
    )


def _window_square(launches: Sequence[LaunchMean]) -> MeanSquare | None:
    df = sum(launch.n_windows - 1 for launch in launches)
    return MeanSquare(fsum(launch.window_ss for launch in launches) / df, df) if df else None


def _drift(fit: AdditiveFit, residual: MeanSquare | None, confidence: float) -> Estimate | None:
    if not fit.block_df or not fit.block_ss_per_variance:
        return None
    blocks = MeanSquare(fit.block_ss / fit.block_df, fit.block_df)
    per_unit = fit.block_df / fit.block_ss_per_variance
    if residual is not None:
        return estimate_sd_beyond(blocks, residual, confidence, per_unit=per_unit)
    return None if len(fit.effects) > 1 else estimate_sd(blocks, confidence, per_unit=per_unit)
