"""Live status of a study: the launch that runs, its progress, and the current leader in one line."""

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
    """The present state of a study that measures."""

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


# The line on the state of a study: the leader, its lead, and the number of layouts that may be the best.


MOST_NAMED = 4  #: layouts in the line


class LeaderSource(Protocol):
    """The source of the answer and the estimates of a running study."""

    def answer(self) -> Answer:
        """Return the present answer."""

    def estimates(self) -> Mapping[Layout, Estimate]:
        """Estimate each measured layout's value."""


class Leading:
    """Writer of the line on the leader: after the first block, and after each change of the leader."""

    def __init__(self, standing: LeaderSource, layouts: int) -> None:
        self._standing, self._n_layouts = standing, layouts
        self._block, self._leader = 0, None  # type: tuple[int, Layout | None]

    def at(self, block: int) -> str | None:
        """Return the line when *block* begins; None: the block is no new one, or the leader is the same."""
        if block <= self._block:
            return None
        self._block = block
        answer = self._standing.answer()
        if answer.layout is None or answer.layout == self._leader:
            return None
        self._leader = answer.layout
        return describe_leader(answer, self._standing.estimates(), self._n_layouts)

    def grew(self, layouts: int) -> None:
        """Set the number of layouts."""
        self._n_layouts = layouts


def describe_leader(answer: Answer, estimates: Mapping[Layout, Estimate], n_layouts: int) -> str:
    """Describe the leader, the next layouts, and the number of open ones in one line."""
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
