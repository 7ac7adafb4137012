"""The growth of a layout's memory, without the growth after each start.

A worker fills its caches and heaps after its start, fastest at first: its memory curve bends. The first part
of each launch is left out, and if the rest still bends, an exponential is fitted together with the line. Of
the time constants that fit about equally well the longest counts: it leaves the least to the line. Steps and
garbage collection are noise, which differs from launch to launch: see `tuner.core.stats.variance`.

The growth after a start looks like a leak in launches of ten minutes. Launches of about an hour are therefore
judged by their second half: that growth has ended by then, or is far less than in the first half.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, fsum, log
from statistics import fmean
from typing import TypeVar

from tuner.core.stats.interval import Estimate
from tuner.core.stats.variance import Slope, pool_slopes

K = TypeVar("K", bound=Hashable)

HOUR_S = 3600.0
SHORTEST_S = 300.0  #: least length of all windows of a launch; less does not separate a start from a leak
PIECE_S = 600.0  #: least length of the pieces into which longer launches are cut
LONG_S = 3000.0  #: length of windows from which a launch is judged by its second half
SKIPPED_S = 90.0  #: skipped at the beginning of each launch, and of each half of a long one
#: growth is ending if the second half has less than this share of the growth in the first half
ENDS_RATIO = 0.5
FEWEST_LOOKS = 12  #: fewest samples of the memory in a piece
#: share of the memory over the horizon; smaller growth does not matter, even if significant
LEAST_GROWTH = 0.02
_BENDS_S = (30.0, 60.0, 90.0, 120.0)  #: time constants of the growth after a start
_AS_WELL = 4.0  #: largest loss of twice the log likelihood with which a bend fits as well as the best one
_ROUNDED_S = 30.0  #: tolerated difference between the real and the requested length of a window
_LEAST_SE = 1e3  #: least standard error of a slope, bytes per hour

Look = tuple[float, float]  #: time in seconds, memory in bytes


@dataclass(frozen=True, slots=True)
class MemoryGrowth:
    """Growth of a layout's memory while it runs, and its size after the horizon."""

    per_h: Estimate  #: bytes per hour; each end of the interval holds at the confidence
    now_bytes: float  #: mean memory of its windows
    horizon_s: float
    #: growth in the first half of long launches, which *per_h* excludes; None: no long launches
    early_per_h: Estimate | None = None

    def after(self, memory: Estimate) -> Estimate:
        """Return the *memory*, bytes, after the horizon; it never falls."""
        hours = self.horizon_s / HOUR_S
        ends = ((memory.mean, self.per_h.mean), (memory.low, self.per_h.low), (memory.high, self.per_h.high))
        return Estimate(
            *(None if now is None or grows is None else now + max(0.0, grows) * hours for now, grows in ends)
        )

    @property
    def is_shown(self) -> bool:
        """Return whether memory grows significantly, and by enough to matter."""
        mean, low = self.per_h.mean, self.per_h.low
        if mean is None or low is None or low <= 0 or self.is_ending:
            return False
        return self._matters(mean)

    @property
    def is_ending(self) -> bool:
        """Return whether memory grew in the first half of long launches, and far less in the second."""
        early = None if self.early_per_h is None else self.early_per_h.mean
        if early is None or self.per_h.mean is None or not self._matters(early):
            return False
        return self.per_h.mean < ENDS_RATIO * early

    def _matters(self, per_h: float) -> bool:
        return per_h * self.horizon_s / HOUR_S >= LEAST_GROWTH * self.now_bytes


@dataclass(frozen=True, slots=True)
class _FittedPiece:
    """A line, possibly with a bend, fitted to one piece."""

    slope: Slope
    bend: float  #: size of the bend; positive if the growth slows down
    squares: float  #: sum of squared residuals


def pool_growth(
    launches: Mapping[K, Sequence[Sequence[Look]]],
    now_bytes: Mapping[K, float],
    confidence: float,
    horizon_s: float,
) -> dict[K, MemoryGrowth]:
    """Return the growth of each layout whose launches are long enough.

    Args:
        launches: samples of the memory in each launch of each layout, in time order. If some launches of a
            layout are long, only those count.
        now_bytes: the mean memory of each layout.
        confidence: of each end of an interval.
        horizon_s: see `MemoryGrowth`.
    """
    groups: dict[tuple[K, str], list[Slope]] = {}
    late_bytes: dict[K, float] = {}
    for layout, own in launches.items():
        halves = [_halves(looks) for looks in own if _is_long(looks)]
        groups[layout, "short"] = growth_slopes(looks for looks in own if not _is_long(looks))
        if halves:
            groups[layout, "early"] = growth_slopes(early for early, _ in halves)
            groups[layout, "late"] = growth_slopes(late for _, late in halves)
            late_bytes[layout] = fmean(memory for _, late in halves for _, memory in late)
    pooled = pool_slopes(groups, 2 * confidence - 1)
    return {
        layout: MemoryGrowth(
            per_h,
            late_bytes.get(layout, now_bytes[layout]),
            horizon_s,
            pooled.get((layout, "early")),
        )
        for (layout, part), per_h in pooled.items()
        if part == ("late" if layout in late_bytes else "short")
    }


def _is_long(looks: Sequence[Look]) -> bool:
    return bool(looks) and looks[-1][0] - looks[0][0] >= LONG_S - _ROUNDED_S


def _halves(looks: Sequence[Look]) -> tuple[list[Look], list[Look]]:
    middle_s = (looks[0][0] + looks[-1][0]) / 2
    return [one for one in looks if one[0] < middle_s], [one for one in looks if one[0] >= middle_s]


def growth_slopes(launches: Iterable[Sequence[Look]]) -> list[Slope]:
    """Return the growth in each piece of the launches of one layout, bytes per hour.

    Args:
        launches: samples of the memory of each launch, in time order; too short launches are left out.
    """
    pieces = [piece for looks in launches for piece in _pieces(looks)]
    if not pieces:
        return []
    n_looks = sum(map(len, pieces))
    found = [[_fit(piece, bend_s) for piece in pieces] for bend_s in (None, *_BENDS_S)]
    fits = [own for own in found if own is found[0] or fsum(one.bend for one in own) > 0]
    scores = [n_looks * log(max(1.0, fsum(one.squares for one in own))) for own in fits]
    chosen = max(place for place, score in enumerate(scores) if score <= min(scores) + _AS_WELL)
    return [one.slope for one in fits[chosen]]


def _pieces(looks: Sequence[Look]) -> list[list[Look]]:
    if not looks or looks[-1][0] - looks[0][0] < SHORTEST_S - _ROUNDED_S:
        return []
    begins_s, ends_s = looks[0][0] + SKIPPED_S, looks[-1][0]
    n = max(1, int((ends_s - looks[0][0] + _ROUNDED_S) / PIECE_S))
    pieces: list[list[Look]] = [[] for _ in range(n)]
    for at_s, memory in looks:
        if at_s >= begins_s:
            place = int((at_s - begins_s) / (ends_s - begins_s) * n)
            pieces[min(place, n - 1)].append((at_s, memory))
    return [piece for piece in pieces if len(piece) >= FEWEST_LOOKS and piece[-1][0] > piece[0][0]]


def _fit(piece: Sequence[Look], bend_s: float | None) -> _FittedPiece:
    """Fit a line to *piece*, together with a bend of the time constant *bend_s* (None: without one)."""
    begins_s, lasts_s = piece[0][0], piece[-1][0] - piece[0][0]
    line = _center([at_s - begins_s for at_s, _ in piece])
    memory = _center([value for _, value in piece])
    bend = [] if bend_s is None else _center([-exp(-(at_s - begins_s) / bend_s) for at_s, _ in piece])
    line_left, memory_left = _without(line, bend), _without(memory, bend)
    squares = _product(line_left, line_left)
    per_s = _product(line_left, memory_left) / squares
    left = fsum((y - per_s * x) ** 2 for x, y in zip(line_left, memory_left, strict=True))
    error = max((left / (len(piece) - 3) / squares) ** 0.5 * HOUR_S, _LEAST_SE)
    added = _product(bend, [y - per_s * x for x, y in zip(line, memory, strict=True)]) if bend else 0.0
    return _FittedPiece(Slope(per_s * HOUR_S, error**2, lasts_s), added, left)


def _center(values: Sequence[float]) -> list[float]:
    mean = fsum(values) / len(values)
    return [value - mean for value in values]


def _without(values: Sequence[float], other: Sequence[float]) -> Sequence[float]:
    """Return the residuals of *values* after a regression on *other*."""
    if not other:
        return values
    shared = _product(values, other) / _product(other, other)
    return [y - shared * x for x, y in zip(other, values, strict=True)]


def _product(values: Sequence[float], other: Sequence[float]) -> float:
    return fsum(x * y for x, y in zip(values, other, strict=True))
