"""Documents made of plain-text blocks, and one writer for each markup format.

A writer escapes all text, so that it is shown literally and on one line. Names, hosts and commands of a study
are untrusted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tuner.core.text.safe_text import page_line
from tuner.reports.documents import asciidoc, confluence, html, jira, markdown, rst
from tuner.reports.documents.blocks import Block, Bullets, Code, Heading, Note, Paragraph, Picture
from tuner.reports.documents.plain import shell_line
from tuner.reports.text.formats import Table, render_table

__all__ = [
    "PAGE_FORMATS",
    "Block",
    "Bullets",
    "Code",
    "Heading",
    "Note",
    "Paragraph",
    "Picture",
    "render_document",
    "shell_line",
]


@dataclass(frozen=True, slots=True)
class _Writer:
    heading: Callable[[str, int], str]
    paragraph: Callable[[str, bool], str]
    note: Callable[[str], str]
    bullets: Callable[[Sequence[str]], str]
    code: Callable[[Sequence[str]], str]
    picture: Callable[[str, str], str]


_WRITERS: Mapping[str, _Writer] = {
    name: _Writer(module.heading, module.paragraph, module.note, module.bullets, module.code, module.picture)
    for name, module in {
        "markdown": markdown,
        "github": markdown,
        "pipe": markdown,
        "asciidoc": asciidoc,
        "rst": rst,
        "html": html,
        "confluence": confluence,
        "jira": jira,
    }.items()
}
PAGE_FORMATS = tuple(_WRITERS)  #: the formats that `render_document` accepts


def render_document(document: Sequence[Block], fmt: str) -> str:
    """Return *document* in *fmt*, with blank lines between blocks; ends in one newline.

    Raises:
        KeyError: *fmt* is none of `PAGE_FORMATS`.
    """
    return "\n".join(_render(block, _WRITERS[fmt], fmt) for block in document)


def _render(block: Block, writer: _Writer, fmt: str) -> str:
    match block:
        case Heading(text, level):
            return writer.heading(page_line(text), level) + "\n"
        case Paragraph(text, is_strong):
            return writer.paragraph(page_line(text), is_strong) + "\n"
        case Note(text):
            return writer.note(page_line(text)) + "\n"
        case Bullets(items):
            return writer.bullets([page_line(item) for item in items]) + "\n"
        case Code(lines):
            return writer.code([page_line(line) for line in lines]) + "\n"
        case Picture(file, text):
            return writer.picture(file, page_line(text)) + "\n"
        case Table():
            return render_table(block, fmt)
