"""What feeds a script, as its config tells."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.core.domain.layout import Layout
from tuner.core.domain.records import StudyRecord
from tuner.core.messages.feeders import latency_at_saturation
from tuner.ports import Feeder, Warn

if TYPE_CHECKING:
    from tuner.adapters.feeders.http import HttpFeeder
    from tuner.adapters.queues.queue import Claim
    from tuner.config.feeders import HttpFeederSettings, QueueFeederSettings
    from tuner.config.service import ScriptSettings
    from tuner.config.settings import Settings


@dataclass(frozen=True, slots=True)
class StudyName:
    """By what a study is known beyond its process."""

    id: str  #: the same when it is resumed
    file: str


def study_name(record: StudyRecord, file: str) -> StudyName:
    """The name of the study *record*, which is kept in *file*: its first moment is its own."""
    return StudyName(f"{record.service}/{record.created_wall_s!r}/{record.seed}", file)


def feeder_of(
    asked: ScriptSettings, layouts: Sequence[Layout], study: StudyName, scratch: Path, warn: Warn
) -> Feeder:
    """What feeds the service; *scratch* is a folder of the study's own."""
    match asked.feeder.kind:
        case "command":
            from tuner.adapters.feeders.command import CommandFeeder

            return CommandFeeder(asked.feeder.command, asked.directory, scratch)
        case "http":
            return _http(asked.feeder, layouts, scratch, warn)
        case "queue":
            return _queue(asked.feeder, study, scratch, warn)
        case "none":
            from tuner.adapters.feeders.none import NoFeeder

            return NoFeeder()


def http_feeder_of(feeder: Feeder, settings: Settings) -> HttpFeeder | None:
    """*feeder*, if it is one that sends requests."""
    service = settings.service
    if service.kind != "script" or service.feeder.kind != "http":
        return None
    from tuner.adapters.feeders.http import HttpFeeder

    return feeder if isinstance(feeder, HttpFeeder) else None


def tell_of_saturation(settings: Settings, record: StudyRecord, warn: Warn) -> None:
    """Warn when latency is limited that says nothing: in a closed loop it is connections / throughput."""
    service = settings.service
    if "p95_s" not in record.limits or service.kind != "script" or service.feeder.kind != "http":
        return
    if service.feeder.rate is None:
        warn(*latency_at_saturation())


def load_totals(scratch: Path) -> Path:
    """Where the load generator of a study with this *scratch* folder counts."""
    return scratch / "load.totals"


def claim_of(study: StudyName) -> Claim:
    """What *study* leaves in a broker, to say whose queue it is."""
    from tuner.adapters.queues.queue import Claim

    return Claim(study.id, str(Path(study.file).absolute()), platform.node())


def _queue(asked: QueueFeederSettings, study: StudyName, scratch: Path, warn: Warn) -> Feeder:
    from tuner.adapters.feeders.queue import Fed, QueueFeeder

    depth = None if asked.depth == "auto" else asked.depth
    fed = Fed(asked.url, asked.form, asked.queue, asked.sample, depth, asked.timeout)
    return QueueFeeder(fed, claim_of(study), scratch / "queue.state", scratch, warn)


def _http(asked: HttpFeederSettings, layouts: Sequence[Layout], scratch: Path, warn: Warn) -> Feeder:
    from tuner.adapters.feeders.http import MOST_OUTSTANDING, HttpFeeder, Traffic

    traffic = Traffic(
        url=asked.target,
        method=asked.method,
        headers=asked.headers,
        body=(asked.body or "").encode(),
        body_file=asked.body_file,
        requests_file=asked.requests,
        clients=asked.clients,
        connections=asked.how_connected,
        rate_per_s=asked.rate_per_s,
        pace=asked.pace,
        arrivals=asked.arrivals or "poisson",
        max_outstanding=asked.max_outstanding or MOST_OUTSTANDING,
        timeout_s=asked.timeout,
        wait_s=asked.wait,
        seed=asked.seed,
        finds_address=asked.find_address,
        addresses=asked.targets if asked.is_numbered else None,
    )
    return HttpFeeder(traffic, layouts, load_totals(scratch), scratch, warn)
