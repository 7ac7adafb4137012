"""The posterior of layouts measured on several hosts: `search.posterior`, extended by hosts.

The logarithm of the value of a launch's window is

    y = mu[layout] + level[box] + apart[layout, box] + drift[box](t) + e

``e`` and ``drift`` are as on one host; each host has its own drift. With a flat prior of layouts, the hosts'
levels have a flat prior, too, and the first host's level is the 0 of ``mu``. Otherwise levels are a random
effect around 0, whose size is estimated from the windows. ``apart``, the host-by-layout interaction, is a
random effect with the standard deviation ``apart * sigma``, which is on the grid with the noises. So ``mu``
is the mean over hosts like these.

Given mu, hosts are independent. So each has a small filter of its drift, its level and its interactions, with
mu left open: it has their values if mu were 0, and their change with each mu. A window then is one equation
of mu alone, whose noise is the prediction variance of the host's filter. That costs
O(filters * (layouts**2 + layouts seen on the host**2)), for any number of hosts.

Source: de Jong, The diffuse Kalman filter (1991), for a filter that leaves effects open.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from math import exp, log, sqrt

import numpy as np
from numpy.typing import NDArray

from tuner.core.search.posterior import DIFFUSE, LENGTH_REF_S, Array, Filters, Posterior
from tuner.core.stats.interval import Estimate
from tuner.core.stats.quantiles import student_t_quantile

#: Standard deviation of the host-by-layout interaction, in units of sigma, with the prior odds of each
#: against 1.
_APARTS = ((0.0, 40.0), (0.5, 1.0), (1.5, 1.0), (5.0, 1.0))
#: Standard deviation of the levels of hosts, in units of sigma; all have the same prior probability.
LEVELS = (1.0, 6.0, 50.0)
_UNKNOWN = (sqrt(DIFFUSE),)  #: a strict race assumes nothing about the levels
#: indices of a host's states; from the third on, its interactions with layouts
_DRIFT, _LEVEL, _FIRST = 0, 1, 2


class FleetPosterior(Posterior):
    """A bank of filters over one set of layouts, measured on several hosts; see the module.

    `covariance` and `mean` are of layouts alone: (filters, layouts, layouts) and (filters, layouts).
    """

    #: The interaction is equally large for all rivals, so it makes many of them uncertain together, or none.
    doubts_by_filter = True
    has_own_noise = False  #: its windows also differ by the interaction

    def __init__(self, fresh: Posterior) -> None:
        """Create a bank from *fresh*, the empty bank of one host: each noise with each spread of hosts."""
        apart, level_sd, log_odds = _between_boxes(_UNKNOWN if fresh._skips_first else LEVELS)
        each, k = np.repeat(np.arange(len(fresh.share)), len(apart)), fresh.n_layouts
        super().__init__(
            fresh.covariance[each][:, :k, :k],
            fresh.share[each],
            fresh.ratio[each],
            fresh.tau_s[each],
            fresh.log_prior[each] + np.tile(log_odds, len(fresh.share)),
            skips_first=fresh._skips_first,
            prior_df=fresh.df,
        )
        self.covariance, self.mean = self.covariance[:, :k, :k].copy(), self.mean[:, :k].copy()
        self._squares = fresh._squares[each]
        self.apart, self.level_sd = np.tile(apart, len(fresh.share)), np.tile(level_sd, len(fresh.share))
        self._boxes: dict[str, _Box] = {}
        #: layouts (by index) and hosts (by name) have the same number if windows join them
        self._joined: dict[int | str, int] = {n: n for n in range(k)}
        #: windows with the arguments of `observe`
        self._windows: list[tuple[int, float, float, float, str]] = []
        #: estimates of the mean over hosts; None: not computed yet
        self._between: tuple[Array, Array, Array] | None = None

    # ------------------------------------------------------------------ windows

    def observe(self, layout: int, log_value: float, at_s: float, length_s: float, box: str = "") -> None:
        """Add one launch's window on *box*; windows of one host must come in time order."""
        self._windows = [*self._windows, (layout, log_value, at_s, length_s, box)]
        if self._centre is None:
            self._centre = log_value
        self._at_s, self._between = max(self._at_s, at_s), None
        own = self._box(box, at_s)
        own.meet(layout, self.apart)
        self._boxes[box] = own
        gain, of_zero, slope, variance = own.predict_gain(layout, self.n_layouts, self.apart)
        variance = variance + _noise(self.share, length_s)
        beyond = log_value - self._centre - of_zero
        cross = np.matmul(self.covariance, slope[:, :, None])[:, :, 0]
        spread = variance + (cross * slope).sum(axis=1)
        surprise = beyond - (slope * self.mean).sum(axis=1)
        self.mean += cross * (surprise / spread)[:, None]
        self.covariance -= cross[:, :, None] * (cross / spread[:, None])[:, None, :]
        own.learn(gain / variance[:, None], gain, beyond, slope)
        first = self._joins(layout, box) if self._skips_first else not self.n_of.any()
        self._count(layout, surprise, spread, first=first)

    def imagine(self, layout: int, box: str, length_s: float, at_s: float) -> None:
        """Update the covariances as if a running window had ended; means stay as they are.

        For at most one window of each host, and only on a copy (`thinned`).
        """
        cross, spread = self._ahead(layout, box, length_s, at_s)
        self.covariance -= cross[:, :, None] * (cross / spread[:, None])[:, None, :]
        self.n_of[layout] += 1

    def expected_information(
        self, layout: int, box: str, length_s: float, at_s: float, *, between: tuple[int, int]
    ) -> float:
        """Predict the reduction in variance of a gap *between* two layouts by a window of *layout* on *box*.

        In units of sigma2, on average over the filters.
        """
        cross, spread = self._ahead(layout, box, length_s, at_s)
        one, other = between
        return float(self.weight @ ((cross[:, one] - cross[:, other]) ** 2 / spread))

    def _ahead(self, layout: int, box: str, length_s: float, at_s: float) -> tuple[Array, Array]:
        """Return the covariance of a window with all layouts, and its variance."""
        _, _, slope, variance = self._box(box, at_s).predict_gain(layout, self.n_layouts, self.apart)
        cross = np.matmul(self.covariance, slope[:, :, None])[:, :, 0]
        return cross, variance + _noise(self.share, length_s) + (cross * slope).sum(axis=1)

    def _box(self, name: str, at_s: float) -> _Box:
        """Return a copy of the host's filter at *at_s*, or a new filter for an unknown host."""
        own = self._boxes.get(name)
        if own is None:
            return _Box(self.ratio, self._level_before(), at_s)
        return own.later(at_s, self.ratio, self.tau_s)

    def _level_before(self) -> Array:
        """Return the variance of a new host's level."""
        is_fixed = self._skips_first and not self._boxes
        return np.zeros(len(self.level_sd)) if is_fixed else self.level_sd**2

    def _joins(self, layout: int, box: str) -> bool:
        """Return whether a window joins unconnected layouts or hosts, and so gives a level but no noise."""
        one, other = self._joined[layout], self._joined.get(box, len(self._joined))
        if one != other:
            joined = {key: other if n == one else n for key, n in self._joined.items()}
            self._joined = {**joined, box: other}
        return one != other

    def _add(self, filters: Filters) -> None:
        """Add a guide's filters, which assume no host-by-layout interaction."""
        k, theirs = self.n_layouts, self._boxes_of(filters)
        super()._add(replace(filters, covariance=filters.covariance[:, :k, :k], mean=filters.mean[:, :k]))
        self.apart = np.concatenate([self.apart, np.zeros(len(filters.share))])
        self.level_sd = np.concatenate([self.level_sd, filters.level_sd])
        self._boxes = {name: box.beside(theirs[name]) for name, box in self._boxes.items()}
        self._between = None

    def _boxes_of(self, filters: Filters) -> dict[str, _Box]:
        """Compute each host's filters from all windows so far, for the parameters of *filters*."""
        boxes: dict[str, _Box] = {}
        apart = np.zeros(len(filters.share))
        for layout, log_value, at_s, length_s, name in self._windows:
            own = boxes.get(name)
            if own is None:
                own = _Box(filters.ratio, filters.level_sd**2, at_s)
            own = own.later(at_s, filters.ratio, filters.tau_s)
            own.meet(layout, apart)
            gain, of_zero, slope, variance = own.predict_gain(layout, self.n_layouts, apart)
            variance = variance + _noise(filters.share, length_s)
            own.learn(gain / variance[:, None], gain, log_value - self.centre - of_zero, slope)
            boxes[name] = own
        return boxes

    def _keep(self, rows: NDArray[np.bool_] | NDArray[np.intp]) -> None:
        super()._keep(rows)
        self.apart, self.level_sd, self._between = self.apart[rows], self.level_sd[rows], None
        self._boxes = {name: box.only(rows) for name, box in self._boxes.items()}

    def of_one_box(self) -> Posterior:
        """Return a bank for future windows on one host that is average among these hosts."""
        other = Posterior(
            self.covariance, self.share, self.ratio, self.tau_s, self.log_prior, skips_first=self._skips_first
        )
        other.mean[:, : self.n_layouts] = self.mean
        other._log_det, other._squares = self._log_det.copy(), self._squares.copy()
        other.has_own_noise = False
        other.df, other.n_replicates = self.df, self.n_replicates
        other.n_of = self.n_of.copy()
        other._at_s, other._centre = self._at_s, self._centre
        other._weigh()
        return other

    # ------------------------------------------------------------------ levels of hosts

    def level(self, layout: int) -> tuple[float, float]:
        """Return mean and standard deviation of *layout*'s logarithm on an average host of these."""
        of_zero, slope, variance = self._mean_of_boxes()
        slope = slope.copy()
        slope[:, layout] += 1
        mean, sd = self._of_boxes(of_zero, slope, variance)
        return self.centre + mean, sd

    def box_levels(self, confidence: float) -> dict[str, Estimate]:
        """Estimate each host's level as a ratio to the mean of hosts; each interval is for one host."""
        reach = student_t_quantile((1 + confidence) / 2, max(self.df, 1.0))
        mean_of_zero, mean_slope, mean_variance = self._mean_of_boxes()
        n, found = len(self._boxes), {}
        for name, box in self._boxes.items():
            of_zero, slope, variance = box.level(self.n_layouts)
            variance = mean_variance + (1 - 2 / n) * variance
            log_ratio, sd = self._of_boxes(of_zero - mean_of_zero, slope - mean_slope, variance)
            found[name] = _ratio(log_ratio, reach * sd if self.df >= 1 else None)
        return found

    def left_by_boxes(self, leader: int, rival: int, n_boxes: int) -> float:
        """Return the share of a gap's variance that more windows on *n_boxes* hosts cannot remove."""
        cov = self.covariance
        variance = cov[:, leader, leader] + cov[:, rival, rival] - 2 * cov[:, leader, rival]
        left = 2 * self.apart**2 / n_boxes / np.maximum(variance, 1e-12)
        return float(self.weight @ np.minimum(left, 1.0))

    def _mean_of_boxes(self) -> tuple[Array, Array, Array]:
        """Return the mean of the hosts' levels if mu were 0, its slope by mu, and its variance given mu."""
        if self._between is None:
            n, of_each = len(self._boxes), [box.level(self.n_layouts) for box in self._boxes.values()]
            of_zero, slope, variance = (np.sum(column, axis=0) for column in zip(*of_each, strict=True))
            self._between = of_zero / n, slope / n, variance / n**2
        return self._between

    def _of_boxes(self, of_zero: Array, slope: Array, variance: Array) -> tuple[float, float]:
        within = variance + np.einsum("gi,gij,gj->g", slope, self.covariance, slope)
        return self._mix(of_zero + (slope * self.mean).sum(axis=1), np.maximum(within, 0.0) * self.sigma2)


class _Box:
    """The filter of one host, with mu left open; the first axis of arrays is the filter."""

    def __init__(self, ratio: Array, level: Array, at_s: float) -> None:
        """Create the filter; *level*: the prior variance of the host's level."""
        self.seen: list[int] = []  #: measured layouts, in the order of their states
        self.covariance = np.zeros((len(ratio), _FIRST, _FIRST))
        self.covariance[:, _DRIFT, _DRIFT] = ratio**2
        self.covariance[:, _LEVEL, _LEVEL] = level
        #: (filters, states, 1 + seen): the states if mu were 0, and their decrease per mu of each measured
        #: layout
        self.mean = np.zeros((len(ratio), _FIRST, 1))
        self.at_s = at_s

    def only(self, rows: NDArray[np.bool_] | NDArray[np.intp]) -> _Box:
        """Return a copy with only some filters."""
        other = copy(self)
        other.covariance, other.mean = self.covariance[rows], self.mean[rows]
        return other

    def beside(self, other: _Box) -> _Box:
        """Return a copy with the filters of *other* appended."""
        both = copy(self)
        both.covariance = np.concatenate([self.covariance, other.covariance])
        both.mean = np.concatenate([self.mean, other.mean])
        return both

    def later(self, at_s: float, ratio: Array, tau_s: Array) -> _Box:
        """Return a copy for the time *at_s* in seconds."""
        other = copy(self)
        other.seen, other.at_s = list(self.seen), max(self.at_s, at_s)
        keeps = np.exp(-(other.at_s - self.at_s) / tau_s)
        other.covariance, other.mean = self.covariance.copy(), self.mean.copy()
        other.mean[:, _DRIFT] *= keeps[:, None]
        other.covariance[:, _DRIFT, :] *= keeps[:, None]
        other.covariance[:, :, _DRIFT] *= keeps[:, None]
        other.covariance[:, _DRIFT, _DRIFT] += (1 - keeps**2) * ratio**2
        return other

    def meet(self, layout: int, apart: Array) -> None:
        """Add a state for the interaction of *layout* with this host, if it has none."""
        if layout in self.seen:
            return
        self.seen.append(layout)
        self.covariance = np.pad(self.covariance, ((0, 0), (0, 1), (0, 1)))
        self.covariance[:, -1, -1] = apart**2
        self.mean = np.pad(self.mean, ((0, 0), (0, 1), (0, 1)))

    def predict_gain(self, layout: int, n_layouts: int, apart: Array) -> tuple[Array, Array, Array, Array]:
        """Predict a window of *layout* now, without its own noise.

        Returns its covariance with the states; its mean if mu were 0; its slope by each mu; its variance.
        """
        states, is_new = [_DRIFT, _LEVEL], layout not in self.seen
        if not is_new:
            states.append(_FIRST + self.seen.index(layout))
        gain = self.covariance[:, :, states].sum(axis=2)
        variance = gain[:, states].sum(axis=1) + (apart**2 if is_new else 0.0)
        expected_information = self.mean[:, states].sum(axis=1)
        slope = np.zeros((len(gain), n_layouts))
        slope[:, self.seen] = -expected_information[:, 1:]
        slope[:, layout] += 1
        return gain, expected_information[:, 0], slope, variance

    def learn(self, weight: Array, gain: Array, beyond: Array, slope: Array) -> None:
        """Update the filter by a window that was *beyond* its prediction for mu = 0."""
        self.covariance -= weight[:, :, None] * gain[:, None, :]
        news = np.column_stack([beyond, slope[:, self.seen]])
        self.mean += weight[:, :, None] * news[:, None, :]

    def level(self, n_layouts: int) -> tuple[Array, Array, Array]:
        """Return the level if mu were 0, its slope by each mu, and its variance given mu."""
        slope = np.zeros((len(self.mean), n_layouts))
        slope[:, self.seen] = -self.mean[:, _LEVEL, 1:]
        return self.mean[:, _LEVEL, 0], slope, self.covariance[:, _LEVEL, _LEVEL]


def _between_boxes(levels: Sequence[float]) -> tuple[Array, Array, Array]:
    """Return the grid of interactions and levels (both in units of sigma), and the log odds of each."""
    grid = [(apart, level, log(odds / len(levels))) for apart, odds in _APARTS for level in levels]
    apart, level_sd, log_odds = (np.array(column) for column in zip(*grid, strict=True))
    return apart, level_sd, log_odds


def _noise(share: Array, length_s: float) -> Array:
    noise: Array = 1 - share + share * (LENGTH_REF_S / length_s)
    return noise


def _ratio(log_ratio: float, reach: float | None) -> Estimate:
    if reach is None:
        return Estimate(exp(log_ratio))
    return Estimate(exp(log_ratio), exp(log_ratio - reach), exp(log_ratio + reach))
