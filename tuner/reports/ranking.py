"""A ranking as people read it, and as programs do."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from tuner.core.durations import render_duration
from tuner.core.interval import Estimate
from tuner.core.layout import Layout
from tuner.core.ranking import RankedLayout, Ranking
from tuner.core.records import StudyRecord
from tuner.reports.formats import Table, render_paragraph, render_table

SCHEMA_VERSION = 1  #: of the JSON; raised when a field changes its meaning or goes
_LARGE = 1e9  #: from here on in powers of ten: a limit as far out says no more than that nothing is known
_DATA_FORMATS = ("csv", "tsv")  # one row a layout and nothing else: what a program reads


def render_ranking(study: StudyRecord, ranking: Ranking, fmt: str) -> str:
    """The ranking with what a reader must know beside it, in a format of `table_formats` or ``json``."""
    if fmt == "json":
        return render_ranking_json(study, ranking)
    if fmt in _DATA_FORMATS:
        return render_table(_data_table(study, ranking), fmt)
    parts = [
        render_paragraph(headline(study), fmt),
        render_table(_reading_table(ranking), fmt),
        *(render_paragraph(sentence, fmt) for sentence in _sentences(study, ranking)),
    ]
    return "\n".join(parts)


def render_ranking_json(study: StudyRecord, ranking: Ranking) -> str:
    """The ranking as JSON, its fields are in docs/json.md; ends in a newline."""
    content = {
        "schema_version": SCHEMA_VERSION,
        "study": _study_facts(study, ranking),
        "answer": None,
        "layouts": [_row_facts(row) for row in ranking.rows],
    }
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def headline(study: StudyRecord) -> str:
    """What was measured, where and when, in one sentence."""
    day = datetime.fromtimestamp(study.created_wall_s, UTC).strftime("%Y-%m-%d")
    host = study.provenance.get("host", "")
    layouts, blocks = _counted(len(study.layouts), "layout"), _counted(study.n_blocks, "block")
    return (
        f"{study.service}{f' on {host}' if host else ''}, {day}: {layouts} for {_cores(study.cores)},"
        f" {blocks} of {render_duration(study.window_s)} windows."
    )


def verdict(ranking: Ranking) -> str:
    """What the ranking says about the best layout, in one sentence."""
    best = [row for row in ranking.rows if row.rank == 1]
    if not best:
        return "Nothing could be ranked; why is told below."
    level = _level(ranking)
    if sum(row.rank is not None for row in ranking.rows) == 1:
        return f"{best[0].layout} alone could be ranked, so it is compared with nothing."
    if len(best) == 1:
        return f"{best[0].layout} is best: all others are significantly slower ({level}, all pairs at once)."
    others = ", ".join(str(row.layout) for row in best[1:])
    return f"{best[0].layout} measured best; it cannot be told from {others} ({level}, all pairs at once)."


def notes(study: StudyRecord, ranking: Ranking) -> list[str]:
    """What limits the ranking, a sentence each; every export carries them."""
    found = []
    if study.cores > study.box_cores:
        found.append(
            f"Layouts for {_cores(study.cores)} measured on {study.box_cores:g}:"
            " what is best there need not be best on the larger box."
        )
    if study.provenance.get("quick") == "true":
        found.append("A first look with short windows, not an answer to act on.")
    asked = len(study.layouts) * study.n_blocks * study.windows_per_launch
    measured = sum(row.n_windows for row in ranking.rows)
    if measured < asked:
        found.append(f"Measured: {measured} of the {_counted(asked, 'window')} asked for.")
    found += ranking.notes
    found += [f"{row.layout} is not ranked: {row.reason}." for row in ranking.rows if row.rank is None]
    return found


def _sentences(study: StudyRecord, ranking: Ranking) -> list[str]:
    return [verdict(ranking), *noise_found(ranking), *notes(study, ranking)]


def noise_found(ranking: Ranking) -> list[str]:
    """How noisy the box was, by source, in a sentence; none when the study cannot tell."""
    known_launch = ranking.noise.launch is not None and ranking.noise.launch.mean
    sources = (
        ("window to window", ranking.noise.window),
        ("launch to launch", ranking.noise.launch),
        ("launch to launch, its window included", None if known_launch else ranking.noise.residual),
        ("block to block", ranking.noise.drift),
    )
    known = [f"{name} {_spread(sd)}" for name, sd in sources if sd is not None]
    return [f"Noise (standard deviation, {_level(ranking)}): {', '.join(known)}."] if known else []


def _spread(sd: Estimate) -> str:
    """A standard deviation that is a ratio, as ``1.4 % (0.8 to 2.9)``."""
    low, mean, high = ("-" if x is None else f"{100 * x:.1f}" for x in (sd.low, sd.mean, sd.high))
    return f"{mean} % ({low} to {high})"


def _reading_table(ranking: Ranking) -> Table:
    headers = [
        "rank", "layout", "items/10 min", f"{_level(ranking)} interval",
        "load (max)", "active", "CPU", "memory", "windows", "void",
    ]  # fmt: skip
    with_current = ranking.current is not None
    if with_current:
        headers.append(f"against {ranking.current}")
    rows = []
    for row in ranking.rows:
        cells = [
            _text(row.rank, "d"),
            str(row.layout),
            _items(row.throughput_per_10min.mean),
            _interval(row.throughput_per_10min, _items),
            _load(row),
            _text(row.n_active_mean, ".2f"),
            _percent(row.cpu_ratio),
            _text(None if row.pss_bytes is None else row.pss_bytes / 1e6, ".0f", " MB"),
            str(row.n_windows),
            str(row.n_void),
        ]
        if with_current:
            cells.append(_ratio(row, ranking.current))
        rows.append(tuple(cells))
    numeric = frozenset(range(len(headers))) - {1}
    return Table(tuple(headers), tuple(rows), numeric)


def _data_table(study: StudyRecord, ranking: Ranking) -> Table:
    headers = (
        "service", "cores", "box_cores", "rank", "layout", "processes", "threads", "variant",
        "throughput_per_10min", "throughput_per_10min_low", "throughput_per_10min_high",
        "load1_mean", "load1_max", "active_mean", "active_from_load1", "cpu_ratio", "pss_bytes",
        "n_windows", "n_void", "ratio_to_current", "ratio_to_current_low", "ratio_to_current_high", "note",
    )  # fmt: skip
    note = " ".join(notes(study, ranking))
    rows = tuple(
        (
            study.service, str(study.cores), f"{study.box_cores:g}",
            *(_data(value) for value in (
                row.rank, str(row.layout), row.layout.processes, row.layout.threads, row.layout.variant,
                row.throughput_per_10min.mean, row.throughput_per_10min.low, row.throughput_per_10min.high,
                row.load1_mean, row.load1_max, row.n_active_mean, row.n_active_from_load1,
                row.cpu_ratio, row.pss_bytes, row.n_windows, row.n_void,
                *dataclasses.astuple(row.ratio_to_current or Estimate(None, None, None)),
            )),
            note,
        )
        for row in ranking.rows
    )  # fmt: skip
    text = {headers.index(name) for name in ("service", "layout", "variant", "note")}
    return Table(headers, rows, frozenset(range(len(headers))) - text)


def _study_facts(study: StudyRecord, ranking: Ranking) -> dict[str, Any]:
    facts = dataclasses.asdict(study)
    facts["layouts"] = [str(layout) for layout in study.layouts]
    facts["config"] = json.loads(study.config) if study.config else None
    facts["provenance"] = dict(study.provenance)
    facts["confidence"] = ranking.confidence
    facts["current"] = None if ranking.current is None else str(ranking.current)
    facts["notes"] = notes(study, ranking)
    facts["noise"] = _noise_facts(ranking)
    return facts


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
        "threads": row.layout.threads,
        "variant": row.layout.variant,
        "rank": row.rank,
        "throughput_per_10min": dataclasses.asdict(row.throughput_per_10min),
        "load1": {"mean": row.load1_mean, "max": row.load1_max},
        "active": {"mean": row.n_active_mean, "from_load1": row.n_active_from_load1},
        "cpu_ratio": row.cpu_ratio,
        "pss_bytes": row.pss_bytes,
        "n_windows": row.n_windows,
        "n_void": row.n_void,
        "ratio_to_current": None
        if row.ratio_to_current is None
        else dataclasses.asdict(row.ratio_to_current),
        "note": row.reason,
    }


def _cores(count: int) -> str:
    return _counted(count, "core")


def _counted(count: int, thing: str) -> str:
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def _level(ranking: Ranking) -> str:
    return f"{100 * ranking.confidence:g} %"


def _load(row: RankedLayout) -> str:
    """The mean and, in brackets, the most: one column, as the table should fit a terminal."""
    return "-" if row.load1_mean is None else f"{row.load1_mean:.2f} ({_text(row.load1_max, '.2f')})"


def _items(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.0f}" if 100 <= value < _LARGE else f"{value:.3g}"


def _interval(estimate: Estimate, show: Callable[[float], str]) -> str:
    if estimate.low is None or estimate.high is None:
        return "-"
    return f"{show(estimate.low)} to {show(estimate.high)}"


def _ratio(row: RankedLayout, current: Layout | None) -> str:
    if row.layout == current:
        return "current"
    if row.ratio_to_current is None:
        return "-"
    return f"{_times(row.ratio_to_current.mean)} ({_interval(row.ratio_to_current, _times)})"


def _times(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" if value < 1000 else f"{value:.3g}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.0f} %"


def _text(value: float | None, spec: str, unit: str = "") -> str:
    return "-" if value is None else f"{value:{spec}}{unit}"


def _data(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.10g}" if isinstance(value, float) else str(value)
