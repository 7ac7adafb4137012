"""Two studies compared, for programs: JSON, and a table of plain numbers."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from tuner.core.defaults import TEN_MINUTES_S
from tuner.core.domain.layout import Layout
from tuner.core.domain.simulated import is_simulated
from tuner.core.planning.compared import FIGURES, Known, StudyComparison
from tuner.core.stats.interval import Estimate
from tuner.reports.comparison.words import comparison_notes, comparison_sentences, explain_change, ratio_of
from tuner.reports.text.formats import Table

SCHEMA_VERSION = 1


def render_comparison_json(found: StudyComparison) -> str:
    """The same for programs; docs/json.md has the fields; ends in a newline."""
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
    """One row a layout and nothing else, in plain numbers."""
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
