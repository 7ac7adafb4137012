"""Throughput against what it costs: load, memory or CPU, with the Pareto front."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tuner.core.interval import Estimate
from tuner.core.layout import Layout
from tuner.core.overview import Overview
from tuner.core.pareto import Cost, Front
from tuner.core.ranking import RankedLayout
from tuner.reports.charts.frame import at, cross, diamond, dot, legend, ring, x_axis, y_axis, y_labels_width
from tuner.reports.charts.picture import WIDE, Picture, nothing_picture
from tuner.reports.charts.scale import Scale, scale_for
from tuner.reports.charts.svg import SMALL, element, line, tipped, width_of, words
from tuner.reports.charts.values import MOST_OF_MEAN
from tuner.reports.model import interval, items
from tuner.reports.ranking_words import level_of

_TITLES: dict[Cost, str] = {"load": "load (tasks)", "memory": "memory (MB)", "cpu": "CPU (busy cores)"}
_WORDS: dict[Cost, str] = {"load": "load", "memory": "memory", "cpu": "CPU"}
_MOST_LABELS = 24
_MOST_WHISKERS = 60

Standing = Literal["front", "open", "beaten", "out", "unknown"]


@dataclass(frozen=True, slots=True)
class _Point:
    layout: Layout
    cost: float
    items: Estimate
    standing: Standing
    told: str


def trade_svg(overview: Overview, cost: Cost, *, width: float = WIDE, standalone: bool = False) -> str:
    """Throughput against *cost* as SVG; the front is drawn where the overview was asked for it."""
    picture = trade_picture(overview, cost, width=width)
    if picture is None:
        title = f"Throughput against {_WORDS[cost]}"
        picture = nothing_picture(f"trade-{cost}", title, f"The {_WORDS[cost]} of no layout is known.", width)
    return picture.svg(standalone=standalone)


def trade_picture(
    overview: Overview, cost: Cost, *, width: float = WIDE, name: str | None = None
) -> Picture | None:
    """A mark for each layout; None: nobody saw what they cost."""
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
    on_front = sorted(
        (point for point in points if point.standing == "front"),
        key=lambda point: (point.cost, point.items.mean),
    )
    if len(on_front) > 1:
        parts.append(_steps(on_front, along, up))
    if with_whiskers:
        parts += [_whisker(point, along, up) for point in points]
    parts += [
        _mark(point, along, up) for point in sorted(points, key=lambda point: point.standing == "front")
    ]
    parts += _labels(points, along, up, width)
    signs, end = legend(_legend(points, front is not None), left, high + 10, width)
    summary = _summary(points, cost, front, level_of(overview.ranking))
    title = f"Throughput against {_WORDS[cost]}"
    return Picture(name or f"trade-{cost}", title, summary, width, end + 8, "".join([*parts, signs]))


def cost_of(row: RankedLayout, cost: Cost, front: Front | None, cores: float) -> float | None:
    """What a layout costs: as its front has it, else as its row has it; memory in MB. None: nobody saw it."""
    placed = (
        next((place.cost for place in front.places if place.layout == row.layout), None) if front else None
    )
    if cost == "load":
        seen = row.n_active_from_load1 if row.n_active_from_load1 is not None else row.load1_mean
        return seen if placed is None else placed
    if cost == "memory":
        seen = row.pss_bytes if placed is None else placed
        return None if seen is None else seen / 1e6
    return placed if placed is not None or row.cpu_ratio is None else row.cpu_ratio * cores


def _points(overview: Overview, cost: Cost, front: Front | None) -> list[_Point]:
    standings: dict[bool | None, Standing] = {True: "front", False: "beaten", None: "open"}
    placed = {} if front is None else {place.layout: place for place in front.places}
    cores = min(float(overview.study.cores), overview.study.box_cores)
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
        ends = "" if value.low is None else f" ({interval(value, items)})"
        amount = f"{spent:.0f} MB" if cost == "memory" else f"{spent:.2f}"
        beaten = placed[row.layout].dominated_by if row.layout in placed else None
        by = "" if beaten is None else f", beaten by {beaten}"
        told = f"{row.layout}: {items(value.mean)} items per 10 min{ends}, {_WORDS[cost]} {amount}{by}"
        found.append(_Point(row.layout, spent, value, standing, told))
    return found


def _mark(point: _Point, along: Scale, up: Scale) -> str:
    signs = {"front": diamond(6), "open": dot(), "beaten": ring(), "out": cross(), "unknown": dot()}
    x, y = along(point.cost), up(point.items.mean or 0.0)
    area = element("circle", r=11, fill="transparent")
    marks = at(x, y, area + signs[point.standing], "best" if point.standing == "front" else None)
    return tipped(point.told, marks)


def _whisker(point: _Point, along: Scale, up: Scale) -> str:
    if point.items.low is None or point.items.high is None:
        return ""
    x = along(point.cost)
    return line(x, up(point.items.low), x, up(point.items.high), "reach")


def _steps(points: Sequence[_Point], along: Scale, up: Scale) -> str:
    """The front: what is reached with so much."""
    first, *others = points
    path = [f"M{along(first.cost):.1f} {up(first.items.mean or 0):.1f}"]
    path += [f"H{along(one.cost):.1f}V{up(one.items.mean or 0):.1f}" for one in others]
    return element("path", d="".join(path), class_="front")


def _labels(points: Sequence[_Point], along: Scale, up: Scale, width: float) -> list[str]:
    """Names beside the marks, those of the front first; one that would lie on another is left out."""
    taken = [(along(one.cost) - 6, up(one.items.mean or 0) - 6, 12.0, 12.0) for one in points]
    order = sorted(points, key=lambda one: (one.standing != "front", -(one.items.mean or 0)))
    found = []
    for point in order[:_MOST_LABELS]:
        text = str(point.layout)
        long = width_of(text, SMALL)
        x, y = along(point.cost), up(point.items.mean or 0)
        for left, base in (
            *((x + 9, y + 4), (x - 9 - long, y + 4), (x - long / 2, y - 9), (x - long / 2, y + 17)),
            *((x + 8, y - 6), (x + 8, y + 14), (x - 8 - long, y - 6), (x - 8 - long, y + 14)),
        ):
            box = (left, base - 9, long, 11.0)
            if left >= 0 and left + long <= width and not any(_meet(box, other) for other in taken):
                taken.append(box)
                found.append(words(text, left, base, class_="s b" if point.standing == "front" else "s"))
                break
    return found


def _meet(one: tuple[float, float, float, float], other: tuple[float, float, float, float]) -> bool:
    return (
        one[0] < other[0] + other[2]
        and other[0] < one[0] + one[2]
        and one[1] < other[1] + other[3]
        and other[1] < one[1] + one[3]
    )


def _legend(points: Sequence[_Point], has_front: bool) -> list[tuple[str, str]]:
    signs: list[tuple[Standing, str, str]] = [
        ("front", element("g", diamond(6), class_="best"), "on the front: nothing is faster and cheaper"),
        ("open", dot(), "cannot be told"),
        ("beaten", ring(), "beaten: another is faster and cheaper"),
        ("out", cross(), "not shown to keep the limits"),
        ("unknown", dot(), "not ranked" if has_front else "a layout"),
    ]
    return [(sign, text) for standing, sign, text in signs if any(one.standing == standing for one in points)]


def _summary(points: Sequence[_Point], cost: Cost, front: Front | None, level: str) -> str:
    names = [str(point.layout) for point in points if point.standing == "front"]
    on = f" Surely on the front ({level}): {', '.join(names[:12])}." if names else ""
    if front is not None and not names:
        on = f" None is surely on the front ({level})."
    return f"Throughput of {len(points)} layouts, up, against {_WORDS[cost]}, across.{on}"
