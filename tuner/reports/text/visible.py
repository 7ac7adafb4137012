"""Foreign text as a page may show it: nothing invisible in it, nothing that turns its surroundings around."""

from __future__ import annotations

import re
from html import escape

#: control characters, line separators, lone halves of surrogate pairs, what XML has no place for
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_BROKEN = re.compile(r"[\ud800-\udfff\ufffe\uffff]")
#: marks that turn the direction of text, have no width or hide what follows
_HIDDEN = re.compile(
    r"[\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]|[\U000e0000-\U000e007f]"
)


def visible(text: object, most: int | None = None) -> str:
    """*text* without control characters, invisible ones written as ``\\u202e``; cut after *most* characters.

    It is plain text: whoever puts it into markup escapes it, as `in_markup` does.
    """
    plain = _BROKEN.sub("\ufffd", _CONTROL.sub(" ", str(text)))
    plain = escape_invisible(plain)
    return plain if most is None or len(plain) <= most else f"{plain[: most - 1]}…"


def escape_invisible(text: str) -> str:
    """*text* with what is invisible in it, or turns it around, written as ``\\u202e``."""
    return _HIDDEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def in_markup(text: object, most: int | None = None) -> str:
    """The same, escaped for the text and the attributes of HTML and SVG."""
    return escape(visible(text, most))
