"""What pictures of published experiments share: a logarithmic axis, and the signs of a point."""

from __future__ import annotations

from collections.abc import Mapping
from math import floor, log10

from tuner.core.lab.experiment import Figure, Row, point_told
from tuner.reports.charts.frame import at, diamond, dot, ring
from tuner.reports.charts.svg import element, line, tipped

_TICKS = (1.0, 2.0, 5.0)  #: of each power of ten
_LINE_PX = 13.0  #: from one name to the next


class Log:
    """A logarithmic axis: *low* lies at px *start*, *high* at px *end*."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self._low, self._span = log10(low), max(1e-9, log10(high) - log10(low))
        self._start, self._end = start, end

    def __call__(self, value: float) -> float:
        """Where *value* lies, px."""
        return self._start + (log10(value) - self._low) / self._span * (self._end - self._start)


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


def pushed_apart(named: Mapping[str, float], bottom: float) -> dict[str, float]:
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


def values_of(row: Row, figure: Figure) -> list[float]:
    """What of a row lies on the axis; the measured, else the published value first."""
    measured = row.measured.get(figure.key)
    found = [measured.median, measured.low, measured.high] if measured else []
    return found + [side[figure.key] for side in (row.published, row.modelled) if figure.key in side]


def dash() -> str:
    """The model."""
    return element("path", d="M-7 0H7", class_="front")


def marks(row: Row, figure: Figure, x: float, up: Log) -> str:
    """A row as measured and as published, with its figures as a tip."""
    drawn, told = [], [point_told(row.at)]
    measured = row.measured.get(figure.key)
    if measured is not None:
        if measured.high > measured.low:
            drawn.append(line(x, up(measured.low), x, up(measured.high), "whisker"))
        drawn.append(at(x, up(measured.median), diamond() if row.is_simulated else dot()))
        how = "simulated" if row.is_simulated else "measured"
        told.append(f"{how} {measured.median:.{figure.digits}f}")
    for side, told_as in ((row.published, "published"), (row.modelled, "model")):
        if figure.key in side:
            told.append(f"{told_as} {side[figure.key]:.{figure.digits}f}")
    if figure.key in row.published:
        drawn.append(at(x, up(row.published[figure.key]), ring()))
    return tipped(", ".join(told), *drawn)


#: for the legend
SIGNS = [
    (ring(), "published"),
    (dot(), "measured here, with the range of the runs"),
    (dash(), "model, fitted to a few measured points"),
]
SIMULATED_SIGN = (diamond(), "simulated, likewise")
