"""What feeds a script, as its config tells."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.config.surroundings import FeederSurroundings, StudyName
from tuner.core.domain.layout import Layout
from tuner.core.domain.records import StudyRecord
from tuner.core.messages.feeders import latency_at_saturation
from tuner.ports import Feeder, Warn

if TYPE_CHECKING:
    from tuner.adapters.feeders.http import HttpFeeder
    from tuner.config.service import ScriptSettings
    from tuner.config.settings import Settings


def study_name(record: StudyRecord, file: str, place: int = 1) -> StudyName:
    """Return the name of the study *record*, kept in *file*, at one of its places on this host.

    Its first moment belongs to no other study. Messages that are fed at several places have different ids.
    """
    own = f"{record.service}/{record.created_wall_s!r}/{record.seed}"
    return StudyName(own if place == 1 else f"{own}/{place}", file)


def feeder_of(
    asked: ScriptSettings, layouts: Sequence[Layout], study: StudyName, scratch: Path, warn: Warn
) -> Feeder:
    """What feeds the service; *scratch* is a folder of the study's own."""
    return asked.feeder.build(asked, layouts, FeederSurroundings(study, scratch, warn))


def http_feeder_of(feeder: Feeder, settings: Settings) -> HttpFeeder | None:
    """*feeder*, if it is one that sends requests."""
    service = settings.service
    if service.kind != "script" or service.feeder.kind != "http":
        return None
    from tuner.adapters.feeders.http import HttpFeeder

    return feeder if isinstance(feeder, HttpFeeder) else None


def in_turns(feeder: Feeder) -> Feeder | None:
    """Return what feeds a launch that is paused often in place of *feeder*; None: the same."""
    from tuner.adapters.feeders.queue import QueueFeeder

    return feeder.in_turns() if isinstance(feeder, QueueFeeder) else None


def warn_saturation(settings: Settings, record: StudyRecord, warn: Warn) -> None:
    """Warn when latency is limited that says nothing: in a closed loop it is connections / throughput."""
    service = settings.service
    if "p95_s" not in record.limits or service.kind != "script":
        return
    if service.feeder.has_closed_loop:
        warn(*latency_at_saturation())


def use_clients_of(found: Feeder, settings: Settings, feeder: Feeder, own: Settings) -> None:
    """Let *feeder* send by as many clients as were found for another place of the host."""
    first, sender = http_feeder_of(found, settings), http_feeder_of(feeder, own)
    if first is not None and sender is not None and first.found is not None:
        sender.use_found(first.found)
