"""A published experiment: what was published, what was measured, and the model's line; logarithmic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import floor, log10

from tuner.core.lab.experiment import Figure, Outcome, Row, Value
from tuner.reports.charts.frame import at, dot, legend, ring
from tuner.reports.charts.picture import WIDE, Picture
from tuner.reports.charts.svg import element, line, tipped, width_of, words

_TICKS = (1.0, 2.0, 5.0)  #: of each power of ten
_MOST_LINES = 8  #: in one panel
_LINE_PX = 13.0  #: from one name to the next
_MODEL = element("path", d="M-7 0H7", class_="front")


def lab_picture(outcome: Outcome, *, width: float = WIDE, name: str = "lab") -> Picture:
    """The first figure of every point: along its last parameter, a line for each value of the others.

    More than _MOST_LINES of them come in panels, one for each value of all parameters but the last two.
    """
    experiment, figure = outcome.experiment, outcome.experiment.figures[0]
    rows = [row for row in outcome.rows if figure.key in row.measured or figure.key in row.published]
    panels: list[tuple[tuple[Value, ...], list[Row]]] = [((), rows)]
    if len({row.at[:-1] for row in rows}) > _MOST_LINES:
        heads = dict.fromkeys(row.at[:-2] for row in rows)
        panels = [(head, [row for row in rows if row.at[:-2] == head]) for head in heads]
    end, parts = 0.0, []
    for head, own in panels:
        told = ": ".join(part for part in (_named(head, outcome), figure.label) if part)
        high = min(400.0, 0.65 * width) if len(panels) == 1 else 200.0
        drawn, end = _panel(own, len(head), outcome, told, (width, end, high))
        parts += drawn
    entries = [
        (ring(), "published"),
        (dot(), "measured here, with the range of the runs"),
        (_MODEL, "model, fitted to a few measured points"),
    ]
    signs, end = legend(entries, 40.0, end + 8, width - 8)
    n_measured = sum(1 for row in rows if row.measured)
    summary = (
        f"{figure.label} by {', '.join(experiment.parameters)}: {len(rows)} points, {n_measured} of "
        "them measured here. The tables below have every figure."
    )
    title = f"{experiment.name}: {figure.label}, published, measured and modelled"
    return Picture(name, title, summary, width, end + 12, "".join([*parts, signs]))


def _panel(
    rows: Sequence[Row], n_told: int, outcome: Outcome, title: str, place: tuple[float, float, float]
) -> tuple[list[str], float]:
    """Lines of *rows*, named by their parameters but the first *n_told* and the last.

    Args:
        place: width of the picture, top of the panel, height of its axis, px.

    Returns:
        What is drawn, and where it ends.
    """
    figure, (width, above, height) = outcome.experiment.figures[0], place
    if not any(isinstance(row.at[-1], str) for row in rows):
        rows = sorted(rows, key=lambda row: float(row.at[-1]))
    series = list(dict.fromkeys(row.at[:-1] for row in rows))
    steps = list(dict.fromkeys(row.at[-1] for row in rows))
    values = [value for row in rows for value in _values(row, figure)]
    low, high = min(values), max(values)
    ticks = _ticks(low, high)
    names = {one: _named(one, outcome, n_told) for one in series}
    ends_apart = [
        _apart([_values(row, figure)[0] for row in rows if row.at[-1] == end])
        for end in (steps[0], steps[-1])
    ]
    names_first = ends_apart[0] > ends_apart[1]  # where the lines lie further apart
    room = max(map(width_of, names.values())) + 10
    left = max(width_of(f"{tick:g}") for tick in ticks) + 12 + (room if names_first else 0)
    right = width - 8 - (0 if names_first else room)
    top, bottom = above + 30, above + 30 + height
    up = _Log(min(low, ticks[0]), max(high, ticks[-1]), bottom, top)
    along = {step: left + (n + 0.5) * (right - left) / len(steps) for n, step in enumerate(steps)}

    edge = left - (room if names_first else 0)
    parts = [words(title, 2, top - 12, class_="s m")]
    for tick in ticks:
        parts.append(line(edge, up(tick), right, up(tick), "grid"))
        parts.append(words(f"{tick:g}", edge - 6, up(tick) + 4, class_="s m e"))
    for step, x in along.items():
        parts.append(words(_told(step), x, bottom + 16, class_="s m c"))
    parts.append(line(edge, bottom, right, bottom, "axis"))
    parts.append(words(outcome.experiment.parameters[-1], (left + right) / 2, bottom + 33, class_="s m c"))
    ends: dict[float, dict[str, float]] = {}  # by x: names, and where their lines end
    for one in series:
        own = [row for row in rows if row.at[:-1] == one]
        parts.append(_line({row.at[-1]: row.published for row in own}, figure, along, up, "mean", "none"))
        parts.append(_line({row.at[-1]: row.modelled for row in own}, figure, along, up, "front", None))
        parts += [_marks(row, figure, along[row.at[-1]], up) for row in own]
        at_end = own[0] if names_first else own[-1]
        x = along[at_end.at[-1]] + (-10 if names_first else 10)
        ends.setdefault(x, {})[names[one]] = up(_values(at_end, figure)[0]) + 4
    for x, named in ends.items():
        parts += [
            words(name, x, y, class_="s e" if names_first else "s")
            for name, y in _pushed_apart(named, bottom).items()
        ]
    return parts, bottom + 46


def _pushed_apart(named: Mapping[str, float], bottom: float) -> dict[str, float]:
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


class _Log:
    """A logarithmic axis: *low* lies at px *start*, *high* at px *end*."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self._low, self._span = log10(low), max(1e-9, log10(high) - log10(low))
        self._start, self._end = start, end

    def __call__(self, value: float) -> float:
        return self._start + (log10(value) - self._low) / self._span * (self._end - self._start)


def _ticks(low: float, high: float) -> list[float]:
    """Round values around *low* to *high*, one beyond each end where none is near it."""
    every = [
        step * 10.0**power
        for power in range(floor(log10(low)) - 1, floor(log10(high)) + 2)
        for step in _TICKS
    ]
    first = max(n for n, tick in enumerate(every) if tick <= low * (1 + 1e-9))
    last = min(n for n, tick in enumerate(every) if tick >= high * (1 - 1e-9))
    return every[first : last + 1]


def _values(row: Row, figure: Figure) -> list[float]:
    """What of a row lies on the axis; the measured, else the published value first."""
    measured = row.measured.get(figure.key)
    found = [measured.median, measured.low, measured.high] if measured else []
    return found + [side[figure.key] for side in (row.published, row.modelled) if figure.key in side]


def _line(
    sides: Mapping[Value, Mapping[str, float]],
    figure: Figure,
    along: Mapping[Value, float],
    up: _Log,
    class_: str,
    fill: str | None,
) -> str:
    points = [
        f"{along[step]:.1f} {up(side[figure.key]):.1f}" for step, side in sides.items() if figure.key in side
    ]
    return element("path", d="M" + "L".join(points), class_=class_, fill=fill) if len(points) > 1 else ""


def _marks(row: Row, figure: Figure, x: float, up: _Log) -> str:
    drawn, told = [], [", ".join(map(_told, row.at))]
    measured = row.measured.get(figure.key)
    if measured is not None:
        if measured.high > measured.low:
            drawn.append(line(x, up(measured.low), x, up(measured.high), "whisker"))
        drawn.append(at(x, up(measured.median), dot()))
        told.append(f"measured {measured.median:.{figure.digits}f}")
    for side, told_as in ((row.published, "published"), (row.modelled, "model")):
        if figure.key in side:
            told.append(f"{told_as} {side[figure.key]:.{figure.digits}f}")
    if figure.key in row.published:
        drawn.append(at(x, up(row.published[figure.key]), ring()))
    return tipped(", ".join(told), *drawn)


def _apart(values: Sequence[float]) -> float:
    """How far apart the nearest two of *values* are, as a ratio."""
    ordered = sorted(values)
    return min((later / earlier for earlier, later in pairwise(ordered)), default=1.0)


def _named(values: tuple[Value, ...], outcome: Outcome, n_told: int = 0) -> str:
    """A line's name: names alone, numbers with their parameter; without the first *n_told*."""
    named = list(zip(outcome.experiment.parameters, values, strict=False))[n_told:]
    return ", ".join(value if isinstance(value, str) else f"{name} {value:g}" for name, value in named)


def _told(value: Value) -> str:
    return value if isinstance(value, str) else f"{value:g}"
