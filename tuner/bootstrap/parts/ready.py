"""The check whether a launch is ready to work, as its config asks for it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.core.domain.layout import Layout
from tuner.core.domain.service import layout_variables

if TYPE_CHECKING:
    from tuner.adapters.supervisord.ready import Readiness, ReadyCheck
    from tuner.config.ready import ReadySettings
    from tuner.config.settings import Settings


def ready_of(settings: Settings) -> Callable[[Layout], Readiness | None]:
    """Tells how a launch of a layout shows that it is ready; None: what runs is ready."""
    from tuner.adapters.supervisord.ready import Readiness

    def readiness(layout: Layout) -> Readiness | None:
        service = settings.service_in(layout.variant)
        if service.ready is None:
            return None
        return Readiness(_check(service.ready, layout, service.directory), service.ready.within)

    return readiness


def _check(asked: ReadySettings, layout: Layout, directory: Path | None) -> ReadyCheck:
    from tuner.adapters.supervisord.ready import CommandSucceeds, HttpAnswer, LogLines, TcpAnswer

    match asked.kind:
        case "log":
            counts = {"processes": layout.processes, "threads": layout.threads}
            count = asked.count if isinstance(asked.count, int) else counts[asked.count]
            return LogLines(re.compile(asked.pattern.encode()), count)
        case "http":
            return HttpAnswer(asked.url)
        case "tcp":
            host, _, port = asked.address.rpartition(":")
            return TcpAnswer(host.strip("[]"), int(port))
        case "command":
            return CommandSucceeds(asked.command, {**os.environ, **layout_variables(layout)}, directory)
