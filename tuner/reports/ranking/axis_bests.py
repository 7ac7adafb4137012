"""Comparison of the values of an axis, each at its best layout, as sentences and JSON fields."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import Any

from tuner.core.domain.layout import Layout, values_of
from tuner.core.domain.records import StudyRecord
from tuner.core.ranking.axis_effects import AxisBest
from tuner.core.ranking.ranked import RankedLayout, Ranking
from tuner.core.ranking.study_difference import is_surely_changed
from tuner.reports.ranking.ranking_cells import UNKNOWN, ratio_cell, times_cell
from tuner.reports.ranking.ranking_words import level_of
from tuner.reports.text.formats import Table

# Effect of an axis alone, for people and programs.


def axes_heading(ranking: Ranking) -> str:
    """Return the caption of the table."""
    what = "items per CPU second" if ranking.objective != "throughput" else "throughput"
    return (
        f"Effect of each axis: {what} as a multiple of that with the value it is compared with, over layouts"
        f" that differ in nothing else. All {level_of(ranking)} intervals hold simultaneously."
    )


def axes_table(ranking: Ranking) -> Table:
    """Return one row for each value of an axis, except the reference value."""
    headers = ("axis", "value", "against", "times", f"{level_of(ranking)} interval", "is", "pairs")
    rows = []
    for one in ranking.axes:
        times = interval = "-"
        verdict = "no pair" if one.n_measured else "not measured"
        if one.ratio is not None:
            times, interval = times_cell(one.ratio.mean), ratio_cell(one.ratio)
            verdict = "not significant"
            if one.ratio.mean is not None and is_surely_changed(one.ratio):
                verdict = "more" if one.ratio.mean > 1 else "less"
        rows.append((one.axis, one.value, one.beside, times, interval, verdict, str(one.n_pairs)))
    return Table(headers, tuple(rows), frozenset({3, 4, 6}))


def axes_facts(ranking: Ranking) -> list[dict[str, Any]]:
    """Return the same as JSON fields."""
    return [dataclasses.asdict(one) for one in ranking.axes]


_GB = 1e9


def describe_axis_bests(study: StudyRecord, ranking: Ranking) -> list[str]:
    """Return a sentence for each value of an axis that the study compares with another."""
    return [_sentence(one, study, ranking) for one in ranking.axis_bests]


def axis_bests_facts(study: StudyRecord, ranking: Ranking) -> list[dict[str, Any]]:
    """Return the same as JSON fields, listed in docs/json.md."""
    return [
        {
            "sentence": _sentence(one, study, ranking),
            "axis": one.axis,
            "value": one.value,
            "beside": one.beside,
            "has_gil": _has_gil(one.axis, one.value, study, ranking),
            "has_gil_beside": _has_gil(one.axis, one.beside, study, ranking),
            "layout": None if one.layout is None else str(one.layout),
            "layout_beside": None if one.layout_beside is None else str(one.layout_beside),
            "ratio": None if one.ratio is None else dataclasses.asdict(one.ratio),
            "pss_bytes": _memory(one.layout, ranking),
            "pss_bytes_beside": _memory(one.layout_beside, ranking),
            "unknown": one.unknown,
        }
        for one in ranking.axis_bests
    ]


def _sentence(one: AxisBest, study: StudyRecord, ranking: Ranking) -> str:
    subject = _subject(one, study, ranking)
    if one.unknown is not None or one.ratio is None:
        return f"{subject}: unknown, because {_why_not(one, ranking)}."
    what = "the items per CPU second" if ranking.objective != "throughput" else "the throughput"
    interval = ratio_cell(one.ratio)
    text = "unknown interval" if interval == UNKNOWN else f"{interval}, {level_of(ranking)}"
    is_open = "" if is_surely_changed(one.ratio) else ", so no difference is shown"
    parts = [
        f"{times_cell(one.ratio.mean)} times {what} ({text}) at each one's best layout{is_open}",
        _layouts(one, ranking),
        _memories(one, ranking),
    ]
    return f"{subject}: {'; '.join(parts)}."


def _subject(one: AxisBest, study: StudyRecord, ranking: Ranking) -> str:
    """Return the compared values: ``Without the GIL (python 3.14t instead of 3.14)``."""
    gils = [_has_gil(one.axis, value, study, ranking) for value in (one.value, one.beside)]
    if gils in ([False, True], [True, False]):
        with_it = "With" if gils[0] else "Without"
        return f"{with_it} the GIL ({one.axis} {one.value} instead of {one.beside})"
    names = [
        f"{value} (no GIL)" if gil is False else value
        for value, gil in zip((one.value, one.beside), gils, strict=True)
    ]
    return f"{one.axis} {names[0]} instead of {names[1]}"


def _has_gil(axis: str, value: str, study: StudyRecord, ranking: Ranking) -> bool | None:
    """Return whether workers with a *value* of an *axis* have a GIL; None: unknown, or only some have one."""
    found = {study.provenance.workers.has_gil(row.layout.variant) for row in _rows(axis, value, ranking)}
    return found.pop() if len(found) == 1 else None


def _rows(axis: str, value: str, ranking: Ranking) -> list[RankedLayout]:
    """Return the rows of layouts with a *value* of an *axis*."""
    place = ranking.axis_names.index(axis)
    return [row for row in ranking.rows if values_of(row.layout.variant)[place : place + 1] == (value,)]


def _layouts(one: AxisBest, ranking: Ranking) -> str:
    """Return ``1x8 instead of 8x1``; with several axes, with the values of the others."""
    alone = len(ranking.axis_names) == 1
    pair = [
        str(layout if layout is None or not alone else replace(layout, variant=""))
        for layout in (one.layout, one.layout_beside)
    ]
    return f"{pair[0]} with both" if pair[0] == pair[1] else f"{pair[0]} instead of {pair[1]}"


def _memories(one: AxisBest, ranking: Ranking) -> str:
    memories = [_memory(layout, ranking) for layout in (one.layout, one.layout_beside)]
    if memories[0] is None or memories[1] is None:
        return "memory unknown"
    amounts = [_amount(memories[0]), _amount(memories[1])]
    return f"{amounts[0]} with both" if amounts[0] == amounts[1] else f"{amounts[0]} instead of {amounts[1]}"


def _memory(layout: Layout | None, ranking: Ranking) -> float | None:
    return next((row.pss_bytes for row in ranking.rows if row.layout == layout), None)


def _amount(n_bytes: float) -> str:
    return f"{n_bytes / _GB:.1f} GB" if n_bytes >= _GB else f"{n_bytes / 1e6:.0f} MB"


def _why_not(one: AxisBest, ranking: Ranking) -> str:
    value = one.unknown_of
    if one.unknown == "not-measured":
        return f"no layout with {value} has a valid window"
    if value is not None and one.unknown == "not-ranked":
        kept_out = any(row.is_kept_out for row in _rows(one.axis, value, ranking))
        return f"no layout with {value} {'is shown to keep the limits' if kept_out else 'could be ranked'}"
    if one.unknown == "load-too-small":
        return f"the load of the best layout with {value} was too small"
    if one.unknown == "too-few-launches":
        return "there are too few launches"
    return "no block has layouts with both"
