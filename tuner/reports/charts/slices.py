"""Chart of layouts that took turns: throughput relative to the best layout, over time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from tuner.core.domain.layout import Layout
from tuner.core.domain.records import WARMING_BLOCK, WindowRecord, value_of
from tuner.core.domain.strategy import Agreement
from tuner.core.ranking.overview import Overview
from tuner.core.ranking.race_result import leader
from tuner.core.text.figures import pluralize
from tuner.reports.charts.frame import (
    GREEN,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    Scale,
    at,
    diamond,
    labels,
    legend,
    ring,
    scale_for,
    y_axis,
    y_labels_width,
)
from tuner.reports.charts.in_time import TimeAxis, axis_below, stretches_of, time_axis
from tuner.reports.charts.picture import SMALL, WIDE, DrawnPicture, element, line, width_of, with_tooltip

_HEIGHT = 220.0  #: height, px
#: colours of the other layouts; the best layout has a different one
_COLOURS = (VERMILLION, GREEN, PURPLE, ORANGE, SKY)


@dataclass(frozen=True, slots=True)
class Turn:
    """One layout in one group of layouts that took turns."""

    layout: Layout
    block: int
    at_s: float  #: middle of the group's windows, in wall seconds
    ratio: float  #: ratio of its throughput to that of the best layout in the same group


@dataclass(frozen=True, slots=True)
class TurnsSeen:
    """The results of groups of layouts that took turns."""

    best: Layout
    turns: tuple[Turn, ...]  #: in time order; the ratios of the best layout are 1
    #: start and end in wall seconds of each group, and of the windows measured alone
    spans: tuple[tuple[float, float], ...]
    n_groups: int
    n_without: int  #: number of groups without the best layout, which have no ratios
    alone: Turn | None = None  #: ratio of two windows that were measured alone

    def of(self, layout: Layout) -> list[Turn]:
        """The turns of one layout."""
        return [one for one in self.turns if one.layout == layout]

    @property
    def others(self) -> list[Layout]:
        """Return all layouts but the best, most frequently measured first."""
        seen = {one.layout for one in self.turns} - {self.best}
        return sorted(seen, key=lambda layout: (-len(self.of(layout)), layout))


def compare_turns(overview: Overview) -> TurnsSeen | None:
    """Compare layouts that took turns; None: none took turns with the best one, or slices lose throughput."""
    row, claim = leader(overview.ranking), overview.ranking.claim
    if row is None or (claim is not None and claim.answer.lost_in_slices is not None):
        return None
    launches = {key: one for key, one in overview.launches if one.heat is not None}
    groups: dict[tuple[int, int], list[WindowRecord]] = defaultdict(list)
    for window in overview.windows:
        launch = launches.get(window.launch_id)
        if launch is not None and not window.void and window.block != WARMING_BLOCK:
            groups[window.block, launch.heat or 0].append(window)
    objective, turns, spans, n_without = overview.study.objective, [], [], 0
    for (block, _), windows in sorted(groups.items(), key=lambda one: one[1][0].started_wall_s):
        began_s = min(window.started_wall_s for window in windows)
        ends = (launches[window.launch_id].ended_wall_s for window in windows)
        ended_s = max([began_s, *(one for one in ends if one is not None)])
        rates = _rates(windows, objective)
        spans.append((began_s, ended_s))
        if not (of_best := rates.get(row.layout)):
            n_without += 1
            continue
        middle_s = (began_s + ended_s) / 2
        turns += [Turn(layout, block, middle_s, rate / of_best) for layout, rate in rates.items()]
    if all(one.layout == row.layout for one in turns):
        return None
    agreement = None if claim is None else claim.answer.agreement
    alone = None if agreement is None else _alone(overview, agreement, row.layout)
    if alone is not None:
        spans.append((alone.at_s, alone.at_s))
    return TurnsSeen(row.layout, tuple(turns), tuple(spans), len(groups), n_without, alone)


def _rates(windows: Sequence[WindowRecord], objective: str) -> dict[Layout, float]:
    """Return the mean value of each layout in the windows of one group."""
    found: dict[Layout, list[float]] = defaultdict(list)
    for window in windows:
        found[window.layout].append(value_of(window, objective))
    return {layout: sum(values) / len(values) for layout, values in found.items()}


def _alone(overview: Overview, agreement: Agreement, best: Layout) -> Turn | None:
    """The ratio of windows alone, if the best layout is one of both; at the later window."""
    both = (agreement.layout, agreement.other)
    if best not in both:
        return None
    other, ratio = agreement.other, 1 / agreement.alone
    if best == agreement.other:
        other, ratio = agreement.layout, agreement.alone
    launches = dict(overview.launches)
    moments = [
        window.started_wall_s + window.length_s / 2
        for window in overview.windows
        if launches[window.launch_id].heat is None and window.layout in both and not window.void
    ]
    return Turn(other, -1, moments[1], ratio) if len(moments) > 1 else None


def slices_picture(
    overview: Overview, *, width: float = WIDE, name: str = "slices", seen: TurnsSeen | None = None
) -> DrawnPicture | None:
    """A line for each layout, the best one at 100 %; None: no layouts took turns with the best one."""
    seen = seen or compare_turns(overview)
    if seen is None:
        return None
    top, bottom = 24.0, 24.0 + _HEIGHT
    percents = [100 * one.ratio for one in (*seen.turns, *([seen.alone] if seen.alone else []))]
    scale = scale_for([100.0, *percents], bottom, top)
    left = y_labels_width(scale, " %") + 4
    names = max(width_of(layout, SMALL) for layout in (seen.best, *seen.others))
    axis = time_axis(stretches_of(seen.spans), left + 4, width - 20 - names)
    began = datetime.fromtimestamp(axis.began_s, UTC).strftime("%Y-%m-%d %H:%M UTC")
    parts = [
        axis_below(axis, top, bottom, f"since {began}"),
        y_axis(scale, left, width - 8, f"throughput, percent of {seen.best} in the same group", unit=" %"),
        line(left, scale(100), width - 8, scale(100), "axis"),
        *_lines(seen, axis, scale),
        *_marks(seen, axis, scale),
        _names(seen, axis, scale, width),
    ]
    signs, end = legend(_legend(seen), left, bottom + 54, width)
    return DrawnPicture(name, title_of(seen), summary_of(seen), width, end + 8, "".join([*parts, signs]))


def title_of(seen: TurnsSeen) -> str:
    """Return the heading."""
    return f"Layouts that took turns: throughput relative to {seen.best}"


def summary_of(seen: TurnsSeen) -> str:
    """Return the caption: the contents of the picture, and how to read it."""
    return (
        f"Each mark compares one layout with {seen.best}, the best one, while both took turns: 90 % means"
        f" 10 % fewer items than {seen.best} in the same minutes. A level line means that the comparison did"
        " not depend on the time of day."
    )


def left_out_of(seen: TurnsSeen) -> str:
    """Return a sentence about the groups that the picture leaves out; empty: none."""
    if not seen.n_without:
        return ""
    groups = f"{seen.n_without} of {pluralize(seen.n_groups, 'group')}"
    return f"{groups} had no window of {seen.best}, and {'is' if seen.n_without == 1 else 'are'} left out."


def _colour(seen: TurnsSeen, layout: Layout) -> str:
    return _COLOURS[seen.others.index(layout) % len(_COLOURS)]


def _lines(seen: TurnsSeen, axis: TimeAxis, scale: Scale) -> Iterator[str]:
    for layout in seen.others:
        points = [f"{axis(one.at_s):.1f} {scale(100 * one.ratio):.1f}" for one in seen.of(layout)]
        yield element(
            "path", d=f"M{'L'.join(points)}", fill="none", stroke=_colour(seen, layout), stroke_opacity=0.7
        )


def _marks(seen: TurnsSeen, axis: TimeAxis, scale: Scale) -> Iterator[str]:
    for one in seen.turns:
        x, y = axis(one.at_s), scale(100 * one.ratio)
        if one.layout == seen.best:
            yield at(x, y, diamond(4), "best")
            continue
        text = f"{one.layout}, block {one.block + 1}: {100 * one.ratio:.1f} % of {seen.best}"
        sign = element("circle", r=3.2, fill=_colour(seen, one.layout))
        yield with_tooltip(text, at(x, y, sign))
    if (alone := seen.alone) is not None:
        text = f"{alone.layout} alone: {100 * alone.ratio:.1f} % of {seen.best} alone"
        yield with_tooltip(text, at(axis(alone.at_s), scale(100 * alone.ratio), ring(4.5)))


def _names(seen: TurnsSeen, axis: TimeAxis, scale: Scale, width: float) -> str:
    """Put the name of each layout next to its last mark."""
    last = {one.layout: one for one in seen.turns}
    points = [
        (axis(last[layout].at_s), scale(100 * last[layout].ratio), str(layout), layout == seen.best)
        for layout in (seen.best, *seen.others)
    ]
    return labels(points, width)


def _legend(seen: TurnsSeen) -> list[tuple[str, str]]:
    found = [
        (element("g", diamond(4), class_="best"), f"{seen.best}, the best layout"),
        (element("circle", r=3.2, fill=_COLOURS[0]), "another layout in the same group"),
    ]
    if seen.alone is not None:
        found.append((ring(4.5), f"{seen.alone.layout} and {seen.best}, each alone"))
    return found
