"""What feeds a script, as its config tells."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.config.surroundings import StudyName
from tuner.core.domain.layout import Layout
from tuner.core.domain.records import StudyRecord
from tuner.core.messages.feeders import latency_at_saturation
from tuner.ports import Feeder, Warn

if TYPE_CHECKING:
    from tuner.config.feeders import HttpFeederSettings, QueueFeederSettings
    from tuner.config.service import ScriptSettings
    from tuner.config.settings import Settings


def study_name(record: StudyRecord, file: str) -> StudyName:
    """The name of the study *record*, which is kept in *file*: its first moment is its own."""
    return StudyName(f"{record.service}/{record.created_wall_s!r}/{record.seed}", file)


def feeder_of(
    asked: ScriptSettings, layouts: Sequence[Layout], study: StudyName, scratch: Path, warn: Warn
) -> Feeder:
    """What feeds the service; *scratch* is a folder of the study's own."""
    from tuner.adapters.feeders.command import CommandFeeder
    from tuner.adapters.feeders.none import NoFeeder

    match asked.feeder.kind:
        case "command":
            return CommandFeeder(asked.feeder.command, asked.directory, scratch)
        case "http":
            return _http(asked.feeder, layouts, scratch, warn)
        case "queue":
            return _queue(asked.feeder, study, scratch, warn)
        case "none":
            return NoFeeder()


def tell_of_saturation(settings: Settings, record: StudyRecord, warn: Warn) -> None:
    """Warn when latency is limited that says nothing: in a closed loop it is connections / throughput."""
    service = settings.service
    if "p95_s" not in record.limits or service.kind != "script" or service.feeder.kind != "http":
        return
    if service.feeder.rate is None:
        warn(*latency_at_saturation())


def _queue(asked: QueueFeederSettings, study: StudyName, scratch: Path, warn: Warn) -> Feeder:
    from tuner.adapters.feeders.queue import Fed, QueueFeeder
    from tuner.adapters.queues.queue import claim_of

    depth = None if asked.depth == "auto" else asked.depth
    fed = Fed(asked.url, asked.form, asked.queue, asked.sample, depth, asked.timeout)
    claim = claim_of(study.id, study.file)
    return QueueFeeder(fed, claim, scratch / "queue.state", scratch, warn)


def _http(asked: HttpFeederSettings, layouts: Sequence[Layout], scratch: Path, warn: Warn) -> Feeder:
    from tuner.adapters.feeders.http import MOST_OUTSTANDING, HttpFeeder, Traffic
    from tuner.adapters.load.totals import totals_file

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
    return HttpFeeder(traffic, layouts, totals_file(scratch), scratch, warn)
