"""The group of a layout compared with the best one: one rule for every kind of ranking.

- ``best-or-tied``: the named layout, and each layout that measured within the margin of it and whose interval
  by itself excludes a distance of more than twice the margin.
- ``slower``: significantly slower than a better layout, at the confidence of all pairs at once.
- ``not-ruled-out``: neither. Its interval is too wide to decide, or it has a single launch.

A single launch never decides, because it does not show the noise between launches.
`docs/method/ranking.md` has the reasons for the rule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, exp, inf, log, sqrt
from typing import Literal, get_args

from tuner.core.defaults import LEAST_LAUNCHES
from tuner.core.stats.interval import BEYOND_NUMBERS, Estimate, ratio_around
from tuner.core.stats.own_noise import OwnNoise, estimate_own_noise, mixture_reach, mixture_tail
from tuner.core.stats.quantiles import student_t_quantile, student_t_tail, studentized_range_quantile
from tuner.core.stats.two_way_anova import AdditiveFit, Observation, fit

Group = Literal["best-or-tied", "not-ruled-out", "slower"]
GROUPS: tuple[Group, ...] = get_args(Group)  #: groups in the order of a ranking
FAR = 2.0  #: distance in margins; a layout that may be further behind is not called tied
_HALVINGS = 60


@dataclass(frozen=True, slots=True)
class Beside:
    """One layout compared with the named layout."""

    n_launches: int  #: number of its launches, or of the named layout's if those are fewer
    #: whether some layout is significantly better, at the confidence of all pairs jointly
    is_told_apart: bool
    share: float  #: measured value as a share of the named layout's
    #: probability that it is behind by more than FAR margins; None: the noise is unknown
    far_doubt: float | None


@dataclass(frozen=True, slots=True)
class OfBest:
    """Throughput of a layout as a share of the best one's: the interval that its group rests on."""

    ratio: Estimate  #: interval for all pairs jointly; without ends if nothing is claimed
    least: float | None = None  #: lower bound for this layout alone, at the same confidence; None: unknown
    #: number of further launches, of it and the best one, that would decide; None: unknown
    n_to_decide: int | None = None


def group_of(beside: Beside, *, within: float, confidence: float) -> Group:
    """Return the group of a layout that is not the named one."""
    if beside.n_launches < LEAST_LAUNCHES:
        return "not-ruled-out"
    if beside.is_told_apart:
        return "slower"
    is_near = beside.far_doubt is not None and beside.far_doubt <= 1 - confidence
    return "best-or-tied" if is_near and beside.share >= 1 - within else "not-ruled-out"


def far_gap(within: float) -> float:
    """Return the distance on the logarithmic scale beyond which a layout is not called tied."""
    return -log(1 - FAR * within) if FAR * within < 1 else inf


def launches_to_decide(
    gap: float,
    *,
    n_of: tuple[int, int],
    launch_variances: tuple[float, float],
    reaches: tuple[float, float],
    within: float,
) -> int:
    """Estimate how many launches would decide a layout in ``not-ruled-out`` if its figure were true.

    A layout measured within the margin must be shown to be near, any other one to be worse.

    Args:
        gap: distance behind the best one, on the logarithmic scale.
        n_of: launches of it and of the best one so far.
        launch_variances: of one launch of each, on that scale.
        reaches: standard errors that a difference must pass for all pairs at once, and by itself.
        within: the margin, as a share.
    """
    far, margin = far_gap(within), -log(1 - within)
    room, reach = (gap, reaches[0]) if gap > margin else (far - gap, reaches[1])
    least = max(0, LEAST_LAUNCHES - n_of[0]) + max(0, LEAST_LAUNCHES - n_of[1])
    if room == inf or not all(launch_variances):
        return max(1, least)
    target = (room / reach) ** 2  # the value that the variance of the gap must fall to
    (large, n_large), (small, n_small) = sorted(
        zip(launch_variances, n_of, strict=True), key=lambda one: one[0] / one[1] ** 2, reverse=True
    )
    left = target - small / n_small
    if left > 0 and large / left <= n_small * sqrt(large / small):  # launches of one layout are enough
        return max(1, least, ceil(large / left - n_large - 1e-9))
    both = sqrt(large) + sqrt(small)
    more = (ceil(sqrt(one) * both / target - 1e-9) - n for one, n in ((large, n_large), (small, n_small)))
    return max(1, least, sum(max(0, one) for one in more))


def bound(chance: Callable[[float], float], level: float, start: float) -> float:
    """Return where the decreasing function *chance* falls to *level*, searched from *start* upwards."""
    low, high = start, start + 1e-3
    while chance(high) > level and high - start < 100:
        low, high = high, start + 2 * (high - start)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if chance(middle) > level else (low, middle)
    return high


def ratio_between(gap: float, low: float | None = None, high: float | None = None) -> Estimate:
    """Return a layout's share of the best: *gap* behind, from *low* to *high*, all logarithms."""
    if low is None or high is None or max(abs(low), abs(high)) > BEYOND_NUMBERS:
        return Estimate(exp(-gap))
    return Estimate(exp(-gap), exp(-low), exp(-high))


def behind_by(of_best: OfBest) -> float | None:
    """Return the least share by which a layout is slower than the best; None if its interval includes 1."""
    high = of_best.ratio.high
    return None if high is None or high >= 1 else 1 - high


def of_value(of_best: OfBest, best: float) -> Estimate:
    """Return the interval that a layout's group rests on, in units of the value of the *best* one."""
    ends = (None if one is None else one * best for one in (of_best.ratio.low, of_best.ratio.high))
    return Estimate((of_best.ratio.mean or 0.0) * best, *ends)


# Differences between layouts, for all pairs at once, without the drift of the host.
#
# Logarithms of each launch's value are fitted as layout + block; pairs are judged by Tukey's limit
# (Tukey-Kramer with each pair's own standard error). The variance is one for all layouts, or each layout's
# own: then the limits of two layouts add up in squares (MOVER, Zou & Donner 2008), each exceeded as rarely
# as Tukey's limit is by the pooled variance. A layout with a single launch differs significantly from none.


@dataclass(frozen=True, slots=True)
class Comparison:
    """Comparison of every pair of layouts, which are numbered as in the fit."""

    fit: AdditiveFit
    limit: float | None  #: significant difference in standard errors; None: the noise is unknown
    n_launches: Sequence[int]  #: number of launches of each layout
    confidence: float  #: confidence of all pairs jointly
    own_noise: OwnNoise | None = None  #: noise of each layout; None: all have the same variance
    _reaches: tuple[float, ...] = ()  # of one launch of each layout, by its own noise

    def half_width(self, one: int, other: int) -> float | None:
        """Return the least significant difference of two effects; None if no difference is significant."""
        error = self.standard_error(one, other)
        few = min(self.n_launches[one], self.n_launches[other]) < LEAST_LAUNCHES
        if few or error is None or self.limit is None:
            return None
        if self.own_noise is None or one == other:
            return self.limit * error
        shares = self._shares(one, other)
        return sqrt(shares[0] * self._reaches[one] ** 2 + shares[1] * self._reaches[other] ** 2)

    def standard_error(self, one: int, other: int) -> float | None:
        """Return the standard error of the difference of two effects; None if it is not known."""
        if self.fit.residual_variance is None:
            return None
        variance = self.fit.difference_variance(one, other)
        if variance is None:
            return None
        if self.own_noise is None or one == other:
            return sqrt(variance * self.fit.residual_variance)
        shares = self._shares(one, other)
        return sqrt(shares[0] * self.own_noise.variance(one) + shares[1] * self.own_noise.variance(other))

    def _shares(self, one: int, other: int) -> tuple[float, float]:
        """Return the share of each layout's launch variance in the variance of their difference.

        If blocks lack layouts, the variance that other layouts add is divided in the same ratio.
        """
        each = 1 / self.n_launches[one], 1 / self.n_launches[other]
        more = (self.fit.difference_variance(one, other) or 0.0) / sum(each)
        return each[0] * more, each[1] * more

    def _scales(self, one: int, other: int) -> list[tuple[float, float, float]]:
        """Return weight, standard error and degrees of freedom of the difference of two effects, by case."""
        if self.own_noise is not None:
            return self.own_noise.of_pair(one, other, self._shares(one, other))
        return [(1.0, self.standard_error(one, other) or 0.0, float(self.fit.residual_df))]

    def ratio(self, one: int, other: int) -> Estimate | None:
        """Return *one* as a ratio of *other*; None if no chain of shared blocks joins them."""
        if self.fit.difference_variance(one, other) is None:
            return None
        difference = self.fit.effects[one] - self.fit.effects[other]
        half = 0.0 if one == other else self.half_width(one, other)
        return ratio_around(difference, half)

    def n_better(self, candidates: Sequence[int]) -> list[int]:
        """Return for each of *candidates* how many of them are significantly better."""
        counts = dict.fromkeys(candidates, 0)
        for place, one in enumerate(candidates):
            for other in candidates[:place]:
                half = self.half_width(one, other)
                difference = self.fit.effects[one] - self.fit.effects[other]
                # Rounding alone must not make identical figures differ.
                if half is not None and abs(difference) > max(half, 1e-9):
                    counts[other if difference > 0 else one] += 1
        return [counts[one] for one in candidates]

    def beside(self, one: int, best: int, candidates: Sequence[int], within: float) -> tuple[Beside, OfBest]:
        """Compare *one* of the *candidates* with the *best* of them; *within* is the margin.

        The upper end is the least of those against each candidate: a layout below any other is not the best.
        """
        gap = self.fit.effects[best] - self.fit.effects[one]
        n_of = self.n_launches[one], self.n_launches[best]
        error, half = self.standard_error(one, best), self.half_width(one, best)
        nearest, is_told_apart = inf, False
        for other in candidates:
            if other == one or (reach := self.half_width(one, other)) is None:
                continue
            behind = self.fit.effects[other] - self.fit.effects[one]
            is_told_apart |= behind > max(reach, 1e-9)
            nearest = min(nearest, reach - behind)
        far_doubt, least, n_more = None, None, None
        if error is not None and self.limit is not None:
            scales = self._scales(one, best)
            alone = mixture_reach(scales, 1 - self.confidence)
            least = exp(-gap - alone)
            far_doubt = mixture_tail(far_gap(within) - gap, scales)
            per_launch = error**2 / (1 / n_of[0] + 1 / n_of[1])
            reaches = (self.limit, student_t_quantile(self.confidence, self.fit.residual_df))
            if error:
                reaches = (self.limit if half is None else half / error, alone / error)
            n_more = launches_to_decide(
                gap, n_of=n_of, launch_variances=(per_launch, per_launch), reaches=reaches, within=within
            )
        found = Beside(min(n_of), is_told_apart, exp(-gap), far_doubt)
        is_open = group_of(found, within=within, confidence=self.confidence) == "not-ruled-out"
        low, high = (None, None) if half is None else (gap + half, -nearest)
        return found, OfBest(ratio_between(gap, low, high), least, n_more if is_open else None)


def compare(
    observations: Sequence[Observation],
    n_layouts: int,
    confidence: float,
    n_launches: Sequence[int] | None = None,
    *,
    by_own_noise: bool = False,
) -> Comparison:
    """Compare *n_layouts* layouts, each observed once or more, at *confidence* for all pairs together.

    *n_launches*: of each layout, if an observation stands for several launches. *by_own_noise*: each layout
    is judged by its own noise if that is known.
    """
    fitted = fit(observations, n_layouts)
    if n_launches is None:
        of = Counter(seen.layout for seen in observations)
        n_launches = [of[layout] for layout in range(n_layouts)]
    limit = None
    if n_layouts > 1 and fitted.residual_df:
        limit = studentized_range_quantile(confidence, n_layouts, fitted.residual_df) / sqrt(2)
    own = estimate_own_noise(observations, fitted) if by_own_noise and limit is not None else None
    if own is None or limit is None:
        return Comparison(fitted, limit, n_launches, confidence)
    risk = 2 * student_t_tail(limit, fitted.residual_df)
    reaches = tuple(own.reach(layout, risk) for layout in range(n_layouts))
    return Comparison(fitted, limit, n_launches, confidence, own, reaches)
