"""Plausible studies, given a pilot: throughputs of all layouts, and the noise.

A pilot leaves both uncertain. A forecast simulates studies with draws from the posterior, because the mean
duration of the plausible studies is not the duration of the mean study: it grows with the square of the
noise, and with the number of layouts that are nearly as good as the best.

Throughputs are either smooth in the number of processes and threads, or those of the queueing network with a
smooth misfit. Only the network has a plateau of layouts that are nearly alike because the cores are full.
Both have an independent deviation of each layout. Their weights are their likelihoods.

Source: Kennedy & O'Hagan, Bayesian calibration of computer models (2001).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import product
from math import exp, log

import numpy as np
from numpy.typing import NDArray

from tuner.core.domain.layout import Layout
from tuner.core.planning.pilot import DRIFT_TAU_S, Pilot, PilotLevel, Squares
from tuner.core.search.suite import DRIFT_STEP_S, SuiteNoise
from tuner.core.stats.variance import MeanSquare

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PlausibleStudy:
    """Throughputs and noise of one simulated study."""

    surface: tuple[float, ...]  #: items/s of each layout
    noise: SuiteNoise  #: of layouts that run one after the other
    noise_in_turns: SuiteNoise  #: of layouts that take turns


def draw_studies(
    layouts: Sequence[Layout], pilot: Pilot, predicted: Array | None, n: int, seed: int
) -> list[PlausibleStudy]:
    """Draw *n* studies. Each call with the same arguments returns the same.

    Args:
        layouts: of the studies, in their order.
        pilot: its levels and noise.
        predicted: items/s by the network for possible demands, shape (demands, layouts and then the measured
            layouts of the pilot); None: unknown.
        n: number of studies.
        seed: of the draws.
    """
    noises = draw_noises(pilot.squares, n, seed)
    variances = [one.launch_variance for one in noises]
    surfaces = draw_surfaces(layouts, pilot.levels, predicted, variances, seed)
    return [
        PlausibleStudy(surface, one.noise, one.noise_in_turns)
        for surface, one in zip(surfaces, noises, strict=True)
    ]


# The noise.


#: prior of a standard deviation: median, and standard deviation of its logarithm
_USUAL_SD, _SPREAD = 0.02, 1.0
_NO_DRIFT = 2 / 3  #: prior probability that the host does not drift (the race has similar odds)
_SDS = np.geomspace(0.0005, 1.0, 60)  #: standard deviations on the grid
_PRIOR = -(((np.log(_SDS) - log(_USUAL_SD)) / _SPREAD) ** 2) / 2


@dataclass(frozen=True, slots=True)
class DrawnNoise:
    """Plausible noise."""

    noise: SuiteNoise
    noise_in_turns: SuiteNoise
    launch_variance: float  #: variance of the logarithm of a launch of the pilot, around layout and block


def draw_noises(squares: Squares, n: int, seed: int) -> list[DrawnNoise]:
    """Draw *n* plausible noises.

    Noise between launches, noise of a window of any length, noise of a second (which averages out over a
    window) and drift are independent in the prior.
    """
    generator = np.random.Generator(np.random.PCG64([seed, 1]))
    return [_noise(squares, generator) for _ in range(n)]


def _noise(squares: Squares, generator: np.random.Generator) -> DrawnNoise:
    second = _variance(squares.second, generator)
    alone = second if squares.second_alone is None else _variance(squares.second_alone, generator)
    launch, window = (
        side.ravel() for side in np.meshgrid(_SDS**2, _window_variances(squares), indexing="ij")
    )
    of_launches = launch + window * squares.per_window + second * squares.per_second
    logs = np.repeat(_PRIOR, len(window) // len(_SDS)) + _log_likelihood(squares.residual, of_launches)
    if squares.windows is not None:
        logs += np.tile(_PRIOR, len(_SDS))
        logs += _log_likelihood(squares.windows, window + second / squares.window_s)
    chosen = _choice(logs, generator)
    of_launch = float(of_launches[chosen])
    drift_sd = _drift_sd(squares, of_launch, generator)
    noise = partial(
        SuiteNoise,
        window_sd=float(np.sqrt(window[chosen])),
        launch_sd=float(np.sqrt(launch[chosen])),
        drift_sd=drift_sd,
        drift_ar1_per_600s=exp(-DRIFT_STEP_S / DRIFT_TAU_S),
    )
    return DrawnNoise(
        noise(sample_sd_1s=float(np.sqrt(alone))), noise(sample_sd_1s=float(np.sqrt(second))), of_launch
    )


def _window_variances(squares: Squares) -> Array:
    """Return the variances of a window of any length on the grid; 0 if only launches show them."""
    return _SDS**2 if squares.windows is not None else np.zeros(1)


def _variance(square: MeanSquare | None, generator: np.random.Generator) -> float:
    """Draw a variance with a flat prior of its logarithm; 0: it is not known apart from that of launches."""
    return 0.0 if square is None else square.value * square.df / generator.chisquare(square.df)


def _log_likelihood(square: MeanSquare, variance: Array) -> Array:
    found: Array = -square.df / 2 * (np.log(variance) + square.value / variance)
    return found


def _drift_sd(squares: Squares, of_launch: float, generator: np.random.Generator) -> float:
    drift = squares.drift
    if drift is None:
        return 0.0
    sds = np.concatenate([[0.0], _SDS])
    of_drift = log(1 - _NO_DRIFT) + _PRIOR - np.logaddexp.reduce(_PRIOR)
    prior = np.concatenate([[log(_NO_DRIFT)], of_drift])
    expected = of_launch + drift.per_variance * sds**2
    return float(sds[_choice(prior + _log_likelihood(drift.square, expected), generator)])


def _choice(logs: Array, generator: np.random.Generator) -> int:
    weights = np.exp(logs - logs.max())
    return int(generator.choice(len(logs), p=weights / weights.sum()))


# The throughputs.


_REACHES = (1.0, 2.0, 4.0)  #: distance in logarithms of P and T over which layouts are similar
#: standard deviation of the smooth part of the surface, in logarithms of throughput
_SWINGS = (0.1, 0.3, 1.0)
_MISFITS = (0.02, 0.05, 0.1)  #: the same of the network's smooth misfit
_MISFIT_REACH = 2.0
#: standard deviation of each layout's own deviation, in logarithms of throughput
_OWN = (0.0025, 0.005, 0.01, 0.02)
_LEVEL_SD = 10.0  #: standard deviation of the mean, which is unknown beforehand
#: with more measured layouts, the noise is known so well that one value of it is enough
_MOST_LAYOUTS_PER_NOISE = 40


def draw_surfaces(
    layouts: Sequence[Layout],
    known: Mapping[Layout, PilotLevel],
    predicted: Array | None,
    launch_variances: Sequence[float],
    seed: int,
) -> list[tuple[float, ...]]:
    """Draw a surface over *layouts* for each of *launch_variances*: items/s, in the order of *layouts*.

    *known* must have at least one layout, and may have layouts that are not in *layouts*. *predicted*: as for
    `draw_studies`.
    """
    generator = np.random.Generator(np.random.PCG64([seed, 2]))
    everywhere = [*layouts, *known]
    values = np.array([one.log_value for one in known.values()])
    n_launches = np.array([one.n_launches for one in known.values()])
    centre = float(values.mean())
    families = [_smooth(everywhere)]
    if predicted is not None:
        families.append(_network(everywhere, np.log(predicted) - centre))
    variances = np.maximum(launch_variances, 1e-12)
    if len(known) > _MOST_LAYOUTS_PER_NOISE:
        variances[:] = variances.mean()
    posterior = lru_cache(maxsize=1)(
        lambda variance: _Posterior(families, values - centre, variance / n_launches)
    )
    return [
        tuple(np.exp(centre + posterior(float(variance)).draw(generator)).tolist()) for variance in variances
    ]


@dataclass(frozen=True, slots=True)
class _Family:
    """Surfaces with the same prior weight: one normal distribution for each mean and covariance.

    Rows are the layouts of the study, then the measured layouts.
    """

    means: Array  #: (means, rows)
    covariances: Array  #: (covariances, rows, rows)


def _smooth(layouts: Sequence[Layout]) -> _Family:
    choices = product(_REACHES, _SWINGS, _OWN)
    return _Family(
        np.zeros((1, len(layouts))),
        np.array([_covariance(layouts, *choice) for choice in choices]),
    )


def _network(layouts: Sequence[Layout], means: Array) -> _Family:
    choices = product(_MISFITS, _OWN)
    return _Family(means, np.array([_covariance(layouts, _MISFIT_REACH, *choice) for choice in choices]))


class _Posterior:
    """All families, weighed by measured *values* with independent errors of *variances*."""

    def __init__(self, families: Sequence[_Family], values: Array, variances: Array) -> None:
        self._families, self._values, self._errors = families, values, np.diag(variances)
        self._logs = [self._log_weights(family) for family in families]

    def draw(self, generator: np.random.Generator) -> Array:
        """Draw one surface of logarithms over the layouts of the study."""
        of_family = np.array([np.logaddexp.reduce(logs.ravel()) for logs in self._logs])
        chosen = _choice(of_family, generator)
        family, logs = self._families[chosen], self._logs[chosen]
        covariance, mean = np.unravel_index(_choice(logs.ravel(), generator), logs.shape)
        return self._draw(family.means[mean], family.covariances[covariance], generator)

    def _log_weights(self, family: _Family) -> Array:
        """Return the logarithm of the weight of each covariance and mean."""
        n = len(self._values)
        found = []
        for covariance in family.covariances:
            root = np.linalg.cholesky(covariance[-n:, -n:] + self._errors)
            scaled = np.linalg.solve(root, (self._values - family.means[:, -n:]).T)
            found.append(-0.5 * (scaled**2).sum(axis=0) - np.log(np.diag(root)).sum())
        logs = np.array(found)
        return logs - log(logs.size)

    def _draw(self, mean: Array, covariance: Array, generator: np.random.Generator) -> Array:
        n = len(self._values)
        across = covariance[:-n, -n:]
        gain = np.linalg.solve(covariance[-n:, -n:] + self._errors, across.T).T
        rest = covariance[:-n, :-n] - gain @ across.T
        scales, vectors = np.linalg.eigh(rest)
        noise = vectors @ (np.sqrt(np.maximum(scales, 0.0)) * generator.standard_normal(len(scales)))
        drawn: Array = mean[:-n] + gain @ (self._values - mean[-n:]) + noise
        return drawn


def _covariance(layouts: Sequence[Layout], reach: float, swing: float, own: float) -> Array:
    p = np.log([layout.processes for layout in layouts])
    t = np.log([layout.threads for layout in layouts])
    square = ((p[:, None] - p) ** 2 + (t[:, None] - t) ** 2) / reach**2
    same = np.array([[float(one == other) for other in layouts] for one in layouts])
    alike = np.array([[float(one.variant == other.variant) for other in layouts] for one in layouts])
    # half of the smooth part is the same for all variants
    smooth = swing**2 * np.exp(-square / 2) * (1 + alike) / 2
    found: Array = smooth + _LEVEL_SD**2 + own**2 * same
    return found
