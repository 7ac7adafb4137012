"""The port of a further launch on this host: an HTTP service that stays started keeps its own."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from tuner.adapters.feeders.http import HttpFeederSettings
from tuner.core.text.bound_ports import bound_ports, rebind
from tuner.core.text.http_request import parse_url

if TYPE_CHECKING:
    from tuner.config.settings import Settings


def port_of(settings: Settings) -> int | None:
    """Return the one port that the command names and the feeder sends to; None: there is no such port."""
    service = settings.service
    if service.kind != "script" or service.variants:
        return None
    if not isinstance(service.feeder, HttpFeederSettings):
        return None
    url = service.feeder.url
    if "{process}" in url or "+unix" in url:
        return None
    port = parse_url(url).port
    return port if bound_ports(service.command) == {port} else None


def at_free_port(settings: Settings) -> Settings:
    """Return *settings* with a service that listens, and is sent to, at another port.

    Raises:
        ValueError: its port is not known.
    """
    service, before = settings.service, port_of(settings)
    if before is None or service.kind != "script" or not isinstance(service.feeder, HttpFeederSettings):
        raise ValueError("no port to replace is known")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        after = int(probe.getsockname()[1])

    def moved(text: str) -> str:
        return text.replace(f":{before}", f":{after}", 1)

    changes: dict[str, object] = {
        "command": rebind(service.command, before, after),
        "feeder": service.feeder.model_copy(update={"url": moved(service.feeder.url)}),
    }
    if service.ready is not None and any(port == before for _, port in service.ready.places.values()):
        places = {key: moved(str(getattr(service.ready, key))) for key in service.ready.places}
        changes["ready"] = service.ready.model_copy(update=places)
    return settings.model_copy(update={"service": service.model_copy(update=changes)})
