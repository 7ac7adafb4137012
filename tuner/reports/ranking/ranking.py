"""Ranking as readable text in any table format."""

from __future__ import annotations

from tuner.core.domain.layout import Layout
from tuner.core.domain.records import StudyRecord, simulation_notes
from tuner.core.model.diagnosis.text import short
from tuner.core.ranking.ranked import RankedLayout, Ranking, value_beside
from tuner.reports.ranking.answer import answer_sentence
from tuner.reports.ranking.axis_bests import axes_heading, axes_table, describe_axis_bests
from tuner.reports.ranking.boxes import boxes_heading, boxes_table
from tuner.reports.ranking.groups import describe_intervals, row_group, to_decide_cell
from tuner.reports.ranking.latency import describe_p95, latency_heading, latency_table
from tuner.reports.ranking.limits import limits_heading, limits_sentences, limits_table
from tuner.reports.ranking.next_step import describe_wider, render_next_step
from tuner.reports.ranking.pareto import best_by_throughput, front_heading, front_sentences, front_table
from tuner.reports.ranking.ranking_cells import (
    beside_cell,
    items_cell,
    load_cell,
    memory_cell,
    number_cell,
    percent_cell,
    ratio_cell,
    times_cell,
)
from tuner.reports.ranking.ranking_data import data_table, render_ranking_json
from tuner.reports.ranking.ranking_words import describe_noise, headline, level_of, notes, verdict
from tuner.reports.text.formats import Table, render_paragraph, render_table

_DATA_FORMATS = ("csv", "tsv")  # a row for each layout and nothing else, for programs


def render_ranking(study: StudyRecord, ranking: Ranking, fmt: str) -> str:
    """Return the ranking with all remarks that readers need, in a format of `table_formats` or ``json``."""
    if fmt == "json":
        return render_ranking_json(study, ranking)
    if fmt in _DATA_FORMATS:
        return render_table(data_table(study, ranking), fmt)
    parts = [
        *(render_paragraph(sentence, fmt) for sentence in simulation_notes(study)),
        *(render_paragraph(sentence, fmt) for sentence in _describe_claim(ranking)),
        render_paragraph(headline(study, ranking), fmt),
        _under_headings(ranking) if fmt == "simple" else render_table(reading_table(ranking), fmt),
        *(render_paragraph(sentence, fmt) for sentence in _sentences(study, ranking)),
    ]
    if ranking.boxes is not None:
        parts += [
            render_paragraph(boxes_heading(ranking.boxes), fmt),
            render_table(boxes_table(ranking.boxes), fmt),
        ]
    if ranking.axes:
        parts += [render_paragraph(axes_heading(ranking), fmt), render_table(axes_table(ranking), fmt)]
    if ranking.is_latency_known:
        parts += [render_paragraph(latency_heading(ranking), fmt), render_table(latency_table(ranking), fmt)]
    if ranking.limits:
        parts += [render_paragraph(limits_heading(ranking), fmt), render_table(limits_table(ranking), fmt)]
    best = best_by_throughput(ranking)
    for front in ranking.fronts:
        parts.append(render_paragraph(front_heading(front, best), fmt))
        if front.places:
            parts.append(render_table(front_table(front), fmt))
        parts += [render_paragraph(sentence, fmt) for sentence in front_sentences(front, best)]
    parts += [render_paragraph(sentence, fmt) for sentence in describe_axis_bests(study, ranking)]
    parts += render_next_step(study, ranking, fmt)
    return "\n".join(parts)


def _describe_claim(ranking: Ranking) -> list[str]:
    if ranking.claim is None:
        return []
    return [answer_sentence(ranking.claim), *describe_wider(ranking, ranking.next_step)]


def describe_comparison(ranking: Ranking) -> list[str]:
    """Return explanations of the table's intervals and of the groups, a sentence each."""
    unit = "items" if ranking.objective == "throughput" else "items per CPU second"
    return describe_intervals(ranking, level_of(ranking), unit, items_cell)


def _sentences(study: StudyRecord, ranking: Ranking) -> list[str]:
    reported = (
        [verdict(ranking), *describe_wider(ranking, ranking.next_step)] if ranking.claim is None else []
    )
    return [
        *reported,
        *describe_comparison(ranking),
        *limits_sentences(ranking),
        *describe_noise(ranking),
        *notes(study, ranking),
    ]


def _under_headings(ranking: Ranking) -> str:
    """Return the table for a terminal: each group below a line with its name, without a column for it."""
    head, rule, *lines = render_table(reading_table(ranking, with_group=False), "simple").splitlines()
    found = [head, rule]
    groups = [None if ranking.best is None else row_group(row, ranking.objective) for row in ranking.rows]
    for place, (group, line) in enumerate(zip(groups, lines, strict=True)):
        if group is not None and (place == 0 or group != groups[place - 1]):
            found.append(f"{group}:")
        found.append(line)
    return "\n".join(found) + "\n"


def reading_table(ranking: Ranking, *, with_group: bool = True) -> Table:
    """Return the readable table, with one row for each layout, by group."""
    per_cpu = ranking.objective != "throughput"
    bound = ["bottleneck"] if ranking.is_bound_known else []
    usual = "p95" if ranking.is_latency_known else "active"
    decide = ["to decide"] if any(to_decide_cell(row) != "-" for row in ranking.rows) else []
    sixth = ["items/10 min"] if per_cpu else [usual]
    if decide and sixth == ["active"]:
        sixth = []
    if bound and sixth == ["active"]:
        sixth = []
    headers = [
        *(["group"] if with_group else []), "layout", "items/CPU s" if per_cpu else "items/10 min",
        f"{level_of(ranking)} interval", *decide, "load", *sixth, "CPU", *bound, "memory",
        "windows", "invalid",
    ]  # fmt: skip
    with_current = ranking.current is not None
    if with_current:
        headers.append(f"against {ranking.current}")
    rows = []
    for row in ranking.rows:
        value = value_beside(row, ranking)
        cells = [
            *([row_group(row, ranking.objective)] if with_group else []),
            str(row.layout),
            items_cell(value.mean),
            beside_cell(row, ranking),
            *([to_decide_cell(row)] if decide else []),
            load_cell(row),
            *([_sixth(row, ranking)] if sixth else []),
            percent_cell(row.cpu_ratio),
            *([short(row.bound_by) or "-"] if bound else []),
            memory_cell(row),
            str(row.n_windows),
            str(row.n_void),
        ]
        if with_current:
            cells.append(_ratio(row, ranking.current))
        rows.append(tuple(cells))
    text = ("group", "layout", "bottleneck")
    numeric = frozenset(place for place, name in enumerate(headers) if name not in text)
    return Table(tuple(headers), tuple(rows), numeric)


def _sixth(row: RankedLayout, ranking: Ranking) -> str:
    """Return the only column that depends on the kind of ranking, to fit the table on a terminal."""
    if ranking.objective != "throughput":
        return items_cell(row.throughput_per_10min.mean)
    return describe_p95(row) if ranking.is_latency_known else number_cell(row.n_active_mean, ".2f")


def _ratio(row: RankedLayout, current: Layout | None) -> str:
    if row.layout == current:
        return "current"
    if row.ratio_to_current is None:
        return "-"
    return f"{times_cell(row.ratio_to_current.mean)} ({ratio_cell(row.ratio_to_current)})"
