"""The queue of a further launch on this host: a queue worker that stays started has a separate one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tuner.adapters.feeders.queue import QueueFeederSettings
from tuner.adapters.queues.brokers import is_rabbitmq
from tuner.services.catalogue import known_services
from tuner.services.own_queue import command_at_queue
from tuner.services.running import escape_fields

if TYPE_CHECKING:
    from tuner.config.service import ScriptSettings
    from tuner.config.settings import Settings


def why_no_own_queue(settings: Settings) -> str:
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
    if all(_changed(one, service.feeder.queue) for one in (service, *_variants(service).values())):
        return ""
    return "tuner cannot change this command to read another queue, so all layouts would read the same one."


def at_own_queue(settings: Settings, number: int) -> Settings:
    """Return *settings* with a service that reads, and is fed by, a queue of this *number*.

    Raises:
        ValueError: it can have none.
    """
    service = settings.service
    if service.kind != "script" or not isinstance(service.feeder, QueueFeederSettings):
        raise ValueError("tuner fills no queue")
    queue = f"{service.feeder.queue}.turn{number}"
    changed = _changed(service, queue)
    if changed is None:
        raise ValueError("the command cannot be given another queue")
    variants = {}
    for name, of_variant in _variants(service).items():
        own = _changed(of_variant, queue)
        if own is None:
            raise ValueError(f"the command of {name} cannot be given another queue")
        variants[name] = service.variants[name].model_copy(update=own)
    feeder = service.feeder.model_copy(update={"queue": queue})
    update = {**changed, "variants": variants, "feeder": feeder}
    return settings.model_copy(update={"service": service.model_copy(update=update)})


def _variants(service: ScriptSettings) -> dict[str, ScriptSettings]:
    return {name: service.of(name) for name in service.variants}


def _changed(service: ScriptSettings, queue: str) -> dict[str, object] | None:
    """The command and environment that read *queue*."""
    assert service.record is not None
    record = known_services()[service.record]
    found = command_at_queue(
        record, service.command, service.environment, _inherited(service), escape_fields(queue)
    )
    return None if found is None else {"command": found[0], "environment": found[1]}


def _inherited(service: ScriptSettings) -> Mapping[str, str]:
    variables: dict[str, str] = dict(os.environ)
    if service.environment_file is not None:
        from tuner.config.environment_file import read_environment_file

        variables |= read_environment_file(service.environment_file)
    return {name: escape_fields(value) for name, value in variables.items()}
