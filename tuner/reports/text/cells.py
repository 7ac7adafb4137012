"""Terminal lines: styled text, cut to the width of the terminal, without control characters."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

# Tables for a terminal that is narrower than they are: columns that do not fit come below.

_RULE = re.compile(r"-+(?:  -+)+")  #: rule below the headers of a table in the format "simple"
_GAP = 2  #: spaces between columns
_NAMES_ROWS = "layout"  #: header of the column that names the rows if it is the second one

_Span = tuple[int, int]


def fold_tables(text: str, columns: int) -> str:
    """Return *text* with each table that is wider than *columns* split into parts, one below the other.

    Each part begins with the columns that name its rows, so that it can be read alone. Paragraphs stay
    unchanged: the terminal wraps them, and a command in them can still be copied.
    """
    lines = text.split("\n")
    out: list[str] = []
    at = 0
    while at < len(lines):
        if at + 1 < len(lines) and _RULE.fullmatch(lines[at + 1]) and len(lines[at + 1]) > columns:
            end = next((row for row in range(at, len(lines)) if not lines[row]), len(lines))
            out += _parts(lines[at:end], columns)
            at = end
        else:
            out.append(lines[at])
            at += 1
    return "\n".join(out)


def _parts(table: Sequence[str], columns: int) -> Iterator[str]:
    """The lines of *table*, headers and rule first, in parts with an empty line between them."""
    spans = [match.span() for match in re.finditer("-+", table[1])]
    n_names = 2 if table[0][slice(*spans[1])].strip() == _NAMES_ROWS else 1
    names = spans[:n_names]
    parts: list[list[_Span]] = []
    for span in spans[n_names:]:
        if not parts or _width([*names, *parts[-1], span]) > columns:
            parts.append([])
        parts[-1].append(span)
    for number, part in enumerate(parts):
        if number:
            yield ""
        for line in table:
            yield (
                (" " * _GAP)
                .join(line[begin:end].ljust(end - begin) for begin, end in [*names, *part])
                .rstrip()
            )


def _width(spans: Sequence[_Span]) -> int:
    return sum(end - begin + _GAP for begin, end in spans) - _GAP


Style = Literal["", "bold", "dim", "good", "bad", "doubtful"]
Line = Sequence[tuple[str, Style]]

_BREAK = re.compile(r" (?!%|[KMGT]iB\b)")  # a figure keeps its sign, a size its unit
_CODES: dict[Style, str] = {"bold": "1", "dim": "2", "good": "32", "bad": "31", "doubtful": "33"}


def width(text: str) -> int:
    """Return the number of cells that printable *text* takes."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def cut_cells(text: str, cells: int, *, unicode: bool) -> str:
    """Return *text* cut to *cells*, with a sign at the end if it was cut."""
    if width(text) <= cells:
        return text
    mark = "…" if unicode else ".."
    kept, used = [], width(mark)
    for character in text:
        used += _cells(character)
        if used > cells:
            break
        kept.append(character)
    return ("".join(kept).rstrip() + mark)[: max(0, cells)]


def pad_cells(text: str, cells: int, *, right: bool = False) -> str:
    """Return *text* padded with blanks to *cells*; longer text stays."""
    blanks = " " * max(0, cells - width(text))
    return blanks + text if right else text + blanks


def wrap_cells(text: str, cells: int, most: int, *, unicode: bool) -> list[str]:
    """Return *text* in lines of *cells*, broken at blanks, at most *most* lines, the last one cut."""
    lines = [""]
    for word in _BREAK.split(text):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if width(longer) <= cells or not lines[-1] or len(lines) == most:
            lines[-1] = longer
        else:
            lines.append(word)
    return [cut_cells(line, cells, unicode=unicode) for line in lines]


def paint_line(line: Line, cells: int, *, unicode: bool, colours: bool) -> tuple[str, int]:
    """Return *line* as terminal text of at most *cells*, and its width."""
    left, out = cells, []
    for text, style in line:
        shown = cut_cells(text, left, unicode=unicode)
        left -= width(shown)
        out.append(f"\x1b[{_CODES[style]}m{shown}\x1b[0m" if colours and style and shown else shown)
    return "".join(out), cells - left


def plain(lines: Iterable[Line]) -> list[str]:
    """Return *lines* without their styles."""
    return ["".join(text for text, _ in line).rstrip() for line in lines]


def _cells(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
