"""Lines for a terminal: pieces of text with a style, cut to its width, nothing in it that steers."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Literal

Style = Literal["", "bold", "dim", "good", "bad", "doubtful"]
Line = Sequence[tuple[str, Style]]

_BREAK = re.compile(r" (?!%|[KMGT]iB\b)")  # a figure keeps its sign, a size its unit
_CODES: dict[Style, str] = {"bold": "1", "dim": "2", "good": "32", "bad": "31", "doubtful": "33"}


def printable(text: str) -> str:
    """*text* in one line, every control character, escape and change of direction a ``?``."""
    joined = " ".join(text.split())
    return joined if joined.isprintable() else "".join(c if c.isprintable() else "?" for c in joined)


def width(text: str) -> int:
    """So many cells *text* takes; it is printable."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def cut_cells(text: str, cells: int, *, unicode: bool) -> str:
    """*text* in so many *cells* at most; what is left out shows at its end."""
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
    """*text* with blanks up to so many *cells*; longer text stays."""
    blanks = " " * max(0, cells - width(text))
    return blanks + text if right else text + blanks


def wrap_cells(text: str, cells: int, most: int, *, unicode: bool) -> list[str]:
    """*text* in lines of so many *cells*, broken at blanks; *most* lines, the last one cut."""
    lines = [""]
    for word in _BREAK.split(text):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if width(longer) <= cells or not lines[-1] or len(lines) == most:
            lines[-1] = longer
        else:
            lines.append(word)
    return [cut_cells(line, cells, unicode=unicode) for line in lines]


def paint_line(line: Line, cells: int, *, unicode: bool, colours: bool) -> tuple[str, int]:
    """*line* as a terminal takes it, in *cells* at most, and its width."""
    left, out = cells, []
    for text, style in line:
        shown = cut_cells(text, left, unicode=unicode)
        left -= width(shown)
        out.append(f"\x1b[{_CODES[style]}m{shown}\x1b[0m" if colours and style and shown else shown)
    return "".join(out), cells - left


def plain(lines: Iterable[Line]) -> list[str]:
    """*lines* without their styles."""
    return ["".join(text for text, _ in line).rstrip() for line in lines]


def _cells(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
