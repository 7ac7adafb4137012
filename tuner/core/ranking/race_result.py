"""The claims of an adaptive study about its layouts, and the ranking that follows.

Its ranks are not those of `ranking.ranking`: those compare launches of the same block, and a race seldom
makes two. The strategy claims which layouts share the first rank; its intervals separate all other layouts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import isfinite

from tuner.core.defaults import TEN_MINUTES_S
from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Answer, Claim
from tuner.core.ranking.ranked import RankedLayout, Ranking
from tuner.core.stats.groups import GROUPS, OfBest, behind_by
from tuner.core.stats.interval import Estimate

# The layout that a ranking recommends.


def leader(ranking: Ranking) -> RankedLayout | None:
    """Return the row of the answer, else the first measured row; None if nothing was measured."""
    measured = [row for row in ranking.rows if row.n_windows > 0]
    if ranking.claim is not None:
        named = ranking.claim.answer.layout
        return next((row for row in measured if row.layout == named), next(iter(measured), None))
    return next(iter(measured), None)


def by_claim(
    ranking: Ranking,
    claim: Claim,
    estimates: Mapping[Layout, Estimate],
    beside_current: Mapping[Layout, OfBest] | None = None,
) -> Ranking:
    """Return *ranking* with the ranks, values and ratios of an adaptive study.

    The answer and layouts not significantly different from it share rank 1. Another layout's rank is 1 + the
    number of better layouts: the answer, and all whose interval lies above its own. Two such intervals that
    do not overlap differ with at least the confidence of one, even if dependent; over all pairs at once the
    only claim is that of the answer. Groups, and intervals relative to the answer, are those of the claim.

    Args:
        ranking: whose facts (load, memory, windows, reasons) are kept.
        claim: of the same study.
        estimates: of each measured layout, as the strategy gives them.
        beside_current: each other layout relative to the one in use; None: there is none, or it is not known.
    """
    known = {layout: _finite(estimate) for layout, estimate in estimates.items()}
    rows = [_row(row, ranking, claim, known, beside_current or {}) for row in ranking.rows]
    rows.sort(key=lambda row: _order(row, known, claim))
    return replace(ranking, rows=tuple(rows), confidence=claim.confidence, notes=(), claim=claim)


def _row(
    row: RankedLayout,
    ranking: Ranking,
    claim: Claim,
    known: Mapping[Layout, Estimate],
    beside_current: Mapping[Layout, OfBest],
) -> RankedLayout:
    own = known.get(row.layout)
    if row.reason is not None or own is None:
        return replace(row, rank=None, group=None, of_best=None, ratio_to_current=None)
    current = None if ranking.current is None else known.get(ranking.current)
    group, of_best = claim.group_of(row.layout), claim.of_best.get(row.layout)
    row = replace(
        row,
        rank=1 + _n_better(row.layout, known, claim.answer),
        group=group,
        of_best=of_best,
        ratio_to_current=None if current is None else _ratio(row, ranking, (own, current), beside_current),
        behind_ratio=None if of_best is None or group != "slower" else behind_by(of_best),
    )
    if ranking.objective != "throughput":
        return replace(row, items_per_cpu_s=own)
    per_10min = (None if value is None else TEN_MINUTES_S * value for value in (own.mean, own.low, own.high))
    return replace(row, throughput_per_10min=Estimate(*per_10min))


def _n_better(layout: Layout, known: Mapping[Layout, Estimate], answer: Answer) -> int:
    if layout == answer.layout or layout in answer.ties:
        return 0
    high = known[layout].high
    return sum(
        other == answer.layout or (high is not None and estimate.low is not None and estimate.low > high)
        for other, estimate in known.items()
        if other != layout
    )


def _finite(estimate: Estimate) -> Estimate:
    """Return *estimate* without ends that carry no information (0, infinity)."""
    low, high = estimate.low, estimate.high
    return Estimate(
        estimate.mean,
        low if low is not None and isfinite(low) and low > 0 else None,
        high if high is not None and isfinite(high) else None,
    )


def _ratio(
    row: RankedLayout,
    ranking: Ranking,
    values: tuple[Estimate, Estimate],
    beside_current: Mapping[Layout, OfBest],
) -> Estimate | None:
    """Return the ratio to the layout in use, with the interval that the groups are based on."""
    if row.layout == ranking.current:
        return Estimate(1.0, 1.0, 1.0)
    own, current = values
    if own.mean is None or not current.mean:
        return None
    mean = own.mean / current.mean
    beside = beside_current.get(row.layout)
    return Estimate(mean) if beside is None else replace(beside.ratio, mean=mean)


def _order(
    row: RankedLayout, known: Mapping[Layout, Estimate], claim: Claim
) -> tuple[int, bool, float, Layout]:
    """Return the sort key: by group, the answer first, and by value within each group."""
    mean = known[row.layout].mean if row.layout in known else None
    place = len(GROUPS) if row.group is None else GROUPS.index(row.group)
    return (place, row.layout != claim.answer.layout, -(mean or 0.0), row.layout)
