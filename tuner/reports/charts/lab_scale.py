"""What pictures of published experiments share: a logarithmic axis, and the signs of a point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import floor, log10

from tuner.core.lab.experiment import LabFigure, Row, format_point
from tuner.reports.charts.frame import at, diamond, dot, ring
from tuner.reports.charts.svg import element, line, with_tooltip, words

_TICKS = (1.0, 2.0, 5.0)  #: of each power of ten
_LINE_PX = 13.0  #: from one name to the next


class Log:
    """A logarithmic axis: *low* lies at px *start*, *high* at px *end*."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self._low, self._span = log10(low), max(1e-9, log10(high) - log10(low))
        self.start, self.end = start, end

    def __call__(self, value: float) -> float:
        """Where *value* lies, px."""
        return self.start + (log10(value) - self._low) / self._span * (self.end - self.start)


def ticks_around(low: float, high: float) -> list[float]:
    """Round values around *low* to *high*, one beyond each end where none is near it."""
    every = [
        step * 10.0**power
        for power in range(floor(log10(low)) - 1, floor(log10(high)) + 2)
        for step in _TICKS
    ]
    first = max(n for n, tick in enumerate(every) if tick <= low * (1 + 1e-9))
    last = min(n for n, tick in enumerate(every) if tick >= high * (1 - 1e-9))
    return every[first : last + 1]


def frame(
    title: str,
    ticks: Sequence[float],
    up: Log,
    steps: Mapping[str, float],
    below: str,
    ends: tuple[float, float],
) -> list[str]:
    """What stands around a panel's points: *title*, a grid of *ticks*, and *below* it what the steps are.

    Args:
        steps: px of each step along, by its name.
        ends: px of the grid's left and right end.
    """
    (left, right), bottom = ends, up.start
    parts = [words(title, 2, up.end - 12, class_="s m")]
    for tick in ticks:
        parts.append(line(left, up(tick), right, up(tick), "grid"))
        parts.append(words(f"{tick:g}", left - 6, up(tick) + 4, class_="s m e"))
    parts += [words(name, x, bottom + 16, class_="s m c") for name, x in steps.items()]
    parts.append(line(left, bottom, right, bottom, "axis"))
    parts.append(
        words(below, sum((min(steps.values()), max(steps.values()))) / 2, bottom + 33, class_="s m c")
    )
    return parts


def push_apart(named: Mapping[str, float], bottom: float) -> dict[str, float]:
    """Names from top to bottom, each a line's height below the one before it, none below *bottom*."""
    order = sorted(named, key=lambda name: named[name])
    placed: dict[str, float] = {}
    above = 0.0
    for name in order:
        placed[name] = above = max(named[name], above + _LINE_PX)
    below = bottom + _LINE_PX
    for name in reversed(order):
        placed[name] = below = min(placed[name], below - _LINE_PX)
    return placed


def values_of(row: Row, figure: LabFigure) -> list[float]:
    """What of a row lies on the axis; the measured, else the published value first."""
    measured = row.measured.get(figure.key)
    found = [measured.median, measured.low, measured.high] if measured else []
    return found + [side[figure.key] for side in (row.published, row.modelled) if figure.key in side]


def dash() -> str:
    """The model."""
    return element("path", d="M-7 0H7", class_="front")


def marks(row: Row, figure: LabFigure, x: float, up: Log) -> str:
    """A row as measured and as published, with its figures as a tip."""
    drawn, lines = [], [format_point(row.at)]
    measured = row.measured.get(figure.key)
    if measured is not None:
        if measured.high > measured.low:
            drawn.append(line(x, up(measured.low), x, up(measured.high), "whisker"))
        drawn.append(at(x, up(measured.median), diamond() if row.is_simulated else dot()))
        how = "simulated" if row.is_simulated else "measured"
        lines.append(f"{how} {measured.median:.{figure.digits}f}")
    for side, told_as in ((row.published, "published"), (row.modelled, "model")):
        if figure.key in side:
            lines.append(f"{told_as} {side[figure.key]:.{figure.digits}f}")
    if figure.key in row.published:
        drawn.append(at(x, up(row.published[figure.key]), ring()))
    return with_tooltip(", ".join(lines), *drawn)


#: for the legend
SIGNS = [
    (ring(), "published"),
    (dot(), "measured here, with the range of the runs"),
    (dash(), "model, fitted to a few measured points"),
]
SIMULATED_SIGN = (diamond(), "simulated, same claim")
