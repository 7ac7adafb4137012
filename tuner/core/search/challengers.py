"""The leader of a race, its challengers, and the window that decides most."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import exp, log, sqrt
from random import Random

import numpy as np

from tuner.core.defaults import LEAST_LAUNCHES
from tuner.core.domain.strategy import Kind
from tuner.core.search.posterior import LENGTH_REF_S, Array, Posterior
from tuner.core.search.unequal_noise import OwnScales, limits, own_scales
from tuner.core.stats.groups import (
    Beside,
    OfBest,
    bound,
    far_gap,
    group_of,
    launches_to_decide,
    ratio_between,
)

# A simulated host, drawn from the posterior of a race, which gives windows that were never measured.

#: Standard deviation of the true differences between layouts that may be best, in units of sigma; all have
#: the same prior probability.
_SPREADS = (0.03, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4)


class DrawnWorld:
    """A random draw of a filter of the posterior, and of its scale, levels and drift.

    Estimates differ more than the true values, and the more so the less was measured. So the best of
    *rivals* (their number is drawn) are assumed to differ by one unknown spread, which is drawn with the
    weights that the estimates give it. Otherwise simulated worlds would have a clear winner too often, and
    races in them would end too soon.
    """

    def __init__(self, posterior: Posterior, rivals: Sequence[int], random: np.random.Generator) -> None:
        self._random = random
        chosen = int(random.choice(len(posterior.weight), p=posterior.weight))
        self._share, self._noise_scale = float(posterior.share[chosen]), posterior.noise_scale
        self._ratio, self._tau_s = float(posterior.ratio[chosen]), float(posterior.tau_s[chosen])
        df = max(float(posterior.df), 1.0)
        self._sigma = sqrt(float(posterior.sigma2[chosen]) * df / random.chisquare(df))
        mean, covariance = posterior.mean[chosen], posterior.covariance[chosen] * self._sigma**2
        if len(rivals) > 1:
            n_alike = round(exp(random.uniform(log(2), log(len(rivals)))))
            mean, covariance = self._drawn_together(mean, covariance, rivals[:n_alike])
        values, vectors = np.linalg.eigh(covariance)
        state = mean + vectors @ (np.sqrt(np.maximum(values, 0.0)) * random.standard_normal(len(values)))
        self._levels, self._drift = posterior.centre + state[:-1], float(state[-1])
        self._at_s = posterior.at_s

    def window(self, layout: int, at_s: float, length_s: float) -> float:
        """Draw the logarithm of a window's value at *at_s*, which must not decrease between calls."""
        if self._ratio and at_s > self._at_s:
            keeps = exp((self._at_s - at_s) / self._tau_s)
            step = self._sigma * self._ratio * sqrt(1 - keeps**2)
            self._drift = keeps * self._drift + step * float(self._random.standard_normal())
        self._at_s = max(at_s, self._at_s)
        of_length = 1 - self._share + self._share * LENGTH_REF_S / length_s
        noise = self._sigma * sqrt(float(self._noise_scale[layout]) * of_length)
        return float(self._levels[layout] + self._drift + noise * self._random.standard_normal())

    def _drawn_together(self, mean: Array, covariance: Array, rivals: Sequence[int]) -> tuple[Array, Array]:
        """Return mean and covariance if *rivals* are normally distributed around an unknown common mean."""
        n = len(rivals)
        # Rows: orthonormal differences among rivals, which do not contain their mean
        contrasts = np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, 1:]]))[0][:, 1:].T
        seen = contrasts @ mean[list(rivals)]
        across = covariance[:, list(rivals)] @ contrasts.T
        among = contrasts @ across[list(rivals), :]
        values, vectors = np.linalg.eigh(among)
        spreads = (self._sigma * np.array(_SPREADS)) ** 2
        variances = np.maximum(values, 0.0) + spreads[:, None]
        along = vectors.T @ seen
        logs = -0.5 * (np.log(variances) + along**2 / variances).sum(axis=1)
        weights = np.exp(logs - logs.max())
        spread = self._random.choice(len(spreads), p=weights / weights.sum())
        gain = across @ vectors / variances[spread]
        return mean - gain @ along, covariance - gain @ (across @ vectors).T


N_CANDIDATES = 3  #: number of layouts with the highest means that a calibrated race may claim


@dataclass(frozen=True)  # without slots, because cached properties need a __dict__
class Challenge:
    """The leader against each rival. Arrays are over layouts; layouts out of the race have weight 0."""

    posterior: Posterior
    kind: Kind
    leader: int
    n_left: int  #: number of layouts in the race
    doubt: float  #: error probability: the leader is worse than the best by more than the margin
    in_race: Array  #: 1 for layouts in the race, otherwise 0
    #: probability that a rival is better, divided by its number of windows; -1 for the leader and for layouts
    #: out of the race
    urgency: Array
    gap: Array  #: (filters, layouts): logarithm of the leader's value over the rival's
    variance: Array  #: variance of *gap*
    margin: float

    def to_repeat(self, per_window: float) -> int:
        """Return the layout with the best mean, where each repeated window lowers a mean by *per_window*.

        So the best layouts are measured a second and a third time.
        """
        means = self.posterior.means() - per_window * np.maximum(self.posterior.n_of - 1, 0)
        means[self.in_race == 0] = -np.inf
        return int(np.argmax(means))

    def to_measure(self, length_s: float) -> int:
        """Choose between the leader and its most urgent rival by the information of one more window."""
        rival = int(np.argmax(self.urgency))
        if self.urgency[rival] < 0:
            return self.leader
        if self.kind == "strict":
            fewer = self.posterior.n_of[self.leader] < self.posterior.n_of[rival]
            return self.leader if fewer else rival
        posterior, leader = self.posterior, self.leader
        cov, weight = posterior.covariance, posterior.weight
        noise = 1 - posterior.share + posterior.share * (LENGTH_REF_S / length_s)
        gains = []
        for k, other in ((leader, rival), (rival, leader)):
            spread = cov[:, k, k] + posterior.noise_scale[k] * noise
            reported = (cov[:, k, k] - cov[:, k, other]) ** 2 / spread
            gains.append(float((weight * reported).sum()))
        return leader if gains[0] > gains[1] else rival

    def ties(self, doubt: float) -> list[int]:
        """Return the rivals that are possibly as good as the leader or better; best first.

        *doubt* is the error probability of all ordered pairs of layouts together; each has an equal share. A
        layout with a single launch always counts as a tie.
        """
        share = _likelihood(self.posterior, self.gap, self.variance)
        level = self._level(doubt)
        return [
            k
            for k in self.seen_rivals()
            if share[k] > level or self._n_launches(k) < LEAST_LAUNCHES or self._may_be_noisy(k)
        ]

    def _may_be_noisy(self, k: int) -> bool:
        """Return whether *k* may be as good as the leader if one of the two is noisier than assumed."""
        return self._scales is not None and bool(self._as_good_if_noisy[k] > 1)

    @cached_property
    def _scales(self) -> OwnScales | None:
        """The possible noise of each layout; None: all have the same noise."""
        return None if self.pools_noise else own_scales(self.posterior, self.leader)

    @property
    def pools_noise(self) -> bool:
        """Whether all layouts are assumed to have the same noise."""
        return not self.posterior.has_own_noise

    @cached_property
    def _as_good_if_noisy(self) -> Array:
        """The likelihood of "as good as the leader, with more noise"; above 1: not ruled out."""
        assert self._scales is not None
        likely = self._scales.likelihood(self.posterior, self.gap, self.variance)
        return likely / limits(self.posterior, "strict")

    def to_confirm(self) -> list[int]:
        """Return the measured layouts with fewer than `LEAST_LAUNCHES` launches; best first."""
        seen = [self.leader, *self.seen_rivals()]
        return [k for k in seen if self.posterior.n_of[k] < LEAST_LAUNCHES]

    def to_check(self) -> int | None:
        """Return the layout to launch because it or the leader may be noisier than assumed, or None."""
        unchecked = self.unchecked()
        if not unchecked:
            return None
        assert self._scales is not None
        k, above = unchecked[0], self.gap + self.margin
        is_noisier = self._scales.is_noisier(k, self.leader, self.posterior, above, self.variance)
        return k if is_noisier else self.leader

    def unchecked(self) -> list[int]:
        """Return launched challengers that are not worse if they or the leader are noisier; best first."""
        if self._scales is None:
            return []
        above = self.gap + self.margin
        likely = self._scales.likelihood(self.posterior, above, self.variance) * self.in_race
        likely /= limits(self.posterior, self.kind)
        likely[self.posterior.n_of == 0] = 0.0  # only the prior describes them, without noise
        likely[self.leader] = 0.0
        return [int(k) for k in np.argsort(-likely, kind="stable") if likely[k] > 1]

    def tied(self, ties: Sequence[int], within: float, confidence: float) -> list[int]:
        """Return those *ties* known to be near the leader, by the rule of `tuner.core.stats.groups`."""
        far = self._far(far_gap(within))
        gap = self.posterior.weight @ self.gap
        found = []
        for k in ties:
            beside = Beside(self._n_launches(k), False, float(np.exp(-gap[k])), float(far[k]))
            if group_of(beside, within=within, confidence=confidence) == "best-or-tied":
                found.append(k)
        return found

    def _far(self, far: float) -> Array:
        """Return the probability of each layout to be behind by more than *far* (logarithm)."""
        if self._scales is None:
            by_filter = _t_tail((far - self.gap) / np.sqrt(self.variance), self._df)
        else:
            spread = np.sqrt(self.variance[:, :, None, None] * self._scales.wider)
            tails = _t_tail((far - self.gap)[:, :, None, None] / spread, self._df)
            by_filter = (self._scales.shares() * tails).sum(axis=(2, 3))
        found: Array = self.posterior.weight @ by_filter
        return found

    def of_best(self, doubt: float, within: float, confidence: float) -> dict[int, OfBest]:
        """Return the comparison of each measured rival with the leader: ratio, interval, launches to decide.

        A layout with a single launch has no interval, because the variance between its launches is unknown.
        """
        level, df, ties = self._level(doubt), self._df, self.ties(doubt)
        open_ = set(ties) - set(self.tied(ties, within, confidence))
        reaches = (
            float(np.sqrt(df * (level ** (-2 / df) - 1))),
            bound(lambda t: float(_t_tail(np.array(t), df)), 1 - confidence, 0.0),
        )
        found = {}
        for k in self.seen_rivals():
            gap = float(self.posterior.weight @ self.gap[:, k])
            n_of = int(self.posterior.n_of[k]), int(self.posterior.n_of[self.leader])
            ends, least = self._ends(k, level, 1 - confidence) if min(n_of) >= LEAST_LAUNCHES else ((), None)
            scales = self.posterior.noise_scale[[k, self.leader]]
            of_usual = float(self.posterior.weight @ self.variance[:, k]) / float((scales / n_of).sum())
            n_more = launches_to_decide(
                gap, n_of=n_of, launch_variances=tuple(of_usual * scales), reaches=reaches, within=within
            )
            found[k] = OfBest(ratio_between(gap, *ends), least, n_more if k in open_ else None)
        return found

    def _ends(self, k: int, level: float, doubt: float) -> tuple[tuple[float, float], float]:
        """Return the rival's largest and smallest gap at *level* (all pairs), and its least share alone."""
        gap, variance, weight = self.gap[:, k], self.variance[:, k], self.posterior.weight
        middle, df, most = float(weight @ gap), self._df, float(limits(self.posterior, "strict")[k])

        def likely(above: Array) -> float:
            pooled = float(weight @ _likely(self.posterior, above, variance))
            if self._scales is None:
                return pooled
            only = slice(k, k + 1)
            noisy = self._scales.likelihood(self.posterior, above[:, None], self.variance[:, only], only)
            return max(pooled, float(noisy[0]) / most * level)

        def above(by: float) -> float:
            return likely(gap + by)

        def below(by: float) -> float:
            return likely(by - gap)

        def alone(by: float) -> float:
            return float(weight @ _t_tail((by - gap) / np.sqrt(variance), df))

        ends = bound(below, level, middle), -bound(above, level, -middle)
        return ends, float(np.exp(-bound(alone, doubt, middle)))

    @property
    def _df(self) -> float:
        return max(float(self.posterior.df), 1.0)

    def _level(self, doubt: float) -> float:
        """Return the share of *doubt* for each ordered pair: any layout may lead, and any may trail."""
        return doubt / max(self.n_left * (self.n_left - 1), 1)

    def _n_launches(self, k: int) -> int:
        """Return the smaller number of launches of the rival and the leader."""
        return int(min(self.posterior.n_of[k], self.posterior.n_of[self.leader]))

    def seen_rivals(self) -> list[int]:
        """Return the rivals that have a window, best first."""
        means = self.posterior.means()
        seen = (self.in_race > 0) & (self.posterior.n_of > 0)
        seen[self.leader] = False
        return sorted((int(k) for k in np.flatnonzero(seen)), key=lambda k: (-means[k], k))


def standing(posterior: Posterior, margin: float, out: Sequence[bool], kind: Kind) -> Challenge | None:
    """Find the leader; None: no layout in the race is measured yet.

    strict: the highest mean. calibrated: the lowest error probability among the highest means with
    enough launches.
    """
    in_race = np.array([not x for x in out], dtype=float)
    seen = (posterior.n_of > 0) & (in_race > 0)
    if not seen.any():
        return None
    means = np.where(seen, posterior.means(), -np.inf)
    if kind == "strict":
        return _against(posterior, margin, int(np.argmax(means)), in_race, kind)
    order = [int(k) for k in np.argsort(-means, kind="stable")[:N_CANDIDATES] if seen[k]]
    known = [k for k in order if posterior.n_of[k] >= LEAST_LAUNCHES]
    found = [_against(posterior, margin, k, in_race, kind) for k in known]
    if not found:
        return replace(_against(posterior, margin, order[0], in_race, kind), doubt=1.0)
    return min(found, key=lambda one: one.doubt)


def standing_beside(now: Challenge, margin: float, layout: int) -> Challenge:
    """Return the same state, with all layouts compared with *layout* instead of the leader."""
    return now if layout == now.leader else _against(now.posterior, margin, layout, now.in_race, now.kind)


def standing_ahead(now: Challenge, ahead: Posterior, margin: float, without: Collection[int]) -> Challenge:
    """Return the comparison with the leader of *now* in *ahead*, where running windows count as measured.

    It serves to choose the next launch, not to claim anything. *without*: layouts to leave out, because their
    first window is under way.
    """
    in_race = now.in_race.copy()
    in_race[list(without)] = 0.0
    return _against(ahead, margin, now.leader, in_race, now.kind)


def _against(posterior: Posterior, margin: float, leader: int, in_race: Array, kind: Kind) -> Challenge:
    gap, variance = posterior.gaps(leader)
    df = max(float(posterior.df), 1.0)
    above = gap + margin
    likely = _likely(posterior, above, variance)
    likelihood: Array = posterior.weight @ likely
    shares = likely if kind == "strict" else _t_tail(above / np.sqrt(variance), df)
    if not posterior.doubts_by_filter:  # pool all filters
        shares = (posterior.weight @ shares)[None]
    shares = shares * in_race
    shares[:, leader] = 0.0
    if kind == "strict":
        doubts = shares.sum(axis=1)
    else:
        doubts = -np.expm1(np.log1p(-np.minimum(shares, 1 - 1e-12)).sum(axis=1))
    doubt = float(posterior.weight @ np.minimum(doubts, 1.0) if posterior.doubts_by_filter else doubts[0])
    # One more window of a layout measured n times is worth 1/n of its first one
    urgency = np.where(in_race > 0, likelihood / np.maximum(posterior.n_of, 0.5), -1.0)
    urgency[leader] = -1.0
    return Challenge(
        posterior, kind, leader, int(in_race.sum()), doubt, in_race, urgency, gap, variance, margin
    )


def _t_tail(t: Array, df: float) -> Array:
    """Return P(T > t) of a Student t, by Wallace's normal deviate."""
    deviate = (8 * df + 1) / (8 * df + 3) * np.sqrt(df * np.log1p(t**2 / df))
    return _upper_tail(np.where(t > 0, deviate, -deviate))


def _likelihood(posterior: Posterior, above: Array, variance: Array) -> Array:
    """Return the likelihood ratio of "not above at all" to the best fit, per layout, over all filters."""
    found: Array = posterior.weight @ _likely(posterior, above, variance)
    return found


def _likely(posterior: Posterior, above: Array, variance: Array) -> Array:
    """Return the same likelihood ratio (Student's t) for each filter: (filters, layouts)."""
    df = max(float(posterior.df), 1.0)
    square = np.where(above > 0, above**2 / variance, 0.0)
    ratio: Array = np.exp(-df / 2 * np.log1p(square / df))
    return ratio


def choose_spread(posterior: Posterior, n: int, random: Random) -> list[int]:
    """Choose *n* layouts that carry the most information on all others, by the prior; ties at random."""
    k = posterior.n_layouts
    cov = posterior.covariance[:, :k, :k].mean(axis=0)
    chosen: list[int] = []
    for _ in range(min(n, k)):
        left = np.diag(cov) + 1e-6 * np.array([random.random() for _ in range(k)])
        left[chosen] = -np.inf
        best = int(np.argmax(left))
        chosen.append(best)
        cov = cov - np.outer(cov[best], cov[best]) / (cov[best, best] + 1.0)
    return chosen


def _upper_tail(z: Array) -> Array:
    """Return P(Z > z) of a standard normal, with a relative error of 1.2e-7.

    Source: erfc by Chebyshev fitting, Press et al., Numerical Recipes, 6.2.
    """
    x = np.abs(z) / np.sqrt(2.0)
    t = 1.0 / (1.0 + 0.5 * x)
    coefficients = (
        0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807,
        -0.18628806, 0.09678418, 0.37409196, 1.00002368, -1.26551223,
    )  # fmt: skip
    poly = np.zeros_like(t)
    for c in coefficients:
        poly = poly * t + c
    tail = 0.5 * t * np.exp(-x * x + poly)
    upper: Array = np.where(z >= 0, tail, 1.0 - tail)
    return upper
