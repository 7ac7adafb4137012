"""Clean the text of other programs and people: control characters, terminal escapes, marks of direction.

Every format escapes its own markup afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_LONGEST = 300  #: characters of one_line
_ESCAPE = r"\x1b\[[0-9;]*[A-Za-z]"
_IN_TABLE = re.compile(rf"{_ESCAPE}|[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
#: control characters, line separators, lone halves of surrogate pairs, what XML has no place for
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_BROKEN = re.compile(r"[\ud800-\udfff\ufffe\uffff]")
#: marks that turn the direction of text, have no width or hide what follows
_HIDDEN = re.compile(
    r"[\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]|[\U000e0000-\U000e007f]"
)


def replace_unprintable(text: str, mark: str | Callable[[str], str]) -> str:
    """Replace each character that cannot be printed, line ends included, with *mark* or its result."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else mark if isinstance(mark, str) else mark(c) for c in text)


def printable(text: str) -> str:
    """Return *text* on one line of a terminal, with a ``?`` for each character that cannot be printed."""
    return replace_unprintable(" ".join(text.split()), "?")


def escape_unprintable(text: str) -> str:
    """Return *text* on one line, with Python's escapes for characters that cannot be printed: ``\\n``."""
    return replace_unprintable(text, lambda c: c.encode("unicode_escape").decode())


def number_unprintable(text: str) -> str:
    """Return *text* on one line, with the numbers of characters that cannot be printed: ``\\x0a``."""
    return replace_unprintable(text, lambda c: f"\\x{ord(c):02x}")


def one_line(text: str) -> str:
    """Return *text* on one line, cut where it is long: other programs may print anything."""
    line = replace_unprintable(text[: 4 * _LONGEST], " ")
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."


def page_line(text: str) -> str:
    """Return *text* on one line of a page, with blanks for characters that cannot be printed."""
    shown = replace_unprintable(text, " ")
    return " ".join(shown.split()) if shown != text else text.strip()


def table_cell(text: str) -> str:
    """Return *text* for a cell of a table: no line ends, no escapes of terminals, nothing invisible."""
    return escape_invisible(_IN_TABLE.sub(" ", text))


def visible(text: object, most: int | None = None) -> str:
    """Return *text* without control characters, with invisible ones as ``\\u202e``, cut to *most* characters.

    Line ends and tabs stay.
    """
    plain = _BROKEN.sub("\ufffd", _CONTROL.sub(" ", str(text)))
    plain = escape_invisible(plain)
    return plain if most is None or len(plain) <= most else f"{plain[: most - 1]}…"


def escape_invisible(text: str) -> str:
    """Write the characters of *text* that are invisible, or turn it around, as ``\\u202e``."""
    return _HIDDEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
