"""Elements of SVG as text, every foreign word in them escaped."""

from __future__ import annotations

from tuner.reports.text.visible import in_markup, visible

SMALL, USUAL = 11.0, 12.0  #: sizes of text, px
_WIDE = set("mwMW@%—")
_NARROW = set("iljtfr.,:;'|! ()[]1")


def element(name: str, *children: str, **attributes: object) -> str:
    """An element; ``class_`` and ``stroke_width`` give ``class`` and ``stroke-width``; None leaves one out.

    *children* are markup already; attributes are values, escaped here.
    """
    text = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{text}>{''.join(children)}</{name}>" if children else f"<{name}{text}/>"


def words(text: object, x: float, y: float, **attributes: object) -> str:
    """A text that stands at (x, y), its base line."""
    return element("text", in_markup(text, 60), x=x, y=y, **attributes)


def with_tooltip(tip: str, *children: str, **attributes: object) -> str:
    """Marks that tell *tip* to whoever points at them; where there is nothing to tell, the marks alone."""
    if not tip:
        return "".join(children)
    return element("g", element("title", in_markup(tip, 400)), *children, class_="tip", **attributes)


def line(x1: float, y1: float, x2: float, y2: float, class_: str, **attributes: object) -> str:
    """A straight line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_, **attributes)


def rectangle(x: float, y: float, width: float, height: float, **attributes: object) -> str:
    """A box; one that would be less than nothing is nothing."""
    return element("rect", x=x, y=y, width=max(0.0, width), height=max(0.0, height), **attributes)


def width_of(text: object, size: float = USUAL) -> float:
    """About how wide *text* is in the sans-serif fonts that pages have, px."""
    shown = visible(text, 60)
    ems = sum(0.9 if one in _WIDE else 0.34 if one in _NARROW else 0.6 for one in shown)
    return size * ems


def fitting(text: object, width: float, size: float = USUAL) -> str:
    """*text*, cut so that it fits into *width* px."""
    shown = visible(text, 60)
    while len(shown) > 2 and width_of(shown, size) > width:
        shown = f"{shown[:-2]}…"
    return shown


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{round(value, 1) + 0.0:g}" if abs(value) < 1e5 else f"{value:.0f}"
    return in_markup(value)
