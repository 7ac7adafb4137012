"""A published experiment: what was published, what was measured, and the model's line; logarithmic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from tuner.core.lab.experiment import LabFigure, Outcome, Row, Value, format_point
from tuner.core.lab.studied import StudyExperiment
from tuner.reports.charts.frame import legend
from tuner.reports.charts.lab_layouts import layouts_picture
from tuner.reports.charts.lab_scale import SIGNS, Log, frame, marks, push_apart, ticks_around, values_of
from tuner.reports.charts.picture import WIDE, DrawnPicture
from tuner.reports.charts.svg import element, width_of, words

_MOST_LINES = 8  #: in one panel


def lab_picture(outcome: Outcome, *, width: float = WIDE, name: str = "lab") -> DrawnPicture:
    """The first figure of every point: along its last parameter, a line for each value of the others.

    More than _MOST_LINES of them come in panels, one for each value of all parameters but the last two.
    Layouts have a picture of their own.
    """
    experiment, figure = outcome.experiment, outcome.experiment.figures[0]
    if isinstance(experiment, StudyExperiment):
        return layouts_picture(outcome, width=width, name=name)
    rows = [row for row in outcome.rows if figure.key in row.measured or figure.key in row.published]
    panels: list[tuple[tuple[Value, ...], list[Row]]] = [((), rows)]
    if len({row.at[:-1] for row in rows}) > _MOST_LINES:
        heads = dict.fromkeys(row.at[:-2] for row in rows)
        panels = [(head, [row for row in rows if row.at[:-2] == head]) for head in heads]
    end, parts = 0.0, []
    for head, own in panels:
        text = ": ".join(part for part in (_named(head, outcome), figure.label) if part)
        high = min(400.0, 0.65 * width) if len(panels) == 1 else 200.0
        drawn, end = _panel(own, len(head), outcome, text, (width, end, high))
        parts += drawn
    signs, end = legend(SIGNS, 40.0, end + 8, width - 8)
    n_measured = sum(1 for row in rows if row.measured)
    summary = (
        f"{figure.label} by {', '.join(experiment.parameters)}: {len(rows)} points, {n_measured} of "
        "them measured here. The tables below have every figure."
    )
    title = f"{experiment.name}: {figure.label}, published, measured and modelled"
    return DrawnPicture(name, title, summary, width, end + 12, "".join([*parts, signs]))


def _panel(
    rows: Sequence[Row], n_reported: int, outcome: Outcome, title: str, place: tuple[float, float, float]
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
    values = [value for row in rows for value in values_of(row, figure)]
    low, high = min(values), max(values)
    ticks = ticks_around(low, high)
    names = {one: _named(one, outcome, n_reported) for one in series}
    ends_apart = [
        _apart([values_of(row, figure)[0] for row in rows if row.at[-1] == end])
        for end in (steps[0], steps[-1])
    ]
    names_first = ends_apart[0] > ends_apart[1]  # where the lines lie further apart
    room = max(map(width_of, names.values())) + 10
    left = max(width_of(f"{tick:g}") for tick in ticks) + 12 + (room if names_first else 0)
    right = width - 8 - (0 if names_first else room)
    top, bottom = above + 30, above + 30 + height
    up = Log(min(low, ticks[0]), max(high, ticks[-1]), bottom, top)
    along = {step: left + (n + 0.5) * (right - left) / len(steps) for n, step in enumerate(steps)}

    edge = left - (room if names_first else 0)
    steps_told = {format_point(step): x for step, x in along.items()}
    parts = frame(title, ticks, up, steps_told, outcome.experiment.parameters[-1], (edge, right))
    ends: dict[float, dict[str, float]] = {}  # by x: names, and where their lines end
    for one in series:
        own = [row for row in rows if row.at[:-1] == one]
        parts.append(_line({row.at[-1]: row.published for row in own}, figure, along, up, "mean", "none"))
        parts.append(_line({row.at[-1]: row.modelled for row in own}, figure, along, up, "front", None))
        parts += [marks(row, figure, along[row.at[-1]], up) for row in own]
        at_end = own[0] if names_first else own[-1]
        x = along[at_end.at[-1]] + (-10 if names_first else 10)
        ends.setdefault(x, {})[names[one]] = up(values_of(at_end, figure)[0]) + 4
    for x, named in ends.items():
        parts += [
            words(name, x, y, class_="s e" if names_first else "s")
            for name, y in push_apart(named, bottom).items()
        ]
    return parts, bottom + 46


def _line(
    sides: Mapping[Value, Mapping[str, float]],
    figure: LabFigure,
    along: Mapping[Value, float],
    up: Log,
    class_: str,
    fill: str | None,
) -> str:
    points = [
        f"{along[step]:.1f} {up(side[figure.key]):.1f}" for step, side in sides.items() if figure.key in side
    ]
    return element("path", d="M" + "L".join(points), class_=class_, fill=fill) if len(points) > 1 else ""


def _apart(values: Sequence[float]) -> float:
    """How far apart the nearest two of *values* are, as a ratio."""
    ordered = sorted(values)
    return min((later / earlier for earlier, later in pairwise(ordered)), default=1.0)


def _named(values: tuple[Value, ...], outcome: Outcome, n_reported: int = 0) -> str:
    """A line's name: names alone, numbers with their parameter; without the first *n_told*."""
    named = list(zip(outcome.experiment.parameters, values, strict=False))[n_reported:]
    return ", ".join(value if isinstance(value, str) else f"{name} {value:g}" for name, value in named)
