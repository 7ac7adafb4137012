"""The posterior of layouts, with unknown noise: a bank of Kalman filters.

The logarithm of the value of a launch's window is ``y = mu[layout] + drift(t) + e``. ``e`` has the variance
``sigma2 * (1 - share + share * 600 / length_s)``: a part between launches, and a part that averages out over
a window. A race may scale this variance for a layout (`search.unequal_noise`). ``drift`` is one
Ornstein-Uhlenbeck process for all layouts with the standard deviation ``ratio * sigma`` and the correlation
time ``tau_s``. ``mu`` has a flat prior, or is a Gaussian process over log P and log T plus an independent
deviation of each layout.

The scale ``sigma`` is integrated out in closed form, so each filter gives a Student t. The other parameters
are on a grid, one filter each, weighed by their predictions of the windows so far. A window costs
O(filters * layouts**2), for any number of earlier windows.

Source: Harvey, Forecasting, structural time series models and the Kalman filter (1989), 3.4 and 4.3 for the
scale; West & Harrison, Bayesian forecasting and dynamic models (1997), 12.2 for the bank.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from itertools import product
from typing import Self, TypedDict

import numpy as np
from numpy.typing import NDArray

from tuner.core.domain.layout import Layout

Array = NDArray[np.float64]

LENGTH_REF_S = 600.0
DIFFUSE = 1e6  #: prior variance of unknown values, in units of sigma2
_PER_FILTER = (
    "covariance",
    "mean",
    "share",
    "ratio",
    "tau_s",
    "log_prior",
    "_log_det",
    "_squares",
    "_surprise",
    "own_squares",
    "_own_before",
    "guided",
)
_KEPT = 1e-6  #: filters with a smaller likelihood, relative to the best, are dropped

# The noises on the grid: drift as ratio to sigma and correlation time in seconds; share that averages out.
DRIFTS = ((0.0, 36000.0), (0.3, 4000.0), (0.3, 16000.0), (1.0, 4000.0), (1.0, 16000.0), (3.0, 16000.0))
#: drifts of launches that take turns: each heat has an effect that no other heat shares; 0 on a quiet host
HEAT_DRIFTS = ((0.0, 1.0), (0.3, 1.0), (1.0, 1.0), (3.0, 1.0), (10.0, 1.0), (30.0, 1.0))
#: least share of a launch's variance that remains if the other launches of its heat are known
_LEAST_LEFT = 1e-9
_STEADY_ODDS = 10.0  #: prior odds of no drift against each of the drifts
#: used if window lengths vary; otherwise the share cannot be estimated, and has no effect
SHARES = (0.05, 0.2, 0.5, 0.8)
#: the same for launches that take turns, in windows of seconds; most of their variance is between launches
HEAT_SHARES = (0.005, *SHARES)

# The prior of a calibrated race, in units of sigma. It is broad: surfaces of queueing models fit a height of
# some 3 in log throughput over distances of 3 to 4 in log P and log T, and deviations of about 5 %.
_HEIGHT, LEVEL = 40.0, 1e4  #: standard deviation of the smooth surface, and variance of its level
_REACHES = (2.0, 4.0)  #: distance in log P and log T over which the surface changes
#: standard deviation of a layout's own deviation; with the last one, neighbours give no information
_OWN = (0.5, 1.0, 2.0, 4.0, 12.0)
#: prior of the noise of a ten-minute window: its weight as a number of windows, and its value
USUAL_DF, USUAL_SIGMA = 1.5, 0.03


class Noises(TypedDict, total=False):
    """The drifts and shares that a posterior considers: see `flat_posterior`."""

    drifts: Sequence[tuple[float, float]]
    shares: Sequence[float]


@dataclass(frozen=True, slots=True)
class Filters:
    """Filters that include all windows so far, to be added to a bank; arrays are over filters.

    Their evidence is ``log_prior - log_det / 2 - df / 2 * log(squares)`` with the bank's df.
    """

    #: (filters, layouts + 1, layouts + 1) in units of sigma2; the last row and column are the drift
    covariance: Array
    mean: Array  #: (filters, layouts + 1), relative to the first window's logarithm
    share: Array
    ratio: Array
    tau_s: Array
    log_prior: Array
    log_det: Array  #: logarithms of the prediction variances, and all other terms of the evidence
    #: sum of squared prediction errors in units of their variance: df times the square of the scale
    squares: Array
    level_sd: Array  #: standard deviation of the levels of hosts, in units of sigma; 0 for one host


class Posterior:
    """A bank of filters over one set of layouts; see the module."""

    #: whether the error probabilities of rivals are summed within each filter, up to its weight
    doubts_by_filter = False
    #: whether a race also tests each challenger with its own noise: `search.unequal_noise`
    has_own_noise: bool = True
    in_heats: bool = False  #: launches of a heat share an effect, the drift, which no other launches have

    def __init__(
        self,
        prior: Array,
        share: Array,
        ratio: Array,
        tau_s: Array,
        log_weight: Array,
        *,
        skips_first: bool,
        prior_df: float = 0.0,
        prior_sigma: float = 0.0,
    ) -> None:
        """Create one filter per row; *prior* (filters, layouts, layouts): covariance of mu / sigma2."""
        n, k, _ = prior.shape
        self.n_layouts = k
        self.covariance = np.zeros((n, k + 1, k + 1))
        self.covariance[:, :k, :k] = prior
        self.covariance[:, k, k] = ratio**2
        self.mean = np.zeros((n, k + 1))
        self.share, self.ratio, self.tau_s = share, ratio, tau_s
        self.log_prior = log_weight
        self._log_det = np.zeros(n)
        self._squares = np.full(n, prior_df * prior_sigma**2)
        self.df: float = prior_df
        self.n_replicates = 0
        self.n_of = np.zeros(k, dtype=int)
        #: sums of squared prediction errors of each layout's repeated launches, as `_squares` is for all
        #: launches, and their numbers
        self.own_squares = np.zeros((n, k))
        self.own_df = np.zeros(k)
        self.noise_scale = np.ones(k)  #: variance of a launch of each layout, as a multiple of sigma2
        #: launches of the latest heat that are not the first of their layout: layout, logarithm, length
        self._heat: tuple[tuple[int, float, float], ...] = ()
        self._own_before, self._own_df_before = self.own_squares, self.own_df  #: values before that heat
        self.guided = np.zeros(n, dtype=bool)  #: filters that a guide added
        self._skips_first = skips_first
        self._at_s = 0.0
        self._centre: float | None = None
        self._all_prior = _log_sum(log_weight)
        self._surprise = np.zeros(n)  # of the last window, per filter
        self.weight = _normalise(log_weight)

    def observe(self, layout: int, log_value: float, at_s: float, length_s: float, box: str = "") -> None:  # noqa: ARG002
        """Add one launch's window, in time order; all windows are of one host here."""
        if self._centre is None:
            self._centre, self._at_s = log_value, at_s
        k, mean, cov = self.n_layouts, self.mean, self.covariance
        gone_s = max(0.0, at_s - self._at_s)
        self._at_s = max(self._at_s, at_s)
        if gone_s:
            keeps = np.exp(-gone_s / self.tau_s)
            mean[:, k] *= keeps
            cov[:, k, :] *= keeps[:, None]
            cov[:, :, k] *= keeps[:, None]
            cov[:, k, k] += (1 - keeps**2) * self.ratio**2
        noise = self.noise_scale[layout] * (1 - self.share + self.share * (LENGTH_REF_S / length_s))
        gain = cov[:, layout, :] + cov[:, k, :]
        spread = gain[:, layout] + gain[:, k] + noise
        surprise = (log_value - self._centre) - mean[:, layout] - mean[:, k]
        mean += gain * (surprise / spread)[:, None]
        cov -= gain[:, :, None] * (gain / spread[:, None])[:, None, :]
        first = self.n_of[layout] == 0 if self._skips_first else not self.n_of.any()
        if self.in_heats:
            self._count_heat(layout, log_value - self._centre, length_s, is_new=gone_s > 0)
        self._count(layout, surprise, spread, first=first)

    def _count_heat(self, layout: int, log_value: float, length_s: float, *, is_new: bool) -> None:
        """Compute the own surprises of the latest heat again: of each launch, given all others.

        If each launch were compared only with earlier ones, noise of the first would count as noise of the
        later ones. Of n launches, n - 1 contribute to the estimate of noise, because one is needed for the
        shared effect.
        """
        if is_new:
            self._heat, self._own_before, self._own_df_before = (), self.own_squares, self.own_df
        if self.n_of[layout]:
            self._heat = (*self._heat, (layout, log_value, length_s))
        self.own_squares, self.own_df = self._own_before.copy(), self._own_df_before.copy()
        share = (len(self._heat) - 1) / max(len(self._heat), 1)
        k, mean, cov = self.n_layouts, self.mean, self.covariance
        for of, value, length in self._heat:
            noise = self.noise_scale[of] * (1 - self.share + self.share * (LENGTH_REF_S / length))
            left = noise - cov[:, of, of] - 2 * cov[:, of, k] - cov[:, k, k]
            beyond = value - mean[:, of] - mean[:, k]
            self.own_squares[:, of] += share * beyond**2 / np.maximum(left, _LEAST_LEFT)
            self.own_df[of] += share

    def _count(self, layout: int, surprise: Array, spread: Array, *, first: bool) -> None:
        """Update evidence and counts by one window; a *first* window gives a level but no noise."""
        self._surprise = surprise
        is_repeated = bool(self.n_of[layout])
        self.n_replicates += is_repeated and not first
        self.n_of[layout] += 1
        if not first:
            self.df += 1
            self._log_det += np.log(spread)
            squares = surprise**2 / spread
            self._squares += squares
            if is_repeated and not self.in_heats:
                self.own_squares[:, layout] += squares
                self.own_df[layout] += 1
            self._weigh()

    def take(self, filters: Filters | None) -> None:
        """Replace the filters of an earlier guide by *filters*; None: continue without a guide.

        If the priors of a guide's filters add up to 1, they have the same prior weight as all other filters.
        """
        self._keep(~self.guided)
        if filters is not None:
            self._add(filters)
        self._weigh()

    def _add(self, filters: Filters) -> None:
        n, weight = len(filters.share), _normalise(self._evidence())
        new = {
            "log_prior": filters.log_prior + self._all_prior,
            "_log_det": filters.log_det,
            "_squares": filters.squares,
            "_surprise": np.zeros(n),
            "own_squares": np.tile(weight @ self.own_squares, (n, 1)),
            "_own_before": np.tile(weight @ self._own_before, (n, 1)),
            "guided": np.ones(n, dtype=bool),
        }
        for name in _PER_FILTER:
            theirs = new[name] if name in new else getattr(filters, name)
            setattr(self, name, np.concatenate([getattr(self, name), theirs]))

    def log_evidence(self, *, guided: bool) -> float:
        """Return the log evidence of a guide's filters or of all others: comparable at the same moment."""
        return _log_sum(self._evidence()[self.guided == guided])

    def last_surprise(self, *, guided: bool) -> float:
        """Return the last window's logarithm minus the prediction of a guide's filters or of all others."""
        of = self.guided == guided
        return float(self.weight[of] @ self._surprise[of] / self.weight[of].sum())

    def thinned(self, n: int) -> Self:
        """Return a copy with only its *n* likeliest filters, which is faster.

        It keeps the likeliest filter without a guide, because a guide's filters are compared with it.
        """
        other = copy(self)
        likeliest = np.argsort(-self.weight, kind="stable")
        kept = np.union1d(likeliest[:n], likeliest[~self.guided[likeliest]][:1])
        other._keep(kept)
        other.n_of, other.own_df = self.n_of.copy(), self.own_df.copy()
        other._weigh()
        return other

    def _keep(self, rows: NDArray[np.bool_] | NDArray[np.intp]) -> None:
        """Keep only these filters; the arrays are copied."""
        for name in _PER_FILTER:
            setattr(self, name, getattr(self, name)[rows])

    @property
    def centre(self) -> float:
        """The first window's logarithm; means are relative to it."""
        return self._centre or 0.0

    @property
    def at_s(self) -> float:
        """The time of the last window in seconds."""
        return self._at_s

    @property
    def sigma2(self) -> Array:
        """The square of the scale sigma, per filter."""
        return self._squares / max(self.df, 1)

    def gaps(self, layout: int) -> tuple[Array, Array]:
        """Return the gap of *layout* above each layout, and its variance: both (filters, layouts)."""
        k, cov = self.n_layouts, self.covariance
        gap = self.mean[:, layout, None] - self.mean[:, :k]
        diagonal = np.einsum("gii->gi", cov)[:, :k]
        variance = diagonal[:, layout, None] + diagonal - 2 * cov[:, layout, :k]
        variance[:, layout] = 1.0
        return gap, np.maximum(variance * self.sigma2[:, None], 1e-12)

    def means(self) -> Array:
        """Return the mean of each layout over all filters, relative to the first window's logarithm."""
        return self.weight @ self.mean[:, : self.n_layouts]

    def level(self, layout: int) -> tuple[float, float]:
        """Return mean and standard deviation of the logarithm of *layout*'s value, without drift."""
        of_each = self.mean[:, layout]
        within = self.covariance[:, layout, layout] * self.sigma2
        mean, sd = self._mix(of_each, within)
        return self.centre + mean, sd

    def _mix(self, of_each: Array, within: Array) -> tuple[float, float]:
        """Return mean and standard deviation of the mixture of all filters; *within*: variance of each."""
        mean = float((self.weight * of_each).sum())
        variance = float((self.weight * (within + (of_each - mean) ** 2)).sum())
        return mean, variance**0.5

    def _evidence(self) -> Array:
        found: Array = self.log_prior - 0.5 * self._log_det - 0.5 * self.df * np.log(self._squares + 1e-300)
        return found

    def _weigh(self) -> None:
        evidence = self._evidence()
        # Keep the best without a guide even if the guide is good, because it may be switched off later
        best = np.where(self.guided, evidence.max(), evidence[~self.guided].max())
        kept = evidence > best + np.log(_KEPT)
        if self.df >= 8 and kept.sum() < 0.8 * len(kept):
            self._keep(kept)
            evidence = evidence[kept]
        self.weight = _normalise(evidence)


def _normalise(log_weight: Array) -> Array:
    weight: Array = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    return weight


def _log_sum(logs: Array) -> float:
    best = float(logs.max())
    return best + float(np.log(np.exp(logs - best).sum()))


def flat_posterior(
    n_layouts: int,
    *,
    lengths_vary: bool,
    drifts: Sequence[tuple[float, float]] = DRIFTS,
    shares: Sequence[float] = SHARES,
) -> Posterior:
    """Create a bank with a flat prior; *drifts* are (ratio to sigma, correlation time in seconds)."""
    share, ratio, tau_s, weight = noises(lengths_vary, drifts, shares)
    prior = np.broadcast_to(DIFFUSE * np.eye(n_layouts), (len(share), n_layouts, n_layouts))
    return Posterior(prior, share, ratio, tau_s, weight, skips_first=True)


def smooth_posterior(
    layouts: Sequence[Layout],
    *,
    lengths_vary: bool,
    drifts: Sequence[tuple[float, float]] = DRIFTS,
    shares: Sequence[float] = SHARES,
) -> Posterior:
    """Create a bank that expects similar throughput of layouts with similar P, T and P x T."""
    kernels = []
    for reach, own in product(_REACHES, _OWN):
        kernels.append(_HEIGHT**2 * similarity(layouts, reach) + own**2 * np.eye(len(layouts)) + LEVEL)
    share, ratio, tau_s, weight = (
        np.repeat(column, len(kernels)) for column in noises(lengths_vary, drifts, shares)
    )
    prior = np.tile(np.array(kernels), (len(share) // len(kernels), 1, 1))
    return Posterior(
        prior, share, ratio, tau_s, weight, skips_first=False, prior_df=USUAL_DF, prior_sigma=USUAL_SIGMA
    )


def similarity(layouts: Sequence[Layout], reach: float) -> Array:
    """Return the similarity of layouts (0 to 1) by the distance of their P, T and P x T."""
    p = np.log([layout.processes for layout in layouts])
    t = np.log([layout.threads for layout in layouts])
    gap_p, gap_t = p[:, None] - p, t[:, None] - t
    square = (gap_p**2 + gap_t**2 + ((gap_p + gap_t) / 1.3) ** 2) / reach**2
    found: Array = np.exp(-square / 2)
    return found


def noises(
    lengths_vary: bool,
    drifts: Sequence[tuple[float, float]] = DRIFTS,
    shares: Sequence[float] = SHARES,
) -> tuple[Array, Array, Array, Array]:
    """Return share, ratio, tau_s and logarithm of the weight of each noise on the grid."""
    grid = [(share, *drift) for share in (shares if lengths_vary else (0.0,)) for drift in drifts]
    share, ratio, tau_s = (np.array(column) for column in zip(*grid, strict=True))
    return share, ratio, tau_s, np.where(ratio == 0, np.log(_STEADY_ODDS), 0.0)
