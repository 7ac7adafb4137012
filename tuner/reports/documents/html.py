"""HTML fragment writer; the output is also well-formed XML."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from urllib.parse import quote


def heading(text: str, level: int) -> str:
    """A heading."""
    return f"<h{level}>{escape(text)}</h{level}>"


def paragraph(text: str, is_strong: bool) -> str:
    """A paragraph."""
    shown = f"<strong>{escape(text)}</strong>" if is_strong else escape(text)
    return f"<p>{shown}</p>"


def note(text: str) -> str:
    """Return a paragraph that is labelled as a note."""
    return f"<p><strong>Note:</strong> {escape(text)}</p>"


def bullets(items: Sequence[str]) -> str:
    """A list."""
    return "\n".join(["<ul>", *(f"<li>{escape(item)}</li>" for item in items), "</ul>"])


def code(lines: Sequence[str]) -> str:
    """A block of code."""
    shown = "\n".join(map(escape, lines))
    return f"<pre><code>{shown}</code></pre>"


def picture(file: str, text: str) -> str:
    """A picture."""
    return f'<p><img src="{escape(quote(file))}" alt="{escape(text)}" /></p>'
