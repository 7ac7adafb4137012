"""Hints at the service that the processes of a launch run: its name, or an HTTP address that answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from tuner.adapters.load.first_answer import Place, close_at_once, speaks_tls
from tuner.adapters.load.workers import listening_at

_PATIENCE_S = 2.0  #: time limit for an answer
_MOST_PLACES = 4  #: largest number of places that are tried


def clue_of(
    commands: Sequence[Sequence[str]], pids: Sequence[int], known: Callable[[Sequence[str]], str]
) -> str:
    """Return advice, in a sentence, for a service whose items are not counted; empty if it is unknown.

    Args:
        commands: Command lines of its processes.
        pids: Pids of its processes.
        known: Returns the name of the known service of a command line, or an empty text.
    """
    for command in commands:
        if name := known(command):
            return f"It runs {name}: add --service {name}, and tuner counts and feeds it"
    for address in listening_at(pids)[:_MOST_PLACES]:
        place = Place(address.host, address.port)
        if url := asyncio.run(_http_at(place)):
            return (
                f"It answers HTTP at {url}: add --service web --set url={url}/, and tuner sends requests and"
                " counts the answers"
            )
    return ""


async def _http_at(place: Place) -> str:
    """Return the URL of a web server at *place*; empty if none answers."""
    try:
        async with asyncio.timeout(_PATIENCE_S):
            if place.is_socket:
                reader, writer = await asyncio.open_unix_connection(place.host)
            else:
                reader, writer = await asyncio.open_connection(place.host, place.port)
            try:
                head = f"HEAD / HTTP/1.1\r\nHost: {place.authority}\r\nConnection: close\r\n\r\n"
                writer.write(head.encode())
                if (await reader.read(5)).startswith(b"HTTP/"):
                    return place.url
            finally:
                close_at_once(writer)
    except (OSError, TimeoutError):
        pass
    if not place.is_socket and await speaks_tls(place):
        return Place(place.host, place.port, is_tls=True).url
    return ""
