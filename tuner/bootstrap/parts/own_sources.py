"""The port or queue of each layout that stays started together with other layouts on this host."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tuner.adapters.feeders.http import HttpFeederSettings
from tuner.adapters.feeders.queue import QueueFeederSettings
from tuner.adapters.probes.redis import RedisProbeSettings, TermSettings
from tuner.adapters.queues.brokers import is_rabbitmq
from tuner.core.text.address import bound_ports, rebind
from tuner.core.text.http_request import parse_url
from tuner.services.catalogue import known_services
from tuner.services.resident import command_at_queue, command_keeping_connections
from tuner.services.running import escape_fields

if TYPE_CHECKING:
    from tuner.config.kinds import ProbeSettings, ReadySettings
    from tuner.config.service import ScriptSettings
    from tuner.config.settings import Settings


def why_no_separate_queue(settings: Settings) -> str:
    """Return why no launch can have a separate queue, in a sentence; empty: each can have one."""
    service = settings.service
    if service.kind != "script" or not isinstance(service.feeder, QueueFeederSettings):
        return "tuner does not fill the queue, so all layouts would read the same one."
    if service.record is None:
        return "tuner does not know how this command is given another queue."
    if is_rabbitmq(service.feeder.url):
        return "tuner makes no queues in RabbitMQ, so all layouts would read the same one."
    if known_services()[service.record].at_queue is None:
        return "The application names the queue, so all layouts would read the same one."
    if all(_with_queue(one, service.feeder.queue) for one in (service, *_variants(service).values())):
        return ""
    return "tuner cannot change this command to read another queue, so all layouts would read the same one."


def with_separate_queue(settings: Settings, number: int) -> Settings:
    """Return *settings* with a service that reads, and is fed by, a queue of this *number*.

    Raises:
        ValueError: the service cannot use another queue.
    """
    service = settings.service
    if service.kind != "script" or not isinstance(service.feeder, QueueFeederSettings):
        raise ValueError("tuner fills no queue")
    queue = f"{service.feeder.queue}.turn{number}"
    changed = _with_queue(service, queue)
    if changed is None:
        raise ValueError("the command cannot be given another queue")
    variants = {}
    for name, of_variant in _variants(service).items():
        own = _with_queue(of_variant, queue)
        if own is None:
            raise ValueError(f"the command of {name} cannot be given another queue")
        variants[name] = service.variants[name].model_copy(update=own)
    feeder = service.feeder.model_copy(update={"queue": queue})
    update = {**changed, "variants": variants, "feeder": feeder, "probe": _probe_at(service, queue)}
    return settings.model_copy(update={"service": service.model_copy(update=update)})


def _probe_at(service: ScriptSettings, queue: str) -> ProbeSettings:
    """Return the probe of *service*; if its keys are those of the service's queues, for *queue* instead."""
    assert service.record is not None
    key = known_services()[service.record].probe_key
    if not key or not isinstance(service.probe, RedisProbeSettings):
        return service.probe
    before, _, after = key.partition("{queue}")

    def moved(terms: Sequence[TermSettings]) -> tuple[TermSettings, ...]:
        found: dict[tuple[str, str, str], TermSettings] = {}
        for term in terms:
            command, named, field = term.asked
            if named.startswith(before) and named.endswith(after):
                named = key.format(queue=queue)
                term = term.model_copy(update={command: (named, field) if field else named})
            found[command, named, field] = term
        return tuple(found.values())

    return service.probe.model_copy(
        update={"count": moved(service.probe.count), "failed": moved(service.probe.failed)}
    )


def _variants(service: ScriptSettings) -> dict[str, ScriptSettings]:
    return {name: service.of(name) for name in service.variants}


def _with_queue(service: ScriptSettings, queue: str) -> dict[str, object] | None:
    """Return the command and environment that read *queue*; None: the command cannot be changed."""
    assert service.record is not None
    record = known_services()[service.record]
    found = command_at_queue(
        record, service.command, service.environment, _environment_of(service), escape_fields(queue)
    )
    return None if found is None else {"command": found[0], "environment": found[1]}


def _environment_of(service: ScriptSettings) -> Mapping[str, str]:
    variables: dict[str, str] = dict(os.environ)
    if service.environment_file is not None:
        from tuner.config.environment_file import read_environment_file

        variables |= read_environment_file(service.environment_file)
    return {name: escape_fields(value) for name, value in variables.items()}


# The connections of a launch that stays started.


def keeping_connections(settings: Settings) -> Settings:
    """Return *settings* with a service that keeps connections open while it is idle between slices.

    Otherwise all clients would connect again in each slice, which costs throughput that a layout alone has.
    An option of the user stays.
    """
    service = settings.service
    if service.kind != "script" or service.record is None:
        return settings
    variants = {
        name: service.variants[name].model_copy(update=_with_connections(one))
        for name, one in _variants(service).items()
    }
    update = {**_with_connections(service), "variants": variants}
    return settings.model_copy(update={"service": service.model_copy(update=update)})


def _with_connections(service: ScriptSettings) -> dict[str, object]:
    assert service.record is not None
    found = command_keeping_connections(
        known_services()[service.record], service.command, service.environment, _environment_of(service)
    )
    return {} if found is None else {"command": found[0], "environment": found[1]}


# The port of a further launch on this host: an HTTP service that stays started keeps its port.


def port_of(settings: Settings) -> int | None:
    """Return the one port of the feeder that all commands of the service name; None: there is none."""
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
        ValueError: its port is unknown.
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
    """Return the changes that move command and readiness check, if given, from port *before* to *after*."""
    changes: dict[str, object] = {}
    if command is not None:
        changes["command"] = rebind(command, before, after)
    if ready is not None:
        at_port = {key for key, (_, port) in ready.places.items() if port == before}
        moved = {key: str(getattr(ready, key)).replace(f":{before}", f":{after}", 1) for key in at_port}
        changes["ready"] = ready.model_copy(update=moved)
    return changes
