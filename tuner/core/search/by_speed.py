"""The test whether layouts react differently to changes of the host's speed.

A race models one drift of the host for all layouts. If the effect of the drift depends on the number of
processes, of threads, or of threads in all processes, the answer of a race holds for the measured hours, and
may be different at other hours. The test estimates the drift at each launch from all other launches, and
regresses the throughput on the product of this drift and the logarithm of each of these numbers.

Source: Tukey, One degree of freedom for non-additivity (1949), with known properties of the layouts in place
of their estimated effects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import exp, log, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Axis, UnequalReaction
from tuner.core.search.by_time import Launch
from tuner.core.search.posterior import LENGTH_REF_S, Array, Posterior
from tuner.core.stats.quantiles import student_t_tail

#: Significance level of the tests of all axes together. bench/robustness.py measures false results of these
#: and those of `by_time` in 0.5 to 2.5 % of races.
LEVEL = 0.01
_OUTLIER_SDS = 4.0  #: residual of a launch, in robust standard deviations, beyond which it is left out
_MOST_LAUNCHES = 1000  #: the latest launches, because the cost grows with the third power of their number
_LEAST_DF = 8  #: least degrees of freedom of the noise
_LEAST_P_DRIFT = 0.5  #: least probability that the host's speed changed at all
_POOLED_DF = 4.0  #: weight of the pooled noise in the noise of each layout, in launches
_NORMAL_MEDIAN = 0.6745  #: median of the absolute value of a standard normal variable
_AXES: tuple[Axis, ...] = ("processes", "threads", "total_threads")


class _DriftFit(NamedTuple):
    """Launches after removal of the layouts' means and the drift; arrays are over launches."""

    whitened: Array  #: the inverse covariance times the residuals
    projection: Array  #: (launches, launches): from logarithms to *whitened*
    drift: Array  #: the drift at each launch, from all launches
    drift_by_others: Array  #: the same from all other launches
    is_outlier: NDArray[np.bool_]
    sigma2: float
    df: int


def unequal_reaction(
    launches: Sequence[Launch], layouts: Sequence[Layout], bank: Posterior
) -> UnequalReaction | None:
    """Return how layouts react differently to the host's speed; None: no significant difference.

    Args:
        launches: all launches of the race; `Launch.layout` is an index of *layouts*.
        layouts: the layouts of the race.
        bank: the posterior of the race, of which the likeliest drift is used.
    """
    moves = bank.ratio > 0
    if bank.weight[moves].sum() < _LEAST_P_DRIFT:
        return None
    likeliest = int(np.argmax(np.where(moves, bank.weight, -1.0)))
    kept = _repeated_launches(launches[-_MOST_LAUNCHES:])
    if (first := _fit(kept, bank, likeliest)) is None:
        return None
    kept = _repeated_launches([one for one, is_far in zip(kept, first.is_outlier, strict=True) if not is_far])
    if (fit := _fit(kept, bank, likeliest)) is None:
        return None
    found = []
    for axis in _AXES:
        logs = np.array([log(getattr(layouts[one.layout], axis)) for one in kept])
        product = (logs - logs.mean()) * fit.drift_by_others
        information = float(product @ fit.projection @ product)
        if np.ptp(logs) == 0 or information <= 0:
            continue
        slope = float(product @ fit.whitened) / information
        t = abs(slope) * sqrt(information / fit.sigma2)
        found.append((2 * student_t_tail(t, fit.df), axis, slope, logs))
    p, axis, slope, logs = min(found, key=lambda one: one[0], default=(1.0, _AXES[0], 0.0, np.zeros(1)))
    if p > LEVEL / len(_AXES):
        return None
    ends = [layouts[kept[int(pick(slope * logs))].layout] for pick in (np.argmin, np.argmax)]
    slowed = float(fit.drift.min() - fit.drift.max())
    changes = [exp(slowed * (1 + slope * (log(getattr(one, axis)) - logs.mean()))) for one in ends]
    return UnequalReaction(axis, ends[0], ends[1], changes[0], changes[1])


def _repeated_launches(launches: Sequence[Launch]) -> list[Launch]:
    """Return the launches of layouts that have several."""
    n_of = Counter(one.layout for one in launches)
    return [one for one in launches if n_of[one.layout] > 1]


def _fit(launches: Sequence[Launch], bank: Posterior, likeliest: int) -> _DriftFit | None:
    """Remove means and drift, with a noise of each layout; None: too few launches to estimate the noise."""
    value, at_s, length_s = (
        np.array([getattr(one, name) for one in launches]) for name in ("log_value", "at_s", "length_s")
    )
    layout = np.array([one.layout for one in launches])
    of = (layout[:, None] == np.unique(layout)).astype(float)
    df = len(launches) - of.shape[1] - 1
    if df < _LEAST_DF:
        return None
    share, tau_s = bank.share[likeliest], bank.tau_s[likeliest]
    noise = bank.noise_scale[layout] * (1 - share + share * LENGTH_REF_S / length_s)
    drifts = bank.ratio[likeliest] ** 2 * np.exp(-np.abs(at_s[:, None] - at_s) / tau_s)
    projection = _projection(noise, drifts, of)
    whitened = projection @ value
    sigma2 = float(value @ whitened) / (df + 1)
    if sigma2 <= 0:
        return None
    scaled = np.abs(whitened) / np.sqrt(np.diag(projection))
    is_outlier = scaled > _OUTLIER_SDS * np.median(scaled) / _NORMAL_MEDIAN
    own = (scaled**2 / sigma2) @ of
    noise = noise * (of @ ((own + _POOLED_DF) / (of.sum(axis=0) + _POOLED_DF)))
    projection = _projection(noise, drifts, of)
    whitened = projection @ value
    drift = drifts @ whitened
    by_itself = np.einsum("ij,ji->i", drifts, projection) * whitened / np.diag(projection)
    sigma2 = float(value @ whitened) / (df + 1)
    return _DriftFit(whitened, projection, drift, drift - by_itself, is_outlier, sigma2, df)


def _projection(noise: Array, drifts: Array, of: Array) -> Array:
    """Return the inverse covariance of the launches, without the space of the layouts' means.

    Args:
        noise: (launches,) variances, in units of sigma2.
        drifts: (launches, launches) covariance of the drift, in units of sigma2.
        of: (launches, layouts) 1 where a launch is of a layout, else 0.
    """
    inverse = np.linalg.inv(np.diag(noise) + drifts)
    of_means = inverse @ of
    projection: Array = np.asarray(
        inverse - of_means @ np.linalg.solve(of.T @ of_means, of_means.T), dtype=float
    )
    return projection
