"""Request latencies of a ranking, as sentences, table and JSON fields."""

from __future__ import annotations

import dataclasses
from math import sqrt
from typing import Any

from tuner.core.domain.layout import Layout
from tuner.core.domain.load import WithinP95, stored_rate
from tuner.core.domain.records import StudyRecord
from tuner.core.domain.safety_limits import render_amount
from tuner.core.ranking.ranked import LatencySeen, RankedLayout, Ranking
from tuner.core.text.figures import per_second, percent
from tuner.reports.text.formats import Table

_BEHIND_RATIO = 0.03  #: a layout cannot keep up if more than this share of the due requests is missing ...
_BEHIND_SDS = 4.0  #: ... and more than this many standard deviations of Poisson arrivals

AT_SATURATION = (
    "Every client was always busy, so mean latency is clients / throughput. Do not compare layouts by it."
    " To measure the latency of users, send requests at a rate (feeder.rate)."
)


def latency_heading(ranking: Ranking) -> str:
    """Return the caption of the table of latencies, a sentence."""
    since = "were due" if _rates(ranking) else "were sent"
    return (
        "The table shows the time until 50, 95 and 99 % of the requests were answered successfully,"
        f" since they {since}."
    )


def latency_table(ranking: Ranking) -> Table:
    """Return one row for each measured layout."""
    rates, capacities = _rates(ranking), _capacities(ranking)
    spreads = any(seen.connections_per_worker for seen in _measured_latencies(ranking))
    headers = [
        *("layout", *(["capacity"] if capacities else []), *(["rate"] if rates else [])),
        *("p50", "p95", "p99", "requests", "failed", *(["connections/worker"] if spreads else [])),
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
                "-" if seen.failed_ratio is None else _failed_cell(seen.failed_ratio),
                *([_format_spread(seen)] if spreads else []),
            )
        )
    return Table(tuple(headers), tuple(rows), frozenset(range(1, len(headers))))


def latency_notes(study: StudyRecord, ranking: Ranking) -> list[str]:
    """Return the meaning and the limits of these latencies and throughputs, a sentence each."""
    if not ranking.is_latency_known:
        return []
    rates, asked = _rates(ranking), stored_rate(study.config)
    if not rates:
        return [AT_SATURATION]
    if isinstance(asked, WithinP95):
        within = render_amount("p95_s", asked.p95_s)
        found = [
            f"Requests came at the highest rate at which looks of some seconds found p95 within {within}, for"
            " each launch anew: throughput is that rate."
        ]
        beyond = [
            f"{row.layout} ({describe_p95(row)})"
            for row in ranking.rows
            if row.latency is not None and (row.latency.p95_s or 0.0) > asked.p95_s
        ]
        if beyond:
            found.append(f"Over whole windows p95 was beyond {within} with {', '.join(beyond)}.")
    elif _capacities(ranking):
        found = [
            "Requests were sent at a share of the capacity of each launch, measured before in a closed loop:"
            " throughput is that share, and as uncertain as that short measurement."
        ]
    else:
        text = " to ".join(f"{rate:g}" for rate in sorted({min(rates), max(rates)}))
        found = [
            f"Requests were sent at {text}/s to every layout: throughput is at most that rate, so it only"
            " ranks layouts that cannot keep up. Compare latency, CPU and memory."
        ]
    late = [str(row.layout) for row in ranking.rows if _is_behind(row)]
    if late:
        found.append(
            f"{', '.join(late)} answered fewer requests than were sent: requests pile up, and latency grows"
            " with the length of the measurement."
        )
    return found


def latency_facts(row: RankedLayout) -> dict[str, Any] | None:
    """Return the latency of one layout as JSON fields; None if unknown."""
    return None if row.latency is None else dataclasses.asdict(row.latency)


def latency_columns(ranking: Ranking) -> dict[str, dict[Layout, object]]:
    """Return columns of a data table: header -> layout -> value; none if no layout has latencies."""
    if not ranking.is_latency_known:
        return {}
    names = {
        "latency_p50_s": "p50_s", "latency_p95_s": "p95_s", "latency_p99_s": "p99_s",
        "n_requests": "n_requests", "requests_failed_ratio": "failed_ratio",
        "rate_per_s": "rate_per_s", "capacity_per_s": "capacity_per_s", "starved_ratio": "starved_ratio",
    }  # fmt: skip
    return {
        header: {row.layout: getattr(row.latency, name) for row in ranking.rows if row.latency is not None}
        for header, name in names.items()
    }


def describe_p95(row: RankedLayout) -> str:
    """Return the p95 for a table."""
    return "-" if row.latency is None else _seconds(row.latency.p95_s)


def _is_behind(row: RankedLayout) -> bool:
    """Return whether fewer requests were answered than sent, beyond random variation.

    Each launch is compared with its own rate: the printed throughput is that of average blocks and hosts.
    """
    if row.latency is None or row.answered_ratio is None:
        return False
    n_due = max(1.0, row.latency.n_requests)
    return 1 - row.answered_ratio > max(_BEHIND_RATIO, _BEHIND_SDS / sqrt(n_due))


def _format_spread(seen: LatencySeen) -> str:
    """Return connections per worker: one number if all agree to a tenth."""
    held = seen.connections_per_worker
    if not held:
        return "-"
    most, least = f"{held[0]:.1f}", f"{held[-1]:.1f}"
    return most if most == least else f"{least} to {most}"


def _measured_latencies(ranking: Ranking) -> list[LatencySeen]:
    return [row.latency for row in ranking.rows if row.latency is not None]


def _rates(ranking: Ranking) -> list[float]:
    return [seen.rate_per_s for seen in _measured_latencies(ranking) if seen.rate_per_s is not None]


def _capacities(ranking: Ranking) -> list[float]:
    return [seen.capacity_per_s for seen in _measured_latencies(ranking) if seen.capacity_per_s is not None]


def _per_s(value: float | None) -> str:
    return "-" if value is None else per_second(value)


def _failed_cell(ratio: float) -> str:
    return f"{100 * ratio:.2g} %" if ratio < 0.995 else percent(ratio)


def _seconds(value: float | None) -> str:
    return "-" if value is None else render_amount("p95_s", value)
