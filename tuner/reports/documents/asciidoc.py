"""AsciiDoc writer (the dialect of Asciidoctor)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import quote

_MARKUP = re.compile(r"[|*_`#^~+{}\[\]\\<>&]|@(?=[\w-]*\.)|://|::|;;|\(\(|\)\)|--")
# At the beginning of a line these start a list, a title, a comment or an admonition.
_BEGIN = re.compile(r"^(?:([^\w\s&])|((?:[A-Za-z]|[ivxIVX]+|\d+))([.)])(?=\s|$)|([A-Z]+)(:)(?=\s))")
_CALLOUT = re.compile(r"<(?:\d+|\.|!--\d+--)>")


def text_of(text: str) -> str:
    """Return *text* escaped, for the middle or the beginning of a line."""
    shown = _MARKUP.sub(lambda match: "".join(map(_entity, match[0])), text)
    return _BEGIN.sub(_escaped_begin, shown)


def heading(text: str, level: int) -> str:
    """Return a section title; level 2 is ``==``."""
    return f"{'=' * level} {text_of(text)}"


def paragraph(text: str, is_strong: bool) -> str:
    """A paragraph."""
    return f"*{text_of(text)}*" if is_strong else text_of(text)


def note(text: str) -> str:
    """An admonition."""
    return f"NOTE: {text_of(text)}"


def bullets(items: Sequence[str]) -> str:
    """A list."""
    return "\n".join(f"* {text_of(item)}" for item in items)


def code(lines: Sequence[str]) -> str:
    """Return a listing; without callouts if a line would be taken for one."""
    attributes = "source,sh"
    if any(_CALLOUT.search(line) for line in lines):
        attributes += ',subs="specialcharacters"'
    longest = max((len(line.rstrip()) for line in lines if set(line.rstrip()) == {"-"}), default=0)
    fence = "-" * max(4, longest + 1)
    return "\n".join([f"[{attributes}]", fence, *map(_no_directive, lines), fence])


def picture(file: str, text: str) -> str:
    """A picture."""
    return f"image::{quote(file)}[{text_of(text).replace(',', '&#44;')}]"


def _no_directive(line: str) -> str:
    """Return a line that the preprocessor does not take for a directive, even in a listing."""
    return f"\\{line}" if re.match(r"\\?(include|ifdef|ifndef|ifeval|endif)::", line) else line


def _entity(char: str) -> str:
    return f"&#{ord(char)};"


def _escaped_begin(match: re.Match[str]) -> str:
    if match[1]:
        return _entity(match[1])
    return f"{match[2]}{_entity(match[3])}" if match[2] else f"{match[4]}{_entity(match[5])}"
