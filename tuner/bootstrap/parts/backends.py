"""Brokers and databases that share the box with the service they work for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tuner.core.domain.service import ServiceSpec
from tuner.ports import Warn

if TYPE_CHECKING:
    from tuner.config.settings import Settings


def backends_found(settings: Settings, spec: ServiceSpec, warn: Warn) -> Callable[[], frozenset[int]]:
    """Finds the processes of servers that *settings* name by a URL; none where `backends` says who they are.

    URLs stand in the probes, the feeder, and in the command and environment of *spec*.
    """
    if settings.backends is not None:
        return frozenset
    from tuner.core.text.backend_address import backend_addresses

    addresses = backend_addresses(_words(settings, spec))
    if not addresses:
        return frozenset
    from tuner.adapters.proc.listeners import Listeners

    return Listeners(addresses, warn).pids


def _words(settings: Settings, spec: ServiceSpec) -> list[str]:
    words = [word for one in spec.each_variant for word in (*one.command, *one.environment.values())]
    service = settings.service
    if service.kind == "script":
        words += service.feeder.servers.values()
        for probe in service.probes.values():
            words += probe.servers.values()
    return words
