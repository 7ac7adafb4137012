"""Chart of the ranking, by group: a mark for each layout and the interval that decides its group."""

from __future__ import annotations

from tuner.core.ranking.overview import Overview
from tuner.core.ranking.ranked import RankedLayout, Ranking, value_beside
from tuner.core.text.figures import first_of
from tuner.reports.charts.frame import (
    Scale,
    at,
    cross,
    diamond,
    dot,
    legend,
    ring,
    scale_for,
    whisker,
    x_axis,
)
from tuner.reports.charts.picture import (
    WIDE,
    DrawnPicture,
    element,
    empty_picture,
    fitting,
    line,
    rectangle,
    width_of,
    with_tooltip,
    words,
)
from tuner.reports.charts.values import MOST_OF_MEAN, tooltip_of, unit_of
from tuner.reports.model.model import items
from tuner.reports.ranking.groups import NAMES, group_name, row_group
from tuner.reports.ranking.ranking_words import level_of, value_ranked_by

_ROW = 22.0
_MOST = 40  #: largest number of rows


def ranking_svg(overview: Overview, *, width: float = WIDE, standalone: bool = False) -> str:
    """Return the layouts of *overview*, best first, as SVG."""
    title = "Ranking of layouts"
    picture = ranking_picture(overview, width=width)
    if picture is None:
        picture = empty_picture("ranking", title, "No layout has been measured yet.", width)
    return picture.svg(standalone=standalone)


def ranking_picture(
    overview: Overview, *, width: float = WIDE, name: str = "ranking", most: int = _MOST
) -> DrawnPicture | None:
    """Return the chart of the first *most* layouts; None: nothing was measured."""
    ranking = overview.ranking
    rows = [row for row in ranking.rows if value_ranked_by(row, ranking).mean is not None]
    if not rows:
        return None
    shown = list(first_of(rows, most))
    places, n_lines = _places(shown)
    labels = [_label(row, ranking) for row in shown]
    left = min(width * 0.3, 14 + max(width_of(one) for one in labels))
    right = width - 12 - max(width_of(items(_mean(row, ranking))) for row in shown) - 6
    scale = _scale(shown, ranking, left + 10, right)
    top, bottom = 8.0, 8.0 + _ROW * n_lines
    parts = [
        rectangle(0, top + _ROW * place, width, _ROW, class_="band")
        for place, row in zip(places, shown, strict=True)
        if row.group == "best-or-tied"
    ]
    parts.append(x_axis(scale, top, bottom, f"{unit_of(ranking)}, {_intervals(ranking)}"))
    if ranking.best is not None:
        best = _mean(ranking.best, ranking)
        parts.append(line(scale(best), top, scale(best), bottom, "guide"))
    for place, row, label in zip(places, shown, labels, strict=True):
        if place - 1 not in places:
            group = row_group(row, ranking.objective)
            parts.append(words(group, 6, top + _ROW * (place - 0.5) + 4, class_="s m"))
        parts.append(_row(row, ranking, scale, top + _ROW * (place + 0.5), left, width, label))
    signs, end = legend(_legend(shown, ranking), left, bottom + 54, width)
    left_out = len(rows) - len(shown)
    if left_out:
        end += 18
        signs += words(f"{left_out} more layouts are in the table.", left, end, class_="s m")
    return DrawnPicture(
        name, "Ranking of layouts", _summary(shown, ranking), width, end + 8, "".join([*parts, signs])
    )


def _row(
    row: RankedLayout, ranking: Ranking, scale: Scale, y: float, left: float, width: float, label: str
) -> str:
    value = value_beside(row, ranking)
    mean, is_top = _mean(row, ranking), row.group == "best-or-tied"
    marks = [rectangle(0, y - _ROW / 2, width, _ROW, fill="transparent")]
    if value.low is not None and value.high is not None:
        marks.append(whisker(scale, value.low, value.high, y))
    if (least := _least(row, ranking)) is not None:
        marks.append(line(scale(min(max(least, scale.low), mean)), y, scale(mean), y, "inner"))
    marks.append(at(scale(mean), y, _sign(row)))
    marks.append(words(fitting(label, left), left, y + 4, class_="e b" if is_top else "e"))
    marks.append(words(items(mean), width - 6, y + 4, class_="e b" if is_top else "e"))
    tip = with_tooltip(tooltip_of(row, ranking), *marks)
    return element("g", tip, class_="best") if is_top else tip


def _places(shown: list[RankedLayout]) -> tuple[list[int], int]:
    """Return the line of each row, with one line above each group for its name; and the number of lines."""
    places, line_ = [], 0
    for number, row in enumerate(shown):
        if number == 0 or row.group != shown[number - 1].group:
            line_ += 1
        places.append(line_)
        line_ += 1
    return places, line_


def _intervals(ranking: Ranking) -> str:
    """Return a short explanation of the intervals."""
    level = level_of(ranking)
    if ranking.best is None or all(row.of_best is None for row in ranking.rows):
        return f"with {level} intervals"
    return f"{level} intervals against {ranking.best.layout}"


def _least(row: RankedLayout, ranking: Ranking) -> float | None:
    """Return the lower bound of a layout's value, from its own interval; None: unknown."""
    if row.of_best is None or row.of_best.least is None or ranking.best is None:
        return None
    return row.of_best.least * _mean(ranking.best, ranking)


def _sign(row: RankedLayout) -> str:
    if row.group == "best-or-tied":
        return diamond()
    if row.is_kept_out:
        return cross()
    return ring() if row.group is None else dot()


def _legend(rows: list[RankedLayout], ranking: Ranking) -> list[tuple[str, str]]:
    found = []
    if any(row.group == "best-or-tied" for row in rows):
        found.append((element("g", diamond(), class_="best"), NAMES["best-or-tied"]))
    open_ = [row for row in rows if row.group == "not-ruled-out"]
    if open_:
        found.append((dot(), f"{NAMES['not-ruled-out']}: the interval reaches the best"))
    if any(row.group == "slower" for row in rows):
        found.append((dot(), f"{group_name('slower', ranking.objective)}: it ends below the best"))
    if any(_least(row, ranking) is not None for row in rows):
        found.append((line(-7, 0, 7, 0, "inner"), "lower bound of each layout alone"))
    if any(row.of_best is not None and row.of_best.ratio.low is None for row in open_):
        found.append((dot(), "no interval: too few launches"))
    if any(row.is_kept_out for row in rows):
        found.append((cross(), "not shown to keep the limits"))
    if any(row.group is None and not row.is_kept_out for row in rows):
        found.append((ring(), "not ranked"))
    return found


def _scale(rows: list[RankedLayout], ranking: Ranking, start: float, end: float) -> Scale:
    means = [_mean(row, ranking) for row in rows]
    most = MOST_OF_MEAN * max(means)
    values = [value_beside(row, ranking) for row in rows]
    ends = [one for value in values for one in (value.low, value.high) if one is not None]
    return scale_for([*means, *(min(one, most) for one in ends)], start, end)


def _mean(row: RankedLayout, ranking: Ranking) -> float:
    return value_ranked_by(row, ranking).mean or 0.0


def _label(row: RankedLayout, ranking: Ranking) -> str:
    return f"{row.layout} (now)" if row.layout == ranking.current else str(row.layout)


def _summary(rows: list[RankedLayout], ranking: Ranking) -> str:
    unit = unit_of(ranking)
    first = ", ".join(f"{row.layout} {items(_mean(row, ranking))}" for row in rows[:3])
    return f"One line per layout, in groups, {unit}: {first}. The table next to it has all figures."
