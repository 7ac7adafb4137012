"""Whether a challenger is worse, even if its noise or the leader's is larger than that of most layouts.

A race pools the noise of all layouts. If the noise of a layout is clearly different, the filters are computed
again with the own noise of this layout (`rescale`).

Before it is clear, two unlucky launches would rule out a layout with five times the noise of the others. So
before a race ends, each launched challenger is compared with the leader once more (`OwnScales`). Each of the
two layouts has a scale: its noise as a multiple of the noise in the filters. The scale is unknown; its
possible values are weighed by the differences between the layout's launches.

The likelihood ratios of this comparison do not add up over challengers. The sum in `search.challengers`
protects the best layout from the luckiest of many challengers. A noisy best layout is lost by its own bad
luck, and if several layouts are better than the leader, all of them need bad luck.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuner.core.domain.strategy import Kind
from tuner.core.search.by_time import Launch
from tuner.core.search.posterior import Array, Posterior

#: factors of the noise in the filters, with equal prior probabilities up to RARE_SD
SCALES = np.array([1.0, 1.6, 2.5, 4.0, 6.3])
RARE_SD = 0.12  #: noise of a launch, on the logarithmic scale, that few layouts exceed
_LEAST_VARIANCE = 1e-20  #: launches that are exactly equal have no variance
_ROUNDING = 1e-12  #: variance that is a rounding error
_RARER = 4  #: power with which larger noise becomes less likely
FEW_DF = 8.0  #: least degrees of freedom of a layout's own variance, and the weight of the usual variance
#: Twice the logarithm of the likelihood ratio of an own variance to the usual one, from which it is clear.
CLEAR = 15.0
#: change of a scale, as a logarithm, from which the filters are computed again
CHANGED = 0.25


@dataclass(frozen=True, slots=True)
class Level:
    """The largest likelihood ratio with which a challenger counts as worse; see `bench/robustness.py`."""

    of_many: float  #: for a challenger with `n_many` launches
    #: the same once the noise of a layout is clearly different, because that of others may be, too
    if_unequal: float
    n_many: int

    def limits(self, n_of: NDArray[np.int_], *, is_unequal: bool) -> Array:
        """Return the limit of each layout by its number of launches, *n_of*.

        With fewer launches than `n_many` the limit falls in proportion, because they show little of the
        noise, and as many more checks will follow. With n times as many it is divided by 1 + log(n), because
        so many more checks were made before.
        """
        times = np.maximum(n_of, 1) / self.n_many
        level = self.if_unequal if is_unequal else self.of_many
        found: Array = level * np.minimum(times, 1.0) / (1 + np.log(np.maximum(times, 1.0)))
        return found


#: A strict race tests for every single service, a calibrated race for services on average. Both call layouts
#: slower by the level of strict races.
LEVELS = {"strict": Level(0.0275, 0.006, 24), "calibrated": Level(0.3, 0.15, 12)}


@dataclass(frozen=True, slots=True)
class OwnScales:
    """The pairs of scales of the leader and of each layout."""

    weights: Array  #: logarithms; (filters, layouts, leader's scale, layout's scale)
    #: (layouts, leader's scale, layout's scale): variance of the gap as a multiple of that in the filters
    wider: Array
    df: float

    def likelihood(
        self, posterior: Posterior, above: Array, variance: Array, only: slice = slice(None)
    ) -> Array:
        """Return the likelihood ratio of "not *above* at all" to the best fit for *only* these layouts.

        *above* and *variance*: (filters, layouts); the variance is by the noise in the filters. The result is
        over all filters.
        """
        ratio = np.exp(_log_sum(self._logs(above, variance, only)) - _log_sum(self.weights[:, only]))
        found: Array = posterior.weight @ ratio
        return found

    def shares(self) -> Array:
        """Return the weights at the best fit, which sum to 1 for each filter and layout."""
        found: Array = np.exp(self.weights - _log_sum(self.weights)[:, :, None, None])
        return found

    def is_noisier(self, k: int, leader: int, posterior: Posterior, above: Array, variance: Array) -> bool:
        """Return whether a launch of *k* reduces the variance of its gap more than one of the leader."""
        logs = self._logs(above, variance)[:, k : k + 1]
        of_each = np.exp(logs - _log_sum(logs)[:, :, None, None])[:, 0]
        shares = np.tensordot(posterior.weight, of_each, 1)
        squares = SCALES**2
        of_leader, of_k = squares @ shares.sum(axis=1), squares @ shares.sum(axis=0)
        of_leader, of_k = of_leader * posterior.noise_scale[leader], of_k * posterior.noise_scale[k]
        n_leader, n_k = posterior.n_of[leader], posterior.n_of[k]
        return bool(of_k / (n_k * (n_k + 1)) >= of_leader / (n_leader * (n_leader + 1)))

    def _logs(self, above: Array, variance: Array, only: slice = slice(None)) -> Array:
        square = (np.maximum(above, 0.0) ** 2 / variance)[:, :, None, None] / self.wider[only]
        found: Array = self.weights[:, only] - self.df / 2 * np.log1p(square / self.df)
        return found


def limits(posterior: Posterior, kind: Kind) -> Array:
    """Return the largest likelihood ratio of each layout with which it counts as worse."""
    return LEVELS[kind].limits(posterior.n_of, is_unequal=bool((posterior.noise_scale != 1).any()))


def own_scales(posterior: Posterior, leader: int) -> OwnScales:
    """Weigh the scales by the launches so far."""
    sigma2 = np.maximum(posterior.sigma2, _LEAST_VARIANCE)[:, None]
    squares = posterior.own_squares / sigma2
    sd = np.sqrt(sigma2 * posterior.noise_scale)[:, :, None] * SCALES
    prior = -np.log1p((sd / RARE_SD) ** _RARER)
    own = prior - posterior.own_df[:, None] * np.log(SCALES)
    own = own - squares[:, :, None] / (2 * SCALES**2)
    per_launch = SCALES**2 * (posterior.noise_scale / np.maximum(posterior.n_of, 1))[:, None]
    of_both = per_launch[leader][None, :, None] + per_launch[:, None, :]
    wider = of_both / of_both[:, :1, :1]
    weights = own[:, leader, None, :, None] + own[:, :, None, :] - 0.5 * np.log(wider)
    return OwnScales(weights, wider, max(float(posterior.df), 1.0))


def rescale(posterior: Posterior, new_bank: Callable[[], Posterior], launches: Sequence[Launch]) -> Posterior:
    """Return the posterior with the noise that each layout shows.

    If the noise of a layout is clearly different from its noise in *posterior*, all *launches* are added to a
    new bank with that noise; otherwise *posterior* is returned. On several hosts, noise is always pooled.
    """
    if not posterior.has_own_noise or not launches:
        return posterior
    scales = noise_scales(posterior)
    if np.abs(np.log(scales / posterior.noise_scale)).max() < CHANGED:
        return posterior
    bank = new_bank()
    bank.noise_scale = scales
    for one in launches:
        bank.observe(*one)
    return bank


def noise_scales(posterior: Posterior) -> Array:
    """Return the variance of each layout's launches, as a multiple of that of most layouts.

    It is 1 except for layouts whose own variance is clearly different from that of all others together. These
    layouts are found one by one, the clearest first. Among the others, each counts as `FEW_DF` launches at
    most.
    """
    df = posterior.own_df
    variance = posterior.weight @ posterior.own_squares * posterior.noise_scale / np.where(df > 0, df, 1)
    scales, rest = np.ones(len(df)), df > 0
    while True:
        counted = np.minimum(df, FEW_DF) * rest
        n_others = counted.sum() - counted
        of_others = (counted @ variance - counted * variance) / np.maximum(n_others, 1)
        known = rest & (df >= FEW_DF) & (n_others >= FEW_DF) & (of_others > _ROUNDING)
        known &= _is_clear(df, variance, n_others, of_others)
        ratio = np.maximum(variance, _ROUNDING) / np.maximum(of_others, _ROUNDING)
        evidence = np.where(known, df * (ratio - 1 - np.log(ratio)), 0.0)
        clearest = int(np.argmax(evidence))
        if not known[clearest]:
            break
        rest[clearest] = False
    if not rest.any():
        return scales
    usual = counted @ variance / counted.sum()
    apart = ~rest & (df > 0)
    scales[apart] = (df[apart] * variance[apart] / usual + FEW_DF) / (df[apart] + FEW_DF)
    return scales


def _is_clear(df: Array, variance: Array, n_others: Array, of_others: Array) -> NDArray[np.bool_]:
    """Return whether each variance differs from that of the others, by the ratio of their likelihoods."""
    own, others, n = np.maximum(variance, _ROUNDING), np.maximum(of_others, _ROUNDING), df + n_others
    both = np.maximum((df * own + n_others * others) / np.maximum(n, 1), _ROUNDING)
    found: NDArray[np.bool_] = n * np.log(both) - df * np.log(own) - n_others * np.log(others) >= CLEAR
    return found


def _log_sum(logs: Array) -> Array:
    """Return the logarithm of the sum over both scales."""
    flat = logs.reshape(*logs.shape[:2], -1)
    most = flat.max(axis=2)
    found: Array = most + np.log(np.exp(flat - most[:, :, None]).sum(axis=2))
    return found
