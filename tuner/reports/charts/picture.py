"""SVG elements and finished charts, to be embedded in a page or saved as a file."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from importlib.resources import files

from tuner.core.text.safe_text import visible

# SVG elements as text, with all inserted text escaped.

SMALL, USUAL = 11.0, 12.0  #: font sizes, px
_WIDE = set("mwMW@%—")
_NARROW = set("iljtfr.,:;'|! ()[]1")


def element(name: str, *children: str, **attributes: object) -> str:
    """Return an element; ``class_`` and ``stroke_width`` give ``class`` and ``stroke-width``; None omits one.

    *children* are markup; attributes are values, which this function escapes.
    """
    text = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{text}>{''.join(children)}</{name}>" if children else f"<{name}{text}/>"


def words(text: object, x: float, y: float, **attributes: object) -> str:
    """Return a text whose base line begins at (x, y)."""
    return element("text", in_markup(text, 60), x=x, y=y, **attributes)


def with_tooltip(tip: str, *children: str, **attributes: object) -> str:
    """Return marks with the tooltip *tip*; without a tip, the marks alone."""
    if not tip:
        return "".join(children)
    return element("g", element("title", in_markup(tip, 400)), *children, class_="tip", **attributes)


def line(x1: float, y1: float, x2: float, y2: float, class_: str, **attributes: object) -> str:
    """Return a straight line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_, **attributes)


def rectangle(x: float, y: float, width: float, height: float, **attributes: object) -> str:
    """Return a rectangle; nothing if its width or height is negative."""
    return element("rect", x=x, y=y, width=max(0.0, width), height=max(0.0, height), **attributes)


def width_of(text: object, size: float = USUAL) -> float:
    """Return the approximate width of *text* in px, in the sans-serif fonts of pages."""
    shown = visible(text, 60)
    ems = sum(0.9 if one in _WIDE else 0.34 if one in _NARROW else 0.6 for one in shown)
    return size * ems


def fitting(text: object, width: float, size: float = USUAL) -> str:
    """Return *text*, cut to *width* px."""
    shown = visible(text, 60)
    while len(shown) > 2 and width_of(shown, size) > width:
        shown = f"{shown[:-2]}…"
    return shown


def in_markup(text: object, most: int | None = None) -> str:
    """Return the `visible` part of *text*, escaped for the text and the attributes of HTML and SVG."""
    return escape(visible(text, most))


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{round(value, 1) + 0.0:g}" if abs(value) < 1e5 else f"{value:.0f}"
    return in_markup(value)


WIDE, NARROW = 860, 340  #: width on a page and on a phone, px

_LIGHT = (
    "--bg:#ffffff;--ink:#1b1f24;--muted:#57606a;--line:#8c959f;--grid:#e4e8ec;--band:#f3f5f7;--accent:#0b5cad;"
    "--warn:#a8430a"
)
_DARK = (
    "--bg:#11161c;--ink:#e6e9ee;--muted:#a3adb8;--line:#6b7682;--grid:#262e37;--band:#1a2129;--accent:#6cb6f5;"
    "--warn:#f2a25c"
)


@dataclass(frozen=True, slots=True)
class DrawnPicture:
    """A chart, and its text for readers who do not see it."""

    name: str  #: prefix for the names of its elements, unique on a page
    title: str
    summary: str  #: description in one or two sentences
    width: float
    height: float
    body: str  #: SVG elements

    def svg(self, *, standalone: bool = False) -> str:
        """Return the chart as SVG; *standalone*: a file with its own style and background."""
        labels = f"{self.name}-t {self.name}-d"
        head = element("title", in_markup(self.title), id=f"{self.name}-t")
        head += element("desc", in_markup(self.summary, 1000), id=f"{self.name}-d")
        if standalone:
            style = f"svg{{{_LIGHT}}}@media (prefers-color-scheme:dark){{svg{{{_DARK}}}}}{chart_style()}"
            head += f"<style>{style}</style>"
            head += '<rect width="100%" height="100%" fill="var(--bg)"/>'
        return element(
            "svg",
            head,
            self.body,
            **({"xmlns": "http://www.w3.org/2000/svg"} if standalone else {}),
            class_="chart",
            viewBox=f"0 0 {self.width:.0f} {self.height:.0f}",
            role="img",
            aria_labelledby=labels,
            width=self.width,
            height=self.height,
        )


def chart_style() -> str:
    """Return the style of a chart's classes, which uses the variables of `theme_variables`."""
    return files("tuner.reports.charts").joinpath("chart.css").read_text(encoding="utf-8")


def theme_variables() -> tuple[str, str]:
    """Return the colours of light and dark pages."""
    return _LIGHT, _DARK


def empty_picture(name: str, title: str, why: str, width: float) -> DrawnPicture:
    """Return a placeholder for an empty chart, with the reason."""
    body = words(why, 8, 24, class_="m", font_size=USUAL)
    return DrawnPicture(name, title, why, width, 40, body)
