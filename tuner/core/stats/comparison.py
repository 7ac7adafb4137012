"""Which layouts differ, and by how much: all pairs at once, drift of the box taken out.

Logarithms of what each launch gave are fitted as layout + block; pairs are judged by Tukey's limit
(Tukey-Kramer with each pair's own standard error; one variance for all layouts). A layout of a single launch
is told apart from none: `tuner.core.stats.groups`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, inf, sqrt

from tuner.core.stats.groups import (
    LEAST_LAUNCHES,
    Beside,
    OfBest,
    far_gap,
    group_of,
    launches_to_decide,
    ratio_between,
)
from tuner.core.stats.interval import Estimate, ratio_around
from tuner.core.stats.quantiles import student_t_quantile, studentized_range_quantile, tail_beyond
from tuner.core.stats.two_way_anova import AdditiveFit, Observation, fit


@dataclass(frozen=True, slots=True)
class Comparison:
    """What launches say of every pair of layouts, which are numbered as in the fit."""

    fit: AdditiveFit
    limit: float | None  #: in standard errors of a difference; None: there is no noise to measure it against
    n_launches: Sequence[int]  #: of each layout
    confidence: float  #: of all pairs together

    def half_width(self, one: int, other: int) -> float | None:
        """How far the difference of two effects must be from 0 to be significant; None: never."""
        error = self.standard_error(one, other)
        few = min(self.n_launches[one], self.n_launches[other]) < LEAST_LAUNCHES
        return None if few or error is None or self.limit is None else self.limit * error

    def standard_error(self, one: int, other: int) -> float | None:
        """Of the difference of two effects; None: no noise is known, or no chain of blocks joins them."""
        if self.fit.residual_variance is None:
            return None
        variance = self.fit.difference_variance(one, other)
        return None if variance is None else sqrt(variance * self.fit.residual_variance)

    def ratio(self, one: int, other: int) -> Estimate | None:
        """What *one* gives as a ratio of *other*'s; None when no chain of shared blocks joins them."""
        if self.fit.difference_variance(one, other) is None:
            return None
        difference = self.fit.effects[one] - self.fit.effects[other]
        half = 0.0 if one == other else self.half_width(one, other)
        return ratio_around(difference, half)

    def n_better(self, candidates: Sequence[int]) -> list[int]:
        """For each of *candidates* how many of them give significantly more."""
        counts = dict.fromkeys(candidates, 0)
        for place, one in enumerate(candidates):
            for other in candidates[:place]:
                half = self.half_width(one, other)
                difference = self.fit.effects[one] - self.fit.effects[other]
                # Rounding alone must not tell identical figures apart.
                if half is not None and abs(difference) > max(half, 1e-9):
                    counts[other if difference > 0 else one] += 1
        return [counts[one] for one in candidates]

    def beside(self, one: int, best: int, candidates: Sequence[int], within: float) -> tuple[Beside, OfBest]:
        """What *one* of the *candidates* is beside the *best* of them; *within* is the margin.

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
            df, far = self.fit.residual_df, far_gap(within)
            alone = student_t_quantile(self.confidence, df)
            least = exp(-gap - alone * error)
            far_doubt = tail_beyond(far - gap, error, df)
            per_launch = error**2 / (1 / n_of[0] + 1 / n_of[1])
            reaches = (self.limit, alone)
            n_more = launches_to_decide(
                gap, n_of=n_of, launch_variance=per_launch, reaches=reaches, within=within
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
) -> Comparison:
    """Compare *n_layouts* layouts, each observed once or more, at *confidence* for all pairs together.

    *n_launches*: of each layout, where an observation stands for several launches.
    """
    fitted = fit(observations, n_layouts)
    if n_launches is None:
        of = Counter(seen.layout for seen in observations)
        n_launches = [of[layout] for layout in range(n_layouts)]
    limit = None
    if n_layouts > 1 and fitted.residual_df:
        limit = studentized_range_quantile(confidence, n_layouts, fitted.residual_df) / sqrt(2)
    return Comparison(fitted, limit, n_launches, confidence)
