"""What feeds a script, as its config tells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.core.layout import Layout
from tuner.ports import Feeder

if TYPE_CHECKING:
    from tuner.config.feeders import HttpFeederSettings
    from tuner.config.settings import ScriptSettings

Warn = Callable[[str, str], None]  #: gets a slug of docs/messages.md and a text


def feeder_of(asked: ScriptSettings, layouts: Sequence[Layout], scratch: Path, warn: Warn) -> Feeder:
    """What feeds the service; *scratch* is a folder of the study's own."""
    from tuner.adapters.feeders.command import CommandFeeder
    from tuner.adapters.feeders.none import NoFeeder

    match asked.feeder.kind:
        case "command":
            return CommandFeeder(asked.feeder.command, asked.directory, scratch)
        case "http":
            return _http(asked.feeder, layouts, scratch, warn)
        case "none":
            return NoFeeder()


def load_totals(scratch: Path) -> Path:
    """Where the load generator of a study with this *scratch* folder counts."""
    return scratch / "load.totals"


def _http(asked: HttpFeederSettings, layouts: Sequence[Layout], scratch: Path, warn: Warn) -> Feeder:
    from tuner.adapters.feeders.http import HttpFeeder, Traffic

    traffic = Traffic(
        url=asked.target,
        method=asked.method,
        headers=asked.headers,
        body=(asked.body or "").encode(),
        body_file=asked.body_file,
        requests_file=asked.requests,
        connections=asked.connections,
        rate_per_s=asked.rate,
        arrivals=asked.arrivals or "poisson",
        max_outstanding=asked.max_outstanding or 1000,
        timeout_s=asked.timeout,
        wait_s=asked.wait,
        seed=asked.seed,
    )
    return HttpFeeder(traffic, layouts, load_totals(scratch), scratch, warn)
