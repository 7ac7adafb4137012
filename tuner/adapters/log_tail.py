"""The end of a log that may be gigabytes long, binary, or still being written."""

from __future__ import annotations

import os
from pathlib import Path

_READ_BYTES = 8192
_LINE_CHARACTERS = 200


def last_lines(path: Path, n_lines: int = 5) -> list[str]:
    """The last *n_lines* that say something, printable and cut to 200 characters; empty without a log."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _READ_BYTES))
            text = file.read(_READ_BYTES).decode("utf-8", "replace")
    except OSError:
        return []
    lines = ("".join(c if c.isprintable() else " " for c in line).strip() for line in text.split("\n"))
    return [line[:_LINE_CHARACTERS] for line in lines if line][-n_lines:]
