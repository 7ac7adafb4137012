"""Pareto fronts of throughput against load, memory or CPU, as sentences, table and JSON fields."""

from __future__ import annotations

import dataclasses
from typing import Any

from tuner.core.domain.layout import Layout
from tuner.core.domain.safety_limits import render_amount
from tuner.core.ranking.pareto import Cost, Front, FrontPlace, Trade
from tuner.core.ranking.ranked import Ranking
from tuner.core.stats.interval import Estimate
from tuner.reports.text.formats import Table

_WORD: dict[Cost, str] = {"load": "load", "memory": "memory", "cpu": "CPU"}


def front_heading(front: Front, best: Layout | None) -> str:
    """Return the caption of the table; *best* is the layout that the ranking names, by throughput."""
    word = _WORD[front.cost]
    if front.reference is None:
        return f"Gain from more {word}: unknown, because no ranked layout has figures of it."
    level = f"{100 * front.confidence:g} %"
    which = "the fastest" if _is_named(front, best) else "whose mean is the highest"
    return (
        f"Gain from more {word}, measured against {front.reference}, {which}"
        f" ({level}, all pairs and both figures at once)."
    )


def front_table(front: Front) -> Table:
    """Return one row for each layout, the fastest first."""
    word = _WORD[front.cost]
    cost = "settled load" if front.cost == "load" else word
    headers = ("layout", "on the front", f"items against {front.reference}", cost, f"{word} against it")
    rows = tuple(
        (
            str(place.layout),
            _standing(place),
            "-" if place.layout == front.reference else _share(place.throughput_ratio),
            _amount(front.cost, place.cost),
            "-" if place.layout == front.reference else _share(place.cost_ratio),
        )
        for place in front.places
    )
    return Table(headers, rows, frozenset({2, 3, 4}))


def front_sentences(front: Front, best: Layout | None) -> list[str]:
    """Return the findings, a sentence each; *best* is the layout that the ranking names, by throughput."""
    if front.reference is None or len(front.places) < 2:
        return []
    reported = []
    if not _is_named(front, best):
        reported = [
            f"{front.reference} has the highest mean in a block-by-block comparison of launches. That alone"
            f" is not a result: the best layout of the study is {best}."
        ]
    if not front.trades:
        word = _WORD[front.cost]
        return [
            *reported,
            f"No layout is shown to need less {word} than {front.reference}, or more for nothing.",
        ]
    return [*reported, *(_sentence(front, trade) for trade in front.trades)]


def best_by_throughput(ranking: Ranking) -> Layout | None:
    """Return the layout that the ranking names; None: it ranks by another value, or names none."""
    if ranking.objective != "throughput":
        return None
    return next((row.layout for row in ranking.rows if row.rank == 1), None)


def _is_named(front: Front, best: Layout | None) -> bool:
    return best is None or front.reference == best


def front_facts(front: Front) -> dict[str, Any]:
    """Return a front as JSON fields."""
    return {
        "cost": front.cost,
        "reference": None if front.reference is None else str(front.reference),
        "within_ratio": front.within,
        "confidence": front.confidence,
        "layouts": [
            {
                "layout": str(place.layout),
                "on_front": place.is_on_front,
                "dominated_by": None if place.dominated_by is None else str(place.dominated_by),
                "cost": place.cost,
                "throughput_ratio": dataclasses.asdict(place.throughput_ratio),
                "cost_ratio": dataclasses.asdict(place.cost_ratio),
            }
            for place in front.places
        ],
        "findings": [
            {
                "layout": str(trade.layout),
                "against": str(trade.against),
                "kind": trade.kind,
                "throughput_ratio": dataclasses.asdict(trade.throughput_ratio),
                "cost_ratio": dataclasses.asdict(trade.cost_ratio),
                "sentence": _sentence(front, trade),
            }
            for trade in front.trades
        ],
    }


def front_columns(front: Front) -> dict[str, dict[Layout, object]]:
    """Return the front as columns of a data table: header -> layout -> value."""
    standings = {True: "yes", False: "no", None: "open"}
    columns: dict[str, dict[Layout, object]] = {
        f"on_{front.cost}_front": {place.layout: standings[place.is_on_front] for place in front.places},
        f"{front.cost}_cost": {place.layout: place.cost for place in front.places},
    }
    for what, ratios in (
        ("throughput_ratio_to_fastest", {place.layout: place.throughput_ratio for place in front.places}),
        ("cost_ratio_to_fastest", {place.layout: place.cost_ratio for place in front.places}),
    ):
        for end in ("", "_low", "_high"):
            columns[f"{front.cost}_{what}{end}"] = {
                layout: getattr(ratio, end[1:] or "mean") for layout, ratio in ratios.items()
            }
    return columns


def _sentence(front: Front, trade: Trade) -> str:
    word, items = _WORD[front.cost], trade.throughput_ratio
    cheap = f"at {_percent(trade.cost_ratio.mean)} of the {word} ({_range(trade.cost_ratio)})"
    if trade.kind == "matches":
        return f"{trade.layout} matches {trade.against} within {100 * front.within:g} % {cheap}."
    if trade.kind == "open":
        return (
            f"{trade.layout} is neither significantly slower than {trade.against} nor shown to match it"
            f" ({_range(items)} of its items), {cheap}."
        )
    share = f"{_percent(items.mean)} of the items of {trade.against} ({_range(items)})"
    return f"{trade.layout} gives {share} {cheap}."


def _standing(place: FrontPlace) -> str:
    if place.is_on_front is False:
        return f"no, beaten by {place.dominated_by}"
    return "yes" if place.is_on_front else "undecided"


def _amount(cost: Cost, value: float) -> str:
    if cost == "memory":
        return f"{value / 1e6:.0f} MB"  # as in the ranking
    return f"{value:.2f} cores" if cost == "cpu" else render_amount("load", value)


def _share(ratio: Estimate) -> str:
    if ratio.mean is None:
        return "-"
    known = ratio.low is not None and ratio.high is not None
    return f"{_percent(ratio.mean)} ({_range(ratio)})" if known else _percent(ratio.mean)


def _range(ratio: Estimate) -> str:
    if ratio.low is None or ratio.high is None:
        return "-"
    return f"{_number(ratio.low)} to {_percent(ratio.high)}"


def _percent(ratio: float | None) -> str:
    return "-" if ratio is None else f"{_number(ratio)} %"


def _number(ratio: float) -> str:
    """Return a percentage, with a decimal close to 100."""
    percent = 100 * ratio
    if percent >= 999.5:
        return f"{percent:.0f}"
    return f"{percent:.1f}" if 90 <= percent < 110 else f"{percent:.3g}"
