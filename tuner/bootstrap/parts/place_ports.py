"""The port of a further launch on this host: an HTTP service that stays started keeps its own."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from tuner.adapters.feeders.http import HttpFeederSettings
from tuner.core.text.bound_ports import bound_ports, rebind
from tuner.core.text.http_request import parse_url

if TYPE_CHECKING:
    from tuner.config.kinds import ReadySettings
    from tuner.config.settings import Settings


def port_of(settings: Settings) -> int | None:
    """Return the one port that all commands of the service name and the feeder sends to; None: there is no
    such port."""
    service = settings.service
    if service.kind != "script" or not isinstance(service.feeder, HttpFeederSettings):
        return None
    url = service.feeder.url
    if "{process}" in url or "+unix" in url:
        return None
    port = parse_url(url).port
    commands = [service.of(name).command for name in service.variants] or [service.command]
    return port if all(bound_ports(command) == {port} for command in commands) else None


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
    url = service.feeder.url.replace(f":{before}", f":{after}", 1)
    changes = {
        **_rebound(service.command, service.ready, before, after),
        "feeder": service.feeder.model_copy(update={"url": url}),
        "variants": {
            name: one.model_copy(update=_rebound(one.command, one.ready, before, after))
            for name, one in service.variants.items()
        },
    }
    return settings.model_copy(update={"service": service.model_copy(update=changes)})


def _rebound(
    command: tuple[str, ...] | None, ready: ReadySettings | None, before: int, after: int
) -> dict[str, object]:
    """The command and the check for readiness at the port *after*, if they are given and name *before*."""
    changes: dict[str, object] = {}
    if command is not None:
        changes["command"] = rebind(command, before, after)
    if ready is not None:
        at_port = {key for key, (_, port) in ready.places.items() if port == before}
        moved = {key: str(getattr(ready, key)).replace(f":{before}", f":{after}", 1) for key in at_port}
        changes["ready"] = ready.model_copy(update=moved)
    return changes
