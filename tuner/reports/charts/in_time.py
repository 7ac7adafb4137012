"""A study's windows in time order: what pictures of any width, and the table below them, are made from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from statistics import fmean

from tuner.core.domain.layout import Layout
from tuner.core.domain.records import WARMING_BLOCK, WindowRecord
from tuner.core.ranking.overview import Overview
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
        if None not in self.rates:
            return self
        is_counting = [rate is not None for rate in self.rates]
        return Series(
            list(compress(self.windows, is_counting)),
            list(compress(self.rates, is_counting)),
            list(compress(self.off, is_counting)),
        )

    def add(self, window: WindowRecord, rate: float | None, off: float | None) -> None:
        """Add one that is later than all others."""
        self.windows.append(window)
        self.rates.append(rate)
        self.off.append(off)


@dataclass(frozen=True, slots=True)
class InTime:
    """All that was measured of a study, in time."""

    course: Series
    void: tuple[WindowRecord, ...]  #: its void windows
    boxes: tuple[str, ...]  #: in the order in which they began
    stretches: tuple[Span, ...]  #: wall seconds from, to; the pauses between them cut out; none: no launch


def in_time(overview: Overview) -> InTime:
    """What was measured of the study, in time."""
    windows = sorted(overview.windows, key=lambda one: one.started_wall_s)
    rates: list[float | None] = []
    spans: list[Span] = []
    void: list[WindowRecord] = []
    boxes = dict.fromkeys(one.box for _, one in overview.launches)
    of_launch: dict[int, list[float]] = defaultdict(list)
    first: dict[int, WindowRecord] = {}  #: of each launch
    for one in windows:  # 100 000 of them: each is looked at once
        length_s = one.length_s
        spans.append((one.started_wall_s, one.started_wall_s + length_s))
        boxes[one.box] = None
        if one.void or one.block == WARMING_BLOCK:
            rates.append(None)
            if one.void:
                void.append(one)
            continue
        rate = one.n_done / length_s
        rates.append(rate)
        of_launch[one.launch_id].append(rate)
        first.setdefault(one.launch_id, one)
    means = _means(of_launch, first)
    off = [
        None if rate is None or not (mean := means[one.launch_id]) else rate / mean - 1
        for one, rate in zip(windows, rates, strict=True)
    ]
    spans += [
        (one.started_wall_s, max(one.started_wall_s, one.ended_wall_s or one.started_wall_s))
        for _, one in overview.launches
    ]
    return InTime(Series(windows, rates, off), tuple(void), tuple(boxes), stretches_of(spans))


def _means(of_launch: Mapping[int, list[float]], first: Mapping[int, WindowRecord]) -> dict[int, float]:
    """What the windows of each launch's layout gave on its box, on average; by launch."""
    of_layout: dict[tuple[Layout, str], list[float]] = defaultdict(list)
    for launch, own in of_launch.items():
        of_layout[first[launch].layout, first[launch].box] += own
    means = {key: fmean(own) for key, own in of_layout.items()}
    return {launch: means[one.layout, one.box] for launch, one in first.items()}
