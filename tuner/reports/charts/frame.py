"""Axes, ticks and legends, alike in all pictures."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.reports.charts.scale import Scale, tick_texts
from tuner.reports.charts.svg import SMALL, element, line, width_of, words

_TICK_EVERY = 80.0  #: px of a horizontal axis
_TICK_EVERY_UP = 32.0


def x_axis(scale: Scale, top: float, bottom: float, title: str) -> str:
    """Grid lines from *top* to *bottom*, ticks and the title below."""
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
    """Grid lines from *left* to *right*, ticks at the left, the title above them."""
    ticks = scale.ticks(max(3, int(abs(scale.end - scale.start) / _TICK_EVERY_UP)))
    parts = [line(left, scale(tick), right, scale(tick), "grid") for tick in ticks]
    parts += [
        words(text + unit, left - 6, scale(tick) + 4, class_="s m e")
        for tick, text in zip(ticks, tick_texts(ticks), strict=True)
    ]
    parts.append(words(title, 2, min(scale.start, scale.end) - 9, class_="s m"))
    return "".join(parts)


def y_labels_width(scale: Scale, unit: str = "") -> float:
    """How much room the labels of `y_axis` take, px."""
    ticks = scale.ticks(max(3, int(abs(scale.end - scale.start) / _TICK_EVERY_UP)))
    return max((width_of(text + unit, SMALL) for text in tick_texts(ticks)), default=0.0) + 8


def legend(entries: Sequence[tuple[str, str]], left: float, top: float, right: float) -> tuple[str, float]:
    """Signs (drawn around 0, 0) with their words, in lines; and where the last line ends, px."""
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
    """An interval at the height *y*: a bar where it ends, an arrow where it goes on outside."""
    start, end = scale(low), scale(high)
    ends = ((start, -4 if low < scale.low else 0), (end, 4 if high > scale.high else 0))
    parts = [line(start, y, end, y, "whisker")]
    for x, arrow in ends:
        points = f"M{x - arrow:.1f} {y - 4:.1f}L{x:.1f} {y:.1f}L{x - arrow:.1f} {y + 4:.1f}"
        parts.append(element("path", d=points, class_="whisker", fill="none"))
    return "".join(parts)


def dot(radius: float = 4.0) -> str:
    """The usual mark, at 0, 0."""
    return element("circle", r=radius, class_="dot")


def diamond(size: float = 5.5) -> str:
    """A mark that differs from a dot in its shape."""
    return element("path", d=f"M0 {-size}L{size} 0L0 {size}L{-size} 0Z", class_="dot")


def ring(radius: float = 3.6) -> str:
    """An open dot."""
    return element("circle", r=radius, class_="open")


def cross(size: float = 3.8) -> str:
    """What does not count."""
    return element("path", d=f"M{-size} {-size}L{size} {size}M{-size} {size}L{size} {-size}", class_="cross")


def at(x: float, y: float, sign: str, class_: str | None = None) -> str:
    """*sign* put at (x, y)."""
    return element("g", sign, class_=class_, transform=f"translate({x:.1f} {y:.1f})")
