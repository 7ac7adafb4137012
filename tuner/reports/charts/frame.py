"""Axes, ticks, legends, colours and marks shared by all charts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, floor, isfinite, log10

from tuner.reports.charts.picture import SMALL, element, line, width_of, words

# Colours that people with any colour vision can distinguish, and the colours of text on them. Categories:
# Okabe & Ito (2008). Amounts: viridis (van der Walt & Smith, 2015), whose lightness grows, too, so that a
# grey copy reads the same.

_VIRIDIS = (
    *((68, 1, 84), (72, 40, 120), (62, 73, 137), (49, 104, 142), (38, 130, 142)),
    *((31, 158, 137), (53, 183, 121), (110, 206, 88), (181, 222, 43), (253, 231, 37)),
)

BLUE, SKY, GREEN, YELLOW = "#0072b2", "#56b4e9", "#009e73", "#f0e442"
ORANGE, VERMILLION, PURPLE, GREY = "#e69f00", "#d55e00", "#cc79a7", "#bdc3c9"


def amount_colour(share: float) -> str:
    """Return the colour of an amount from 0 to 1."""
    place = min(1.0, max(0.0, share)) * (len(_VIRIDIS) - 1)
    left = min(int(place), len(_VIRIDIS) - 2)
    mixed = (
        round(one + (other - one) * (place - left))
        for one, other in zip(_VIRIDIS[left], _VIRIDIS[left + 1], strict=True)
    )
    return "#{:02x}{:02x}{:02x}".format(*mixed)


def ink_on(colour: str) -> str:
    """Return black or white, whichever has the better contrast on *colour*, at least 4.5 (WCAG 2)."""
    light = luminance(colour)
    return "#000" if (light + 0.05) / 0.05 >= 1.05 / (light + 0.05) else "#fff"


def luminance(colour: str) -> float:
    """Return the relative luminance of ``#rrggbb``, 0 to 1."""
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


# Names next to marks, where there is room for them.

_MARK = 7.0  #: px from the middle of a mark to its edge
_LINE = 11.0
_CLEAR = 1.0  #: px of free space around a line

Box = tuple[float, float, float, float]  #: left, top, width, height


def labels(
    points: Sequence[tuple[float, float, str, bool]],
    width: float,
    *,
    most: int = 24,
    lines: Sequence[Box] = (),
) -> str:
    """Return the names of *points* (x, y, name, whether it is bold); earlier points have priority.

    A name is placed within *width*, away from marks, other names and *lines* (which have no width or no
    height). If there is no such place, it is left out, and only the tooltip of the mark shows it.
    """
    taken: list[Box] = [(x - _MARK, y - _MARK, 2 * _MARK, 2 * _MARK) for x, y, _, _ in points]
    taken += [(x - _CLEAR, y - _CLEAR, w + 2 * _CLEAR, h + 2 * _CLEAR) for x, y, w, h in lines]
    found = []
    for x, y, name, is_bold in points[:most]:
        long = width_of(name, SMALL) * (1.15 if is_bold else 1.05)
        for left, base in (
            *((x + 10, y + 4), (x - 10 - long, y + 4), (x - long / 2, y - 10), (x - long / 2, y + 18)),
            *((x + 8, y - 7), (x + 8, y + 15), (x - 8 - long, y - 7), (x - 8 - long, y + 15)),
            *((x + 4, y - 10), (x - 4 - long, y - 10), (x + 4, y + 18), (x - 4 - long, y + 18)),
        ):
            box = (left, base - 9, long, _LINE)
            if left >= 0 and left + long <= width and not any(_meet(box, other) for other in taken):
                taken.append(box)
                found.append(words(name, left, base, class_="s h b" if is_bold else "s h"))
                break
    return "".join(found)


def _meet(one: Box, other: Box) -> bool:
    return (
        one[0] < other[0] + other[2]
        and other[0] < one[0] + one[2]
        and one[1] < other[1] + other[3]
        and other[1] < one[1] + one[3]
    )


# Scales from values to positions in a picture, and their ticks.

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_FROM_ZERO = 0.55  #: an axis begins at 0 if the smallest value is less than this share of the largest


@dataclass(frozen=True, slots=True)
class Scale:
    """A linear axis: *low* is at *start* px, *high* at *end* px."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the position of *value* in px; values outside the axis are at its ends."""
        share = (value - self.low) / (self.high - self.low)
        return self.start + min(1.0, max(0.0, share)) * (self.end - self.start)

    def ticks(self, most: int) -> list[float]:
        """Return round values within the axis, about *most* of them."""
        step = nice_step((self.high - self.low) / max(1, most - 1))
        first, last = ceil(self.low / step - 1e-9), floor(self.high / step + 1e-9)
        return [step * n for n in range(first, last + 1)]


def scale_for(values: Iterable[float], start: float, end: float, *, zero: bool | None = None) -> Scale:
    """Return an axis with round ends that contains all *values*.

    *zero*: whether it contains 0; None: only if the values are widely spread.
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
    """Return the smallest round step (1, 2, 2.5 or 5 times a power of ten) that is at least *rough*."""
    power = 10.0 ** floor(log10(rough))
    return next(power * step for step in _STEPS if power * step >= rough * (1 - 1e-9))


def tick_texts(ticks: list[float]) -> list[str]:
    """Return the texts of *ticks*, with enough digits to distinguish them."""
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


_TICK_EVERY = 80.0  #: px between two ticks of a horizontal axis
_TICK_EVERY_UP = 32.0


def x_axis(scale: Scale, top: float, bottom: float, title: str) -> str:
    """Return grid lines from *top* to *bottom*, with ticks and the title below."""
    ticks = scale.ticks(max(3, int(abs(scale.end - scale.start) / _TICK_EVERY)))
    parts = [line(scale(tick), top, scale(tick), bottom, "grid") for tick in ticks]
    parts += [
        words(text, scale(tick), bottom + 15, class_="s m c")
        for tick, text in zip(ticks, tick_texts(ticks), strict=True)
    ]
    parts.append(line(scale.start, bottom, scale.end, bottom, "axis"))
    parts.append(words(title, (scale.start + scale.end) / 2, bottom + 32, class_="s m c"))
    return "".join(parts)


def y_axis(scale: Scale, left: float, right: float, title: str, *, unit: str = "") -> str:
    """Return grid lines from *left* to *right*, with ticks at the left and the title above."""
    ticks = scale.ticks(max(3, int(abs(scale.end - scale.start) / _TICK_EVERY_UP)))
    parts = [line(left, scale(tick), right, scale(tick), "grid") for tick in ticks]
    parts += [
        words(text + unit, left - 6, scale(tick) + 4, class_="s m e")
        for tick, text in zip(ticks, tick_texts(ticks), strict=True)
    ]
    parts.append(words(title, 2, min(scale.start, scale.end) - 9, class_="s m"))
    return "".join(parts)


def y_labels_width(scale: Scale, unit: str = "") -> float:
    """Return the width in px of the labels of `y_axis`."""
    ticks = scale.ticks(max(3, int(abs(scale.end - scale.start) / _TICK_EVERY_UP)))
    return max((width_of(text + unit, SMALL) for text in tick_texts(ticks)), default=0.0) + 8


def legend(entries: Sequence[tuple[str, str]], left: float, top: float, right: float) -> tuple[str, float]:
    """Return symbols (drawn around 0, 0) with their texts, in lines; and the position of the last line in
    px.
    """
    parts, x, y = [], left, top
    for sign, text in entries:
        width = 20 + width_of(text, SMALL) + 14
        if x > left and x + width > right:
            x, y = left, y + 18
        parts.append(element("g", sign, transform=f"translate({x + 7:.1f} {y - 4:.1f})"))
        parts.append(words(text, x + 19, y, class_="s m"))
        x += width
    return "".join(parts), y


def whisker(scale: Scale, low: float, high: float, y: float) -> str:
    """Return an interval at the height *y*: a bar at each end, or an arrow where it leaves the picture."""
    start, end = scale(low), scale(high)
    ends = ((start, -4 if low < scale.low else 0), (end, 4 if high > scale.high else 0))
    parts = [line(start, y, end, y, "whisker")]
    for x, arrow in ends:
        points = f"M{x - arrow:.1f} {y - 4:.1f}L{x:.1f} {y:.1f}L{x - arrow:.1f} {y + 4:.1f}"
        parts.append(element("path", d=points, class_="whisker", fill="none"))
    return "".join(parts)


def dot(radius: float = 4.0) -> str:
    """Return the usual mark, at 0, 0."""
    return element("circle", r=radius, class_="dot")


def diamond(size: float = 5.5) -> str:
    """Return a mark of another shape than a dot."""
    return element("path", d=f"M0 {-size}L{size} 0L0 {size}L{-size} 0Z", class_="dot")


def ring(radius: float = 3.6) -> str:
    """Return an open dot."""
    return element("circle", r=radius, class_="open")


def cross(size: float = 3.8) -> str:
    """Return the mark of invalid values."""
    return element("path", d=f"M{-size} {-size}L{size} {size}M{-size} {size}L{size} {-size}", class_="cross")


def at(x: float, y: float, sign: str, class_: str | None = None) -> str:
    """Return *sign* moved to (x, y)."""
    return element("g", sign, class_=class_, transform=f"translate({x:.1f} {y:.1f})")
