"""The ports that a service's command names to listen at."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

#: Options that bind: of gunicorn, hypercorn, uvicorn, granian, waitress, uWSGI and the like. All others are
#: taken for those of somebody else: a broker, statsd, metrics. ``-p`` is a port here and processes there.
_BINDING = frozenset(
    (
        *("-b", "--bind", "--insecure-bind", "--quic-bind", "--port", "--listen", "--address"),
        *("--http", "--http-port", "--http-socket", "--http11-socket", "--https", "--https-socket"),
        *("--socket", "--uwsgi-socket", "--fastcgi-socket"),
    )
)
_AT = re.compile(r"(?:(?:\[[0-9a-fA-F:]+\]|[\w.*-]*):)?(\d{1,5})")  # 127.0.0.1:8000, :8000, 8000
_MOST = 65535


def bound_ports(words: Sequence[str]) -> frozenset[int]:
    """Ports in ``--bind HOST:PORT``, ``-b:PORT``, ``--port=PORT`` and the like; empty: none is named so."""
    return frozenset(port for _, port in _named(words) if 0 < port <= _MOST)


def rebind(words: Sequence[str], before: int, after: int) -> tuple[str, ...]:
    """The same command, which listens at the port *after* where it names *before*."""
    changed = list(words)
    for n, port in _named(words):
        if port == before:
            changed[n] = words[n][: -len(str(before))] + str(after)
    return tuple(changed)


def _named(words: Sequence[str]) -> Iterator[tuple[int, int]]:
    """The places of words that end with a port to listen at, and the ports."""
    before = ""
    for n, word in enumerate(words):
        name, equals, value = word.partition("=")
        if before in _BINDING:
            value = word
        elif not (equals and name in _BINDING):
            value = word.removeprefix("-b") if word.startswith("-b") else ""
        if (match := _AT.fullmatch(value)) is not None:
            yield n, int(match[1])
        before = word
