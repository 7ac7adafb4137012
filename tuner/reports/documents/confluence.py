"""Confluence writer (storage format, the page body in its REST API)."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from tuner.reports.documents.html import bullets, heading, paragraph

__all__ = ["bullets", "code", "heading", "note", "paragraph", "picture"]


def note(text: str) -> str:
    """Return the macro ``note`` with *text*."""
    return (
        f'<ac:structured-macro ac:name="note"><ac:rich-text-body><p>{escape(text)}</p>'
        "</ac:rich-text-body></ac:structured-macro>"
    )


def code(lines: Sequence[str]) -> str:
    """Return the macro ``code`` with *lines*."""
    shown = "\n".join(lines).replace("]]>", "]]]]><![CDATA[>")
    return (
        '<ac:structured-macro ac:name="code"><ac:parameter ac:name="language">bash</ac:parameter>'
        f"<ac:plain-text-body><![CDATA[{shown}]]></ac:plain-text-body></ac:structured-macro>"
    )


def picture(file: str, text: str) -> str:
    """Return a picture that is an attachment of the page."""
    return (
        f'<p><ac:image ac:alt="{escape(text)}"><ri:attachment ri:filename="{escape(file)}" /></ac:image></p>'
    )
