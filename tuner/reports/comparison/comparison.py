"""Comparison of two studies as text and tables in any format, and as JSON."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from tuner.core.defaults import TEN_MINUTES_S
from tuner.core.domain.layout import Layout
from tuner.core.domain.records import is_simulated, simulation_notes
from tuner.core.planning.compared import FIGURES, Figure, Known, StudyComparison
from tuner.core.ranking.study_difference import is_surely_changed
from tuner.core.stats.interval import Estimate
from tuner.core.text.figures import percent
from tuner.reports.comparison.words import (
    comparison_notes,
    comparison_sentences,
    explain_change,
    format_interval,
    format_percent,
    in_order,
    ratio_of,
    side_of,
)
from tuner.reports.ranking.ranking_words import headline
from tuner.reports.text.formats import Table, render_paragraph, render_table

# Two studies compared, for programs: JSON, and a table of plain numbers.

SCHEMA_VERSION = 1


def render_comparison_json(found: StudyComparison) -> str:
    """Return the comparison as JSON, with the fields of docs/json.md; ends in a newline."""
    change = found.throughput
    content = {
        "schema_version": SCHEMA_VERSION,
        "simulated": any(is_simulated(known.study) for known in (found.before, found.after)),
        "before": _study_facts(found.before),
        "after": _study_facts(found.after),
        "confidence": found.confidence,
        "differences": [dataclasses.asdict(one) for one in found.differences],
        "best": {
            "before": _name(found.best.before),
            "after": _name(found.best.after),
            "moved": found.best.moved,
            "ratio_before": _facts(found.best.ratio_before),
            "ratio_after": _facts(found.best.ratio_after),
        },
        "shared": {"ratio": _facts(change.shared), "layouts": change.n_shared},
        "layouts": [
            {
                "layout": str(one.layout),
                "processes": one.layout.processes,
                "threads": one.layout.threads if one.layout.has_threads else None,
                "variant": one.layout.variant,
                "launches": {"before": one.n_launches[0], "after": one.n_launches[1]},
                "throughput_per_10min": {
                    "before": TEN_MINUTES_S * one.levels[0],
                    "after": TEN_MINUTES_S * one.levels[1],
                },
                "has_changed": one.has_changed,
                "stands_out": one.stands_out,
                "why": explain_change(change, one),
                "beside": _facts(one.beside),
                "ratios": {figure: _facts(ratio_of(found, figure, one.layout)) for figure in FIGURES},
            }
            for one in change.layouts
        ],
        "sentences": comparison_sentences(found),
        "notes": comparison_notes(found),
    }
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def data_table(found: StudyComparison) -> Table:
    """Return a table of plain numbers, a row for each layout."""
    names = [*FIGURES, "beside"]
    headers = (
        "before", "after", "layout", "processes", "threads", "variant", "launches_before", "launches_after",
        "throughput_per_10min_before", "throughput_per_10min_after",
        *(f"{name}_ratio{end}" for name in names for end in ("", "_low", "_high")),
        "has_changed", "stands_out",
    )  # fmt: skip
    rows = []
    for one in found.throughput.layouts:
        ratios = [*(ratio_of(found, figure, one.layout) for figure in FIGURES), one.beside]
        values = [
            value for ratio in ratios for value in dataclasses.astuple(ratio or Estimate(None, None, None))
        ]
        rows.append(
            (
                found.before.name,
                found.after.name,
                str(one.layout),
                str(one.layout.processes),
                str(one.layout.threads) if one.layout.has_threads else "-",
                one.layout.variant or "",
                *(str(n) for n in one.n_launches),
                *(f"{TEN_MINUTES_S * level:.10g}" for level in one.levels),
                *("" if value is None else f"{value:.10g}" for value in values),
                str(one.has_changed).lower(),
                str(one.stands_out).lower(),
            )
        )
    text = {"before", "after", "layout", "variant", "has_changed", "stands_out"}
    return Table(headers, tuple(rows), frozenset(n for n, name in enumerate(headers) if name not in text))


def _study_facts(known: Known) -> dict[str, Any]:
    return {
        "file": known.name,
        "service": known.study.service,
        "simulated": is_simulated(known.study),
        "strategy": known.study.strategy,
        "created_wall_s": known.study.created_wall_s,
        "blocks": len({(one.box, one.block) for one in known.windows if not one.void and one.block >= 0}),
    }


def _facts(ratio: Estimate | None) -> dict[str, float | None] | None:
    return None if ratio is None else dataclasses.asdict(ratio)


def _name(layout: Layout | None) -> str | None:
    return None if layout is None else str(layout)


_DATA_FORMATS = ("csv", "tsv")
_NAMED: dict[Figure, str] = {
    "throughput": "throughput",
    "load": "load",
    "memory_bytes": "memory",
    "cpu_s_per_item": "CPU per item",
    "p95_s": "p95",
}
_A_DAY_S = 86400.0


def render_comparison(found: StudyComparison, fmt: str) -> str:
    """Return the comparison in a format of `table_formats` or ``json``; ends in a newline."""
    if fmt == "json":
        return render_comparison_json(found)
    if fmt in _DATA_FORMATS:
        return render_table(data_table(found), fmt)
    parts = [
        render_paragraph(sentence, fmt) for sentence in [*all_simulation_notes(found), *describe_sides(found)]
    ]
    if found.differences:
        parts += [
            render_paragraph(
                "Differences between the settings and hosts of the studies, which may explain the changes:",
                fmt,
            ),
            render_table(differences_table(found), fmt),
        ]
    parts += [render_paragraph(sentence, fmt) for sentence in comparison_sentences(found)]
    parts.append(render_table(changes_table(found), fmt))
    if len(found.figures) > 1:
        parts += [
            render_paragraph(FIGURES_TOLD, fmt),
            render_table(figures_table(found), fmt),
        ]
    parts += [render_paragraph(note, fmt) for note in comparison_notes(found)]
    return "\n".join(parts)


#: text above the table of all figures except throughput
FIGURES_TOLD = (
    "Ratios of the second study to the first, with each layout's own noise. Intervals of a column hold"
    " simultaneously:"
)


def all_simulation_notes(found: StudyComparison) -> list[str]:
    """Return notes on simulated studies, to be placed first; none for real ones."""
    studies = (found.before.study, found.after.study)
    return list(dict.fromkeys(sentence for study in studies for sentence in simulation_notes(study)))


def describe_sides(found: StudyComparison) -> list[str]:
    """Return a description of both studies, a sentence each."""
    lines = []
    for name, known in (("Before", found.before), ("After", found.after)):
        lines.append(f"{name}, {known.name}: {headline(known.study, known.ranking)}")
    gap_s = found.after.study.created_wall_s - found.before.study.created_wall_s
    if abs(gap_s) > _A_DAY_S:
        lines[-1] += f" {gap_s / _A_DAY_S:.0f} days after." if gap_s > 0 else ""
    if not found.differences:
        lines.append("The kept settings and facts of both studies are the same.")
    return lines


def differences_table(found: StudyComparison) -> Table:
    """Return a table of the differences in how they were made."""
    rows = tuple((one.name, one.before or "-", one.after or "-") for one in found.differences)
    return Table(("what", "before", "after"), rows, frozenset())


def changes_table(found: StudyComparison) -> Table:
    """Return a table of the values of each layout, and their changes."""
    level = percent(found.confidence)
    headers = (
        "layout",
        "items/10 min",
        "then",
        "change",
        f"{level}, all at once",
        "against the others",
        "launches",
        "surely?",
    )
    rows = tuple(
        (
            str(one.layout),
            *(_items(TEN_MINUTES_S * level) for level in one.levels),
            format_percent(one.ratio.mean),
            format_interval(one.ratio),
            "-"
            if one.beside is None
            else f"{format_percent(one.beside.mean)} ({format_interval(one.beside)})",
            f"{one.n_launches[0]}, {one.n_launches[1]}",
            explain_change(found.throughput, one),
        )
        for one in in_order(found)
    )
    return Table(headers, rows, frozenset(range(1, 7)))


def figures_table(found: StudyComparison) -> Table:
    """Return a table of the ratios of the other figures of each layout."""
    shown = [figure for figure in FIGURES[1:] if figure in found.figures]
    rows = []
    for one in in_order(found):
        ratios = [ratio_of(found, figure, one.layout) for figure in shown]
        surely = [
            f"{side_of(ratio.mean)} {_NAMED[figure]}"
            for figure, ratio in zip(shown, ratios, strict=True)
            if ratio is not None and ratio.mean is not None and is_surely_changed(ratio)
        ]
        rows.append((str(one.layout), *map(_format_ratio, ratios), ", ".join(surely) or "-"))
    headers = ("layout", *(_NAMED[figure] for figure in shown), "surely")
    return Table(headers, tuple(rows), frozenset(range(1, 1 + len(shown))))


def _format_ratio(ratio: Estimate | None) -> str:
    if ratio is None or ratio.mean is None:
        return "-"
    if ratio.low is None or ratio.high is None:
        return _factor(ratio.mean)
    return f"{_factor(ratio.mean)} ({_factor(ratio.low)} to {_factor(ratio.high)})"


def _factor(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _items(value: float | None) -> str:
    return "-" if value is None else _factor(value)
