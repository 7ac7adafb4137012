"""Differences between the hosts of a fleet, as sentences, table and JSON fields."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from tabulate import tabulate

from tuner.core.ranking.host_effects import Boxes, BoxLevel, Collapse
from tuner.core.ranking.ranked import Ranking
from tuner.core.stats.interval import Estimate
from tuner.core.text.figures import first_of, pluralize
from tuner.reports.ranking.ranking_cells import interval_cell, times_cell
from tuner.reports.text.formats import Table

_MOST_TOLD = 3  #: largest number of hosts, and of layouts, with a sentence each
_MOST_ROWS = 40  #: largest number of rows of the table next to a ranking


def boxes_notes(ranking: Ranking) -> list[str]:
    """Return how many hosts the ranking holds for, and their differences; none for a single host."""
    boxes = ranking.boxes
    if boxes is None:
        return []
    n_boxes = len(boxes.levels)
    lines = [
        f"On {n_boxes} hosts: comparisons hold for hosts like these; the counts of items are"
        " averages of these."
        if boxes.drifts
        else f"On {n_boxes} hosts, one block each: all figures hold for hosts like these."
    ]
    lines += _first(
        [_describe_differs(one, ranking) for one in boxes.differing],
        "hosts differ significantly from the mean, too",
    )
    lines += _describe_spread(boxes)
    lines += _first([_describe_collapse(one) for one in boxes.collapses], "are such layouts, too")
    return lines


def _first(lines: list[str], what: str) -> list[str]:
    first = first_of(lines, _MOST_TOLD)
    return lines if len(first) == len(lines) else [*first, f"{len(lines) - _MOST_TOLD} more {what}."]


def _describe_differs(one: BoxLevel, ranking: Ranking) -> str:
    slower, faster = ("slower", "faster") if ranking.objective == "throughput" else ("worse", "better")
    ratio = one.level
    is_less = (ratio.mean or 1.0) < 1
    ends = sorted(abs(1 - end) for end in (ratio.low, ratio.high) if end is not None)
    within = "" if len(ends) < 2 else f" ({_digits(ends[0])} to {_digits(ends[1])} %)"
    much = f"{_digits(abs(1 - (ratio.mean or 1.0)))} %"
    return f"{one.box} is {much} {slower if is_less else faster}{within} than these hosts on average."


def _describe_spread(boxes: Boxes) -> list[str]:
    known = []
    if boxes.between is not None:
        drift = "" if boxes.drifts else ", their drift included"
        known.append(f"between hosts {_sd(boxes.between)}{drift}")
    if boxes.apart is not None:
        shown = "" if boxes.is_apart else ", which may be noise"
        known.append(f"host-by-layout interaction {_sd(boxes.apart)}{shown}")
    level = f"{100 * boxes.confidence:g} %"
    return [f"Differences between hosts (standard deviation, {level}): {'; '.join(known)}."] if known else []


def _describe_collapse(one: Collapse) -> str:
    ends = ""
    if one.ratio.low is not None and one.ratio.high is not None:
        ends = f" ({_digits(1 - one.ratio.high)} to {_digits(1 - one.ratio.low)} %)"
    return (
        f"{one.layout} measured best on {one.best_on}, but on {one.worse_on} it gives"
        f" {_digits(1 - (one.ratio.mean or 1.0))} %{ends} less than {one.than}."
    )


def _digits(ratio: float) -> str:
    shown = 100 * ratio
    return f"{shown:.0f}" if abs(shown) >= 10 else f"{shown:.1f}"


def _sd(sd: Estimate) -> str:
    low, mean, high = ("-" if x is None else f"{100 * x:.1f}" for x in (sd.low, sd.mean, sd.high))
    return f"{mean} % ({low} to {high})"


def boxes_heading(boxes: Boxes) -> str:
    """Return the caption of the table."""
    left = len(boxes.levels) - _MOST_ROWS
    cut = f" {pluralize(left, 'host')} in between left out." if left > 0 else ""
    level = f"{100 * boxes.confidence:g} %"
    return (
        f"Hosts: throughput of all layouts together, as a multiple of the mean. All {level} intervals hold"
        f" simultaneously.{cut}"
    )


def boxes_table(boxes: Boxes) -> Table:
    """Return a row for each host, the slowest first; if there are many, without those in the middle."""
    headers = ("host", "times", f"{100 * boxes.confidence:g} % interval", "is", "blocks", "launches")
    levels = sorted(boxes.levels, key=lambda one: one.level.mean or 0.0)
    if len(levels) > _MOST_ROWS:
        levels = [*levels[: _MOST_ROWS // 2], *levels[-_MOST_ROWS // 2 :]]
    rows = [
        (
            one.box,
            *level_cells(one),
            str(one.n_blocks),
            str(one.n_launches),
        )
        for one in levels
    ]
    return Table(headers, tuple(rows), frozenset({1, 2, 4, 5}))


def level_cells(one: BoxLevel) -> tuple[str, str, str]:
    """Return the level of a host, its interval, and its meaning."""
    verdict = "not significant"
    if one.differs:
        verdict = "more" if (one.level.mean or 1.0) > 1 else "less"
    elif one.level.low is None:
        verdict = "-"
    return _times(one.level.mean), interval_cell(one.level, _times), verdict


def _times(value: float | None) -> str:
    """Return a level with three decimals, because levels are close to 1."""
    return times_cell(value) if value is None or value >= 10 else f"{value:.3f}"


def boxes_facts(boxes: Boxes) -> dict[str, Any]:
    """Return the same as JSON fields."""
    return {
        "n_boxes": len(boxes.levels),
        "levels": [
            {
                "box": one.box,
                "level": dataclasses.asdict(one.level),
                "differs": one.differs,
                "n_blocks": one.n_blocks,
                "n_launches": one.n_launches,
            }
            for one in boxes.levels
        ],
        "between": _facts(boxes.between),
        "drift_is_known": boxes.drifts,
        "apart": _facts(boxes.apart),
        "is_apart": boxes.is_apart,
        "collapses": [
            {
                "layout": str(one.layout),
                "best_on": one.best_on,
                "worse_on": one.worse_on,
                "than": str(one.than),
                "ratio": dataclasses.asdict(one.ratio),
            }
            for one in boxes.collapses
        ],
    }


def _facts(sd: Estimate | None) -> dict[str, Any] | None:
    return None if sd is None else dataclasses.asdict(sd)


# Table of the hosts of a fleet.


_HEADERS = ("box", "host", "cores", "tuner", "it", "seen")


def render_hosts(boxes: Sequence[tuple[str, str, float, str, bool, float]]) -> str:
    """Return a table with name, host, cores, tuner version, state, and seconds since the last contact."""
    if not boxes:
        return "No host is connected. Run on each host: tuner box ADDRESS\n"
    rows = [
        (name, host, f"{cores:g}", version, "measures" if is_busy else "waits", f"{seen_s:.0f} s ago")
        for name, host, cores, version, is_busy, seen_s in boxes
    ]
    return tabulate(rows, headers=_HEADERS, disable_numparse=True) + "\n"
