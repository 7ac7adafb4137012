"""Markdown writer (GitHub, CommonMark and Python-Markdown)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import quote

from tuner.reports.text.formats import escape

# At the beginning of a line these start a list or a heading.
_BEGIN = re.compile(r"^(?:([-+#=:])|(\d+)([.)]))")
# A bare web or e-mail address, which renderers turn into a link.
_ADDRESS = re.compile(
    r"(?<![^\s(])((?:[a-z][a-z0-9+.-]*://|www\.|mailto:)[!#-;=?-\[\]^_a-z{}~]*[a-z0-9/]"
    r"|[a-z0-9.+_-]+@[a-z0-9-]+(?:\.[a-z0-9-]+)*\.[a-z]+)(?=[,;.)]*(?:\s|$))",
    re.IGNORECASE | re.ASCII,
)


def text_of(text: str) -> str:
    """Return *text* escaped, for the middle or the beginning of a line.

    Bare addresses are set as code, so that they do not become links but stay readable as plain text.
    """
    parts = _ADDRESS.split(text)
    shown = "".join(f"`{part}`" if place % 2 else _prose(part) for place, part in enumerate(parts))
    shown = re.sub(r"(?<!&)#$", "&#35;", shown)  # would end a heading
    return _BEGIN.sub(_escaped_begin, shown)


def heading(text: str, level: int) -> str:
    """A heading."""
    return f"{'#' * level} {text_of(text)}"


def paragraph(text: str, is_strong: bool) -> str:
    """A paragraph."""
    return f"**{text_of(text)}**" if is_strong else text_of(text)


def note(text: str) -> str:
    """Return a quotation, as GitHub uses for notes."""
    return f"> **Note:** {text_of(text)}"


def bullets(items: Sequence[str]) -> str:
    """A list."""
    return "\n".join(f"- {text_of(item)}" for item in items)


def code(lines: Sequence[str]) -> str:
    """Return a fenced block, with a fence longer than any in it."""
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([f"{fence}sh", *lines, fence])


def picture(file: str, text: str) -> str:
    """A picture."""
    return f"![{text_of(text)}]({quote(file)})"


def _prose(text: str) -> str:
    shown = escape(text, "markdown").replace("://", ":&#47;/").replace("www.", "www&#46;")
    shown = re.sub(r"(?<![^\s(])@", "&#64;", shown)  # would notify a user where the page is pasted
    return shown.replace("$", "&#36;")


def _escaped_begin(match: re.Match[str]) -> str:
    return f"{match[2]}\\{match[3]}" if match[2] else f"&#{ord(match[1])};"
