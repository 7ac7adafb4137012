"""What counts the items of a service."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.bootstrap.services import owner
from tuner.ports import Clock, Probe

if TYPE_CHECKING:
    from tuner.config.settings import Settings


def probe_of(settings: Settings, clock: Clock, counters: Path, warn: Callable[[str, str], None]) -> Probe:
    """The probe that *settings* ask for; *counters* is a folder for those that need one.

    Raises:
        ConfigError: it could never count here.
    """
    service = settings.service
    asked = service.probe if service.kind == "script" else None
    if asked is not None and asked.kind == "command":
        from tuner.adapters.probes.command import CommandProbe

        return CommandProbe(clock, asked.command, asked.timeout, service.directory, warn)
    if asked is not None and asked.kind == "statsd":
        from tuner.adapters.probes.statsd import StatsdProbe

        included = asked.failed_included
        return StatsdProbe(clock, asked.name, asked.failed, warn, failed_included=included)
    from tuner.adapters.probes.mmap_counter import CounterProbe

    return CounterProbe(clock, counters, owner(settings))
