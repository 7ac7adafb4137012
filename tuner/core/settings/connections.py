"""How long the clients of a closed loop keep a connection, and which worker process it goes to.

A server with several processes lets the kernel choose which of them accepts a connection, and the kernel is
not fair: of 8 connections that were opened at once one of two processes of gunicorn took all. A closed loop
feels that as no user would, because where one process has all requests the other one has none. At a load
beyond their capacity all processes have a queue, whoever takes more: that is what *even* measures.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tuner.core.errors import ConfigError

_HINT = "Write even, fresh, kept, or reuse: N for at most N requests over one connection."


@dataclass(frozen=True, slots=True)
class Connections:
    """What becomes of connections."""

    reuse: int | None = None  #: requests over one, at most; None: as long as the server keeps it
    is_even: bool = False  #: they are opened anew until each worker process has as many as the others


EVEN = Connections(is_even=True)  #: kept, and spread evenly: loads every process
FRESH = Connections(reuse=1)  #: a new one for each request, as a proxy without keep-alive opens them
KEPT = Connections()  #: kept by whichever process accepts it
_NAMES = {"even": EVEN, "fresh": FRESH, "kept": KEPT}


def parse_connections(text: str) -> Connections:
    """Read ``even``, ``fresh``, ``kept`` or ``reuse: N``.

    Raises:
        ConfigError: *text* is none of them.
    """
    compact = text.strip().lower().replace(" ", "")
    if compact in _NAMES:
        return _NAMES[compact]
    match = re.fullmatch(r"reuse[:=]?([1-9][0-9]{0,8})", compact, re.ASCII)
    if match is None:
        raise ConfigError(f"invalid connections {text!r}", hint=_HINT)
    return Connections(reuse=int(match[1]))


def render_connections(connections: Connections) -> str:
    """Return the text that `parse_connections` reads back."""
    for name, one in _NAMES.items():
        if one == connections:
            return name
    return f"reuse: {connections.reuse}"
