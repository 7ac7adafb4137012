"""The Pareto front of throughput against load, memory or CPU.

Throughput and cost are each compared as the ranking compares throughput (`stats.groups`): paired by
block, all pairs at once. Each of the two may spend half of the error probability, so that all statements
about one front hold together at the requested confidence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from typing import Literal, NamedTuple, get_args

from tuner.core.domain.layout import Layout
from tuner.core.stats.groups import Comparison, compare
from tuner.core.stats.interval import Estimate
from tuner.core.stats.mixed_model import comparable
from tuner.core.stats.two_way_anova import Observation

Cost = Literal["load", "memory", "cpu"]
COSTS: tuple[Cost, ...] = get_args(Cost)

#: matches: within the margin; open: not significantly different; less: significantly less
Kind = Literal["matches", "open", "less"]
_MOST = {"matches": 3, "open": 2, "less": 3}  # most reported trades of each kind


class Traded(NamedTuple):
    """Throughput and cost of one launch."""

    layout: Layout
    block: int
    throughput: float  #: above 0
    cost: float | None  #: None: not measured


@dataclass(frozen=True, slots=True)
class FrontPlace:
    """One layout compared with the front."""

    layout: Layout
    is_on_front: bool | None  #: False: significantly dominated; None: not known
    #: fastest of the layouts that are significantly faster and cheaper; None: there is none
    dominated_by: Layout | None
    cost: float  #: mean over launches
    throughput_ratio: Estimate  #: ratio to the reference
    cost_ratio: Estimate  #: ratio to the reference


@dataclass(frozen=True, slots=True)
class Trade:
    """A layout that costs significantly less than another one, and its throughput in comparison."""

    layout: Layout
    against: Layout  #: other layout; one of the two is the reference
    kind: Kind
    throughput_ratio: Estimate  #: ratio of the layout to the other
    cost_ratio: Estimate  #: ratio of the layout to the other


@dataclass(frozen=True, slots=True)
class Front:
    """Pareto front of throughput and one cost."""

    cost: Cost
    reference: Layout | None  #: fastest measured layout; None: there is nothing to compare
    places: tuple[FrontPlace, ...]  #: fastest first
    trades: tuple[Trade, ...]  #: trades to report: matches first, and the largest saving first
    within: float  #: margin of a match, as a share
    confidence: float


def pareto_front(
    launches: Sequence[Traded],
    cost: Cost,
    *,
    confidence: float,
    within: float,
    box_of: Mapping[int, int] | None = None,
    throughput: Comparison | None = None,
) -> Front:
    """Find the front of the layouts in *launches*, without those whose cost was not measured.

    A layout is surely dominated if another one is surely faster and surely cheaper, and surely on the front
    if each other one is surely slower or surely dearer. *box_of* is each block's host; None: there is one.
    *throughput* is the result of `compare_throughput` for these launches, used if each of them has a cost.
    """
    seen = [one for one in launches if one.cost is not None and one.cost > 0]
    layouts = sorted({one.layout for one in seen})
    if not layouts:
        return Front(cost, None, (), (), within, confidence)
    if throughput is None or len(seen) < len(launches):
        throughput = compare_throughput(seen, confidence=confidence, box_of=box_of)
    costs = _compare(seen, [one.cost or 0.0 for one in seen], confidence, box_of)
    order = sorted(range(len(layouts)), key=lambda one: -throughput.fit.effects[one])
    reference = order[0]
    places = []
    for one in order:
        ratio, cost_ratio = throughput.ratio(one, reference), costs.ratio(one, reference)
        by = [other for other in order if _dominates(throughput, costs, other, one)]
        places.append(
            FrontPlace(
                layouts[one],
                False if by else _is_surely_on(throughput, costs, one, order),
                layouts[by[0]] if by else None,
                exp(costs.fit.effects[one]),
                ratio or Estimate(None),
                cost_ratio or Estimate(None),
            )
        )
    return Front(cost, layouts[reference], tuple(places), _trades(places, within), within, confidence)


def compare_throughput(
    launches: Sequence[Traded], *, confidence: float, box_of: Mapping[int, int] | None = None
) -> Comparison:
    """Compare the throughput of layouts, for fronts of several costs; the arguments are as there."""
    return _compare(launches, [one.throughput for one in launches], confidence, box_of)


def _compare(
    launches: Sequence[Traded], values: Sequence[float], confidence: float, box_of: Mapping[int, int] | None
) -> Comparison:
    """Compare layouts, in their order, by *values*: one of each launch, above 0."""
    number = {layout: index for index, layout in enumerate(sorted({one.layout for one in launches}))}
    seen = [
        Observation(number[one.layout], one.block, log(value))
        for one, value in zip(launches, values, strict=True)
    ]
    return compare(comparable(seen, box_of or {}, len(number)), len(number), 1 - (1 - confidence) / 2)


def _dominates(throughput: Comparison, costs: Comparison, one: int, other: int) -> bool:
    faster, dearer = throughput.ratio(one, other), costs.ratio(one, other)
    return _is_above_1(faster) and _is_below_1(dearer)


def _is_surely_on(throughput: Comparison, costs: Comparison, one: int, others: Sequence[int]) -> bool | None:
    """Return True if the layout is surely on the front, or None if that is not known."""
    surely = all(
        _is_above_1(throughput.ratio(one, other)) or _is_below_1(costs.ratio(one, other))
        for other in others
        if other != one
    )
    return True if surely else None


def _is_above_1(ratio: Estimate | None) -> bool:
    return (
        ratio is not None and ratio.low is not None and ratio.low > 1 + 1e-9
    )  # a difference by rounding is not significant


def _is_below_1(ratio: Estimate | None) -> bool:
    return ratio is not None and ratio.high is not None and ratio.high < 1 - 1e-9


def _trades(places: Sequence[FrontPlace], within: float) -> tuple[Trade, ...]:
    """Return the trades worth reporting: the fastest layout, which is the first, against each other one.

    Layouts that are surely dominated, or slower and dearer than the first, are left out.
    """
    found = []
    for place in places[1:]:
        pair, ratio, cost_ratio = (place.layout, places[0].layout), place.throughput_ratio, place.cost_ratio
        if place.is_on_front is False or ratio.low is None:
            continue
        kind: Kind = "less" if _is_below_1(ratio) else "open"
        if ratio.low >= 1 - within:  # its mean is at most 1, so the upper end is within the margin too
            kind = "matches"
        if _is_below_1(cost_ratio):
            found.append(Trade(*pair, kind, ratio, cost_ratio))
        elif _is_above_1(cost_ratio):  # and not surely slower, else it would be dominated
            found.append(Trade(*pair[::-1], kind, _inverse(ratio), _inverse(cost_ratio)))
    kept = []
    for kind in get_args(Kind):
        of_kind = [trade for trade in found if trade.kind == kind]
        if kind != "less":  # of equally fast layouts the largest saving first; of slower ones the fastest
            of_kind.sort(key=lambda trade: (trade.cost_ratio.mean or 0.0, trade.layout, trade.against))
        kept += of_kind[: _MOST[kind]]
    return tuple(kept)


def _inverse(ratio: Estimate) -> Estimate:
    """Return the inverse of *ratio*, whose values are above 0."""
    mean, low, high = (None if value is None else 1 / value for value in (ratio.mean, ratio.low, ratio.high))
    return Estimate(mean, high, low)
