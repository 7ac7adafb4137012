"""A study's windows in time order: what pictures of any width, and the table below them, are made from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean

from tuner.core.layout import Layout
from tuner.core.overview import Overview
from tuner.core.records import WARMING_BLOCK, WindowRecord
from tuner.reports.charts.time_axis import Span, stretches_of


@dataclass(frozen=True, slots=True)
class Series:
    """Windows in time order; the lists are equally long."""

    windows: list[WindowRecord] = field(default_factory=list)
    rates: list[float | None] = field(default_factory=list)  #: items per second; None: it does not count
    #: the same over its layout's mean on its box, less 1; None also: there is no such mean
    off: list[float | None] = field(default_factory=list)

    def part(self, first: int, n: int) -> Series:
        """*n* windows from the *first* on, or fewer where it ends."""
        end = first + n
        return Series(self.windows[first:end], self.rates[first:end], self.off[first:end])

    def parts(self, n: int) -> list[Series]:
        """All of it, *n* windows each, the last may have fewer."""
        return [self.part(first, n) for first in range(0, len(self.windows), n)]

    def by_box(self, boxes: Sequence[str]) -> dict[str, Series]:
        """The windows of each of *boxes*, which have them all."""
        if len(boxes) == 1:
            return {boxes[0]: self}
        found = {box: Series() for box in boxes}
        for window, rate, off in zip(self.windows, self.rates, self.off, strict=True):
            found[window.box].add(window, rate, off)
        return found

    def counting(self) -> Series:
        """Those that count."""
        found = Series()
        for window, rate, off in zip(self.windows, self.rates, self.off, strict=True):
            if rate is not None:
                found.add(window, rate, off)
        return found

    def add(self, window: WindowRecord, rate: float | None, off: float | None) -> None:
        """Add one that is later than all others."""
        self.windows.append(window)
        self.rates.append(rate)
        self.off.append(off)


@dataclass(frozen=True, slots=True)
class InTime:
    """All that was measured of a study, in time."""

    course: Series
    boxes: tuple[str, ...]  #: in the order in which they began
    stretches: tuple[Span, ...]  #: wall seconds from, to; the pauses between them cut out; none: no launch


def in_time(overview: Overview) -> InTime:
    """What was measured of the study, in time."""
    windows = sorted(overview.windows, key=lambda one: one.started_wall_s)
    rates = [None if one.void or one.block == WARMING_BLOCK else one.n_done / one.length_s for one in windows]
    of_layout: dict[tuple[Layout, str], list[float]] = defaultdict(list)
    for one, rate in zip(windows, rates, strict=True):
        if rate is not None:
            of_layout[one.layout, one.box].append(rate)
    means = {key: fmean(own) for key, own in of_layout.items()}
    off = [
        None if rate is None or not (mean := means[one.layout, one.box]) else rate / mean - 1
        for one, rate in zip(windows, rates, strict=True)
    ]
    spans = [(one.started_wall_s, one.started_wall_s + one.length_s) for one in windows]
    spans += [
        (one.started_wall_s, max(one.started_wall_s, one.ended_wall_s or one.started_wall_s))
        for _, one in overview.launches
    ]
    boxes = dict.fromkeys([*(one.box for _, one in overview.launches), *(one.box for one in windows)])
    return InTime(Series(windows, rates, off), tuple(boxes), stretches_of(spans))
