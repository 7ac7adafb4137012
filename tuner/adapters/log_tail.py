"""The end of a log that may be gigabytes long, binary, or still being written."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from tuner.core.redaction import hidden_in

_READ_BYTES = 8192
_LINE_CHARACTERS = 200


def last_lines(
    path: Path, n_lines: int = 5, *, environment: Mapping[str, str] | None = None, command: Sequence[str] = ()
) -> list[str]:
    """The last *n_lines* that say something, printable and cut to 200 characters; empty without a log.

    They are shown and kept, so secrets are hidden: what looks like one, those of tuner's environment and
    those of the *command* and of the *environment* that the program had beside it.
    """
    try:
        with path.open("rb") as file:
            before = max(0, os.fstat(file.fileno()).st_size - _READ_BYTES)
            file.seek(before)
            text = file.read(_READ_BYTES).decode("utf-8", "replace")
    except OSError:
        return []
    if before:  # half a line may hold half a secret, which nobody would know
        text = text.partition("\n")[2] or text
    known = {**os.environ, **(environment or {})}
    lines = ("".join(c if c.isprintable() else " " for c in line).strip() for line in text.split("\n"))
    return [hidden_in(line, known, command)[:_LINE_CHARACTERS] for line in lines if line][-n_lines:]
