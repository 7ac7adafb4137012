"""The ranking as a picture: a mark and its interval for each layout, best first."""

from __future__ import annotations

from tuner.core.figures import first_of
from tuner.core.overview import Overview
from tuner.core.ranking import RankedLayout, Ranking
from tuner.reports.charts.frame import at, cross, diamond, dot, legend, ring, whisker, x_axis
from tuner.reports.charts.picture import WIDE, Picture, nothing_picture
from tuner.reports.charts.scale import Scale, scale_for
from tuner.reports.charts.svg import element, fitting, line, rectangle, tipped, width_of, words
from tuner.reports.charts.values import MOST_OF_MEAN, told, unit_of
from tuner.reports.model import items
from tuner.reports.ranking_words import level_of, value_ranked_by

_ROW = 22.0
_MOST = 40  #: rows that are drawn


def ranking_svg(overview: Overview, *, width: float = WIDE, standalone: bool = False) -> str:
    """The layouts of *overview*, best first, as SVG."""
    title = "Ranking of layouts"
    picture = ranking_picture(overview, width=width)
    if picture is None:
        picture = nothing_picture("ranking", title, "No layout has been measured yet.", width)
    return picture.svg(standalone=standalone)


def ranking_picture(
    overview: Overview, *, width: float = WIDE, name: str = "ranking", most: int = _MOST
) -> Picture | None:
    """The first *most* layouts; None: nothing was measured."""
    ranking = overview.ranking
    rows = [row for row in ranking.rows if value_ranked_by(row, ranking).mean is not None]
    if not rows:
        return None
    shown = list(first_of(rows, most))
    labels = [_label(row, ranking) for row in shown]
    left = min(width * 0.3, 14 + max(width_of(one) for one in labels))
    right = width - 12 - max(width_of(items(_mean(row, ranking))) for row in shown) - 6
    scale = _scale(shown, ranking, left + 10, right)
    top, bottom = 8.0, 8.0 + _ROW * len(shown)
    parts = [
        rectangle(0, top + _ROW * place, width, _ROW, class_="band")
        for place, row in enumerate(shown)
        if row.rank == 1
    ]
    parts.append(x_axis(scale, top, bottom, f"{unit_of(ranking)}, with {level_of(ranking)} intervals"))
    best = _mean(shown[0], ranking)
    parts.append(line(scale(best), top, scale(best), bottom, "guide"))
    for place, row in enumerate(shown):
        parts.append(_row(row, ranking, scale, top + _ROW * (place + 0.5), left, width, labels[place]))
    signs, end = legend(_legend(shown, ranking), left, bottom + 54, width)
    left_out = len(rows) - len(shown)
    if left_out:
        end += 18
        signs += words(f"{left_out} more layouts are in the table.", left, end, class_="s m")
    return Picture(
        name, "Ranking of layouts", _summary(shown, ranking), width, end + 8, "".join([*parts, signs])
    )


def _row(
    row: RankedLayout, ranking: Ranking, scale: Scale, y: float, left: float, width: float, label: str
) -> str:
    value = value_ranked_by(row, ranking)
    mean = _mean(row, ranking)
    marks = [rectangle(0, y - _ROW / 2, width, _ROW, fill="transparent")]
    if value.low is not None and value.high is not None:
        marks.append(whisker(scale, value.low, value.high, y))
    marks.append(at(scale(mean), y, _sign(row)))
    marks.append(words(fitting(label, left), left, y + 4, class_="e b" if row.rank == 1 else "e"))
    marks.append(words(items(mean), width - 6, y + 4, class_="e b" if row.rank == 1 else "e"))
    tip = tipped(told(row, ranking), *marks)
    return element("g", tip, class_="best") if row.rank == 1 else tip


def _sign(row: RankedLayout) -> str:
    if row.rank == 1:
        return diamond()
    if row.is_kept_out:
        return cross()
    return ring() if row.rank is None else dot()


def _legend(rows: list[RankedLayout], ranking: Ranking) -> list[tuple[str, str]]:
    found = []
    if any(row.rank == 1 for row in rows):
        found.append((element("g", diamond(), class_="best"), "best, or not to be told from it"))
    if any(row.rank is not None and row.rank > 1 for row in rows):
        found.append((dot(), "surely worse" if ranking.claim is None else "ruled out, or behind"))
    if any(row.is_kept_out for row in rows):
        found.append((cross(), "not shown to keep the limits"))
    if any(row.rank is None and not row.is_kept_out for row in rows):
        found.append((ring(), "not ranked"))
    return found


def _scale(rows: list[RankedLayout], ranking: Ranking, start: float, end: float) -> Scale:
    means = [_mean(row, ranking) for row in rows]
    most = MOST_OF_MEAN * max(means)
    values = [value_ranked_by(row, ranking) for row in rows]
    ends = [one for value in values for one in (value.low, value.high) if one is not None]
    return scale_for([*means, *(min(one, most) for one in ends)], start, end)


def _mean(row: RankedLayout, ranking: Ranking) -> float:
    return value_ranked_by(row, ranking).mean or 0.0


def _label(row: RankedLayout, ranking: Ranking) -> str:
    return f"{row.layout} (now)" if row.layout == ranking.current else str(row.layout)


def _summary(rows: list[RankedLayout], ranking: Ranking) -> str:
    unit = unit_of(ranking)
    first = ", ".join(f"{row.layout} {items(_mean(row, ranking))}" for row in rows[:3])
    return f"One line a layout, best first, {unit}: {first}. The table beside it has all figures."
