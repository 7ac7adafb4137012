"""Chart of throughput against load, memory or CPU, with the Pareto front."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from tuner.core.domain.layout import Layout
from tuner.core.ranking.overview import Overview
from tuner.core.ranking.pareto import Cost, Front
from tuner.core.ranking.ranked import RankedLayout
from tuner.core.stats.interval import Estimate
from tuner.reports.charts.frame import (
    Scale,
    at,
    cross,
    diamond,
    dot,
    labels,
    legend,
    ring,
    scale_for,
    x_axis,
    y_axis,
    y_labels_width,
)
from tuner.reports.charts.picture import WIDE, DrawnPicture, element, empty_picture, line, with_tooltip
from tuner.reports.charts.values import MOST_OF_MEAN
from tuner.reports.model.model import items
from tuner.reports.ranking.ranking_cells import in_brackets
from tuner.reports.ranking.ranking_words import level_of

_TITLES: dict[Cost, str] = {
    "load": "settled load (tasks)",
    "memory": "memory (MB)",
    "cpu": "CPU (busy cores)",
}
_WORDS: dict[Cost, str] = {"load": "settled load", "memory": "memory", "cpu": "CPU"}
_MOST_WHISKERS = 60

Standing = Literal["front", "open", "beaten", "out", "unknown"]


@dataclass(frozen=True, slots=True)
class _Point:
    layout: Layout
    cost: float
    items: Estimate
    standing: Standing
    tooltip: str


def trade_svg(overview: Overview, cost: Cost, *, width: float = WIDE, standalone: bool = False) -> str:
    """Return throughput against *cost* as SVG; the front is drawn if the overview has it."""
    picture = trade_picture(overview, cost, width=width)
    if picture is None:
        title = f"Throughput against {_WORDS[cost]}"
        picture = empty_picture(f"trade-{cost}", title, f"No layout has a known {_WORDS[cost]}.", width)
    return picture.svg(standalone=standalone)


def trade_picture(
    overview: Overview, cost: Cost, *, width: float = WIDE, name: str | None = None, most_shown: int = 250
) -> DrawnPicture | None:
    """Return a mark for each layout; None: there are no data on the cost.

    Only the first *most_shown* of them, those of the front and then the fastest, have tooltips.
    """
    front = next((one for one in overview.ranking.fronts if one.cost == cost), None)
    points = _points(overview, cost, front)
    if not points:
        return None
    means = [point.items.mean or 0.0 for point in points]
    most = MOST_OF_MEAN * max(means)
    with_whiskers = len(points) <= _MOST_WHISKERS
    ends = [end for point in points for end in (point.items.low, point.items.high) if end is not None]
    high = min(400.0, 0.8 * width)
    up = scale_for([*means, *(min(end, most) for end in ends if with_whiskers)], high - 44, 30)
    left = y_labels_width(up)
    along = scale_for([point.cost for point in points], left + 6, width - 16)
    parts = [
        y_axis(up, left, width - 8, "items per 10 min"),
        x_axis(along, 30, high - 44, _TITLES[cost]),
    ]
    front_seen = _measured_front(points)
    if len(front_seen) > 1:
        parts.append(_steps(front_seen, along, up))
    if with_whiskers:
        parts += [_whisker(point, along, up) for point in points]
    ordered = sorted(points, key=lambda point: (point.standing != "front", -(point.items.mean or 0)))
    rest = ordered[most_shown:]
    if rest:
        specks = "".join(f"M{along(one.cost):.0f} {up(one.items.mean or 0):.0f}h0" for one in rest)
        parts.append(element("path", d=specks, class_="specks"))
    parts += [_mark(point, along, up) for point in reversed(ordered[:most_shown])]
    parts.append(labels(_labels(points, along, up), width, lines=_stretches(front_seen, along, up)))
    entries = _legend(ordered[:most_shown], front is not None)
    if rest:
        entries.append((element("path", d="M0 0h0", class_="specks"), "the rest: see the table"))
    signs, end = legend(entries, left, high + 10, width)
    summary = _summary(points, cost, front, level_of(overview.ranking))
    title = f"Throughput against {_WORDS[cost]}"
    return DrawnPicture(name or f"trade-{cost}", title, summary, width, end + 8, "".join([*parts, signs]))


def cost_of(row: RankedLayout, cost: Cost, front: Front | None, cores: float) -> float | None:
    """Return the cost of a layout, from its front, else from its row; memory in MB. None: unknown."""
    placed = (
        next((place.cost for place in front.places if place.layout == row.layout), None) if front else None
    )
    if cost == "load":
        return row.settled_load if placed is None else placed
    if cost == "memory":
        seen = row.pss_bytes if placed is None else placed
        return None if seen is None else seen / 1e6
    return placed if placed is not None or row.cpu_ratio is None else row.cpu_ratio * cores


def _points(overview: Overview, cost: Cost, front: Front | None) -> list[_Point]:
    standings: dict[bool | None, Standing] = {True: "front", False: "beaten", None: "open"}
    placed = {} if front is None else {place.layout: place for place in front.places}
    cores = overview.study.usable_cores
    found = []
    for row in overview.ranking.rows:
        value = row.throughput_per_10min
        spent = cost_of(row, cost, front, cores)
        if value.mean is None or spent is None:
            continue
        standing: Standing = "unknown"
        if row.is_kept_out:
            standing = "out"
        elif row.layout in placed:
            standing = standings[placed[row.layout].is_on_front]
        ends = in_brackets(value)
        amount = f"{spent:.0f} MB" if cost == "memory" else f"{spent:.2f}"
        beaten = placed[row.layout].dominated_by if row.layout in placed else None
        by = "" if beaten is None else f", beaten by {beaten}"
        text = f"{row.layout}: {items(value.mean)} items per 10 min{ends}, {_WORDS[cost]} {amount}{by}"
        found.append(_Point(row.layout, spent, value, standing, text))
    return found


def _mark(point: _Point, along: Scale, up: Scale) -> str:
    signs = {"front": diamond(6), "open": dot(), "beaten": ring(), "out": cross(), "unknown": dot()}
    x, y = along(point.cost), up(point.items.mean or 0.0)
    class_ = "best" if point.standing == "front" else None
    area = element("circle", r=11, fill="transparent")
    return with_tooltip(point.tooltip, at(x, y, area + signs[point.standing], class_))


def _whisker(point: _Point, along: Scale, up: Scale) -> str:
    if point.items.low is None or point.items.high is None:
        return ""
    x = along(point.cost)
    return line(x, up(point.items.low), x, up(point.items.high), "reach")


def _steps(points: Sequence[_Point], along: Scale, up: Scale) -> str:
    """Return the line of the front: the throughput reached at each cost."""
    first, *others = points
    path = [f"M{along(first.cost):.1f} {up(first.items.mean or 0):.1f}"]
    path += [f"H{along(one.cost):.1f}V{up(one.items.mean or 0):.1f}" for one in others]
    return element("path", d="".join(path), class_="front")


def _stretches(points: Sequence[_Point], along: Scale, up: Scale) -> list[tuple[float, float, float, float]]:
    """Return the same line as boxes without width or height: each step goes across, then up."""
    corners = [(along(one.cost), up(one.items.mean or 0.0)) for one in points]
    found = []
    for (left, low), (right, high) in pairwise(corners):
        found += [(left, low, right - left, 0.0), (right, high, 0.0, low - high)]
    return found


def _labels(points: Sequence[_Point], along: Scale, up: Scale) -> list[tuple[float, float, str, bool]]:
    """Return points for labels: those of the front first, then the fastest."""
    order = sorted(points, key=lambda one: (one.standing != "front", -(one.items.mean or 0)))
    return [
        (along(one.cost), up(one.items.mean or 0), str(one.layout), one.standing == "front") for one in order
    ]


def _measured_front(points: Sequence[_Point]) -> list[_Point]:
    """Return the front by the measured values, cheapest first: each point is faster than all cheaper ones."""
    found: list[_Point] = []
    for point in sorted(points, key=lambda one: (one.cost, -(one.items.mean or 0))):
        if point.standing != "out" and (not found or (point.items.mean or 0) > (found[-1].items.mean or 0)):
            found.append(point)
    return found


def _legend(points: Sequence[_Point], has_front: bool) -> list[tuple[str, str]]:
    signs: list[tuple[Standing, str, str]] = [
        (
            "front",
            element("g", diamond(6), class_="best"),
            "on the front: nothing is faster and cheaper",
        ),
        ("open", dot(), "undecided"),
        ("beaten", ring(), "beaten: another is faster and cheaper"),
        ("out", cross(), "not shown to keep the limits"),
        ("unknown", dot(), "not ranked" if has_front else "a layout"),
    ]
    found = [
        (sign, text) for standing, sign, text in signs if any(one.standing == standing for one in points)
    ]
    if len(_measured_front(points)) > 1:
        found.append((line(-7, 0, 7, 0, "front"), "front by the figures alone"))
    return found


def _summary(points: Sequence[_Point], cost: Cost, front: Front | None, level: str) -> str:
    names = [str(point.layout) for point in points if point.standing == "front"]
    on = f" Surely on the front ({level}): {', '.join(names[:12])}." if names else ""
    if front is not None and not names:
        on = f" None is surely on the front ({level})."
    return f"Throughput of {len(points)} layouts, up, against {_WORDS[cost]}, across.{on}"
