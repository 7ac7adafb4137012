"""A port of one launch's own: the service tells its counts there, and the probe asks for them."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tuner.config.probes import PORT_FIELD, PORT_VARIABLE


@contextmanager
def own_port(address: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    """*address* with its ``{TUNER_PROBE_PORT}`` filled in, and what the service is told; nothing without one.

    The port is held within the block, so that nobody is given it by chance. Who asks for it by its number
    may listen, with SO_REUSEADDR, as servers do.
    """
    if PORT_FIELD not in address:
        yield address, {}
        return
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        port = str(held.getsockname()[1])
        yield address.replace(PORT_FIELD, port), {PORT_VARIABLE: port}
