"""Sections of the HTML page that compare layouts: ranking, heat map, and trade-offs."""

from __future__ import annotations

from tuner.core.ranking.overview import Overview
from tuner.core.ranking.pareto import Cost
from tuner.core.ranking.ranked import value_beside
from tuner.reports.charts.heat_map import heat_map_picture
from tuner.reports.charts.ranking import ranking_picture
from tuner.reports.charts.trade import cost_of, trade_picture
from tuner.reports.model.model import items
from tuner.reports.page.blocks import Block, Limits, Section, Shown, Text, draw_pictures, thin_table
from tuner.reports.ranking.axis_bests import axes_heading, axes_table
from tuner.reports.ranking.groups import row_group
from tuner.reports.ranking.latency import latency_heading, latency_table
from tuner.reports.ranking.limits import limits_heading, limits_sentences, limits_table
from tuner.reports.ranking.pareto import best_by_throughput, front_heading, front_sentences, front_table
from tuner.reports.ranking.ranking import describe_comparison, reading_table
from tuner.reports.ranking.ranking_cells import beside_cell
from tuner.reports.ranking.ranking_words import (
    ADJUSTED_TOLD,
    SETTLED_TOLD,
    describe_load,
    describe_noise,
    level_of,
)
from tuner.reports.text.formats import Table

_WORDS: dict[Cost, str] = {"load": "settled load", "memory": "memory", "cpu": "CPU"}

_PLAIN: dict[Cost, str] = {**_WORDS, "load": "load"}


def ranking_section(overview: Overview, limits: Limits) -> Section:
    """Return the chart, the table of `tuner rank`, and further requested tables."""
    ranking = overview.ranking
    blocks: list[Block] = []
    blocks += draw_pictures(lambda width, name: ranking_picture(overview, width=width, name=name), "ranking")
    blocks.append(_table("ranking-table", "Ranking of all layouts", reading_table(ranking), limits))
    knows_load = any(row.settled_load is not None for row in ranking.rows)
    said = [
        *describe_comparison(ranking),
        *([describe_load(overview.study)] if knows_load else []),
        *describe_noise(ranking),
    ]
    if said:
        blocks.append(Text(said, "note"))
    if ranking.axes:
        blocks.append(_table("axes", axes_heading(ranking), axes_table(ranking), limits))
    if ranking.is_latency_known:
        blocks.append(_table("latency", latency_heading(ranking), latency_table(ranking), limits))
    if ranking.limits:
        blocks.append(_table("limits", limits_heading(ranking), limits_table(ranking), limits))
        settled = [SETTLED_TOLD] if any(limit.name == "load" for limit in ranking.limits) else []
        if kept_out := [*settled, *limits_sentences(ranking)]:
            blocks.append(Text(kept_out, "note"))
    return Section("ranking", "Ranking", blocks)


def heat_map_section(overview: Overview, limits: Limits) -> Section:
    """Return a heat map for each variant of the service."""
    ranking = overview.ranking
    blocks: list[Block] = []
    for number, variant in enumerate(sorted({row.layout.variant for row in ranking.rows})):
        pictures = draw_pictures(
            lambda width, name, of=variant: heat_map_picture(
                overview, of, width=width, name=name, most_shown=limits.tips
            ),  # type: ignore[misc]
            f"heat-map-{number}",
        )
        if pictures and variant:
            blocks.append(Text([f"{variant}:"]))
        blocks += pictures
    if not blocks:
        return Section("heat-map", "Throughput over processes and threads", [_no_layouts()])
    rows = []
    for row in sorted(ranking.rows, key=lambda one: one.layout):
        value = value_beside(row, ranking)
        rows.append(
            (
                str(row.layout.processes),
                str(row.layout.threads) if row.layout.has_threads else "-",
                row.layout.variant,
                "-" if value.mean is None else items(value.mean),
                beside_cell(row, ranking),
                row_group(row, ranking.objective),
            )
        )
    unit = "items/10 min" if ranking.objective == "throughput" else "items/CPU s"
    headers = ("processes", "threads", "variant", unit, f"{level_of(ranking)} interval", "group")
    table = Table(headers, tuple(rows), frozenset({0, 1, 3, 4}))
    if not any(row[2] for row in rows):
        table = _without(table, 2)
    blocks.append(_table("heat-map-table", "The same as a table", table, limits, folded=True))
    return Section("heat-map", "Throughput over processes and threads", blocks)


def trade_section(overview: Overview, limits: Limits) -> Section:
    """Return throughput against load and against memory, and against other costs if requested."""
    ranking = overview.ranking
    asked = [front.cost for front in ranking.fronts]
    blocks: list[Block] = []
    for cost in dict.fromkeys(("load", "memory", *asked)):
        front = next((one for one in ranking.fronts if one.cost == cost), None)
        pictures = draw_pictures(
            lambda width, name, of=cost: trade_picture(
                overview, of, width=width, name=name, most_shown=limits.tips
            ),  # type: ignore[misc]
            f"trade-{cost}",
        )
        if not pictures:
            word = _PLAIN[cost]
            blocks.append(Text([f"Throughput against {word} is unknown, because no window has its {word}."]))
            continue
        blocks += pictures
        if cost == "load":
            blocks.append(Text([ADJUSTED_TOLD if front and front.places else SETTLED_TOLD], "note"))
        if front is None or not front.places:
            blocks.append(_costs(overview, cost, limits))
            continue
        blocks.append(Text(front_sentences(front, best_by_throughput(ranking))))
        heading = front_heading(front, best_by_throughput(ranking))
        blocks.append(_table(f"trade-{cost}-table", heading, front_table(front), limits, folded=True))
    return Section("trade", "Throughput against load and memory", blocks)


def _costs(overview: Overview, cost: Cost, limits: Limits) -> Shown:
    cores = overview.study.usable_cores
    unit = " (MB)" if cost == "memory" else ""
    rows = tuple(
        (str(row.layout), items(row.throughput_per_10min.mean), f"{spent:.4g}")
        for row in overview.ranking.rows
        if row.throughput_per_10min.mean is not None
        and (spent := cost_of(row, cost, None, cores)) is not None
    )
    table = Table(("layout", "items/10 min", f"{_WORDS[cost]}{unit}"), rows, frozenset({1, 2}))
    return _table(f"trade-{cost}-table", "The same as a table", table, limits, folded=True)


def _no_layouts() -> Text:
    return Text(["No layout has been measured yet."])


def _table(name: str, caption: str, table: Table, limits: Limits, *, folded: bool = False) -> Shown:
    shown, left_out = thin_table(table, limits.rows)
    return Shown(name, caption, shown, folded, left_out)


def _without(table: Table, column: int) -> Table:
    def cut(cells: tuple[str, ...]) -> tuple[str, ...]:
        return (*cells[:column], *cells[column + 1 :])

    numeric = frozenset(at - (at > column) for at in table.numeric if at != column)
    return Table(cut(table.headers), tuple(map(cut, table.rows)), numeric)
