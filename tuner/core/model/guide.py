"""The network as the guide of a race: which surfaces it could give, weighed by the windows seen.

An *ensemble* of parameter sets of the network stands for all that a service may be like; each set has its
surface over the race's layouts. Surface and windows differ by a smooth misfit, by a deviation of each layout
of its own, by the drift and by the noise. These are alike for all sets, so how likely each set is after the
windows, and the mean and covariance of what all of them say together, come in closed form. That makes filters
for the race's bank (`tuner.core.posterior`) beside those that know of no model: each weighs as much as it
foretold the windows well, and none claims to know a layout better than its misfit and deviation allow.

Source: Kennedy & O'Hagan, Bayesian calibration of computer models (2001), for a model with a misfit; Owen &
Zhou, Safe and effective importance sampling (2000), for sets from two distributions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import log
from statistics import median

import numpy as np

from tuner.core.layout import Layout
from tuner.core.model.demand import Array, Demands
from tuner.core.model.ensemble import Normal, Surfaces, expected_parameters
from tuner.core.posterior import LENGTH_REF_S, LEVEL, USUAL_DF, USUAL_SIGMA, Filters, Posterior, alike, noises
from tuner.core.strategy import Goal, Guidance

LEAST_LAYOUTS, MOST_LAYOUTS = 4, 250  #: fewer need no guide; solving the network for more takes too long
MOST_THREADS = 1000  #: of a layout, in all processes; the same
N_SETS = 2048  #: of the ensemble that stands for all services
N_NEAR = 256  #: sets more, where the windows so far say that the service is
FIRST_FIT = 6  #: windows before the ensemble is first weighed ...
NEXT_FIT = 1.25  #: ... and again when there are so many times more
LAST_FIT = 120  #: windows; by then they say all there is to say, and the filters go on by themselves
#: The guide is switched off when what knows of no model foretold layouts not seen before so much better.
WORST_ODDS = 20.0

_HEIGHTS = (0.5, 3.0)  #: of the smooth misfit, in units of sigma
_REACH = 2.0  #: distance in log P and log T over which it changes
_OWN = (1.0, 2.0, 4.0, 8.0)  #: of a layout's own deviation, in units of sigma
_WIDER = 2.0  #: sets near the windows are drawn from so many times the covariance that is left
_LEFT_SD = 0.15  #: and at least from this
_SET_KEPT, _FILTER_KEPT = 1e-6, 1e-5  #: what is so much less likely than the best is dropped


def may_guide(goal: Goal) -> bool:
    """Whether the network has anything to say of *goal*'s layouts."""
    shapes = {(one.processes, one.threads) for one in goal.layouts}
    return (
        goal.guided
        and goal.kind == "calibrated"
        and goal.cores is not None
        and len(shapes) == len(goal.layouts)  # variants of a layout are all one to it
        and LEAST_LAYOUTS <= len(shapes) <= MOST_LAYOUTS
        and max(one.total_threads for one in goal.layouts) <= MOST_THREADS
    )


@dataclass(frozen=True, slots=True)
class _Kind:
    """One kind of noise and misfit: a filter."""

    share: float
    ratio: float
    tau_s: float
    kernel: int  #: which misfit
    log_prior: float


@dataclass(frozen=True, slots=True)
class _Fit:
    """What a few filters of one noise say after the windows, sets summed up."""

    covariance: Array  #: (filters, layouts + 1, layouts + 1)
    mean: Array
    log_det: Array
    squares: Array
    weight: Array  #: (filters, sets), 1 for each filter


class Guide:
    """An ensemble and the windows it has seen; deterministic."""

    def __init__(
        self, layouts: Sequence[Layout], cores: float, *, lengths_vary: bool, demands: Sequence[Demands] = ()
    ) -> None:
        """*demands*: draws of what a calibration says of the service, if there was one."""
        self._surfaces_of = _surfaces(tuple(layouts), cores)
        self._expected = expected_parameters(demands)
        self._everywhere = _everywhere(tuple(layouts), cores, tuple(demands))
        self._live = np.arange(N_SETS)  #: sets of these that are not yet ruled out
        self._near: Normal | None = None
        k = len(layouts)
        choices = list(product(_HEIGHTS, _OWN))
        smooth = alike(layouts, _REACH)
        self._kernels = np.array([LEVEL + h**2 * smooth + own**2 * np.eye(k) for h, own in choices])
        self._kinds = [
            _Kind(share, ratio, tau_s, kernel, weight - log(len(choices)))
            for share, ratio, tau_s, weight in zip(*noises(lengths_vary), strict=True)
            for kernel in range(len(choices))
        ]
        self._windows: list[tuple[int, float, float, float]] = []
        self._next_fit = FIRST_FIT
        self._is_off = False
        self._score = 0.0  #: log of how much better than the filters without a model it foretold
        self._errors: list[float] = []
        self._errors_without: list[float] = []

    @property
    def guidance(self) -> Guidance:
        """How well it did."""
        if not self._errors:
            return Guidance(not self._is_off, 0)
        return Guidance(
            not self._is_off, len(self._errors), median(self._errors), median(self._errors_without)
        )

    def observe(self, bank: Posterior, layout: int, log_value: float, at_s: float, length_s: float) -> None:
        """Take note of a launch's window, have *bank* do so, and give it new filters when it is time."""
        if self._is_off:
            bank.observe(layout, log_value, at_s, length_s)
            return
        n = len(self._windows)
        held_out = n >= FIRST_FIT and not bank.n_of[layout]
        before = bank.log_evidence(guided=True) - bank.log_evidence(guided=False)
        bank.observe(layout, log_value, at_s, length_s)
        self._windows.append((layout, log_value, at_s, length_s))
        if held_out:
            told, told_without = (bank.last_surprise(guided=one) for one in (True, False))
            self._errors.append(abs(told))
            self._errors_without.append(abs(told_without))
            self._score += bank.log_evidence(guided=True) - bank.log_evidence(guided=False) - before
            if self._score < -log(WORST_ODDS):
                self._is_off = True
                bank.take(None)
                return
        if self._next_fit <= n + 1 <= LAST_FIT:
            self._next_fit = round(NEXT_FIT * (n + 1) + 0.5)
            bank.take(self.filters())

    # ------------------------------------------------------------------ the ensemble after the windows

    def filters(self) -> Filters:
        """What it says now, as filters; one per kind of noise and misfit."""
        sets, surfaces, log_prior = self._ensemble()
        fits = []
        by_noise: dict[tuple[float, float, float], list[_Kind]] = {}
        for kind in self._kinds:
            by_noise.setdefault((kind.share, kind.ratio, kind.tau_s), []).append(kind)
        for noise, kinds in by_noise.items():
            kernels = self._kernels[[kind.kernel for kind in kinds]]
            fits.append(
                self._fitted(kernels, surfaces, log_prior, *noise)
                if self._windows
                else _unfitted(kernels, surfaces, log_prior, noise[1])
            )
        found = Filters(
            covariance=np.concatenate([fit.covariance for fit in fits]),
            mean=np.concatenate([fit.mean for fit in fits]),
            share=np.array([kind.share for kind in self._kinds]),
            ratio=np.array([kind.ratio for kind in self._kinds]),
            tau_s=np.array([kind.tau_s for kind in self._kinds]),
            log_prior=np.array([kind.log_prior for kind in self._kinds]),
            log_det=np.concatenate([fit.log_det for fit in fits]),
            squares=np.concatenate([fit.squares for fit in fits]),
        )
        if self._windows:
            self._narrow(found, np.concatenate([fit.weight for fit in fits]), sets)
        return found

    def _ensemble(self) -> tuple[Array, Array, Array]:
        """Parameters, surfaces and logarithm of the prior weight of each set."""
        sets, surfaces = self._everywhere
        sets, surfaces = sets[self._live], surfaces[self._live]
        if self._near is None:
            return sets, surfaces, np.full(len(sets), -log(N_SETS))
        near = self._near.spread(N_NEAR)
        sets = np.concatenate([sets, near])
        surfaces = np.concatenate([surfaces, self._surfaces_of.of(near)])
        prior, of_near = self._expected.log_density(sets), self._near.log_density(sets)
        return sets, surfaces, prior - np.logaddexp(log(N_SETS) + prior, log(N_NEAR) + of_near)

    def _fitted(
        self, kernels: Array, surfaces: Array, log_prior: Array, share: float, ratio: float, tau_s: float
    ) -> _Fit:
        """The filters of one noise, given all windows; conventions as in Posterior."""
        layout, y, at_s, length_s = (np.array(column) for column in zip(*self._windows, strict=True))
        n, (g, k, _) = len(y), kernels.shape
        df = USUAL_DF + n - 1
        inner = kernels[:, layout][:, :, layout]
        inner = inner + ratio**2 * np.exp(-np.abs(at_s[:, None] - at_s) / tau_s)
        inner = inner + np.diag(1 - share + share * LENGTH_REF_S / length_s)
        root = np.linalg.cholesky(inner)
        # Levels are not known: the first window has the surface of each set pass through it
        relative = (surfaces - surfaces[:, layout[0], None]).T
        off = (y - y[0])[:, None] - relative[layout]
        squares = USUAL_DF * USUAL_SIGMA**2 + ((np.linalg.inv(root) @ off)[:, 1:] ** 2).sum(axis=1)
        evidence = log_prior - df / 2 * np.log(squares)
        best = evidence.max(axis=1, keepdims=True)
        weight = np.exp(evidence - best)
        of_all = best[:, 0] + np.log(weight.sum(axis=1))
        weight /= weight.sum(axis=1, keepdims=True)

        across = np.empty((g, n, k + 1))
        across[:, :, :k] = kernels[:, layout]
        across[:, :, k] = ratio**2 * np.exp(-np.abs(at_s - at_s.max()) / tau_s)
        gain = np.linalg.solve(inner, across).transpose(0, 2, 1)
        covariance = _prior(kernels, ratio) - gain @ across
        mean = np.empty((g, k + 1))
        scale = (weight * squares).sum(axis=1)
        for one in range(g):
            kept = weight[one] > _SET_KEPT * weight[one].max()
            told = gain[one] @ off[:, kept]
            told[:k] += relative[:, kept]
            mean[one], spread = _moments(told, weight[one, kept] / weight[one, kept].sum())
            covariance[one] += spread * (df / scale[one])
        log_det = 2 * np.log(np.einsum("gii->gi", root)[:, 1:]).sum(axis=1)
        return _Fit(covariance, mean, log_det - 2 * of_all - df * np.log(scale), scale, weight)

    def _narrow(self, filters: Filters, weight: Array, sets: Array) -> None:
        """Note where the service seems to be; drop what is ruled out."""
        df = USUAL_DF + len(self._windows) - 1
        evidence = filters.log_prior - 0.5 * filters.log_det - df / 2 * np.log(filters.squares)
        of_filter = np.exp(evidence - evidence.max())
        of_set = of_filter @ weight / of_filter.sum()
        mean, left = _moments(sets.T, of_set)
        self._near = Normal(mean, _WIDER * (left + _LEFT_SD**2 * np.eye(len(mean))))
        most = (of_filter[:, None] * weight).max(axis=0)
        self._live = self._live[most[: len(self._live)] > _SET_KEPT * most.max()]
        if df >= 8:
            kept = of_filter > _FILTER_KEPT
            self._kinds = [kind for kind, is_kept in zip(self._kinds, kept, strict=True) if is_kept]


def _unfitted(kernels: Array, surfaces: Array, log_prior: Array, ratio: float) -> _Fit:
    """The filters of one noise before any window."""
    g, k, _ = kernels.shape
    weight = np.exp(log_prior - log_prior.max())
    weight /= weight.sum()
    of_surfaces, spread = _moments((surfaces - surfaces.mean(axis=1, keepdims=True)).T, weight)
    covariance, mean = _prior(kernels, ratio), np.zeros((g, k + 1))
    covariance[:, :k, :k] += spread / USUAL_SIGMA**2
    mean[:, :k] = of_surfaces
    squares = np.full(g, USUAL_DF * USUAL_SIGMA**2)
    return _Fit(covariance, mean, np.zeros(g), squares, np.tile(weight, (g, 1)))


def _prior(kernels: Array, ratio: float) -> Array:
    """Covariance of layouts and drift beside the model's surface."""
    g, k, _ = kernels.shape
    found = np.zeros((g, k + 1, k + 1))
    found[:, :k, :k] = kernels
    found[:, k, k] = ratio**2
    return found


def _moments(columns: Array, weight: Array) -> tuple[Array, Array]:
    """Mean and covariance of *columns*, which weigh 1 together."""
    mean = columns @ weight
    off = (columns - mean[:, None]) * np.sqrt(weight)
    return mean, off @ off.T


@lru_cache(maxsize=8)
def _surfaces(layouts: tuple[Layout, ...], cores: float) -> Surfaces:
    return Surfaces(layouts, cores)


@lru_cache(maxsize=8)
def _everywhere(
    layouts: tuple[Layout, ...], cores: float, demands: tuple[Demands, ...]
) -> tuple[Array, Array]:
    """The sets that stand for all services, and their surfaces."""
    sets = expected_parameters(demands).spread(N_SETS)
    return sets, _surfaces(layouts, cores).of(sets)
