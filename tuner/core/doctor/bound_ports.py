"""The ports that a service's command names to listen at."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_AT = re.compile(r"(?:--?[\w-]+=|-[a-z])?(?:\[[0-9a-fA-F:]+\]|[\w.*-]*):(\d{1,5})")  # --bind=127.0.0.1:8000
_OPTION = re.compile(r"-p|--?[\w-]*port")
_OPTION_WITH = re.compile(r"(?:-p|--?[\w-]*port=)(\d{1,5})")
_MOST = 65535


def bound_ports(words: Sequence[str]) -> frozenset[int]:
    """Ports in ``HOST:PORT``, ``:PORT``, ``--port PORT`` and the like; URLs are of others, and left out."""
    return frozenset(port for port in _named(words) if 0 < port <= _MOST)


def _named(words: Sequence[str]) -> Iterator[int]:
    before = ""
    for word in words:
        if (match := _AT.fullmatch(word) or _OPTION_WITH.fullmatch(word)) is not None:
            yield int(match[1])
        elif word.isdecimal() and len(word) <= 5 and _OPTION.fullmatch(before):
            yield int(word)
        before = word
