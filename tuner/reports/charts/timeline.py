"""Every window of a study in time order: throughput, drift of the box, launches, and what was void."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil
from statistics import fmean

from tuner.core.layout import Layout
from tuner.core.overview import Overview
from tuner.core.records import WARMING_BLOCK, LaunchRecord, WindowRecord
from tuner.reports.charts.frame import at, cross, diamond, dot, legend, y_axis, y_labels_width
from tuner.reports.charts.picture import WIDE, Picture, nothing_picture
from tuner.reports.charts.scale import Scale, scale_for
from tuner.reports.charts.svg import SMALL, element, line, rectangle, tipped, width_of, words
from tuner.reports.charts.time_axis import TimeAxis, axis_below, time_axis
from tuner.reports.model import items, signed

_PANEL = 130.0  #: height, px
_LANE = 20.0
_BETWEEN_LANES = 38.0  #: from one to the next
_MOST_LANES = 8  #: of boxes; those beyond share the last one
_MOST_BLOCKS = 60  #: beyond it drift is shown in even parts, as for a study without whole blocks
_PARTS = 24
_LEAST = 8  #: windows of such a part
_MOST_OFF = 0.5  #: beyond so much above or below its layout's mean a window lies at the edge


@dataclass(frozen=True, slots=True)
class Moment:
    """Windows that one mark stands for: mostly a single one."""

    from_s: float
    to_s: float
    values: tuple[float, ...]  #: items per 10 min of those that count
    off: tuple[float, ...]  #: the same, as ratios to their layouts' means, less 1
    n_void: int
    n_warming: int
    told: str
    is_best: bool  #: a single window of a layout of rank 1
    lane: int = 0  #: of its box


def timeline_svg(
    overview: Overview, *, width: float = WIDE, standalone: bool = False, most: int = 400
) -> str:
    """All windows and launches as SVG, of at most *most* marks."""
    picture = timeline_picture(overview, width=width, most=most)
    if picture is None:
        picture = nothing_picture(
            "timeline", "Windows in time order", "Nothing has been launched yet.", width
        )
    return picture.svg(standalone=standalone)


def timeline_picture(
    overview: Overview, *, width: float = WIDE, name: str = "timeline", most: int = 400
) -> Picture | None:
    """At most *most* marks: of more windows one stands for several. None: nothing was launched."""
    spans = _spans(overview)
    if not spans:
        return None
    found = moments(overview, most)
    counting = [value for moment in found for value in moment.values]
    values = counting or [0.0, 1.0]
    off = [max(-_MOST_OFF, min(_MOST_OFF, one)) for moment in found for one in moment.off] or [0.0]
    raw = scale_for(values, 24 + _PANEL, 24, zero=True)
    drift_top = 24 + _PANEL + 30
    reach = max(0.02, max(map(abs, off))) * 100
    drift = scale_for((-reach, reach), drift_top + _PANEL, drift_top)
    left = max(y_labels_width(raw), y_labels_width(drift, " %"))
    axis = time_axis(spans, left + 4, width - 10)
    lane = drift_top + _PANEL + 26
    boxes = _boxes(overview)
    n_lanes = min(len(boxes), _MOST_LANES)
    bottom = lane + _LANE + 10 + (n_lanes - 1) * _BETWEEN_LANES
    began = datetime.fromtimestamp(axis.began_s, UTC).strftime("%Y-%m-%d %H:%M UTC")
    parts = [
        axis_below(axis, 24, bottom, f"since {began}"),
        y_axis(raw, left, width - 8, "items per 10 min, each window"),
        y_axis(drift, left, width - 8, "against the mean of its layout", unit=" %"),
        line(left, drift(0), width - 8, drift(0), "axis"),
        *_lane_names(boxes[:n_lanes], lane, left),
        *_blocks(overview, axis, drift_top + _PANEL),
        *_launches(overview, axis, lane, most),
        *(_windows(moment, axis, lane + moment.lane * _BETWEEN_LANES, name) for moment in found),
        *(_mark(moment, axis, raw, drift) for moment in found),
        *_drift(overview, axis, drift),
    ]
    if not counting:
        middle = (left + width) / 2
        parts += [
            words(nothing_counts(overview), middle, top + 0.3 * _PANEL, class_="c m h")
            for top in (24, drift_top)
        ]
    void_y = 24 + _PANEL + 10
    parts += [
        tipped(moment.told, at(axis((moment.from_s + moment.to_s) / 2), void_y - 4, cross(3.2)))
        for moment in found
        if moment.n_void and len(found) == len(overview.windows)  # else the lane shows their share
    ]
    signs, end = legend(_legend(overview, found, name), left, bottom + 54, width)
    n_each = ceil(len(overview.windows) / most)
    if n_each > 1:
        end += 18
        signs += words(f"Each mark stands for {n_each} windows.", left, end, class_="s m")
    title, summary = "Every window in time order", _summary(overview)
    return Picture(name, title, summary, width, end + 8, _hatch(name) + "".join([*parts, signs]))


def nothing_counts(overview: Overview) -> str:
    """What is said of a study none of whose windows counts."""
    if not overview.windows:
        return "No window was taken: no launch came so far."
    taken = [one for one in overview.windows if one.block != WARMING_BLOCK]
    if not taken:
        return "No window counts yet."
    told = "the only one is" if len(taken) == 1 else f"all {len(taken)} are"
    return f"No window counts: {told} void."


def moments(overview: Overview, most: int) -> list[Moment]:
    """All windows in time order, at most *most* moments of as many windows each."""
    windows = sorted(overview.windows, key=lambda one: one.started_wall_s)
    means = layout_means(windows)
    best = {row.layout for row in overview.ranking.rows if row.rank == 1}
    n_each = max(1, ceil(len(windows) / most))
    found, by_box = [], _by_box(windows)
    for lane, box in enumerate(_boxes(overview)):  # a mark stands for windows of one box
        own = by_box[box]
        found += [
            _moment(own[first : first + n_each], means, best, min(lane, _MOST_LANES - 1))
            for first in range(0, len(own), n_each)
        ]
    return found


def layout_means(windows: Sequence[WindowRecord]) -> dict[tuple[Layout, str], float]:
    """Mean throughput per second of the windows that count, of each layout on each box."""
    rates: dict[tuple[Layout, str], list[float]] = defaultdict(list)
    for window in windows:
        if not window.void and window.block != WARMING_BLOCK:
            rates[window.layout, window.box].append(window.n_done / window.length_s)
    return {key: fmean(own) for key, own in rates.items()}


def _moment(
    windows: Sequence[WindowRecord], means: dict[tuple[Layout, str], float], best: set[Layout], lane: int
) -> Moment:
    good = [one for one in windows if not one.void and one.block != WARMING_BLOCK]
    rates = [one.n_done / one.length_s for one in good]
    off = [
        rate / means[one.layout, one.box] - 1
        for one, rate in zip(good, rates, strict=True)
        if means[one.layout, one.box]
    ]
    first = windows[0]
    if len(windows) > 1:
        told = f"{len(windows)} windows, {len(windows) - len(good)} void or of the first launch"
        told += f"; {signed(fmean(off))} on average" if off else ""
    elif first.block == WARMING_BLOCK:
        told = f"{first.layout}: warms the page cache, does not count"
    elif first.void:
        told = f"{first.layout}, block {first.block + 1}: void: "
        told += "; ".join(f"{reason.slug}: {reason.detail}" for reason in first.void)
    else:
        told = f"{first.layout}, block {first.block + 1}: {items(600 * rates[0])} items per 10 min"
        told += f", {signed(off[0])} of its mean" if off else ""
    return Moment(
        from_s=first.started_wall_s,
        to_s=windows[-1].started_wall_s + windows[-1].length_s,
        values=tuple(600 * rate for rate in rates),
        off=tuple(off),
        n_void=sum(bool(one.void) and one.block != WARMING_BLOCK for one in windows),
        n_warming=sum(one.block == WARMING_BLOCK for one in windows),
        told=told,
        is_best=len(windows) == 1 and first.layout in best,
        lane=lane,
    )


def _by_box(windows: Sequence[WindowRecord]) -> dict[str, list[WindowRecord]]:
    found: dict[str, list[WindowRecord]] = defaultdict(list)
    for window in windows:
        found[window.box].append(window)
    return found


def _boxes(overview: Overview) -> list[str]:
    """In the order in which they began."""
    return list(
        dict.fromkeys([*(one.box for _, one in overview.launches), *(x.box for x in overview.windows)])
    )


def _spans(overview: Overview) -> list[tuple[float, float]]:
    spans = [(one.started_wall_s, one.started_wall_s + one.length_s) for one in overview.windows]
    spans += [
        (one.started_wall_s, max(one.started_wall_s, one.ended_wall_s or one.started_wall_s))
        for _, one in overview.launches
    ]
    return spans


def _mark(moment: Moment, axis: TimeAxis, raw: Scale, drift: Scale) -> str:
    if not moment.values:
        return ""
    x = axis((moment.from_s + moment.to_s) / 2)
    sign, class_ = (diamond(4), "best") if moment.is_best else (dot(2.6), None)
    marks = [at(x, raw(fmean(moment.values)), sign, class_)]
    if len(moment.values) > 1:
        marks.insert(0, line(x, raw(min(moment.values)), x, raw(max(moment.values)), "reach"))
    if moment.off:
        marks.append(at(x, drift(100 * fmean(moment.off)), sign, class_))
        if len(moment.off) > 1:
            marks.append(line(x, drift(100 * min(moment.off)), x, drift(100 * max(moment.off)), "reach"))
    return tipped(moment.told, *marks)


def _windows(moment: Moment, axis: TimeAxis, lane: float, name: str) -> str:
    """In the lane of launches: what counts is filled, what is void hatched, a part of it where both are."""
    left, right = axis(moment.from_s), axis(moment.to_s)
    n = len(moment.values) + moment.n_void + moment.n_warming
    void = _LANE * moment.n_void / n
    good = _LANE * len(moment.values) / n
    width = max(1.0, right - left - 0.6)
    marks = []
    if good:
        marks.append(rectangle(left, lane, width, good, class_="counts"))
    if void:
        marks.append(rectangle(left, lane + good, width, void, fill=f"url(#{name}-h)", class_="void"))
    return tipped("" if n > 1 else moment.told, *marks) if marks else ""


def _lane_names(boxes: Sequence[str], lane: float, left: float) -> Iterator[str]:
    if left < 54:
        return
    if len(boxes) < 2:
        yield words("launches", 2, lane + _LANE / 2 + 4, class_="s m")
        return
    for number, box in enumerate(boxes):
        y = lane + number * _BETWEEN_LANES + _LANE / 2 + 4
        yield words(box if width_of(box, SMALL) < left - 4 else f"box {number + 1}", 2, y, class_="s m")


def _launches(overview: Overview, axis: TimeAxis, top: float, most: int) -> Iterator[str]:
    n_each = max(1, ceil(len(overview.launches) / most))
    of_box: dict[str, list[LaunchRecord]] = defaultdict(list)
    for _, launch in overview.launches:
        of_box[launch.box].append(launch)
    for number, box in enumerate(_boxes(overview)):
        launches = of_box[box]
        lane = top + min(number, _MOST_LANES - 1) * _BETWEEN_LANES
        for first in range(0, len(launches), n_each):
            few = launches[first : first + n_each]
            left = axis(few[0].started_wall_s)
            right = axis(max(one.ended_wall_s or one.started_wall_s for one in few))
            marks = [rectangle(left, lane - 2, max(1.5, right - left), _LANE + 4, class_="launch")]
            text = str(few[0].layout)
            if n_each == 1 and width_of(text, SMALL) + 3 <= right - left:
                marks.append(words(text, (left + right) / 2, lane - 6, class_="s m c"))
            if any(one.error is not None for one in few):
                marks.append(at(left + 4, lane - 8, cross(3)))
            yield tipped(_launch_told(few[0]) if n_each == 1 else "", *marks)


def _launch_told(launch: LaunchRecord) -> str:
    which = "before the first block" if launch.block == WARMING_BLOCK else f"block {launch.block + 1}"
    again = f", attempt {launch.attempt}" if launch.attempt > 1 else ""
    warm = "" if launch.warmup_s is None else f", warm-up {launch.warmup_s:.0f} s"
    settled = ", never settled" if launch.settled is False else ""
    error = "" if launch.error is None else f": {launch.error}"
    return f"{launch.layout}, {which}{again}{warm}{settled}{error}"


def _blocks(overview: Overview, axis: TimeAxis, bottom: float) -> Iterator[str]:
    """Where a block begins, if the study is made of whole blocks."""
    several = len(_boxes(overview)) > 1  # their blocks lie side by side
    if overview.study.strategy != "all" or overview.study.n_blocks > _MOST_BLOCKS or several:
        return
    began: dict[int, float] = {}
    for _, launch in overview.launches:
        if launch.block != WARMING_BLOCK:
            began.setdefault(launch.block, launch.started_wall_s)
    free = -1.0
    for block, wall_s in sorted(began.items()):
        x = axis(wall_s)
        if block:
            yield line(x, 24, x, bottom, "mean")
        if x > free:
            yield words(f"block {block + 1}", x + 3, 21, class_="s m") if x > 220 else ""
            free = x + 52


def _drift(overview: Overview, axis: TimeAxis, drift: Scale) -> Iterator[str]:
    """The mean of each block, or of even parts of the study: what the box did meanwhile."""
    good = sorted(
        (one for one in overview.windows if not one.void and one.block != WARMING_BLOCK),
        key=lambda one: one.started_wall_s,
    )
    means = layout_means(good)
    parts: list[list[WindowRecord]]
    if overview.study.strategy == "all" and overview.study.n_blocks <= _MOST_BLOCKS:
        by_block: dict[tuple[str, int], list[WindowRecord]] = defaultdict(list)
        for window in good:
            by_block[window.box, window.block].append(window)
        parts = list(by_block.values())
    else:
        parts, own_of = [], _by_box(good)
        for box in _boxes(overview):
            own = own_of[box]
            each = max(_LEAST, ceil(len(own) / _PARTS))
            parts += [own[first : first + each] for first in range(0, len(own), each)]
    for part in parts:
        off = [
            one.n_done / one.length_s / means[one.layout, one.box] - 1
            for one in part
            if means[one.layout, one.box]
        ]
        if len(off) > 1 and len(parts) > 1:
            left, right = axis(part[0].started_wall_s), axis(part[-1].started_wall_s + part[-1].length_s)
            y = drift(100 * fmean(off))
            told = f"{len(off)} windows: {signed(fmean(off))} of their layouts' means"
            yield tipped(told, line(left, y, right, y, "drift"))


def _hatch(name: str) -> str:
    stripe = element("path", d="M0 5L5 0", class_="hatch")
    pattern = element("pattern", stripe, id=f"{name}-h", width=5, height=5, patternUnits="userSpaceOnUse")
    return element("defs", pattern)


def _legend(overview: Overview, found: Sequence[Moment], name: str) -> list[tuple[str, str]]:
    box = {"x": -6, "y": -5, "width": 12, "height": 10}
    entries = []
    if any(moment.is_best for moment in found):
        entries.append((element("g", diamond(4), class_="best"), "a layout of rank 1"))
    if any(moment.values for moment in found):
        one = len(found) == len(overview.windows)
        entries.append((dot(2.6), "a window" if one else "several windows"))
        blocks = overview.study.strategy == "all" and overview.study.n_blocks <= _MOST_BLOCKS
        whose = "block" if blocks else "part"
        entries.append((line(-7, 0, 7, 0, "drift"), f"drift: mean of a {whose}"))
        entries.append((element("rect", **box, class_="counts"), "counts"))
    if any(moment.n_void for moment in found):
        void = element("rect", **box, fill=f"url(#{name}-h)", class_="void")
        entries.append((void + at(0, 0, cross(3.2)), "void"))
    entries.append((element("rect", **box, class_="launch"), "start, warm-up, stop"))
    return entries


def _summary(overview: Overview) -> str:
    n_void = sum(bool(one.void) for one in overview.windows)
    n_failed = sum(launch.error is not None for _, launch in overview.launches)
    return (
        f"{len(overview.windows)} windows of {len(overview.launches)} launches in the order they were taken;"
        f" {n_void} void, {n_failed} launches failed or were spoilt. Above: throughput; below: the same"
        " against the mean of its layout, which shows what the box did meanwhile."
    )
