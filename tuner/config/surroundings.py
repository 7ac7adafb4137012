"""The facts of a study that the parts of its launches may use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tuner.core.domain.records import StudyRecord
from tuner.core.domain.service import ServiceSpec
from tuner.ports import Clock, Warn


@dataclass(frozen=True, slots=True)
class StudyName:
    """The names of a study outside its process."""

    id: str  #: the same when it is resumed
    file: str


@dataclass(frozen=True, slots=True)
class FeederSurroundings:
    """The facts of a study that its feeder may use."""

    study: StudyName
    scratch: Path  #: a folder of the study, for the feeder
    warn: Warn


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The facts of a study that its probe may use."""

    spec: ServiceSpec  #: the service, as launches start it
    record: StudyRecord
    clock: Clock
    counters: Path  #: a folder for those who count in memory
    scratch: Path  #: the feeder's folder
    logs: Callable[[], Sequence[Path]]  #: of the programs of the launch under way; none while there is none
    study: StudyName
    warn: Warn
