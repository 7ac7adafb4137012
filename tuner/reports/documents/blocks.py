"""Blocks of a document: headings, paragraphs, notes, lists, code, pictures. Writers escape their text."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.reports.text.formats import Table


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading; the page's own title is of level 2."""

    text: str
    level: int = 3


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph; a strong one is what the page is about."""

    text: str
    is_strong: bool = False


@dataclass(frozen=True, slots=True)
class Note:
    """What must not be overlooked."""

    text: str


@dataclass(frozen=True, slots=True)
class Bullets:
    """A list, one sentence or so each."""

    items: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Code:
    """Lines to type."""

    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture in a file beside the page."""

    file: str  #: its name, without a folder
    text: str  #: what it shows, for who does not see it


Block = Heading | Paragraph | Note | Bullets | Code | Picture | Table
