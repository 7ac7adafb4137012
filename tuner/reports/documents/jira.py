"""Jira wiki markup writer."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tuner.reports.text.formats import escape

# At the beginning of a line these start a list, a title or a quotation.
_BEGIN = re.compile(r"^(?:([-#])|([bh])(?=[q1-6]\.))")
_STRIKE = re.compile(r"(?<!\S)-(?=\S)")
_ICON = re.compile(r"\((?=(?:[a-z/]|\\[*!?+]|-|on|off|flag|flagoff|\\\*[rgby])\))")


def text_of(text: str) -> str:
    """Return *text* escaped, for the middle or the beginning of a line; addresses do not become links."""
    shown = _ICON.sub(r"\\(", escape(text, "jira")).replace("://", ":&#47;/")
    shown = _STRIKE.sub(r"\\-", shown)
    return _BEGIN.sub(lambda match: f"\\{match[1]}" if match[1] else f"&#{ord(match[2])};", shown)


def heading(text: str, level: int) -> str:
    """A heading."""
    return f"h{level}. {text_of(text)}"


def paragraph(text: str, is_strong: bool) -> str:
    """A paragraph."""
    return f"*{text_of(text)}*" if is_strong else text_of(text)


def note(text: str) -> str:
    """A coloured panel."""
    return f"{{note}}{text_of(text)}{{note}}"


def bullets(items: Sequence[str]) -> str:
    """A list."""
    return "\n".join(f"* {text_of(item)}" for item in items)


def code(lines: Sequence[str]) -> str:
    """Return a block of code, in a macro whose end does not occur in it; else lines of text."""
    for begin, end in (("{code:bash}", "{code}"), ("{noformat}", "{noformat}")):
        if not any(end[:-1] in line for line in lines):
            return "\n".join([begin, *lines, end])
    return "\n".join(f"bq. {text_of(line)}" for line in lines)


def picture(file: str, text: str) -> str:
    """Return a picture that is an attachment of the issue."""
    name = re.sub(r"[!|^{}\[\]]", "-", file)
    return f"!{name}|alt={text_of(text).replace(',', ' ')}!"
