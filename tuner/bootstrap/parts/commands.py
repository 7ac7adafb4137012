"""What a script's command has to say, and its files: how many threads, who counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.core.doctor.command import CounterSeen, ThreadsSeen
from tuner.core.domain.layout import Layout
from tuner.core.domain.service import ServiceSpec
from tuner.core.errors import ConfigError
from tuner.core.settings.unfilled import READ_BY_PROGRAMS, find_alike

if TYPE_CHECKING:
    from tuner.config.settings import Settings

_COUNTERS = ("tuner.probe", "TUNER_COUNTER")  #: what counts its items has one of these in its source


def check_thread_options(settings: Settings, spec: ServiceSpec, layouts: Sequence[Layout]) -> None:
    """See that layouts with different threads are started differently.

    Raises:
        ConfigError: they are not, as far as the command and its files show.
    """
    for seen in threads_seen(settings, spec, layouts):
        if seen.problem:
            raise ConfigError(f"service.command: {seen.problem}", hint=seen.cure)


def threads_seen(settings: Settings, spec: ServiceSpec, layouts: Sequence[Layout]) -> Iterator[ThreadsSeen]:
    """Whether a script is told its threads; nothing of a known service, which its record tells."""
    if settings.service.kind != "script" or settings.service.record is not None:
        return
    if any(layout.has_threads for layout in layouts):
        alike = find_alike(spec, layouts, lambda own: _mention(own, *READ_BY_PROGRAMS))
        yield ThreadsSeen(spec.command, alike)


def counter_seen(settings: Settings, spec: ServiceSpec) -> Iterator[CounterSeen]:
    """Whether a script that should count its own items has a line that does."""
    service = settings.service
    if service.kind != "script" or service.record is not None or not service.probe.needs_own_code:
        return
    yield CounterSeen(spec.command, all(_mention(own, *_COUNTERS) for own in spec.each_variant))


def _mention(spec: ServiceSpec, *texts: str) -> bool:
    from tuner.adapters.command_files import mentions

    words = (*spec.command, *spec.environment.values())
    return mentions(words, Path(spec.directory or "."), *texts)
