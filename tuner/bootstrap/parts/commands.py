"""What a script's command has to say, and its files: how many threads, who counts."""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.core.domain.layout import Layout
from tuner.core.domain.service import ServiceSpec
from tuner.core.errors import ConfigError
from tuner.doctor.command import CounterSeen, ThreadsSeen

if TYPE_CHECKING:
    from tuner.config.settings import Settings

# Layouts that differ in their threads only, of a command that is not told how many.

READ_BY_PROGRAMS = ("TUNER_THREADS", "TUNER_LAYOUT")  #: variables that a program may read the number from


def find_alike(
    spec: ServiceSpec, layouts: Sequence[Layout], mentions: Callable[[ServiceSpec], bool]
) -> tuple[Layout, Layout] | None:
    """Two of *layouts* whose processes the service *spec* starts alike, whatever threads they should have.

    None: each is told its threads, in its command or environment, or *mentions* that it reads the variable.
    """
    for variant in dict.fromkeys(layout.variant for layout in layouts if layout.has_threads):
        of_variant = [layout for layout in layouts if layout.has_threads and layout.variant == variant]
        other = next((one for one in of_variant if one.threads != of_variant[0].threads), None)
        if other is None:
            continue  # one number of threads: the command may well have it
        own = spec.of(of_variant[0])
        if not _is_given_threads(own) and not mentions(own):
            return of_variant[0], other
    return None


def _is_given_threads(spec: ServiceSpec) -> bool:
    words = (*spec.command, *spec.environment.values())
    return any(name == "threads" for word in words for _, name, _, _ in string.Formatter().parse(word))


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
