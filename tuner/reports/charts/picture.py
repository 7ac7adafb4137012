"""A finished picture, to be put into a page or to stand by itself."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

from tuner.reports.charts.svg import USUAL, element, words
from tuner.reports.text.visible import in_markup

WIDE, NARROW = 860, 340  #: px: of a page, of a phone

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
    """What is drawn, and what it says to those who do not see it."""

    name: str  #: of its parts: no other picture of a page has it
    title: str
    summary: str  #: what it shows, in a sentence or two
    width: float
    height: float
    body: str  #: elements

    def svg(self, *, standalone: bool = False) -> str:
        """Its text; *standalone*: a file by itself, with its own style and ground."""
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
    """What the classes of a picture look like; the variables in it are those of `theme_variables`."""
    return files("tuner.reports.charts").joinpath("chart.css").read_text(encoding="utf-8")


def theme_variables() -> tuple[str, str]:
    """The colours of light and dark pages."""
    return _LIGHT, _DARK


def nothing_picture(name: str, title: str, why: str, width: float) -> DrawnPicture:
    """Stands where there is nothing to draw, and says why."""
    body = words(why, 8, 24, class_="m", font_size=USUAL)
    return DrawnPicture(name, title, why, width, 40, body)
