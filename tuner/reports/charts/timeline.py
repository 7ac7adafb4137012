"""Chart of all windows in time order: throughput, drift of the host, launches, invalid windows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil
from statistics import fmean

from tuner.core.domain.layout import Layout
from tuner.core.domain.records import WARMING_BLOCK, LaunchRecord
from tuner.core.ranking.overview import Overview
from tuner.reports.charts.frame import (
    Scale,
    at,
    cross,
    diamond,
    dot,
    legend,
    scale_for,
    y_axis,
    y_labels_width,
)
from tuner.reports.charts.in_time import InTime, Series, TimeAxis, axis_below, in_time, time_axis
from tuner.reports.charts.picture import (
    SMALL,
    WIDE,
    DrawnPicture,
    element,
    empty_picture,
    line,
    rectangle,
    width_of,
    with_tooltip,
    words,
)
from tuner.reports.model.model import format_signed, items

_PANEL = 130.0  #: height of a panel, px
_LANE = 20.0
_BETWEEN_LANES = 38.0  #: distance between the tops of two lanes, px
_MOST_LANES = 8  #: lanes for hosts; further hosts share the last lane
#: with more blocks, drift is shown in parts of equal length, as in a study without whole blocks
_MOST_BLOCKS = 60
_PARTS = 24
_LEAST = 8  #: least number of windows in such a part
_MOST_OFF = 0.5  #: relative difference from its layout's mean at which a window is drawn at the edge


@dataclass(frozen=True, slots=True)
class Moment:
    """One or more windows that share a mark, usually a single one."""

    from_s: float
    to_s: float
    values: tuple[float, ...]  #: items per ten minutes of each valid window
    off: tuple[float, ...]  #: the same as ratios to their layouts' means, less 1
    n_void: int
    n_warming: int
    tooltip: str
    is_best: bool  #: a single window of a layout of rank 1
    lane: int = 0  #: lane of its host
    row: int = 0  #: place in the lane among windows that took turns, which share its height
    n_rows: int = 1


def timeline_svg(
    overview: Overview, *, width: float = WIDE, standalone: bool = False, most: int = 400
) -> str:
    """Return all windows and launches as SVG with at most *most* marks."""
    picture = timeline_picture(overview, width=width, most=most)
    if picture is None:
        picture = empty_picture("timeline", "Windows in time order", "Nothing has been launched yet.", width)
    return picture.svg(standalone=standalone)


def timeline_picture(
    overview: Overview,
    *,
    width: float = WIDE,
    name: str = "timeline",
    most: int = 400,
    seen: InTime | None = None,
) -> DrawnPicture | None:
    """Return the chart with at most *most* marks; a mark may stand for several windows. None: no launches.

    *seen* is the result of `in_time` for *overview*, if it is already known.
    """
    seen = seen or in_time(overview)
    if not seen.stretches:
        return None
    found = _moments(overview, seen, most)
    counting = [value for moment in found for value in moment.values]
    values = counting or [0.0, 1.0]
    off = [max(-_MOST_OFF, min(_MOST_OFF, one)) for moment in found for one in moment.off] or [0.0]
    raw = scale_for(values, 24 + _PANEL, 24, zero=True)
    drift_top = 24 + _PANEL + 30
    reach = max(0.02, max(map(abs, off))) * 100
    drift = scale_for((-reach, reach), drift_top + _PANEL, drift_top)
    left = max(y_labels_width(raw), y_labels_width(drift, " %"))
    axis = time_axis(seen.stretches, left + 4, width - 10)
    lane = drift_top + _PANEL + 26
    n_lanes = min(len(seen.boxes), _MOST_LANES)
    bottom = lane + _LANE + 10 + (n_lanes - 1) * _BETWEEN_LANES
    began = datetime.fromtimestamp(axis.began_s, UTC).strftime("%Y-%m-%d %H:%M UTC")
    parts = [
        axis_below(axis, 24, bottom, f"since {began}"),
        y_axis(raw, left, width - 8, "items per 10 min, each window"),
        y_axis(drift, left, width - 8, "against the mean of its layout", unit=" %"),
        line(left, drift(0), width - 8, drift(0), "axis"),
        *_lane_names(seen.boxes[:n_lanes], lane, left),
        *_blocks(overview, seen, axis, drift_top + _PANEL),
        *_launches(overview, seen, axis, lane, most),
        *(_windows(moment, axis, lane + moment.lane * _BETWEEN_LANES, name) for moment in found),
        *(_mark(moment, axis, raw, drift) for moment in found),
        *_drift(overview, seen, axis, drift),
    ]
    if not counting:
        middle = (left + width) / 2
        parts += [
            words(describe_no_valid_window(overview), middle, top + 0.3 * _PANEL, class_="c m h")
            for top in (24, drift_top)
        ]
    void_y = 24 + _PANEL + 10
    parts += [
        with_tooltip(moment.tooltip, at(axis((moment.from_s + moment.to_s) / 2), void_y - 4, cross(3.2)))
        for moment in found
        if moment.n_void and len(found) == len(overview.windows)  # otherwise the lane shows their share
    ]
    signs, end = legend(_legend(overview, found, name), left, bottom + 54, width)
    n_each = ceil(len(overview.windows) / most)
    if n_each > 1:
        end += 18
        signs += words(f"Each mark stands for {n_each} windows.", left, end, class_="s m")
    title, summary = "Every window in time order", _summary(overview, len(seen.void))
    return DrawnPicture(name, title, summary, width, end + 8, _hatch(name) + "".join([*parts, signs]))


def describe_no_valid_window(overview: Overview) -> str:
    """Return the sentence for a study without a valid window."""
    if not overview.windows:
        return "No window so far: no launch reached one."
    taken = [one for one in overview.windows if one.block != WARMING_BLOCK]
    if not taken:
        return "No valid window yet."
    text = "the only one is" if len(taken) == 1 else f"all {len(taken)} are"
    return f"No valid window: {text} invalid."


def _moments(overview: Overview, seen: InTime, most: int) -> list[Moment]:
    """Return all windows in time order, in at most *most* groups of equal size."""
    best = {row.layout for row in overview.ranking.of_group("best-or-tied")}
    n_each = max(1, ceil(len(seen.course.windows) / most))
    of_box = seen.course.by_box(seen.boxes)
    rows = _rows(overview) if n_each == 1 else {}
    return [
        _moment(part, seen, best, min(lane, _MOST_LANES - 1), rows)
        for lane, box in enumerate(seen.boxes)  # a mark stands for windows of one host
        for part in of_box[box].parts(n_each)
    ]


def _rows(overview: Overview) -> dict[int, tuple[int, int]]:
    """Return the place of each launch that took turns among those of its group, and their number."""
    groups: dict[tuple[str, int, int], list[int]] = defaultdict(list)
    for number, one in overview.launches:
        if one.heat is not None:
            groups[one.box, one.block, one.heat].append(number)
    return {number: (row, len(own)) for own in groups.values() for row, number in enumerate(own)}


def _moment(
    part: Series, seen: InTime, best: set[Layout], lane: int, rows: Mapping[int, tuple[int, int]]
) -> Moment:
    windows = part.windows
    rates = [rate for rate in part.rates if rate is not None]
    off = [one for one in part.off if one is not None]
    n_warming = sum(
        one.block == WARMING_BLOCK for one, rate in zip(windows, part.rates, strict=True) if rate is None
    )
    first = windows[0]
    if len(windows) > 1:
        text = f"{len(windows)} windows, {len(windows) - len(rates)} invalid or of the first launch"
        text += f"; {format_signed(fmean(off))} on average" if off else ""
    elif first.block == WARMING_BLOCK:
        text = f"{first.layout}: warms the page cache, not used"
    elif first.void:
        text = f"{first.layout}, block {first.block + 1}: invalid: "
        text += "; ".join(f"{reason.slug}: {reason.detail}" for reason in first.void)
    else:
        text = f"{first.layout}, block {first.block + 1}: {items(600 * rates[0])} items per 10 min"
        text += f", {format_signed(off[0])} of its mean" if off else ""
    row, n_rows = rows.get(first.launch_id, (0, 1))
    return Moment(
        from_s=first.started_wall_s,
        to_s=max(map(seen.ended_s, windows)),
        values=tuple(600 * rate for rate in rates),
        off=tuple(off),
        n_void=len(windows) - len(rates) - n_warming,
        n_warming=n_warming,
        tooltip=text,
        is_best=len(windows) == 1 and first.layout in best,
        lane=lane,
        row=row,
        n_rows=n_rows,
    )


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
    return with_tooltip(moment.tooltip, *marks)


def _windows(moment: Moment, axis: TimeAxis, lane: float, name: str) -> str:
    """Return the launch lane: valid windows filled, invalid ones hatched, mixed groups in proportion."""
    left, right = axis(moment.from_s), axis(moment.to_s)
    n = len(moment.values) + moment.n_void + moment.n_warming
    height = _LANE / moment.n_rows
    top = lane + moment.row * height
    void = height * moment.n_void / n
    good = height * len(moment.values) / n
    width = max(1.0, right - left - 0.6)
    marks = []
    if good:
        marks.append(rectangle(left, top, width, good, class_="counts"))
    if void:
        marks.append(rectangle(left, top + good, width, void, fill=f"url(#{name}-h)", class_="void"))
    return with_tooltip("" if n > 1 else moment.tooltip, *marks) if marks else ""


def _lane_names(boxes: Sequence[str], lane: float, left: float) -> Iterator[str]:
    if left < 54:
        return
    if len(boxes) < 2:
        yield words("launches", 2, lane + _LANE / 2 + 4, class_="s m")
        return
    for number, box in enumerate(boxes):
        y = lane + number * _BETWEEN_LANES + _LANE / 2 + 4
        yield words(box if width_of(box, SMALL) < left - 4 else f"host {number + 1}", 2, y, class_="s m")


def _launches(overview: Overview, seen: InTime, axis: TimeAxis, top: float, most: int) -> Iterator[str]:
    n_each = max(1, ceil(len(overview.launches) / most))
    of_box: dict[str, list[LaunchRecord]] = defaultdict(list)
    for _, launch in overview.launches:
        of_box[launch.box].append(launch)
    for number, box in enumerate(seen.boxes):
        launches = of_box[box]
        lane = top + min(number, _MOST_LANES - 1) * _BETWEEN_LANES
        for first in range(0, len(launches), n_each):
            few = launches[first : first + n_each]
            left = axis(few[0].started_wall_s)
            right = axis(max(one.ended_wall_s or one.started_wall_s for one in few))
            marks = [rectangle(left, lane - 2, max(1.5, right - left), _LANE + 4, class_="launch")]
            text = str(few[0].layout)
            is_alone = few[0].heat is None  # names of launches that took turns would overlap
            if n_each == 1 and is_alone and width_of(text, SMALL) + 3 <= right - left:
                marks.append(words(text, (left + right) / 2, lane - 6, class_="s m c"))
            if any(one.error is not None for one in few):
                marks.append(at(left + 4, lane - 8, cross(3)))
            yield with_tooltip(_describe_launch(few[0]) if n_each == 1 else "", *marks)


def _describe_launch(launch: LaunchRecord) -> str:
    which = "before the first block" if launch.block == WARMING_BLOCK else f"block {launch.block + 1}"
    again = f", attempt {launch.attempt}" if launch.attempt > 1 else ""
    warm = "" if launch.warmup_s is None else f", warm-up {launch.warmup_s:.0f} s"
    settled = ", never settled" if launch.settled is False else ""
    error = "" if launch.error is None else f": {launch.error}"
    return f"{launch.layout}, {which}{again}{warm}{settled}{error}"


def _blocks(overview: Overview, seen: InTime, axis: TimeAxis, bottom: float) -> Iterator[str]:
    """Yield marks at the start of each block, if the study consists of whole blocks."""
    several = len(seen.boxes) > 1  # their blocks run at the same time
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


def _drift(overview: Overview, seen: InTime, axis: TimeAxis, drift: Scale) -> Iterator[str]:
    """Yield the mean of each block, or of equal parts of the study: the drift of the host."""
    good = seen.course.counting()
    if overview.study.strategy == "all" and overview.study.n_blocks <= _MOST_BLOCKS:
        by_block: dict[tuple[str, int], Series] = defaultdict(Series)
        for window, rate, off in zip(good.windows, good.rates, good.off, strict=True):
            by_block[window.box, window.block].add(window, rate, off)
        parts = list(by_block.values())
    else:
        of_box = good.by_box(seen.boxes)
        parts = [
            part
            for box in seen.boxes
            for part in of_box[box].parts(max(_LEAST, ceil(len(of_box[box].windows) / _PARTS)))
        ]
    for part in parts:
        told_off = [one for one in part.off if one is not None]
        if len(told_off) > 1 and len(parts) > 1:
            first = part.windows[0]
            left, right = axis(first.started_wall_s), axis(max(map(seen.ended_s, part.windows)))
            mean = fmean(told_off)
            text = f"{len(told_off)} windows: {format_signed(mean)} of their layouts' means"
            yield with_tooltip(text, line(left, drift(100 * mean), right, drift(100 * mean), "drift"))


def _hatch(name: str) -> str:
    stripe = element("path", d="M0 5L5 0", class_="hatch")
    pattern = element("pattern", stripe, id=f"{name}-h", width=5, height=5, patternUnits="userSpaceOnUse")
    return element("defs", pattern)


def _legend(overview: Overview, found: Sequence[Moment], name: str) -> list[tuple[str, str]]:
    box = {"x": -6, "y": -5, "width": 12, "height": 10}
    entries = []
    if any(moment.is_best for moment in found):
        entries.append((element("g", diamond(4), class_="best"), "best or tied"))
    if any(moment.values for moment in found):
        one = len(found) == len(overview.windows)
        entries.append((dot(2.6), "a window" if one else "several windows"))
        blocks = overview.study.strategy == "all" and overview.study.n_blocks <= _MOST_BLOCKS
        whose = "block" if blocks else "part"
        entries.append((line(-7, 0, 7, 0, "drift"), f"drift: mean of a {whose}"))
        entries.append((element("rect", **box, class_="counts"), "valid"))
    if any(moment.n_void for moment in found):
        void = element("rect", **box, fill=f"url(#{name}-h)", class_="void")
        entries.append((void + at(0, 0, cross(3.2)), "invalid"))
    entries.append((element("rect", **box, class_="launch"), "start, warm-up, stop"))
    return entries


def _summary(overview: Overview, n_void: int) -> str:
    n_failed = sum(launch.error is not None for _, launch in overview.launches)
    return (
        f"{len(overview.windows)} windows of {len(overview.launches)} launches in the order they were taken;"
        f" {n_void} invalid, {n_failed} launches ended with an error. Above: throughput; below: throughput"
        " against the mean of its layout, which shows the drift of the host."
    )
