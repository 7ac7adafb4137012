"""Text of other programs, as a message quotes it."""

from __future__ import annotations

_LONGEST = 300  #: characters


def one_line(text: str) -> str:
    """Return *text* on one line, cut where it is long: other programs may print anything."""
    line = "".join(c if c.isprintable() else " " for c in text[: 4 * _LONGEST])
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."
