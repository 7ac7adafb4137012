"""A fleet: several identical hosts that measure one study, and the messages between them.

A coordinator decides and writes the study's file; a host makes one ordered launch at a time, and reports the
results. Times in news are by the host's clock; `BoxFacts.ahead_s` is its difference from the coordinator's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tuner.core.domain.layout import Layout
from tuner.core.domain.provenance import Provenance
from tuner.core.domain.records import BoxRecord, LaunchRecord, StudyRecord
from tuner.core.domain.strategy import Observed, Proposal
from tuner.core.domain.window import Sample, Window

#: prefix of the error of a launch that was lost with its host, which is no evidence about its layout
LOST = "lost"


def is_fleet(study: StudyRecord) -> bool:
    """Return whether *study* is measured on several hosts, or on one host of a fleet."""
    return study.provenance.is_fleet


@dataclass(frozen=True, slots=True)
class BoxFacts:
    """The facts that a host reports when it joins."""

    name: str  #: name, unique in the fleet
    cores: float  #: number of cores that the host offers (affinity, cgroup quota)
    provenance: Provenance  #: host, kernel, Python, version of tuner
    ahead_s: float = 0.0  #: its wall clock minus the coordinator's, seconds


def record_of_box(facts: BoxFacts, joined_wall_s: float) -> BoxRecord:
    """Return a study's record of a host, from its joining on, by the coordinator's clock."""
    return BoxRecord(facts.name, facts.cores, joined_wall_s, facts.ahead_s, facts.provenance)


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a launch in a study."""

    block: int  #: number of the block, counted per host: 0, 1, ...
    position: int  #: position in the block
    box: str
    asked: Proposal


@dataclass(frozen=True, slots=True)
class TimeLeft:
    """The budget that remains for a launch; durations, because its host has another clock."""

    budget_s: float  #: seconds until the budget ends
    share_s: float  #: seconds until this launch's share of the budget ends; later launches need the rest
    stop_s: float  #: longest time so far to stop a launch, seconds


@dataclass(frozen=True, slots=True)
class Order:
    """One launch that a host must make."""

    id: str  #: unique id of the order; a repeated order of the same place has a new one
    place: Place
    attempt: int  #: 1, 2, ...: failed or spoilt launches are repeated
    #: number of earlier attempts at each window of the place, by index
    tries: Mapping[int, int] = field(default_factory=dict)
    kept: tuple[int, ...] = ()  #: indices of the place's windows that are already valid
    discards: bool = False  #: whether the launch only warms the page cache
    time_left: TimeLeft | None = None  #: None: the study has no budget


# ---------------------------------------------------------------------- news from hosts


@dataclass(frozen=True, slots=True)
class BoxCame:
    """A host has joined, and is free."""

    facts: BoxFacts


@dataclass(frozen=True, slots=True)
class BoxWent:
    """A host has left; its ordered launches are lost."""

    box: str
    why: str


@dataclass(frozen=True, slots=True)
class Began:
    """A launch has begun."""

    order: str
    launch: LaunchRecord


@dataclass(frozen=True, slots=True)
class WarmedUp:
    """The samples of a launch's warm-up; sent again if it warmed up again."""

    order: str
    samples: Sequence[Sample]


@dataclass(frozen=True, slots=True)
class Sampled:
    """The progress of a launch, every few seconds."""

    order: str
    elapsed_s: float  #: seconds since the warm-up or the window began
    items_per_s: float | None
    sample: Sample | None  #: None: the launch is warming up


@dataclass(frozen=True, slots=True)
class Took:
    """A window has ended, valid or not."""

    order: str
    window: Window


@dataclass(frozen=True, slots=True)
class Ended:
    """A launch has ended and all of its processes are gone; its host is free."""

    order: str
    launch: LaunchRecord
    stop_s: float = 0.0  #: time until all of its processes had ended, seconds


@dataclass(frozen=True, slots=True)
class Warned:
    """A warning from a host; *slug* as in docs/messages.md."""

    box: str
    slug: str
    text: str


@dataclass(frozen=True, slots=True)
class Lost:
    """An order without a result: it was given up, or the process that made it was killed."""

    order: str
    why: str


@dataclass(frozen=True, slots=True)
class Refused:
    """A host cannot make any launch of this study: its configuration is unusable there, or it is held."""

    order: str
    problem: str
    hint: str | None


News = BoxCame | BoxWent | Began | WarmedUp | Sampled | Took | Ended | Warned | Lost | Refused


# ---------------------------------------------------------------------- results for strategies


@dataclass(frozen=True, slots=True)
class Done:
    """A place that was tried to its end, or given up with its host."""

    place: Place
    #: valid windows in time order; empty: none was valid, or the place is not complete
    windows: Sequence[Observed]
    is_whole: bool = True  #: False: given up with its host, and may be proposed again
    failed: Sequence[Layout] = ()  #: layouts that are now known not to run at all
