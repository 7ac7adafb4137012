"""Page of a published experiment, with charts of its measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import floor, log10
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.core.domain.layout import Layout
from tuner.lab.experiments.experiment import At, LabFigure, Outcome, Row, Value, format_point
from tuner.lab.experiments.studied import StudyExperiment
from tuner.reports.charts.frame import at, diamond, dot, legend, ring
from tuner.reports.charts.picture import WIDE, DrawnPicture, element, line, width_of, with_tooltip, words

if TYPE_CHECKING:
    from tuner.lab.lab import Results


def write_page(page: Path, outcome: Outcome, made: Results) -> None:
    """Write the page of an experiment, with its picture and its figures next to it."""
    from tuner.adapters.text_file import replace_text
    from tuner.lab.interpreters import lab_command
    from tuner.lab.report import lab_figures, lab_page
    from tuner.reports.documents import render_document

    picture, figures = page.with_suffix(".svg"), page.with_suffix(".csv")
    blocks = lab_page(outcome, described_host(outcome, made), picture.name, figures.name, lab_command(made))
    replace_text(figures, lab_figures(outcome))
    replace_text(picture, lab_picture(outcome).svg(standalone=True) + "\n")
    replace_text(page, render_document(blocks, "markdown"))


def described_host(outcome: Outcome, made: Results) -> str:
    """Describe the host of an experiment, and the gaps in its results."""
    from tuner.lab.experiments.experiment import SIMULATED, describe_failures, needs_at, programs_at
    from tuner.lab.report import describe_host

    points = [run.at for run in made.runs]
    return describe_host(
        outcome.experiment,
        made.provenance,
        made.cores,
        sum(SIMULATED not in run.values for run in made.runs),
        repeats=made.repeats,
        quick=made.quick,
        also=(*needs_at(outcome.experiment, points), *programs_at(outcome.experiment, points)),
        left_out=[*made.left_out, *made.gaps, *describe_failures(outcome.experiment, made.failed)],
    )


# Chart of a published experiment: published and measured values, and the model's line; logarithmic.


# Parts shared by charts of published experiments: a logarithmic axis, and the marks of a point.

_TICKS = (1.0, 2.0, 5.0)  #: ticks of each power of ten
_LINE_PX = 13.0  #: distance from one name to the next, px


class Log:
    """A logarithmic axis: *low* is at *start* px, *high* at *end* px."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self._low, self._span = log10(low), max(1e-9, log10(high) - log10(low))
        self.start, self.end = start, end

    def __call__(self, value: float) -> float:
        """Return the position of *value* in px."""
        return self.start + (log10(value) - self._low) / self._span * (self.end - self.start)


def ticks_around(low: float, high: float) -> list[float]:
    """Return round values from *low* to *high*, and one beyond each end that has none close to it."""
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
    """Return the frame of a panel: *title*, a grid of *ticks*, and the names of the steps *below* it.

    Args:
        steps: position in px of each step, by its name.
        ends: position in px of the grid's left and right end.
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
    """Return positions of names from top to bottom, a line's height apart, none below *bottom*."""
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
    """Return the values of a row on the axis; the measured, else the published value first."""
    measured = row.measured.get(figure.key)
    found = [measured.median, measured.low, measured.high] if measured else []
    return found + [side[figure.key] for side in (row.published, row.modelled) if figure.key in side]


def dash() -> str:
    """Return the mark of the model."""
    return element("path", d="M-7 0H7", class_="front")


def marks(row: Row, figure: LabFigure, x: float, up: Log) -> str:
    """Return the marks of a row, measured and published, with its figures as a tooltip."""
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


#: signs for the legend
SIGNS = [
    (ring(), "published"),
    (dot(), "measured here, with the range of the runs"),
    (dash(), "model, fitted to a few measured points"),
]
SIMULATED_SIGN = (diamond(), "simulated, same claim")


# Chart of an experiment whose points are layouts: published, measured and modelled; logarithmic.

_HIGH = 200.0  #: height of a panel's axis, px
_DODGE = 12.0  #: largest distance between the rows of points of one layout, px


def layouts_picture(outcome: Outcome) -> DrawnPicture:
    """Return the main figure of every layout, by total threads, in the panels of the experiment.

    Raises:
        TypeError: its points are not layouts.
    """
    experiment, figure = outcome.experiment, outcome.experiment.figures[0]
    if not isinstance(experiment, StudyExperiment):
        raise TypeError(f"{experiment.name} is no study")
    rows = [row for row in outcome.rows if figure.key in row.measured or figure.key in row.published]
    panels: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        title, series = experiment.panel(row.at)
        panels.setdefault(title, {}).setdefault(series, []).append(row)
    end, parts = 0.0, []
    for title, by_series in panels.items():
        drawn, end = _layout_panel(by_series, outcome, f"{title}: {figure.label}", WIDE, end)
        parts += drawn
    signs, end = legend([*SIGNS, SIMULATED_SIGN], 40.0, end + 8, WIDE - 8)
    n_measured = sum(1 for row in rows if row.measured and not row.is_simulated)
    n_simulated = sum(1 for row in rows if row.is_simulated)
    summary = (
        f"{figure.label} by layout: {len(rows)} points, {n_measured} of them measured here, {n_simulated} "
        "simulated. The tables below have every figure."
    )
    title = f"{experiment.name}: {figure.label}, published, measured and modelled"
    return DrawnPicture("lab", title, summary, WIDE, end + 12, "".join([*parts, signs]))


def _layout_panel(
    by_series: dict[str, list[Row]], outcome: Outcome, title: str, width: float, above: float
) -> tuple[list[str], float]:
    """Return the panel, and the position of its lower end."""
    figure = outcome.experiment.figures[0]
    rows = [row for own in by_series.values() for row in own]
    layouts = sorted({_layout(row.at) for row in rows}, key=lambda one: (one.total_threads, one))
    values = [value for row in rows for value in values_of(row, figure)]
    ticks = ticks_around(min(values), max(values))
    left = max(width_of(f"{tick:g}") for tick in ticks) + 12
    right = width - 18 - (max(map(width_of, by_series)) if len(by_series) > 1 else 0)
    top, bottom = above + 30, above + 30 + _HIGH
    up = Log(min(min(values), ticks[0]), max(max(values), ticks[-1]), bottom, top)
    step = (right - left) / len(layouts)
    along = {layout: left + (n + 0.5) * step for n, layout in enumerate(layouts)}
    dodge = min(_DODGE, 0.8 * step / len(by_series))

    steps_told = {str(layout): x for layout, x in along.items()}
    parts = frame(title, ticks, up, steps_told, "layout", (left, right))
    ends = {}
    for n, (name, own) in enumerate(by_series.items()):
        aside = (n - (len(by_series) - 1) / 2) * dodge
        for row in own:
            x = along[_layout(row.at)] + aside
            if figure.key in row.modelled:
                parts.append(at(x, up(row.modelled[figure.key]), dash()))
            parts.append(marks(row, figure, x, up))
        last = max(own, key=lambda row: along[_layout(row.at)])
        ends[name] = up(values_of(last, figure)[0]) + 4
    if len(by_series) > 1:
        parts += [words(name, right + 8, y, class_="s") for name, y in push_apart(ends, bottom).items()]
    return parts, bottom + 46


def _layout(point: At) -> Layout:
    processes, threads = point[-2:]
    return Layout(int(processes), int(threads))


_MOST_LINES = 8  #: largest number of lines in a panel


def lab_picture(outcome: Outcome) -> DrawnPicture:
    """Return the main figure of every point: a line for each value of all but the last parameter.

    More than _MOST_LINES lines are split into panels, one for each value of all parameters but the last two.
    Layouts have a separate chart.
    """
    experiment, figure = outcome.experiment, outcome.experiment.figures[0]
    if isinstance(experiment, StudyExperiment):
        return layouts_picture(outcome)
    rows = [row for row in outcome.rows if figure.key in row.measured or figure.key in row.published]
    panels: list[tuple[tuple[Value, ...], list[Row]]] = [((), rows)]
    if len({row.at[:-1] for row in rows}) > _MOST_LINES:
        heads = dict.fromkeys(row.at[:-2] for row in rows)
        panels = [(head, [row for row in rows if row.at[:-2] == head]) for head in heads]
    end, parts = 0.0, []
    for head, own in panels:
        text = ": ".join(part for part in (_line_name(head, outcome), figure.label) if part)
        high = min(400.0, 0.65 * WIDE) if len(panels) == 1 else 200.0
        drawn, end = _panel(own, len(head), outcome, text, (WIDE, end, high))
        parts += drawn
    signs, end = legend(SIGNS, 40.0, end + 8, WIDE - 8)
    n_measured = sum(1 for row in rows if row.measured)
    summary = (
        f"{figure.label} by {', '.join(experiment.parameters)}: {len(rows)} points, {n_measured} of "
        "them measured here. The tables below have every figure."
    )
    title = f"{experiment.name}: {figure.label}, published, measured and modelled"
    return DrawnPicture("lab", title, summary, WIDE, end + 12, "".join([*parts, signs]))


def _panel(
    rows: Sequence[Row], n_reported: int, outcome: Outcome, title: str, place: tuple[float, float, float]
) -> tuple[list[str], float]:
    """Return lines of *rows*, named by their parameters but the first *n_reported* and the last.

    Args:
        place: width of the picture, top of the panel, height of its axis, px.

    Returns:
        The panel, and the position of its lower end.
    """
    figure, (width, above, height) = outcome.experiment.figures[0], place
    if not any(isinstance(row.at[-1], str) for row in rows):
        rows = sorted(rows, key=lambda row: float(row.at[-1]))
    series = list(dict.fromkeys(row.at[:-1] for row in rows))
    steps = list(dict.fromkeys(row.at[-1] for row in rows))
    values = [value for row in rows for value in values_of(row, figure)]
    low, high = min(values), max(values)
    ticks = ticks_around(low, high)
    names = {one: _line_name(one, outcome, n_reported) for one in series}
    ends_apart = [
        _apart([values_of(row, figure)[0] for row in rows if row.at[-1] == end])
        for end in (steps[0], steps[-1])
    ]
    names_first = ends_apart[0] > ends_apart[1]  # where the lines are further apart
    room = max(map(width_of, names.values())) + 10
    left = max(width_of(f"{tick:g}") for tick in ticks) + 12 + (room if names_first else 0)
    right = width - 8 - (0 if names_first else room)
    top, bottom = above + 30, above + 30 + height
    up = Log(min(low, ticks[0]), max(high, ticks[-1]), bottom, top)
    along = {step: left + (n + 0.5) * (right - left) / len(steps) for n, step in enumerate(steps)}

    edge = left - (room if names_first else 0)
    steps_told = {format_point(step): x for step, x in along.items()}
    parts = frame(title, ticks, up, steps_told, outcome.experiment.parameters[-1], (edge, right))
    ends: dict[float, dict[str, float]] = {}  # by x: names, and the ends of their lines
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
    """Return the smallest ratio between two of *values*."""
    ordered = sorted(values)
    return min((later / earlier for earlier, later in pairwise(ordered)), default=1.0)


def _line_name(values: tuple[Value, ...], outcome: Outcome, n_reported: int = 0) -> str:
    """Return a line's name: names alone, numbers with their parameter; without the first *n_reported*."""
    named = list(zip(outcome.experiment.parameters, values, strict=False))[n_reported:]
    return ", ".join(value if isinstance(value, str) else f"{name} {value:g}" for name, value in named)
