"""Tables for a terminal that is narrower than they are: what does not fit beside comes below."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_RULE = re.compile(r"-+(?:  -+)+")  #: below the headers of a table in the format "simple"
_GAP = 2  #: blanks between columns
_NAMES_ROWS = "layout"  #: the header of what a row is of, where that is not its first column

_Span = tuple[int, int]


def fold_tables(text: str, columns: int) -> str:
    """*text* with each table in it that is wider than *columns* in parts, one below the other.

    Each part begins with what its rows are of, so that it can be read by itself. Paragraphs stay as they
    are: a terminal breaks these, and a command in them can still be copied.
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
