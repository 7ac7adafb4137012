"""Blocks of a document: headings, paragraphs, notes, lists, code, pictures. Writers escape their text."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.reports.text.formats import Table


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading; the title of the page has level 2."""

    text: str
    level: int = 3


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph; a strong one holds the main statement of the page."""

    text: str
    is_strong: bool = False


@dataclass(frozen=True, slots=True)
class Note:
    """An important note."""

    text: str


@dataclass(frozen=True, slots=True)
class Bullets:
    """A list of short items."""

    items: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Code:
    """Commands to type."""

    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture in a file next to the page."""

    file: str  #: file name without a folder
    text: str  #: description of the picture in words


Block = Heading | Paragraph | Note | Bullets | Code | Picture | Table
