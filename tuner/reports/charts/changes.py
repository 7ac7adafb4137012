"""Chart of the changes between two studies: a mark and its interval for each layout."""

from __future__ import annotations

from tuner.core.planning.compared import StudyComparison
from tuner.core.ranking.study_difference import LayoutChange, is_surely_changed
from tuner.core.stats.interval import Estimate
from tuner.core.text.figures import first_of, percent
from tuner.reports.charts.frame import Scale, at, diamond, dot, legend, ring, scale_for, whisker, x_axis
from tuner.reports.charts.picture import (
    WIDE,
    DrawnPicture,
    element,
    fitting,
    line,
    rectangle,
    width_of,
    with_tooltip,
    words,
)
from tuner.reports.comparison.words import explain_change, format_change, format_percent, in_order

_ROW = 22.0
_MOST = 60  #: largest number of rows
_ALL = "all together"
_LEAST_REACH = 5.0  #: percentage points on either side of zero that the axis always shows
#: largest extent of an interval, as a multiple of the largest change; a longer one ends in an arrow
_FURTHEST = 2.0


def changes_picture(
    found: StudyComparison, *, width: float = WIDE, name: str = "changes", most: int = _MOST
) -> DrawnPicture | None:
    """Return the chart of the first *most* layouts, below their mean change; None: no layout has a change."""
    rows = [one for one in in_order(found) if one.ratio.mean is not None]
    if not rows:
        return None
    shown, shared = list(first_of(rows, most)), _shared_change(found)
    labels = [str(one.layout) for one in shown] + ([_ALL] if shared is not None else [])
    left = min(width * 0.3, 14 + max(map(width_of, labels)))
    right = width - 18 - max(width_of(format_percent(one.ratio.mean)) for one in shown)
    scale = _scale([one.ratio for one in shown] + ([shared] if shared is not None else []), left + 10, right)
    top = 8.0
    bottom = top + _ROW * (len(shown) + (shared is not None))
    parts = []
    if shared is not None:
        parts.append(rectangle(0, top, width, _ROW, class_="band"))
    title = f"change of throughput, %, with {percent(found.confidence)} intervals"
    parts.append(x_axis(scale, top, bottom, title))
    parts.append(line(scale(0.0), top, scale(0.0), bottom, "guide"))
    y = top + _ROW / 2
    if shared is not None:
        text = f"All {found.throughput.n_shared} layouts together: {format_change(shared)}"
        parts.append(_row(_ALL, shared, text, scale, y, left, width))
        y += _ROW
    for one in shown:
        text = f"{one.layout}: {format_change(one.ratio)}, {explain_change(found.throughput, one)}"
        parts.append(_row(str(one.layout), one.ratio, text, scale, y, left, width))
        y += _ROW
    drawn = [one.ratio for one in shown] + ([shared] if shared is not None else [])
    signs, end = legend(_legend(drawn), left, bottom + 54, width)
    if left_out := len(rows) - len(shown):
        end += 18
        signs += words(f"{left_out} more layouts are in the table.", left, end, class_="s m")
    body = "".join([*parts, signs])
    return DrawnPicture(name, "Change of each layout", _summary(found, shown), width, end + 8, body)


def _row(label: str, ratio: Estimate, text: str, scale: Scale, y: float, left: float, width: float) -> str:
    mean = ratio.mean or 0.0
    is_sure = is_surely_changed(ratio)
    class_ = "e b" if is_sure else "e"
    marks = [rectangle(0, y - _ROW / 2, width, _ROW, fill="transparent")]
    sign = ring()
    if ratio.low is not None and ratio.high is not None:
        marks.append(whisker(scale, _points(ratio.low), _points(ratio.high), y))
        sign = diamond() if is_sure else dot()
    marks.append(at(scale(_points(mean)), y, sign))
    marks.append(words(fitting(label, left), left, y + 4, class_=class_))
    marks.append(words(format_percent(mean), width - 6, y + 4, class_=class_))
    tip = with_tooltip(text, *marks)
    return element("g", tip, class_="best") if is_sure else tip


def _legend(ratios: list[Estimate]) -> list[tuple[str, str]]:
    found = []
    if any(is_surely_changed(one) for one in ratios):
        found.append((element("g", diamond(), class_="best"), "surely changed"))
    if any(one.low is not None and not is_surely_changed(one) for one in ratios):
        found.append((dot(), "not significant"))
    if any(one.low is None for one in ratios):
        found.append((ring(), "unknown noise"))
    return found


def _shared_change(found: StudyComparison) -> Estimate | None:
    shared = found.throughput.shared
    return (
        shared if found.throughput.n_shared > 1 and shared is not None and shared.mean is not None else None
    )


def _scale(ratios: list[Estimate], start: float, end: float) -> Scale:
    means = [_points(one.mean) for one in ratios if one.mean is not None]
    furthest = max(_LEAST_REACH, _FURTHEST * max(map(abs, means)))
    ends = [_points(value) for one in ratios for value in (one.low, one.high) if value is not None]
    inside = [min(furthest, max(-furthest, value)) for value in ends]
    return scale_for([0.0, *means, *inside], start, end)


def _points(ratio: float) -> float:
    return 100 * (ratio - 1)


def _summary(found: StudyComparison, rows: list[LayoutChange]) -> str:
    first = ", ".join(f"{one.layout} {format_percent(one.ratio.mean)}" for one in rows[:3])
    n_sure = sum(one.has_changed for one in rows)
    return (
        f"One line a layout, from {found.before.name} to {found.after.name}: {first}; {n_sure} of {len(rows)}"
        " surely changed. The table below it has all figures."
    )
