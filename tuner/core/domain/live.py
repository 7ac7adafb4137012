"""Live status of a study: the running launch, its progress, and the current leader in one line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from tuner.core.text.figures import percent, pluralize

if TYPE_CHECKING:
    from tuner.core.domain.layout import Layout
    from tuner.core.domain.strategy import Answer
    from tuner.core.stats.interval import Estimate

Phase = Literal["starting", "warming-up", "window", "between"]


@dataclass(frozen=True, slots=True)
class BoxLive:
    """The running launch of one host of a fleet; the fields are those of `Live`."""

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
    """The current state of a running study."""

    at_wall_s: float  #: time of this report, seconds since 1970
    phase: Phase  #: phase of the running launch
    layout: Layout | None  #: layout that runs now; None: no launch yet
    block: int
    elapsed_s: float  #: seconds since the phase began
    window_s: float | None  #: length of the window in progress, seconds; None: no window is in progress
    items_per_s: float | None  #: rate in the window or warm-up so far; None: not known yet
    load1: float | None
    n_active: int | None  #: tasks of the host that run or are uninterruptible; None: not measured
    n_taken: int  #: number of valid windows
    n_planned: int | None  #: most windows that the study will take; None: unknown
    remaining_s: float | None  #: expected rest of the study from *at_wall_s* on, seconds; None: unknown
    n_void: int = 0  #: number of invalid windows
    warnings: tuple[tuple[str, str], ...] = ()  #: last warnings as (slug, text), oldest first
    #: layouts that take turns, including *layout*, which works now; empty: a single launch runs
    started: tuple[Layout, ...] = ()
    #: hosts of a fleet; the fields above are then those of the latest report of any host; empty: no fleet
    boxes: tuple[BoxLive, ...] = ()


# One line on a running study: the leader, its lead, and the number of layouts that may still be the best.


MOST_NAMED = 4  #: most layouts named in the line


class LeaderSource(Protocol):
    """A source of the current answer and estimates of a running study."""

    def answer(self) -> Answer:
        """Return the current answer."""

    def estimates(self) -> Mapping[Layout, Estimate]:
        """Return the estimated value of each measured layout."""


class Leading:
    """Writer of one line on the leader, after the first block and after each change of the leader."""

    def __init__(self, standing: LeaderSource, layouts: int) -> None:
        self._standing, self._n_layouts = standing, layouts
        self._block, self._leader = 0, None  # type: tuple[int, Layout | None]

    def at(self, block: int) -> str | None:
        """Return the line at the start of *block*; None: the block is not new, or the leader is the same."""
        if block <= self._block:
            return None
        self._block = block
        answer = self._standing.answer()
        if answer.layout is None or answer.layout == self._leader:
            return None
        self._leader = answer.layout
        return describe_leader(answer, self._standing.estimates(), self._n_layouts)

    def grew(self, layouts: int) -> None:
        """Update the number of layouts in the study, which has grown."""
        self._n_layouts = layouts


def describe_leader(answer: Answer, estimates: Mapping[Layout, Estimate], n_layouts: int) -> str:
    """Return one line on the leader, the next layouts, and the number of layouts not ruled out yet."""
    means = {layout: one.mean for layout, one in estimates.items() if one.mean is not None}
    best = means.get(answer.layout) if answer.layout is not None else None
    others = sorted((x for x in means if x != answer.layout), key=lambda x: -means[x])
    parts = []
    for layout in others[: MOST_NAMED - 1]:
        change = means[layout] / best - 1 if best else 0.0
        parts.append(f"{layout} ({'+' if change > 0 else '-'}{percent(abs(change))})")
    text = f"Standing: {answer.layout} leads"
    if parts:
        text += f", then {', '.join(parts)}"
    open_ = [x for x in answer.ties if x not in answer.tied]
    known = f"; {pluralize(len(open_), 'layout')} not ruled out yet" if open_ else ""
    unseen = n_layouts - len(means)
    return f"{text}{known}{f'; {unseen} not measured yet' if unseen > 0 else ''}"
