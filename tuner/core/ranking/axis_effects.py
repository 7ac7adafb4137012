"""The effect of an axis: each value compared with the first, over the layouts that have both.

Two layouts are a pair if they differ in one value of that axis and in nothing else; 8x- has one thread in
each process, as 8x1 has. On the logarithmic scale, the effect of a value is the mean of its pairs'
differences, a contrast of layout effects, so that changes of the host between blocks drop out, and noise is
pooled as in the ranking. The mean hides differences between the pairs: an interpreter may gain with many
threads and lose with one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, fsum, inf, log, sqrt
from typing import Literal

from tuner.core.domain.layout import Layout, values_of
from tuner.core.ranking.study_difference import Side, estimate_of_gap, look_share
from tuner.core.stats.interval import Estimate
from tuner.core.stats.quantiles import student_t_quantile
from tuner.core.stats.two_way_anova import AdditiveFit, Observation, fit


@dataclass(frozen=True, slots=True)
class AxisEffect:
    """Effect of one value of an axis, compared with the reference value of that axis."""

    axis: str
    value: str
    #: reference value of the axis: the first that forms a pair with another, else the first measured, else
    #: the first
    beside: str
    ratio: Estimate | None  #: intervals of all effects hold jointly; None: no two layouts form a pair
    n_pairs: int  #: number of pairs of layouts that differ only in this value
    n_measured: int  #: number of layouts with the value; 0 if no layout with *beside* was measured


def axis_effects(axes: Mapping[str, Sequence[str]], side: Side, confidence: float) -> tuple[AxisEffect, ...]:
    """Return the effect of each value of the *axes*; *confidence* is that of all intervals together.

    In an adaptive study earlier results determine a layout's number of launches: then intervals hold at any
    stopping time, and are wider (see `tuner.core.ranking.study_difference`).
    """
    if not axes:
        return ()
    layouts = list(dict.fromkeys(one.layout for one in side.launches))
    number = {layout: place for place, layout in enumerate(layouts)}
    blocks = {block: place for place, block in enumerate(dict.fromkeys(one.block for one in side.launches))}
    fitted = None
    if layouts:
        seen = [Observation(number[one.layout], blocks[one.block], one.value) for one in side.launches]
        fitted = fit(seen, len(layouts))
    n_of = Counter(number[one.layout] for one in side.launches)
    n_effects = sum(len(values) - 1 for values in axes.values())
    found = []
    for place, (axis, values) in enumerate(axes.items()):
        alike = _alike(layouts, place)
        beside = _reference(alike, values)
        n_of_value = Counter(value for group in alike for value in group)
        for value in (one for one in values if one != beside):
            pairs = [] if fitted is None else _pairs(alike, fitted, value, beside)
            ratio = None
            if fitted is not None and pairs:
                look = look_share([side], [max(n_of[one] for pair in pairs for one in pair)])
                ratio = _ratio(fitted, pairs, (1 - confidence) * look / n_effects)
            n_measured = n_of_value[value] if n_of_value[beside] else 0
            found.append(AxisEffect(axis, value, beside, ratio, len(pairs), n_measured))
    return tuple(found)


def _alike(layouts: Sequence[Layout], axis: int) -> list[dict[str, int]]:
    """Group *layouts* that differ in the value of one axis alone: return their numbers, by that value."""
    groups: dict[tuple[object, ...], dict[str, int]] = defaultdict(dict)
    for number, layout in enumerate(layouts):
        own = values_of(layout.variant)
        if axis < len(own):
            others = (*own[:axis], *own[axis + 1 :])
            groups[layout.processes, layout.threads, others][own[axis]] = number
    return list(groups.values())


def _reference(alike: Sequence[Mapping[str, int]], values: Sequence[str]) -> str:
    """Return the value of an axis that its other values are compared with."""
    paired = {value for group in alike if len(group) > 1 for value in group}
    measured = {value for group in alike for value in group}
    return next((value for own in (paired, measured) for value in values if value in own), values[0])


def _pairs(
    alike: Sequence[Mapping[str, int]], fitted: AdditiveFit, value: str, beside: str
) -> list[tuple[int, int]]:
    """Return pairs of layouts, by number, that differ only in *value* and *beside*, if blocks join them."""
    return [
        (group[value], group[beside])
        for group in alike
        if value in group
        and beside in group
        and fitted.difference_variance(group[value], group[beside]) is not None
    ]


def _ratio(fitted: AdditiveFit, pairs: Sequence[tuple[int, int]], doubt: float) -> Estimate:
    gap = fsum(fitted.effects[one] - fitted.effects[other] for one, other in pairs) / len(pairs)
    if fitted.residual_variance is None:
        return estimate_of_gap(gap, None)
    weights: Counter[int] = Counter()
    for one, other in pairs:
        weights[one] += 1
        weights[other] -= 1
    # Of weights that add up to 0, within layouts that blocks join: -1/2 of the weighted variances of all
    # differences; pairs that no block joins with further pairs are independent of them.
    variance = (
        fsum(
            -w * v * (fitted.difference_variance(one, other) or 0.0) / 2
            for one, w in weights.items()
            for other, v in weights.items()
        )
        / len(pairs) ** 2
    )
    spread = sqrt(max(0.0, variance) * fitted.residual_variance)
    return estimate_of_gap(gap, student_t_quantile(1 - doubt / 2, fitted.residual_df) * spread)


# Two values of an axis compared, each at its best layout.
#
# The effect of an axis alone (`tuner.core.ranking.axis_effects`) compares layouts of equal shape. If you
# are free to choose the layout, the comparison is a different one: the best result with one value, against
# the best result with the other. The same launches choose the best layouts, so the interval is valid for the
# best layouts, whichever they are.
#
# Intervals L <= a - b <= U hold for all pairs of layouts together, a of the one value and b of the other.
# Then the difference of the two largest lies between the least over b of the largest L over a, and the
# largest over a of the least U over b: for any b some a is better by its L at least; the best a is better
# than any b by its U at most.

#: Reason why two values cannot be compared: one has no window, no rank or no load; no block joins them; or
#: the noise is unknown.
Unknown = Literal["not-measured", "not-ranked", "load-too-small", "not-joined", "too-few-launches"]
#: Difference of the logarithms of two layouts, and half of an interval that holds for all pairs jointly
#: (None: no interval); None: not comparable.
Gap = Callable[[Layout, Layout], tuple[float, float | None] | None]

_NO_MORE = 1000.0  #: an interval wider than this many times its middle gives no information


@dataclass(frozen=True, slots=True)
class AxisBest:
    """Two values of an axis, each at its best layout over all values of the other axes."""

    axis: str
    value: str
    beside: str
    layout: Layout | None  #: best layout with *value*; None: no rank
    layout_beside: Layout | None  #: best layout with *beside*; None: no rank
    ratio: Estimate | None  #: intervals of all values hold jointly; None: unknown
    unknown: Unknown | None = None  #: reason why there is no ratio, or one without an interval
    unknown_of: str | None = None  #: value that causes it; None: neither


def axis_bests(
    axes: Sequence[str],
    effects: Sequence[AxisEffect],
    layouts: Mapping[Layout, bool],
    ranked: Sequence[Layout],
    gap: Gap,
    starved: Sequence[Layout] = (),
) -> tuple[AxisBest, ...]:
    """Compare both values of each of the *effects* at their best layouts, if the study has layouts of both.

    Args:
        axes: of the service, in their order.
        effects: which values are compared with which.
        layouts: of the study, and whether each has a window.
        ranked: the layouts that may be the best, the best first.
        gap: function that returns the difference of two layouts.
        starved: the layouts that had too few requests for a comparison.
    """
    place = {axis: number for number, axis in enumerate(axes)}
    found = []
    for one in effects:
        pair = (one.value, one.beside)
        asked = [[x for x in layouts if _has(x, place[one.axis], value)] for value in pair]
        if not all(asked):
            continue
        own = [[x for x in ranked if _has(x, place[one.axis], value)] for value in pair]
        best, best_beside = (next(iter(fit), None) for fit in own)
        unknown, of = _why_not(pair, asked, own, layouts, starved)
        ratio = None
        if unknown is None:
            ratio = _best_ratio(own[0], own[1], gap)
            unknown = "not-joined" if ratio is None else "too-few-launches" if ratio.low is None else None
        found.append(AxisBest(one.axis, one.value, one.beside, best, best_beside, ratio, unknown, of))
    return tuple(found)


def _has(layout: Layout, axis: int, value: str) -> bool:
    return values_of(layout.variant)[axis : axis + 1] == (value,)


def _why_not(
    pair: Sequence[str],
    asked: Sequence[Sequence[Layout]],
    ranked: Sequence[Sequence[Layout]],
    layouts: Mapping[Layout, bool],
    starved: Sequence[Layout],
) -> tuple[Unknown | None, str | None]:
    for value, own, may_win in zip(pair, asked, ranked, strict=True):
        if not any(layouts[x] for x in own):
            return "not-measured", value
        if not may_win:
            return "not-ranked", value
        if may_win[0] in starved:
            return "load-too-small", value
    return None, None


def _best_ratio(ones: Sequence[Layout], others: Sequence[Layout], gap: Gap) -> Estimate | None:
    """Return the ratio of the best of *ones* to the best of *others*, each sorted by measured value."""
    middle = gap(ones[0], others[0])
    if middle is None:
        return None
    lows, highs = [-inf] * len(others), [inf] * len(ones)
    for m, one in enumerate(ones):
        for n, other in enumerate(others):
            found = gap(one, other)
            if found is not None and found[1] is not None:
                lows[n] = max(lows[n], found[0] - found[1])
                highs[m] = min(highs[m], found[0] + found[1])
    low, high = min(*lows, middle[0]), max(*highs, middle[0])
    if max(middle[0] - low, high - middle[0]) > log(_NO_MORE):
        return Estimate(exp(middle[0]))
    return Estimate(exp(middle[0]), exp(low), exp(high))
