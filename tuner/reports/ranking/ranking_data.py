"""Ranking as data: JSON, and a table with a row for each layout."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from tuner.core.domain.layout import Layout
from tuner.core.domain.records import StudyRecord, is_simulated, simulation_notes
from tuner.core.ranking.ranked import RankedLayout, Ranking
from tuner.core.stats.interval import Estimate
from tuner.reports.ranking.answer import answer_facts, answer_sentence
from tuner.reports.ranking.axis_bests import axes_facts, axis_bests_facts
from tuner.reports.ranking.boxes import boxes_facts
from tuner.reports.ranking.evidence import evidence_facts
from tuner.reports.ranking.groups import of_best_facts
from tuner.reports.ranking.latency import latency_columns, latency_facts
from tuner.reports.ranking.limits import limits_columns, limits_facts
from tuner.reports.ranking.next_step import describe_wider, next_step_facts, wider_facts
from tuner.reports.ranking.pareto import front_columns, front_facts
from tuner.reports.ranking.ranking_words import notes, value_ranked_by
from tuner.reports.ranking.trends import growth_facts, longer_facts, trend_messages
from tuner.reports.text.formats import Table

SCHEMA_VERSION = 1  #: version of the JSON; it increases when a field changes its meaning or is removed


def render_ranking_json(study: StudyRecord, ranking: Ranking) -> str:
    """Return the ranking as JSON, with the fields of docs/json.md; ends in a newline."""
    content = {
        "schema_version": SCHEMA_VERSION,
        "simulated": is_simulated(study),
        "study": _study_facts(study, ranking),
        "answer": None if ranking.claim is None else answer_facts(ranking.claim),
        "wider": wider_facts(ranking),
        "next_step": next_step_facts(ranking.next_step),
        "evidence": evidence_facts(study, ranking),
        "layouts": [_row_facts(row) for row in ranking.rows],
        **({"axes": axes_facts(ranking)} if ranking.axes else {}),
        **({"axis_bests": axis_bests_facts(study, ranking)} if ranking.axes else {}),
        **({} if ranking.boxes is None else {"boxes": boxes_facts(ranking.boxes)}),
        "pareto": [front_facts(front) for front in ranking.fronts],
    }
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def data_table(study: StudyRecord, ranking: Ranking) -> Table:
    """Return a table of plain numbers, a row for each layout."""
    asked = _optional_columns(ranking)
    headers = (
        "service", "cores", "box_cores", "rank", "group", "layout", "processes", "threads", "variant",
        "throughput_per_10min", "throughput_per_10min_low", "throughput_per_10min_high",
        "of_best", "of_best_low", "of_best_high", "launches_to_decide",
        "load1_mean", "load1_max", "active_mean", "active_from_load1", "settled_load",
        "cpu_ratio", "pss_bytes", "n_windows", "n_void",
        "ratio_to_current", "ratio_to_current_low", "ratio_to_current_high", "bound_by", *asked, "note",
    )  # fmt: skip
    claimed = [] if ranking.claim is None else [answer_sentence(ranking.claim)]
    note = " ".join([*simulation_notes(study), *claimed, *describe_wider(ranking), *notes(study, ranking)])
    rows = tuple(
        (
            study.service, str(study.cores), f"{study.box_cores:g}",
            *(_data(value) for value in (
                row.rank, row.group, str(row.layout), row.layout.processes,
                row.layout.threads if row.layout.has_threads else "-", row.layout.variant,
                row.throughput_per_10min.mean, row.throughput_per_10min.low, row.throughput_per_10min.high,
                *_of_best_cells(row),
                row.load1_mean, row.load1_max, row.n_active_mean, row.n_active_from_load1, row.settled_load,
                row.cpu_ratio, row.pss_bytes, row.n_windows, row.n_void,
                *dataclasses.astuple(row.ratio_to_current or Estimate(None, None, None)),
                "+".join(row.bound_by),
                *(column.get(row.layout) for column in asked.values()),
            )),
            note,
        )
        for row in ranking.rows
    )  # fmt: skip
    words = ("service", "group", "layout", "variant", "note", "may_win", "bound_by")
    text = {place for place, name in enumerate(headers) if name in words or name.startswith("on_")}
    return Table(headers, rows, frozenset(range(len(headers))) - text)


def _optional_columns(ranking: Ranking) -> dict[str, dict[Layout, object]]:
    """Return columns that exist only if they were requested or are known: header -> layout -> value."""
    columns: dict[str, dict[Layout, object]] = {}
    if ranking.claim is not None:
        columns["behind_ratio"] = {row.layout: row.behind_ratio for row in ranking.rows}
    if ranking.objective != "throughput":
        for end in ("", "_low", "_high"):
            columns[f"items_per_cpu_s{end}"] = {
                row.layout: getattr(value_ranked_by(row, ranking), end[1:] or "mean") for row in ranking.rows
            }
    columns |= latency_columns(ranking)
    if ranking.limits:
        columns |= limits_columns(ranking)
    for front in ranking.fronts:
        columns |= front_columns(front)
    return columns


def _study_facts(study: StudyRecord, ranking: Ranking) -> dict[str, Any]:
    facts = dataclasses.asdict(study)
    facts["layouts"] = [str(layout) for layout in study.layouts]
    facts["config"] = dict(study.config.sections) if study.config.text else None
    facts["provenance"] = study.provenance.to_mapping()
    facts["confidence"] = ranking.confidence
    facts["current"] = None if ranking.current is None else str(ranking.current)
    facts["notes"] = notes(study, ranking)
    facts["warnings"] = [{"slug": one.slug, "text": one.text} for one in trend_messages(ranking)]
    facts["longer_launch"] = longer_facts(ranking.longer)
    facts["objective"] = ranking.objective
    facts["limits"] = {limit.name: limit.at_most for limit in ranking.limits}
    facts["noise"] = _noise_facts(ranking)
    facts["never_settled"] = _never_settled_facts(ranking)
    if ranking.speed_changes:
        facts["speed_changes"] = [dataclasses.asdict(one) for one in ranking.speed_changes]
    return facts


def _never_settled_facts(ranking: Ranking) -> dict[str, Any]:
    found = ranking.never_settled
    return {
        "n_launches": found.n,
        "n_never": found.n_never,
        "n_expected": found.expected,
        "n_by_chance": found.most_by_chance,
        "is_alarm": found.is_alarm,
    }


def _noise_facts(ranking: Ranking) -> dict[str, Any]:
    sources = {field.name: getattr(ranking.noise, field.name) for field in dataclasses.fields(ranking.noise)}
    return {
        **{name: None if sd is None else sd.mean for name, sd in sources.items()},
        "intervals": {
            name: None if sd is None else {"low": sd.low, "high": sd.high} for name, sd in sources.items()
        },
    }


def _row_facts(row: RankedLayout) -> dict[str, Any]:
    return {
        "layout": str(row.layout),
        "processes": row.layout.processes,
        "threads": row.layout.threads if row.layout.has_threads else None,
        "variant": row.layout.variant,
        "rank": row.rank,
        "group": row.group,
        "of_best": of_best_facts(row.of_best),
        "throughput_per_10min": dataclasses.asdict(row.throughput_per_10min),
        "load1": {"mean": row.load1_mean, "max": row.load1_max},
        "active": {"mean": row.n_active_mean, "from_load1": row.n_active_from_load1},
        "settled_load": row.settled_load,
        "cpu_ratio": row.cpu_ratio,
        "pss_bytes": row.pss_bytes,
        "n_windows": row.n_windows,
        "n_void": row.n_void,
        "ratio_to_current": None
        if row.ratio_to_current is None
        else dataclasses.asdict(row.ratio_to_current),
        "items_per_cpu_s": None if row.items_per_cpu_s is None else dataclasses.asdict(row.items_per_cpu_s),
        "latency": latency_facts(row),
        "limits": limits_facts(row),
        "behind_ratio": row.behind_ratio,
        "bound_by": list(row.bound_by) or None,
        "trend_ratio_per_h": None if row.trend_per_h is None else dataclasses.asdict(row.trend_per_h),
        "memory_growth": growth_facts(row.memory_growth),
        "note": row.reason,
    }


def _of_best_cells(row: RankedLayout) -> tuple[float | None, ...]:
    if row.of_best is None:
        return (None,) * 4
    return (*dataclasses.astuple(row.of_best.ratio), row.of_best.n_to_decide)


def _data(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.10g}" if isinstance(value, float) else str(value)
