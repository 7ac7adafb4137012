"""One value of an axis beside another, each at its best layout.

What an axis alone changes (`tuner.core.ranking.axis_effects`) compares layouts of the same shape. Whoever may
choose the layout anew asks for something else: the best that one value gives, beside the best that the
other gives. Which layout is the best is chosen by the same launches, so the interval is that of the best
ones, whichever they are.

Intervals L <= a - b <= U hold for all pairs of layouts together, a of the one value and b of the other.
Then the difference of the two largest lies between the least over b of the largest L over a, and the
largest over a of the least U over b: for any b some a is better by its L at least; the best a is better
than any b by its U at most.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, inf, log
from typing import Literal

from tuner.core.domain.axes import values_of
from tuner.core.domain.layout import Layout
from tuner.core.ranking.axis_effects import AxisEffect
from tuner.core.stats.interval import Estimate

#: why the two cannot be compared: one has no window, or none that could be ranked or loaded; no block joins
#: them; nothing tells the noise
Unknown = Literal["not-measured", "not-ranked", "load-too-small", "not-joined", "too-few-launches"]
#: of two layouts' logarithms the difference, and half of an interval that holds for all pairs together (None:
#: it has none); None: not comparable
Gap = Callable[[Layout, Layout], tuple[float, float | None] | None]

_NO_MORE = 1000.0  #: an interval that reaches this many times as far as its middle says nothing


@dataclass(frozen=True, slots=True)
class AxisBest:
    """One value of an axis beside another, each at its best layout over all values of the other axes."""

    axis: str
    value: str
    beside: str
    layout: Layout | None  #: the best one with *value*; None: none could be ranked
    layout_beside: Layout | None  #: the best one with *beside*, likewise
    ratio: Estimate | None  #: intervals of all of them hold together; None: not known
    unknown: Unknown | None = None  #: why there is no ratio, or one without an interval
    unknown_of: str | None = None  #: the value that is to blame; None: neither


def axis_bests(
    axes: Sequence[str],
    effects: Sequence[AxisEffect],
    layouts: Mapping[Layout, bool],
    ranked: Sequence[Layout],
    gap: Gap,
    starved: Sequence[Layout] = (),
) -> tuple[AxisBest, ...]:
    """For each of the *effects* whose value the study asked for: the two values at their best.

    Args:
        axes: of the service, in their order.
        effects: which values are compared with which.
        layouts: of the study, and whether each has a window.
        ranked: the layouts that may be the best, the best first.
        gap: between two layouts.
        starved: the layouts whose figures say nothing of them.
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
            ratio = _ratio(own[0], own[1], gap)
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


def _ratio(ones: Sequence[Layout], others: Sequence[Layout], gap: Gap) -> Estimate | None:
    """The best of *ones* to the best of *others*, whose first are those that measured best."""
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
