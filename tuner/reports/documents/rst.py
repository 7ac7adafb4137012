"""reStructuredText writer (docutils)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import quote

_MARKUP = re.compile(r"([\\`*|_@]|:(?=[:/])|(?<=[a-z]):(?=\S))")
# Where a line begins these make a list, a comment, a field or a title of it.
_BEGIN = re.compile(r"^(?:([^\w\s\\])|((?:[A-Za-z]|[ivxlcdmIVXLCDM]+|\d+))([.)])(?=\s|$))")


def text_of(text: str) -> str:
    """*text* as it is, within a line or at its beginning."""
    return _BEGIN.sub(_escaped_begin, _MARKUP.sub(r"\\\1", text))


def heading(text: str, level: int) -> str:
    """A title underlined by ``=`` (level 2), or a rubric: which lines underline what the runbook says."""
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
    """A literal block, which needs no highlighter."""
    return "\n".join(["::", "", *(f"    {line}" for line in lines)])


def picture(file: str, text: str) -> str:
    """A picture."""
    return f".. image:: {quote(file)}\n   :alt: {text_of(text)}"


def _width(text: str) -> int:
    """Columns of *text*, at least: docutils wants a line as long below it."""
    return 2 * len(text) if not text.isascii() else len(text)


def _escaped_begin(match: re.Match[str]) -> str:
    return f"\\{match[1]}" if match[1] else f"{match[2]}\\{match[3]}"
