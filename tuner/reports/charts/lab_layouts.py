"""A published experiment whose points are layouts: each one published, measured and modelled; logarithmic."""

from __future__ import annotations

from tuner.core.domain.layout import Layout
from tuner.core.lab.experiment import At, Outcome, Row
from tuner.core.lab.studied import StudyExperiment
from tuner.reports.charts.frame import at, legend
from tuner.reports.charts.lab_scale import (
    SIGNS,
    SIMULATED_SIGN,
    Log,
    dash,
    frame,
    marks,
    push_apart,
    ticks_around,
    values_of,
)
from tuner.reports.charts.picture import WIDE, DrawnPicture
from tuner.reports.charts.svg import width_of, words

_HIGH = 200.0  #: of a panel's axis, px
_DODGE = 12.0  #: from one row of points to the next in one layout, px at most


def layouts_picture(outcome: Outcome, *, width: float = WIDE, name: str = "lab") -> DrawnPicture:
    """The first figure of every layout, fewest threads in all first, in the panels of the experiment.

    Raises:
        TypeError: its points are no layouts.
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
        drawn, end = _panel(by_series, outcome, f"{title}: {figure.label}", width, end)
        parts += drawn
    signs, end = legend([*SIGNS, SIMULATED_SIGN], 40.0, end + 8, width - 8)
    n_measured = sum(1 for row in rows if row.measured and not row.is_simulated)
    n_simulated = sum(1 for row in rows if row.is_simulated)
    summary = (
        f"{figure.label} by layout: {len(rows)} points, {n_measured} of them measured here, {n_simulated} "
        "simulated. The tables below have every figure."
    )
    title = f"{experiment.name}: {figure.label}, published, measured and modelled"
    return DrawnPicture(name, title, summary, width, end + 12, "".join([*parts, signs]))


def _panel(
    by_series: dict[str, list[Row]], outcome: Outcome, title: str, width: float, above: float
) -> tuple[list[str], float]:
    """What is drawn, and where it ends."""
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
