"""The places that a config names, and the ports of this host among them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tuner.core.domain.service import ServiceSpec
from tuner.core.text.bound_ports import bound_ports
from tuner.doctor.service import PortSeen

if TYPE_CHECKING:
    from tuner.config.settings import Settings


@dataclass(frozen=True, slots=True)
class NamedPlace:
    """A place that the config names."""

    key: str
    host: str
    port: int


def ports_seen(settings: Settings, spec: ServiceSpec) -> Iterator[PortSeen]:
    """Those of this box that the service, or what stands before it, should listen at."""
    named = {(one.host, one.port): one for one in reversed(list(named_places(settings)))}
    if not named:
        return
    from tuner.doctor.around import port_here, who_listens

    bound = bound_ports([word for one in spec.each_variant for word in one.command])
    for one in reversed(named.values()):
        address = port_here(one.host, one.port)
        if address is not None:
            yield PortSeen(
                address=str(address),
                named_by=one.key,
                is_bound_by_command=one.port in bound,
                is_elsewhere=bool(bound) and one.port not in bound,
                listener=who_listens(address),
            )


def named_places(settings: Settings) -> Iterator[NamedPlace]:
    """Yield the places that the feeder sends to and that ready checks look at."""
    service = settings.service
    if service.kind != "script":
        return
    for key, (host, port) in service.feeder.places.items():
        yield NamedPlace(f"service.feeder.{key}", host, port)
    variants = [settings.service_in(name) for name in service.variants] or [service]
    for one in variants:
        for key, (host, port) in one.ready.places.items() if one.ready is not None else ():
            yield NamedPlace(f"service.ready.{key}", host, port)
