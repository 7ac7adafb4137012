"""Section of the HTML page on layouts that took turns."""

from __future__ import annotations

from datetime import UTC, datetime

from tuner.core.ranking.overview import Overview
from tuner.reports.charts.slices import (
    TurnsSeen,
    left_out_of,
    slices_picture,
    summary_of,
    title_of,
    turns_seen,
)
from tuner.reports.page.blocks import Block, Limits, Section, Shown, Text, draw_pictures, thin_table
from tuner.reports.text.formats import Table


def slices_sections(overview: Overview, limits: Limits) -> list[Section]:
    """Return the chart, its explanation and its figures; empty if no layouts took turns."""
    seen = turns_seen(overview)
    if seen is None:
        return []
    blocks: list[Block] = [
        *draw_pictures(
            lambda width, name: slices_picture(overview, width=width, name=name, seen=seen), "slices"
        ),
        Text([" ".join(filter(None, [summary_of(seen), left_out_of(seen)]))]),
    ]
    table, rest = thin_table(_table(seen), limits.rows)
    blocks.append(Shown("slices-table", "The same as a table", table, is_folded=True, left_out=rest))
    return [Section("slices", title_of(seen), blocks)]


def _table(seen: TurnsSeen) -> Table:
    rows = [
        (
            datetime.fromtimestamp(one.at_s, UTC).strftime("%Y-%m-%d %H:%M:%S"),
            str(one.block + 1),
            str(one.layout),
            f"{100 * one.ratio:.1f} %",
        )
        for one in seen.turns
        if one.layout != seen.best
    ]
    headers = ("time (UTC)", "block", "layout", f"percent of {seen.best}")
    return Table(headers, tuple(rows), frozenset({1, 3}))
