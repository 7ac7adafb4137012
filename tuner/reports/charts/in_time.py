"""Windows of a study in time order: the data of the time charts and of the table below them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from statistics import fmean

from tuner.core.domain.layout import Layout
from tuner.core.domain.records import WARMING_BLOCK, WindowRecord
from tuner.core.ranking.overview import Overview
from tuner.reports.charts.picture import line, words

# Time axis of a chart, without the long pauses of a study.

Span = tuple[float, float]  #: start and end, in wall seconds

_PAUSE_S = 1800.0  #: a pause is cut out if it is longer than this ...
_PAUSE_RATIO = 0.08  #: ... and longer than this share of the whole time
_MOST_CUTS = 6
_CUT = 14.0  #: width of a cut, px
_TICK_EVERY = 76.0
_STEPS_S = (
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800),
    *(432000, 864000, 2592000, 8640000, 31536000, 315360000),
)


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """Consecutive periods on the axis: start and end in wall seconds, and start and end in px."""

    stretches: tuple[tuple[float, float, float, float], ...]

    def __call__(self, wall_s: float) -> float:
        """Return the position of a time in px; a time in a pause is at the pause's edge."""
        for from_s, to_s, left, right in self.stretches:
            if wall_s <= to_s:
                return left + (right - left) * max(0.0, wall_s - from_s) / ((to_s - from_s) or 1.0)
        return self.stretches[-1][3]

    @property
    def began_s(self) -> float:
        """Start of the axis, in wall seconds."""
        return self.stretches[0][0]


def stretches_of(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Return the time covered by *spans*, without long pauses; empty if there are no spans."""
    ordered = sorted(spans)
    if not ordered:
        return ()
    whole_s = max(to for _, to in ordered) - ordered[0][0]
    least_s = max(_PAUSE_S, _PAUSE_RATIO * whole_s)
    pauses: list[Span] = []
    reached = ordered[0][1]
    for from_s, to_s in ordered:
        if from_s - reached > least_s:
            pauses.append((reached, from_s))
        if to_s > reached:
            reached = to_s
    pauses = sorted(sorted(pauses, key=lambda one: one[0] - one[1])[:_MOST_CUTS])
    edges = [ordered[0][0], *(end for pause in pauses for end in pause), max(reached, ordered[0][0] + 1)]
    return tuple(zip(edges[::2], edges[1::2], strict=True))


def time_axis(stretches: Sequence[Span], left: float, right: float) -> TimeAxis:
    """Return an axis for *stretches* of time, at least one, without the time between them."""
    active_s = sum(to_s - from_s for from_s, to_s in stretches) or 1.0
    px = right - left - _CUT * (len(stretches) - 1)
    placed, x = [], left
    for from_s, to_s in stretches:
        end = x + px * (to_s - from_s) / active_s
        placed.append((from_s, to_s, x, end))
        x = end + _CUT
    return TimeAxis(tuple(placed))


def axis_below(axis: TimeAxis, top: float, bottom: float, title: str) -> str:
    """Return grid lines from *top* to *bottom*, times since the start, and a mark for each pause."""
    px = sum(right - left for _, _, left, right in axis.stretches)
    active_s = sum(to_s - from_s for from_s, to_s, _, _ in axis.stretches)
    step = next((one for one in _STEPS_S if one >= active_s / max(1.0, px / _TICK_EVERY)), _STEPS_S[-1])
    parts, free = [], -1.0
    for from_s, to_s, left, right in axis.stretches:
        n = -(-int(from_s - axis.began_s) // step)
        while (at_s := axis.began_s + n * step) <= to_s:
            if at_s >= from_s:
                x = axis(at_s)
                parts.append(line(x, top, x, bottom, "grid"))
                if x - 22 > free:
                    parts.append(words(_since(n * step), x, bottom + 15, class_="s m c"))
                    free = x + 22
            n += 1
        parts.append(line(left, bottom, right, bottom, "axis"))
    for (_, _, _, left), (_, _, right, _) in zip(axis.stretches, axis.stretches[1:], strict=False):
        middle = (left + right) / 2
        parts += [line(x - 2, bottom + 5, x + 2, bottom - 5, "axis") for x in (middle - 2, middle + 2)]
    first, last = axis.stretches[0][2], axis.stretches[-1][3]
    return "".join([*parts, words(title, (first + last) / 2, bottom + 32, class_="s m c")])


def _since(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size and not seconds % (size / 2):
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s" if seconds else "0"


@dataclass(frozen=True, slots=True)
class Series:
    """Windows in time order; the lists have equal lengths."""

    windows: list[WindowRecord] = field(default_factory=list)
    #: items/s of each window; None: the window is invalid or discarded
    rates: list[float | None] = field(default_factory=list)
    #: the same divided by the mean of its layout on its host, less 1; None also if there is no such mean
    off: list[float | None] = field(default_factory=list)

    def part(self, first: int, n: int) -> Series:
        """Return *n* windows from the *first* on, or fewer at the end."""
        end = first + n
        return Series(self.windows[first:end], self.rates[first:end], self.off[first:end])

    def parts(self, n: int) -> list[Series]:
        """Return all windows in parts of *n*; the last part may be shorter."""
        return [self.part(first, n) for first in range(0, len(self.windows), n)]

    def by_box(self, boxes: Sequence[str]) -> dict[str, Series]:
        """Return the windows of each of *boxes*, which together have all windows."""
        if len(boxes) == 1:
            return {boxes[0]: self}
        found = {box: Series() for box in boxes}
        for window, rate, off in zip(self.windows, self.rates, self.off, strict=True):
            found[window.box].add(window, rate, off)
        return found

    def counting(self) -> Series:
        """Return the valid windows."""
        if None not in self.rates:
            return self
        is_counting = [rate is not None for rate in self.rates]
        return Series(
            list(compress(self.windows, is_counting)),
            list(compress(self.rates, is_counting)),
            list(compress(self.off, is_counting)),
        )

    def add(self, window: WindowRecord, rate: float | None, off: float | None) -> None:
        """Add a window that is later than all others."""
        self.windows.append(window)
        self.rates.append(rate)
        self.off.append(off)


@dataclass(frozen=True, slots=True)
class InTime:
    """All measurements of a study, in time order."""

    course: Series
    void: tuple[WindowRecord, ...]  #: invalid windows
    boxes: tuple[str, ...]  #: hosts in the order of their first launch
    #: stretches of time in wall seconds, without the long pauses between them; empty: no launch
    stretches: tuple[Span, ...]
    #: end of each window in slices, in wall seconds, by its launch and start; other windows have no pauses
    slices_until: Mapping[tuple[int, float], float] = field(default_factory=dict)

    def ended_s(self, window: WindowRecord) -> float:
        """Return the wall second at which *window* ended."""
        until_s = window.started_wall_s + window.length_s
        return self.slices_until.get((window.launch_id, window.started_wall_s), until_s)


def in_time(overview: Overview) -> InTime:
    """Return the measurements of the study in time order."""
    windows = sorted(overview.windows, key=lambda one: one.started_wall_s)
    rates: list[float | None] = []
    spans: list[Span] = []
    void: list[WindowRecord] = []
    boxes = dict.fromkeys(one.box for _, one in overview.launches)
    of_launch: dict[int, list[float]] = defaultdict(list)
    first: dict[int, WindowRecord] = {}  #: first window of each launch
    for one in windows:  # up to 100 000, so each is read once
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
    means = _means(of_launch, first, _rejected_launches(overview))
    off = [
        None if rate is None or not (mean := means[one.launch_id]) else rate / mean - 1
        for one, rate in zip(windows, rates, strict=True)
    ]
    spans += [
        (one.started_wall_s, max(one.started_wall_s, one.ended_wall_s or one.started_wall_s))
        for _, one in overview.launches
    ]
    return InTime(
        Series(windows, rates, off),
        tuple(void),
        tuple(boxes),
        stretches_of(spans),
        _slices_until(overview, windows),
    )


def _slices_until(overview: Overview, windows: Iterable[WindowRecord]) -> dict[tuple[int, float], float]:
    """Return the ends of *windows*, in time order, whose slices alternate with those of other launches.

    Such a window ends when the next one of its launch starts, or when its launch begins to stop. The duration
    of that stop is not recorded; it is taken to be the shortest one of a launch that ran alone.
    """
    in_turns = {number: one for number, one in overview.launches if one.heat is not None}
    if not in_turns:
        return {}
    alone_s: dict[int, float] = defaultdict(float)
    of_launch: dict[int, list[WindowRecord]] = defaultdict(list)
    for window in windows:
        alone_s[window.launch_id] += window.length_s
        if window.launch_id in in_turns:
            of_launch[window.launch_id].append(window)
    stops_s = [
        one.ended_wall_s - one.started_wall_s - one.running_after_s - one.warmup_s - alone_s[number]
        for number, one in overview.launches
        if one.heat is None and one.ended_wall_s and one.running_after_s and one.warmup_s and not one.error
    ]
    stop_s = max(0.0, min(stops_s, default=0.0))
    until: dict[tuple[int, float], float] = {}
    for number, own in of_launch.items():
        ended_s = in_turns[number].ended_wall_s
        ends_s = [*(one.started_wall_s for one in own[1:]), 0.0 if ended_s is None else ended_s - stop_s]
        for window, end_s in zip(own, ends_s, strict=True):
            at_least_s = window.started_wall_s + window.length_s
            until[number, window.started_wall_s] = max(at_least_s, end_s)
    return until


def _rejected_launches(overview: Overview) -> set[int]:
    """Return the launches in slices, if slices do not count."""
    claim = overview.ranking.claim
    if claim is None:
        return set()
    return {number for number, launch in overview.launches if not claim.answer.counts(launch.heat)}


def _means(
    of_launch: Mapping[int, list[float]], first: Mapping[int, WindowRecord], rejected: Collection[int]
) -> dict[int, float]:
    """Return the mean of each launch's layout on its host, by launch; *rejected* launches have their own."""
    keys = {launch: (one.layout, one.box, launch in rejected) for launch, one in first.items()}
    of_layout: dict[tuple[Layout, str, bool], list[float]] = defaultdict(list)
    for launch, own in of_launch.items():
        of_layout[keys[launch]] += own
    means = {key: fmean(own) for key, own in of_layout.items()}
    return {launch: means[key] for launch, key in keys.items()}
