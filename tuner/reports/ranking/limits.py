"""Limits on load, memory or p95 latency and the layouts that keep them, as text, table and JSON."""

from __future__ import annotations

import dataclasses
from typing import Any

from tuner.core.domain.layout import Layout
from tuner.core.domain.limits import LimitVerdict, Quantity
from tuner.core.domain.safety_limits import WORDS, describe_needed, render_level, render_limit
from tuner.core.ranking.ranked import RankedLayout, Ranking
from tuner.core.text.figures import first_of
from tuner.reports.text.formats import Table

#: headers that differ, because load1 has a separate column elsewhere
_HEADERS: dict[Quantity, str] = {"load": "settled load"}
_MOST_TOLD = 3  #: largest number of undecided layouts with a sentence each


def describe_limits(ranking: Ranking) -> str:
    """Return the limits in a few words: ``load at most 20 and memory at most 8 GiB``."""
    return " and ".join(render_limit(limit) for limit in ranking.limits)


def limits_heading(ranking: Ranking) -> str:
    """Return the caption of the table of limits, a sentence."""
    level = f"{100 * ranking.confidence:g} %"
    return f"Layouts that may win: {describe_limits(ranking)} ({level}, all layouts and limits at once)."


def limits_table(ranking: Ranking) -> Table:
    """Return one row for each measured layout: its use, and whether it keeps the limits."""
    names = [limit.name for limit in ranking.limits]
    headers = ("layout", "may win", *(_HEADERS.get(name, WORDS[name]) for name in names), "launches")
    rows = []
    for row in ranking.rows:
        if row.verdict is None or not row.n_windows:
            continue
        findings = row.verdict.findings
        rows.append(
            (
                str(row.layout),
                {"within": "yes", "beyond": "no", "open": "not shown"}[row.verdict.state],
                *(render_level(finding) for finding in findings),
                str(max(finding.n_launches for finding in findings)),
            )
        )
    return Table(headers, tuple(rows), frozenset(range(2, len(headers))))


def limits_sentences(ranking: Ranking) -> list[str]:
    """Return sentences on undecided layouts that measured better than the best allowed one."""
    found = []
    best = next((row for row in ranking.rows if row.rank == 1), None)
    for row in ranking.rows:
        if (
            row.is_kept_out
            and row.verdict is not None
            and row.verdict.state == "open"
            and _is_better(row, best)
        ):
            measured = (
                f"{row.layout} measured better than {best.layout}" if best else f"{row.layout} was measured"
            )
            missing = "; ".join(
                f"whether its {WORDS[one.limit.name]} keeps to the limit is open: {describe_needed(one)}"
                for one in row.verdict.findings
                if one.state == "open"
            )
            found.append(f"{measured}, but {missing}.")
    first = first_of(found, _MOST_TOLD)
    if len(first) == len(found):
        return found
    left = len(found) - _MOST_TOLD
    return [*first, f"The same is open of {left} more layouts, which the table shows."]


def limits_facts(row: RankedLayout) -> dict[str, Any] | None:
    """Return the limits of one layout as JSON fields; None without limits."""
    if row.verdict is None:
        return None
    return {
        "verdict": row.verdict.state,
        **{finding.limit.name: _finding_facts(finding) for finding in row.verdict.findings},
    }


def limits_columns(ranking: Ranking) -> dict[str, dict[Layout, object]]:
    """Return whether each layout may win, as columns of a data table: header -> layout -> value."""
    judged = [(row.layout, row.verdict) for row in ranking.rows if row.verdict is not None]
    columns: dict[str, dict[Layout, object]] = {
        "may_win": {layout: verdict.state for layout, verdict in judged},
    }
    for place, limit in enumerate(ranking.limits):
        for end in ("mean", "low", "high"):
            columns[f"limited_{limit.name}_{end}"] = {
                layout: getattr(verdict.findings[place].estimate, end) for layout, verdict in judged
            }
    return columns


def _finding_facts(finding: LimitVerdict) -> dict[str, Any]:
    return {
        "at_most": finding.limit.at_most,
        "verdict": finding.state,
        **dataclasses.asdict(finding.estimate),
        "n_launches": finding.n_launches,
        "after_horizon": None if finding.later is None else dataclasses.asdict(finding.later.estimate),
        "launches_needed": finding.launches_needed,
    }


def _is_better(row: RankedLayout, best: RankedLayout | None) -> bool:
    if best is None:
        return True
    mine, other = (one.items_per_cpu_s or one.throughput_per_10min for one in (row, best))
    return mine.mean is not None and other.mean is not None and mine.mean > other.mean
