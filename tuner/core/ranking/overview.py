"""A study as it stands: all that a report, a page or a live view is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from tuner.core.domain.layout import Layout
    from tuner.core.domain.records import BoxRecord, LaunchRecord, StudyRecord, WindowRecord
    from tuner.core.model.diagnosis.explanation import Explanation
    from tuner.core.model.diagnosis.sizing import Rule
    from tuner.core.ranking.ranked import Ranking

#: why a study that nobody measures goes no further
Ending = Literal["over", "out-of-budget", "cut-off"]
Phase = Literal["starting", "warming-up", "window", "between"]


@dataclass(frozen=True, slots=True)
class BoxLive:
    """What runs on one box of a fleet; the fields are those of `Live`."""

    box: str
    phase: Phase
    layout: Layout | None
    block: int
    elapsed_s: float
    window_s: float | None
    items_per_s: float | None
    load1: float | None
    n_active: int | None


@dataclass(frozen=True, slots=True)
class Live:
    """What a tuner that measures says of this moment."""

    at_wall_s: float  #: when it said so
    phase: Phase  #: of the launch that runs
    layout: Layout | None  #: that runs now; None: none yet
    block: int
    elapsed_s: float  #: of the phase
    window_s: float | None  #: length of the window that is taken; None: none is
    items_per_s: float | None  #: in this window or warm-up, so far; None: not known yet
    load1: float | None
    n_active: int | None  #: tasks of the box running or uninterruptible
    n_taken: int  #: windows that count
    n_planned: int | None  #: None: nobody knows how many it takes
    remaining_s: float | None  #: of the study, from *at_wall_s* on; None: unknown
    n_void: int = 0  #: windows that do not count
    warnings: tuple[tuple[str, str], ...] = ()  #: the last ones, oldest first: slug, text
    #: that take turns, *layout* among them, which works now; none: a single launch runs
    started: tuple[Layout, ...] = ()
    boxes: tuple[BoxLive, ...] = ()  #: of a fleet; the fields above are then of the one last told of


@dataclass(frozen=True, slots=True)
class Overview:
    """A study, what is known by now, and what runs."""

    name: str  #: of its file, without the folder
    study: StudyRecord
    ranking: Ranking
    launches: Sequence[tuple[int, LaunchRecord]]  #: with their ids, in the order they were started
    windows: Sequence[WindowRecord]  #: in the order they were taken, void ones included
    explanation: Explanation | str  #: what binds its layouts, or why that is not known
    rules: Sequence[Rule] = ()  #: to size it by; none where they are not known
    live: Live | None = None  #: None: nobody measures at the moment, or whoever does has not said a word yet
    is_held: bool = False  #: a tuner has the file open to write into it
    is_over: bool | None = None  #: nothing is left to be measured; None: the file alone does not tell
    rest_s: float | None = None  #: what is expected to be left; None: the file alone does not tell
    is_spent: bool = False  #: its budget has no room for what is to be measured next
    boxes: Sequence[BoxRecord] = ()  #: of a fleet, as they joined; none: it was measured on one
