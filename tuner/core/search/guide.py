"""The network as the guide of a race: possible throughputs, weighted by measured windows.

An *ensemble* of parameter sets of the network represents all possible services; each set has its surface over
the race's layouts. Surface and windows differ by a smooth misfit, by an independent deviation of each layout,
by the drift and by the noise. These have the same distribution for all sets, so the posterior probability of
each set, and the mean and covariance over all sets, have a closed form. They become filters of the race's
bank (`search.posterior`), in addition to filters without a model. The better a filter predicted the windows,
the larger its weight, and no filter is more certain of a layout than its misfit and deviation allow.

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

from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Goal, Guidance
from tuner.core.model.demand import Array
from tuner.core.model.ensemble import EXPECTED, Normal, Surfaces
from tuner.core.search.posterior import (
    LENGTH_REF_S,
    LEVEL,
    USUAL_DF,
    USUAL_SIGMA,
    Filters,
    Posterior,
    noises,
    similarity,
)

N_SETS = 2048  #: number of parameter sets in the ensemble of all services
N_NEAR = 256  #: number of further sets near the service, from the windows so far
FIRST_FIT = 6  #: number of windows at which the ensemble is first weighted
NEXT_FIT = 1.3  #: growth of the number of windows after which it is weighted again
LAST_FIT = 120  #: number of windows at which the ensemble is last weighted; more windows add nothing to it
FILTER_KEPT = 1e-4  #: filters with a smaller likelihood, relative to the best, are dropped
#: The guide is switched off if filters without a model predict the first windows of layouts better: by this
#: factor for fewer than N_TRIED layouts, and by any factor from there on.
WORST_ODDS = 5.0
N_TRIED = 6
LEAST_LAYOUTS = FIRST_FIT + N_TRIED  #: with fewer layouts the guide could not be tested
#: most layouts of a race, and most threads of a layout; solving the network for more takes too long
MOST_LAYOUTS, MOST_THREADS = 250, 1000

_HEIGHTS = (0.5, 3.0)  #: standard deviation of the smooth misfit, in units of sigma
_REACH = 2.0  #: distance in log P and log T over which the misfit changes
_OWN = (1.0, 2.0, 4.0, 8.0)  #: standard deviation of a layout's own deviation, in units of sigma
_WIDER = 2.0  #: factor of the remaining covariance from which sets near the windows are drawn
_LEFT_SD = 0.15  #: least standard deviation of these sets
_SET_KEPT = 1e-6  #: sets with a smaller likelihood, relative to the best, are dropped
_WEIGHT_KEPT = 2e-5  #: sets with a smaller weight are negligible


def may_guide(goal: Goal) -> bool:
    """Return whether the network can guide a race on *goal*'s layouts."""
    shapes = {(one.processes, one.threads) for one in goal.layouts}
    return (
        goal.guided
        and goal.kind == "calibrated"
        and goal.cores is not None
        and len(shapes) == len(goal.layouts)  # the model cannot distinguish variants of a layout
        and LEAST_LAYOUTS <= len(shapes) <= MOST_LAYOUTS
        and max(one.total_threads for one in goal.layouts) <= MOST_THREADS
    )


@dataclass(frozen=True, slots=True)
class _Kind:
    """One combination of noise and misfit: a filter."""

    share: float
    ratio: float
    tau_s: float
    kernel: int  #: index of the misfit
    log_prior: float
    #: standard deviation of the levels of hosts, in units of sigma; 0: there is one host
    level_sd: float = 0.0


@dataclass(frozen=True, slots=True)
class _Weighed:
    """The ensemble after the windows, under one kind of noise and misfit."""

    kind: _Kind
    covariance: Array  #: covariance of the windows around the model's surface
    weight: Array  #: weights of the sets, which sum to 1
    squares: float  #: as in `Filters`
    log_det: float
    evidence: float


class Guide:
    """An ensemble of parameter sets and its windows; deterministic."""

    def __init__(
        self,
        layouts: Sequence[Layout],
        cores: float,
        *,
        lengths_vary: bool,
        level_sds: Sequence[float] = (0.0,),
        n_sets: int = N_SETS,
        n_near: int = N_NEAR,
        last_fit: int = LAST_FIT,
        filter_kept: float = FILTER_KEPT,
    ) -> None:
        self._surfaces_of = _surfaces(tuple(layouts), cores)
        self._everywhere = _everywhere(tuple(layouts), cores, n_sets)
        self._n_sets, self._n_near = n_sets, n_near
        self._last_fit, self._filter_kept = last_fit, filter_kept
        self._live = np.arange(n_sets)  #: indices of the sets that are not ruled out yet
        self._near: Normal | None = None
        k = len(layouts)
        choices = list(product(_HEIGHTS, _OWN))
        smooth = similarity(layouts, _REACH)
        self._kernels = np.array([LEVEL + h**2 * smooth + own**2 * np.eye(k) for h, own in choices])
        self._kinds = [
            _Kind(share, ratio, tau_s, kernel, weight - log(len(choices) * len(level_sds)), level_sd)
            for share, ratio, tau_s, weight in zip(*noises(lengths_vary), strict=True)
            for kernel in range(len(choices))
            for level_sd in level_sds
        ]
        self._windows: list[tuple[int, float, float, float, str]] = []
        self._noise_scale = np.ones(k)  #: as `Posterior.noise_scale`
        self._next_fit = FIRST_FIT
        self._is_off = False
        #: logarithm of the likelihood ratio of its predictions to those of the filters without a model
        self._score = 0.0
        self._errors: list[float] = []
        self._errors_without: list[float] = []

    @property
    def guidance(self) -> Guidance:
        """The state of the guide, and its prediction errors so far."""
        if not self._errors:
            return Guidance(not self._is_off, 0)
        return Guidance(
            not self._is_off, len(self._errors), median(self._errors), median(self._errors_without)
        )

    def observe(
        self, bank: Posterior, layout: int, log_value: float, at_s: float, length_s: float, box: str = ""
    ) -> None:
        """Add a launch's window to this guide and *bank*, and give *bank* new filters when they are due."""
        if self._is_off:
            bank.observe(layout, log_value, at_s, length_s, box)
            return
        n = len(self._windows)
        held_out = n >= FIRST_FIT and not bank.n_of[layout]
        before = self._ahead(bank) if held_out else 0.0
        bank.observe(layout, log_value, at_s, length_s, box)
        self._windows.append((layout, log_value, at_s, length_s, box))
        if held_out:
            reported, told_without = (bank.last_surprise(guided=one) for one in (True, False))
            self._errors.append(abs(reported))
            self._errors_without.append(abs(told_without))
            self._score += self._ahead(bank) - before
            if self._score < (0.0 if len(self._errors) >= N_TRIED else -log(WORST_ODDS)):
                self._is_off = True
                bank.take(None)
                return
        if self._next_fit <= n + 1 <= self._last_fit:
            self._next_fit = round(NEXT_FIT * (n + 1) + 0.5)
            bank.take(self.filters())

    def rescale(self, bank: Posterior) -> None:
        """Use the noise of layouts in *bank*, a new bank with all windows, and give it filters."""
        self._noise_scale = bank.noise_scale
        if not self._is_off and len(self._windows) >= FIRST_FIT:
            bank.take(self.filters())

    @staticmethod
    def _ahead(bank: Posterior) -> float:
        return bank.log_evidence(guided=True) - bank.log_evidence(guided=False)

    # ------------------------------------------------------------------ the ensemble after the windows

    def filters(self) -> Filters:
        """Return a filter for each likely kind of noise and misfit; at least one window is needed.

        Units and the treatment of the first window are those of Posterior.
        """
        sets, surfaces, log_prior = self._ensemble()
        layout, y, at_s, length_s, box = (np.array(column) for column in zip(*self._windows, strict=True))
        apart_s = np.where(box[:, None] == box, np.abs(at_s[:, None] - at_s), np.inf)
        # Levels are unknown: the surface of each set passes through the first window
        relative = (surfaces - surfaces[:, layout[0], None]).T
        off = (y - y[0])[:, None] - relative[layout]
        weighed = [self._weigh(kind, log_prior, off, layout, apart_s, length_s) for kind in self._kinds]
        best = max(one.evidence for one in weighed)
        weighed = [one for one in weighed if one.evidence > best + log(self._filter_kept)]
        found = [self._filter(one, relative, off, layout, at_s) for one in weighed]
        self._narrow(weighed, sets)
        return Filters(
            covariance=np.array([covariance for covariance, _ in found]),
            mean=np.array([mean for _, mean in found]),
            share=np.array([one.kind.share for one in weighed]),
            ratio=np.array([one.kind.ratio for one in weighed]),
            tau_s=np.array([one.kind.tau_s for one in weighed]),
            log_prior=np.array([one.kind.log_prior for one in weighed]),
            level_sd=np.array([one.kind.level_sd for one in weighed]),
            log_det=np.array([one.log_det for one in weighed]),
            squares=np.array([one.squares for one in weighed]),
        )

    @property
    def _df(self) -> float:
        return USUAL_DF + len(self._windows) - 1

    def _ensemble(self) -> tuple[Array, Array, Array]:
        """Return parameters, surfaces and logarithm of the prior weight of each set."""
        sets, surfaces = self._everywhere
        sets, surfaces = sets[self._live], surfaces[self._live]
        if self._near is None:
            return sets, surfaces, np.full(len(sets), -log(self._n_sets))
        near = self._near.spread(self._n_near)
        sets = np.concatenate([sets, near])
        surfaces = np.concatenate([surfaces, self._surfaces_of.of(near)])
        prior, of_near = EXPECTED.log_density(sets), self._near.log_density(sets)
        return sets, surfaces, prior - np.logaddexp(log(self._n_sets) + prior, log(self._n_near) + of_near)

    def _weigh(
        self, kind: _Kind, log_prior: Array, off: Array, layout: Array, apart_s: Array, length_s: Array
    ) -> _Weighed:
        """Weigh the sets; *off*: distance of each window above each set's surface, (windows, sets).

        *apart_s*: the time in seconds between each pair of windows; infinite between two hosts.
        """
        covariance = self._kernels[kind.kernel][np.ix_(layout, layout)]
        covariance = covariance + kind.ratio**2 * np.exp(-apart_s / kind.tau_s)
        if kind.level_sd:
            covariance += kind.level_sd**2 * np.isfinite(apart_s)
        noise = 1 - kind.share + kind.share * LENGTH_REF_S / length_s
        covariance += np.diag(self._noise_scale[layout] * noise)
        root = np.linalg.cholesky(covariance)
        surprises = np.linalg.inv(root)[1:] @ off
        squares = USUAL_DF * USUAL_SIGMA**2 + np.einsum("ns,ns->s", surprises, surprises)
        logs = log_prior - self._df / 2 * np.log(squares)
        best = logs.max()
        weight = np.exp(logs - best)
        of_all = float(best + np.log(weight.sum()))
        weight /= weight.sum()
        mean_squares = float(weight @ squares)
        log_det = 2 * float(np.log(np.diag(root)[1:]).sum())
        evidence = kind.log_prior - log_det / 2 + of_all
        # so that one filter with the mean scale has the evidence of all sets
        log_det -= 2 * of_all + self._df * log(mean_squares)
        return _Weighed(kind, covariance, weight, mean_squares, log_det, evidence)

    def _filter(
        self, weighed: _Weighed, relative: Array, off: Array, layout: Array, at_s: Array
    ) -> tuple[Array, Array]:
        """Return covariance and mean of layouts and drift, within each set and between the sets."""
        kind, k = weighed.kind, len(relative)
        prior = np.zeros((k + 1, k + 1))
        prior[:k, :k] = self._kernels[kind.kernel]
        prior[k, k] = kind.ratio**2
        across = np.vstack([prior[:k, layout], kind.ratio**2 * np.exp(-(at_s.max() - at_s) / kind.tau_s)])
        gain = np.linalg.solve(weighed.covariance, across.T).T
        kept = weighed.weight > _WEIGHT_KEPT
        reported = gain @ off[:, kept]
        reported[:k] += relative[:, kept]
        mean, spread = _moments(reported, weighed.weight[kept] / weighed.weight[kept].sum())
        return prior - gain @ across.T + spread * (self._df / weighed.squares), mean

    def _narrow(self, weighed: Sequence[_Weighed], sets: Array) -> None:
        """Fit the distribution of the likely sets; drop the sets and kinds that are ruled out."""
        best = max(one.evidence for one in weighed)
        each = np.array([np.exp(one.evidence - best) * one.weight for one in weighed])
        of_set = each.sum(axis=0) / each.sum()
        mean, left = _moments(sets.T, of_set)
        self._near = Normal(mean, _WIDER * (left + _LEFT_SD**2 * np.eye(len(mean))))
        most = each.max(axis=0)
        self._live = self._live[most[: len(self._live)] > _SET_KEPT * most.max()]
        if self._df >= 8:
            self._kinds = [one.kind for one in weighed]


def _moments(columns: Array, weight: Array) -> tuple[Array, Array]:
    """Return mean and covariance of *columns*, whose weights sum to 1."""
    mean = columns @ weight
    off = (columns - mean[:, None]) * np.sqrt(weight)
    return mean, off @ off.T


@lru_cache(maxsize=8)
def _surfaces(layouts: tuple[Layout, ...], cores: float) -> Surfaces:
    return Surfaces(layouts, cores)


@lru_cache(maxsize=8)
def _everywhere(layouts: tuple[Layout, ...], cores: float, n: int) -> tuple[Array, Array]:
    """Return the sets that represent all services, and their surfaces."""
    sets = EXPECTED.spread(n)
    return sets, _surfaces(layouts, cores).of(sets)
