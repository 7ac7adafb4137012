"""How long requests took, as people read it and as programs do."""

from __future__ import annotations

import dataclasses
from typing import Any

from tuner.core.layout import Layout
from tuner.core.limit_text import render_amount
from tuner.core.ranking import LatencySeen, RankedLayout, Ranking
from tuner.reports.formats import Table

_KEPT_UP_RATIO = 0.97  #: answered of what was due: less is not luck any more in a window of 1000 requests

AT_SATURATION = (
    "Every connection was always busy: latency is connections / throughput, and tells nothing of a layout."
    " What users would wait shows at a rate (feeder.rate)."
)


def latency_heading(ranking: Ranking) -> str:
    """What the table of latencies shows, in a sentence."""
    since = "it was due" if _rates(ranking) else "it was sent"
    return f"Latency of a request since {since}: within so long 50, 95 and 99 % of all were answered well."


def latency_table(ranking: Ranking) -> Table:
    """One row per layout that was measured."""
    rates, capacities = _rates(ranking), _capacities(ranking)
    headers = [
        *("layout", *(["capacity"] if capacities else []), *(["rate"] if rates else [])),
        *("p50", "p95", "p99", "requests", "failed"),
    ]
    rows = []
    for row in ranking.rows:
        seen = row.latency
        if seen is None:
            continue
        rows.append(
            (
                str(row.layout),
                *([_per_s(seen.capacity_per_s)] if capacities else []),
                *([_per_s(seen.rate_per_s)] if rates else []),
                *(_seconds(value) for value in (seen.p50_s, seen.p95_s, seen.p99_s)),
                str(seen.n_requests),
                "-" if seen.failed_ratio is None else f"{100 * seen.failed_ratio:.2g} %",
            )
        )
    return Table(tuple(headers), tuple(rows), frozenset(range(1, len(headers))))


def latency_notes(ranking: Ranking) -> list[str]:
    """What these latencies, and the throughput beside them, say and what not, a sentence each."""
    if not ranking.is_latency_known:
        return []
    rates = _rates(ranking)
    if not rates:
        return [AT_SATURATION]
    if _capacities(ranking):
        found = [
            "Requests came at a share of what each launch could do in a closed loop before: throughput is"
            " that share, and no surer than that short look."
        ]
    else:
        told = " to ".join(f"{rate:g}" for rate in sorted({min(rates), max(rates)}))
        found = [
            f"Requests came at {told}/s, whatever a layout can do: throughput is no more than that rate, and"
            " ranks only who cannot keep up. Compare latency, CPU and memory."
        ]
    late = [
        str(row.layout)
        for row in ranking.rows
        if row.latency is not None
        and row.latency.rate_per_s is not None
        and row.throughput_per_10min.mean is not None
        and row.throughput_per_10min.mean / 600 < _KEPT_UP_RATIO * row.latency.rate_per_s
    ]
    if late:
        found.append(
            f"{', '.join(late)} answered less than came: requests pile up, and latency grows for as long as"
            " one measures."
        )
    return found


def latency_facts(row: RankedLayout) -> dict[str, Any] | None:
    """The same of one layout for programs; None where it is not known."""
    return None if row.latency is None else dataclasses.asdict(row.latency)


def latency_columns(ranking: Ranking) -> dict[str, dict[Layout, object]]:
    """Columns of a data table: header -> layout -> value; none where no layout has it."""
    if not ranking.is_latency_known:
        return {}
    names = {
        "latency_p50_s": "p50_s", "latency_p95_s": "p95_s", "latency_p99_s": "p99_s",
        "n_requests": "n_requests", "requests_failed_ratio": "failed_ratio",
        "rate_per_s": "rate_per_s", "capacity_per_s": "capacity_per_s",
    }  # fmt: skip
    return {
        header: {row.layout: getattr(row.latency, name) for row in ranking.rows if row.latency is not None}
        for header, name in names.items()
    }


def p95_told(row: RankedLayout) -> str:
    """The p95 for a table."""
    return "-" if row.latency is None else _seconds(row.latency.p95_s)


def _seen(ranking: Ranking) -> list[LatencySeen]:
    return [row.latency for row in ranking.rows if row.latency is not None]


def _rates(ranking: Ranking) -> list[float]:
    return [seen.rate_per_s for seen in _seen(ranking) if seen.rate_per_s is not None]


def _capacities(ranking: Ranking) -> list[float]:
    return [seen.capacity_per_s for seen in _seen(ranking) if seen.capacity_per_s is not None]


def _per_s(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}/s"


def _seconds(value: float | None) -> str:
    return "-" if value is None else render_amount("p95_s", value)
