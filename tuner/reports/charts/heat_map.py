"""Heat map of throughput over processes and threads, with an interval in each cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tuner.core.ranking.overview import Overview
from tuner.core.ranking.ranked import RankedLayout, Ranking, value_beside
from tuner.reports.charts.frame import Scale, amount_colour, ink_on, tick_texts
from tuner.reports.charts.picture import (
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
from tuner.reports.charts.values import tooltip_of, unit_of
from tuner.reports.model.model import items
from tuner.reports.ranking.groups import NAMES
from tuner.reports.ranking.ranking_cells import UNKNOWN, beside_cell
from tuner.reports.ranking.ranking_words import level_of, value_ranked_by

_LEFT, _TOP = 46.0, 24.0
_HIGHEST, _LOWEST = 46.0, 14.0  #: largest and smallest height of a cell, px
_WIDEST = 110.0
_BAR = 12.0  #: height of the colour scale, px


def heat_map_svg(
    overview: Overview, *, variant: str | None = None, width: float = WIDE, standalone: bool = False
) -> str:
    """Return one variant of the service (None: that of the best layout) as SVG."""
    if variant is None:
        variant = next((row.layout.variant for row in overview.ranking.rows), "")
    picture = heat_map_picture(overview, variant, width=width)
    if picture is None:
        title = "Throughput over processes and threads"
        picture = empty_picture("heat-map", title, "No layout has been measured yet.", width)
    return picture.svg(standalone=standalone)


def heat_map_picture(
    overview: Overview, variant: str, *, width: float = WIDE, name: str = "heat-map", most_shown: int = 250
) -> DrawnPicture | None:
    """Return rows of processes and columns of threads; None: no layout of *variant* was measured.

    Cells have tooltips, unless there are more than *most_shown*.
    """
    ranking = overview.ranking
    cells = {
        (row.layout.processes, row.layout.threads): row
        for row in ranking.rows
        if row.layout.variant == variant
    }
    # The same colours for all variants, so that their charts can be compared.
    means = [mean for row in ranking.rows if (mean := value_ranked_by(row, ranking).mean) is not None]
    if not means or all(value_ranked_by(row, ranking).mean is None for row in cells.values()):
        return None
    has_threads = any(row.layout.has_threads for row in cells.values())
    if not has_threads:  # a single row: then processes are the columns
        cells = {(0, processes): row for (processes, _), row in cells.items()}
    down = sorted({one for one, _ in cells}, reverse=True)
    across = sorted({one for _, one in cells})
    wide = min(_WIDEST, (width - _LEFT - 6) / len(across))
    high = max(_LOWEST, min(_HIGHEST, 620 / len(down)))
    parts = [
        words("processes, down; threads of each, across" if has_threads else "processes", 2, 14, class_="s m")
    ]
    low, top = min(means), max(means)
    for at_y, processes in enumerate(down):
        y = _TOP + high * at_y
        if has_threads:
            parts.append(words(processes, _LEFT - 8, y + high / 2 + 4, class_="e"))
        for at_x, threads in enumerate(across):
            row = cells.get((processes, threads))
            if row is not None:
                box = (_LEFT + wide * at_x, y, wide, high)
                tip = tooltip_of(row, ranking) if len(cells) <= most_shown else ""
                parts.append(_cell(row, ranking, (low, top), box, name, tip))
    bottom = _TOP + high * len(down)
    every = max(1, round(width_of("000") / wide + 0.4))
    parts += [
        words(threads, _LEFT + wide * (at_x + 0.5), bottom + 16, class_="c")
        for at_x, threads in enumerate(across)
        if not at_x % every
    ]
    parts.append(_colours(low, top, bottom + 30, width, unit_of(ranking)))
    title = "Throughput over processes and threads" + (f", {variant}" if variant else "")
    return DrawnPicture(
        name, title, _summary(cells, ranking), width, bottom + 98, _hatch(name) + "".join(parts)
    )


def _cell(
    row: RankedLayout,
    ranking: Ranking,
    ends: tuple[float, float],
    box: tuple[float, float, float, float],
    name: str,
    tip: str,
) -> str:
    """Return one cell; *box*: its left, top, width and height."""
    x, y, wide, high = box
    value = value_beside(row, ranking)
    if value.mean is None:
        fill = f"url(#{name}-h)" if row.n_void or row.reason else "none"
        return with_tooltip(tip, rectangle(x + 1, y + 1, wide - 2, high - 2, fill=fill, class_="none"))
    share = (value.mean - ends[0]) / (ends[1] - ends[0]) if ends[1] > ends[0] else 1.0
    colour = amount_colour(share)
    ink = "k" if ink_on(colour) == "#000" else "l"
    marks = [rectangle(x, y, wide, high, fill=colour, class_="cell")]
    middle = x + wide / 2
    text = items(value.mean)
    if 6.4 * len(text) + 4 > wide and value.mean >= 1000:  # narrow cells of a phone
        text = f"{value.mean / 1000:.1f}k"
    interval = None
    if value.low is not None and value.high is not None and beside_cell(row, ranking) != UNKNOWN:
        interval = f"{items(value.low)}\u2013{items(value.high)}"
    if interval is not None and high >= 34 and width_of(interval, 11) + 11 <= wide:
        marks.append(words(text, middle, y + high / 2 - 1, class_=f"c b {ink}"))
        marks.append(words(interval, middle, y + high / 2 + 13, class_=f"c s {ink}"))
    elif width_of(text.replace("1", "0"), 11) + 3 <= wide and high >= 14:  # the same for all digits
        marks.append(words(text, middle, y + high / 2 + 4, class_=f"c s {ink}"))
    if row.group == "best-or-tied":
        inset = min(3.0, wide / 6)
        frame = f"frame {ink}f"
        marks.append(rectangle(x + inset, y + inset, wide - 2 * inset, high - 2 * inset, class_=frame))
    if row.is_kept_out:
        marks.append(line(x + 3, y + high - 3, x + wide - 3, y + 3, f"{ink}f"))
    return with_tooltip(tip, *marks)


def _colours(low: float, high: float, y: float, width: float, title: str) -> str:
    """Return the colour scale with its ticks."""
    long = min(280.0, width - _LEFT - 20)
    n = 32
    boxes = [
        rectangle(_LEFT + long * at / n, y, long / n + 0.5, _BAR, fill=amount_colour((at + 0.5) / n))
        for at in range(n)
    ]
    ticks = Scale(low, high, _LEFT, _LEFT + long).ticks(6) if high > low else []
    span = (high - low) or 1.0
    marks = [
        words(text, _LEFT + long * (tick - low) / span, y + _BAR + 14, class_="s m c")
        for tick, text in zip(ticks, tick_texts(ticks), strict=True)
    ]
    framed = words(f"framed: {NAMES['best-or-tied']}", _LEFT, y + _BAR + 48, class_="s m")
    return "".join([*boxes, *marks, words(title, _LEFT, y + _BAR + 31, class_="s m"), framed])


def _hatch(name: str) -> str:
    stripe = element("path", d="M0 6L6 0", class_="hatch")
    pattern = element("pattern", stripe, id=f"{name}-h", width=6, height=6, patternUnits="userSpaceOnUse")
    return element("defs", pattern)


def _summary(cells: Mapping[tuple[int, int], RankedLayout], ranking: Ranking) -> str:
    rows: Sequence[RankedLayout] = [
        row for row in cells.values() if value_ranked_by(row, ranking).mean is not None
    ]
    best = max(rows, key=lambda row: value_ranked_by(row, ranking).mean or 0.0)
    worst = min(rows, key=lambda row: value_ranked_by(row, ranking).mean or 0.0)
    high, low = value_ranked_by(best, ranking).mean or 0.0, value_ranked_by(worst, ranking).mean or 0.0
    return (
        f"A cell for each layout with the {level_of(ranking)} interval of its difference to the best:"
        f" from {items(low)} ({worst.layout}) to {items(high)} ({best.layout}) {unit_of(ranking)}."
    )
