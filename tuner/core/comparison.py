"""Which layouts differ, and by how much: all pairs at once, drift of the box taken out.

Logarithms of what each launch gave are fitted as layout + block; pairs are judged by Tukey's limit
(Tukey-Kramer with each pair's own standard error; one variance for all layouts).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

from tuner.core.additive import AdditiveFit, Observation, fit
from tuner.core.interval import Estimate, ratio_around
from tuner.core.quantiles import studentized_range_quantile


@dataclass(frozen=True, slots=True)
class Comparison:
    """What launches say of every pair of layouts, which are numbered as in the fit."""

    fit: AdditiveFit
    limit: float | None  #: in standard errors of a difference; None: there is no noise to measure it against

    def half_width(self, one: int, other: int) -> float | None:
        """How far the difference of two effects must be from 0 to be significant; None: never."""
        if self.limit is None or self.fit.residual_variance is None:
            return None
        variance = self.fit.difference_variance(one, other)
        return None if variance is None else self.limit * sqrt(variance * self.fit.residual_variance)

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


def compare(observations: Sequence[Observation], n_layouts: int, confidence: float) -> Comparison:
    """Compare *n_layouts* layouts, each observed once or more, at *confidence* for all pairs together."""
    fitted = fit(observations, n_layouts)
    limit = None
    if n_layouts > 1 and fitted.residual_df:
        limit = studentized_range_quantile(confidence, n_layouts, fitted.residual_df) / sqrt(2)
    return Comparison(fitted, limit)
