"""Kinds of blocks of an HTML page, which the template renders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tuner.core.text.figures import first_of
from tuner.reports.charts.picture import NARROW, WIDE, DrawnPicture
from tuner.reports.text.formats import Table


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes above which a page shows less, which bound its total size."""

    rows: int  #: rows of a table
    windows: int  #: rows of the table of windows
    marks: int  #: marks in the picture of windows
    narrow_marks: int  #: marks in the same picture on a phone
    tips: int  #: marks of a picture that have a tooltip


FULL = Limits(rows=600, windows=400, marks=400, narrow_marks=120, tips=250)
SMALL = Limits(rows=60, windows=60, marks=100, narrow_marks=50, tips=60)


@dataclass(frozen=True, slots=True)
class Text:
    """Sentences: a paragraph, or a list if there are several."""

    sentences: Sequence[str]
    kind: str = (
        "plain"  #: answer, plain, note, warning, caution, list; folded: a list below its first sentence
    )
    block: str = field(default="text", init=False)


@dataclass(frozen=True, slots=True)
class Drawn:
    """A picture, in one version for wide screens and one for phones."""

    wide: DrawnPicture
    narrow: DrawnPicture
    block: str = field(default="picture", init=False)


@dataclass(frozen=True, slots=True)
class Shown:
    """A table; collapsed if a picture above it shows the same."""

    name: str  #: name that is unique on the page
    caption: str
    table: Table
    is_folded: bool = False
    left_out: str = ""  #: sentence about the rows that are left out
    block: str = field(default="table", init=False)


@dataclass(frozen=True, slots=True)
class Facts:
    """Names with their values."""

    rows: Sequence[tuple[str, str]]
    is_large: bool = False  #: whether the facts are shown large, because most readers look for them
    block: str = field(default="facts", init=False)


@dataclass(frozen=True, slots=True)
class CodeText:
    """Literal text to type or to keep."""

    title: str
    text: str
    is_folded: bool = False
    block: str = field(default="code", init=False)


@dataclass(frozen=True, slots=True)
class Subheading:
    """A heading within a section."""

    title: str
    block: str = field(default="subheading", init=False)


Block = Text | Drawn | Shown | Facts | CodeText | Subheading


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and the blocks below it."""

    name: str  #: name for links
    title: str
    blocks: Sequence[Block]


def draw_pictures(draw: Callable[[float, str], DrawnPicture | None], name: str) -> list[Drawn]:
    """Return the pictures that *draw* makes for both widths; empty if there is nothing to draw."""
    wide, narrow = draw(WIDE, f"{name}-wide"), draw(NARROW, f"{name}-narrow")
    return [] if wide is None or narrow is None else [Drawn(wide, narrow)]


def thin_table(table: Table, most: int) -> tuple[Table, str]:
    """Return the first *most* rows, and a note on the rest."""
    first = first_of(table.rows, most)
    if len(first) == len(table.rows):
        return table, ""
    rest = (
        f"{len(table.rows) - most} more rows are left out here; tuner export --format csv prints all of them."
    )
    return Table(table.headers, tuple(first), table.numeric), rest
