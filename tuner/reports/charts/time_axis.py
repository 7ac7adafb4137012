"""Time across a picture, the long pauses of a study cut out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tuner.reports.charts.svg import line, words

Span = tuple[float, float]  #: wall seconds from, to

_PAUSE_S = 1800.0  #: a pause is cut out when it is longer than this ...
_PAUSE_RATIO = 0.08  #: ... and than this share of the whole
_MOST_CUTS = 6
_CUT = 14.0  #: px that stand for a pause
_TICK_EVERY = 76.0
_STEPS_S = (
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800),
    *(432000, 864000, 2592000, 8640000, 31536000, 315360000),
)


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """Stretches of time beside each other: wall seconds from, to, and px from, to."""

    stretches: tuple[tuple[float, float, float, float], ...]

    def __call__(self, wall_s: float) -> float:
        """Where that moment lies, px; within a pause at its edge."""
        for from_s, to_s, left, right in self.stretches:
            if wall_s <= to_s:
                return left + (right - left) * max(0.0, wall_s - from_s) / ((to_s - from_s) or 1.0)
        return self.stretches[-1][3]

    @property
    def began_s(self) -> float:
        """The first moment."""
        return self.stretches[0][0]


def stretches_of(spans: Iterable[Span]) -> tuple[Span, ...]:
    """The time that *spans* take together, its long pauses cut out; nothing where there are none."""
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
    """An axis for *stretches* of time, at least one; what lies between them is cut out."""
    active_s = sum(to_s - from_s for from_s, to_s in stretches) or 1.0
    px = right - left - _CUT * (len(stretches) - 1)
    placed, x = [], left
    for from_s, to_s in stretches:
        end = x + px * (to_s - from_s) / active_s
        placed.append((from_s, to_s, x, end))
        x = end + _CUT
    return TimeAxis(tuple(placed))


def axis_below(axis: TimeAxis, top: float, bottom: float, title: str) -> str:
    """Grid lines from *top* to *bottom*, times since the beginning, and a sign for each pause."""
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
