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

LOST = "lost"  #: a launch whose error begins so was lost with its box: it says nothing of its layout


def is_fleet(study: StudyRecord) -> bool:
    """Return whether *study* is measured on several hosts, or on one host of a fleet."""
    return study.provenance.is_fleet


@dataclass(frozen=True, slots=True)
class BoxFacts:
    """The facts that a host reports when it joins."""

    name: str  #: no other box of the fleet has it
    cores: float  #: what it offers (affinity, cgroup quota)
    provenance: Provenance  #: host, kernel, python, version of tuner ...
    ahead_s: float = 0.0  #: its wall clock, less the coordinator's


def record_of_box(facts: BoxFacts, joined_wall_s: float) -> BoxRecord:
    """Return a study's record of a host, from its joining on, by the coordinator's clock."""
    return BoxRecord(facts.name, facts.cores, joined_wall_s, facts.ahead_s, facts.provenance)


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a launch in a study."""

    block: int  #: 0, 1, ...: of one box
    position: int  #: in its block
    box: str
    asked: Proposal


@dataclass(frozen=True, slots=True)
class TimeLeft:
    """The budget that remains for a launch; durations, because its host has another clock."""

    budget_s: float  #: until it ends
    share_s: float  #: until this launch's share of it ends; the launches after it need the rest
    stop_s: float  #: it takes so long until a launch is gone


@dataclass(frozen=True, slots=True)
class Order:
    """One launch that a host must make."""

    id: str  #: of this launch alone; another one of the same place has another
    place: Place
    attempt: int  #: 1, 2, ...: launches that failed or were spoilt are made again
    tries: Mapping[int, int] = field(default_factory=dict)  #: windows of the place taken before, by index
    kept: tuple[int, ...] = ()  #: the windows of the place that count already, by index
    discards: bool = False  #: it only warms the page cache
    time_left: TimeLeft | None = None  #: None: there is no budget


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
    elapsed_s: float  #: of its warm-up, or its window
    items_per_s: float | None
    sample: Sample | None  #: None: it warms up


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
    stop_s: float = 0.0  #: it took so long until it was gone


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
    windows: Sequence[Observed]  #: that count, in time order; none: it was in vain, or is not whole
    is_whole: bool = True  #: tried to its end; False: given up with its box, and worth asking for again
    failed: Sequence[Layout] = ()  #: layouts that, with it, turn out not to run at all
