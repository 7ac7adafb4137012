"""The check whether a launch is ready to work, as its config asks for it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.core.layout import Layout
from tuner.core.service import layout_variables

if TYPE_CHECKING:
    from tuner.adapters.ready import Check
    from tuner.config.ready import ReadySettings


def ready_of(asked: ReadySettings | None, directory: Path | None) -> Callable[[Layout], Check] | None:
    """Makes the check of each launch; None: what runs is ready."""
    from tuner.adapters.ready import CommandSucceeds, HttpAnswer, LogLines, TcpAnswer

    if asked is None:
        return None

    def check(layout: Layout) -> Check:
        if asked.kind == "log":
            count = layout.processes if asked.count == "processes" else asked.count
            return LogLines(re.compile(asked.pattern.encode()), count)
        if asked.kind == "http":
            return HttpAnswer(asked.url)
        if asked.kind == "tcp":
            host, _, port = asked.address.rpartition(":")
            return TcpAnswer(host.strip("[]"), int(port))
        return CommandSucceeds(asked.command, {**os.environ, **layout_variables(layout)}, directory)

    return check
