"""What an axis alone changes, as people and programs read it."""

from __future__ import annotations

import dataclasses
from typing import Any

from tuner.core.ranking.ranking import Ranking
from tuner.core.ranking.study_difference import is_surely_changed
from tuner.reports.ranking.ranking_cells import interval_cell, times_cell
from tuner.reports.ranking.ranking_words import level_of
from tuner.reports.text.formats import Table


def axes_heading(ranking: Ranking) -> str:
    """What the table shows."""
    what = "items per CPU second" if ranking.objective != "throughput" else "throughput"
    return (
        f"Effect of each axis: {what} as a multiple of that with the value it is compared with, over layouts"
        f" that differ in nothing else. All {level_of(ranking)} intervals hold simultaneously."
    )


def axes_table(ranking: Ranking) -> Table:
    """One row for each value of an axis but the one that the others are compared with."""
    headers = ("axis", "value", "against", "times", f"{level_of(ranking)} interval", "is", "pairs")
    rows = []
    for one in ranking.axes:
        times = interval = "-"
        verdict = "no pair" if one.n_measured else "not measured"
        if one.ratio is not None:
            times, interval = times_cell(one.ratio.mean), interval_cell(one.ratio, times_cell)
            verdict = "not significant"
            if one.ratio.mean is not None and is_surely_changed(one.ratio):
                verdict = "more" if one.ratio.mean > 1 else "less"
        rows.append((one.axis, one.value, one.beside, times, interval, verdict, str(one.n_pairs)))
    return Table(headers, tuple(rows), frozenset({3, 4, 6}))


def axes_facts(ranking: Ranking) -> list[dict[str, Any]]:
    """The same for programs."""
    return [dataclasses.asdict(one) for one in ranking.axes]
