"""Ports of 127.0.0.1 for servers that are started later."""

from __future__ import annotations

import random
import socket

#: below the range from which Linux takes the local ports of connections: 32768 and up
_PORTS = range(15000, 32000)
_RANDOM = random.SystemRandom()  # the tests' own seeds must not give two workers of pytest the same port
_given: set[int] = set()


def free_port() -> int:
    """A port that nobody listens at, and that no connection gets before the server starts.

    The kernel may give the port of a closed ``bind(0)`` to the next connection: then the server fails
    to start. It gives no ports outside its range to connections.
    """
    while True:
        port = _RANDOM.choice(_PORTS)
        if port in _given:
            continue
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        _given.add(port)
        return port
