"""From values to places in a picture, and where to put ticks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, floor, isfinite, log10

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_FROM_ZERO = 0.55  #: an axis begins at 0 where the smallest value is less than this share of the largest


@dataclass(frozen=True, slots=True)
class Scale:
    """A straight axis: *low* lies at px *start*, *high* at px *end*."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Where *value* lies; what is outside lies at the edge."""
        share = (value - self.low) / (self.high - self.low)
        return self.start + min(1.0, max(0.0, share)) * (self.end - self.start)

    def ticks(self, most: int) -> list[float]:
        """Round values within the axis, about *most* of them at most."""
        step = nice_step((self.high - self.low) / max(1, most - 1))
        first, last = ceil(self.low / step - 1e-9), floor(self.high / step + 1e-9)
        return [step * n for n in range(first, last + 1)]


def scale_for(values: Iterable[float], start: float, end: float, *, zero: bool | None = None) -> Scale:
    """An axis on which all of *values* lie, with round ends.

    *zero* says whether 0 is on it; None: where the values are spread widely anyway.
    """
    known = [value for value in values if isfinite(value)]
    low, high = (min(known), max(known)) if known else (0.0, 1.0)
    if zero or (zero is None and 0 <= low < _FROM_ZERO * high):
        low, high = min(0.0, low), max(0.0, high)
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        reach = abs(high) * 0.05 or 1.0
        low, high = low - reach, high + reach
    step = nice_step((high - low) / 8)
    return Scale(step * floor(low / step + 1e-9), step * ceil(high / step - 1e-9), start, end)


def nice_step(rough: float) -> float:
    """The round step (1, 2, 2.5 or 5 times a power of ten) that is not less than *rough*."""
    power = 10.0 ** floor(log10(rough))
    return next(power * step for step in _STEPS if power * step >= rough * (1 - 1e-9))


def tick_texts(ticks: list[float]) -> list[str]:
    """All of *ticks* with as many digits as tell them apart."""
    step = min((later - earlier for earlier, later in pairwise(ticks)), default=1.0)
    digits = next(
        (n for n in range(7) if abs(step * 10**n - round(step * 10**n)) < 1e-6 * step * 10**n), None
    )
    if digits is None:
        return [f"{one:.4g}" for one in ticks]
    large = max((abs(one) for one in ticks), default=0.0)
    if large >= 1e6:
        return [f"{one / 1e6:g}M" for one in ticks]
    if large >= 2e4 and digits == 0:
        return [f"{one / 1e3:g}k" if one else "0" for one in ticks]
    return [f"{one:.{digits}f}".replace("-0", "0") if not one else f"{one:.{digits}f}" for one in ticks]
