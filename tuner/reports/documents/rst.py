"""reStructuredText writer (docutils)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import quote

_MARKUP = re.compile(r"([\\`*|_@]|:(?=[:/])|(?<=[a-z]):(?=\S))")
# At the beginning of a line these start a list, a comment, a field or a title.
_BEGIN = re.compile(r"^(?:([^\w\s\\])|((?:[A-Za-z]|[ivxlcdmIVXLCDM]+|\d+))([.)])(?=\s|$))")


def text_of(text: str) -> str:
    """Return *text* escaped, for the middle or the beginning of a line."""
    return _BEGIN.sub(_escaped_begin, _MARKUP.sub(r"\\\1", text))


def heading(text: str, level: int) -> str:
    """Return a title underlined by ``=`` (level 2), or a rubric: the runbook defines its other underlines."""
    shown = text_of(text)
    return f"{shown}\n{'=' * _width(shown)}" if level == 2 else f".. rubric:: {shown}"


def paragraph(text: str, is_strong: bool) -> str:
    """A paragraph."""
    return f"**{text_of(text)}**" if is_strong else text_of(text)


def note(text: str) -> str:
    """An admonition."""
    return f".. note:: {text_of(text)}"


def bullets(items: Sequence[str]) -> str:
    """A list."""
    return "\n".join(f"- {text_of(item)}" for item in items)


def code(lines: Sequence[str]) -> str:
    """Return a literal block, which is not highlighted."""
    return "\n".join(["::", "", *(f"    {line}" for line in lines)])


def picture(file: str, text: str) -> str:
    """A picture."""
    return f".. image:: {quote(file)}\n   :alt: {text_of(text)}"


def _width(text: str) -> int:
    """Return the least number of columns of *text*: docutils requires an underline of this length."""
    return 2 * len(text) if not text.isascii() else len(text)


def _escaped_begin(match: re.Match[str]) -> str:
    return f"\\{match[1]}" if match[1] else f"{match[2]}\\{match[3]}"
