"""What runs at this moment, from what a study tells: for a view, for a file that others watch."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tuner.core.domain.records import WARMING_BLOCK
from tuner.core.ranking.overview import BoxLive, Live, Phase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.core.domain.layout import Layout
    from tuner.core.domain.window import Sample, Window

_MOST_WARNINGS = 5  #: that are remembered; a log has all of them
_LONGEST_WARNING = 400  #: characters


class Follower:
    """A Progress that knows what runs now; whoever shows it is told by `_changed`."""

    def __init__(self) -> None:
        began_s = time.monotonic()
        self._now = _Now(reported_at_s=began_s, since_s=began_s)
        self._warnings: list[tuple[str, str]] = []
        self._box: str | None = None  #: that is told of; None: there is one
        self._boxes: dict[str, _Now] = {}  #: of a fleet, as they were first told of
        self._started: tuple[Layout, ...] = ()  #: layouts that take turns
        self._idle: dict[Layout, _Now] = {}  #: their state when their last turn ended

    def live(self) -> Live:
        """What is to be said of this moment."""
        now, at_s = self._now, time.monotonic()
        remaining_s = now.remaining_s
        if remaining_s is not None:
            remaining_s = max(0.0, remaining_s - (at_s - now.reported_at_s))
        return Live(
            at_wall_s=time.time(),
            phase=now.phase,
            layout=now.layout,
            block=now.block,
            elapsed_s=_elapsed_s(now, at_s),
            window_s=now.window_s,
            items_per_s=now.items_per_s,
            load1=now.load1,
            n_active=now.n_active,
            n_taken=now.n_taken,
            n_planned=now.n_planned,
            n_void=now.n_void,
            remaining_s=remaining_s,
            warnings=tuple(self._warnings),
            started=self._started,
            boxes=tuple(_on_box(box, one, at_s) for box, one in self._boxes.items()),
        )

    def launch_started(  # noqa: D102  (ports.Progress says it; so for the others)
        self,
        layout: Layout,
        block: int,
        position: int,  # noqa: ARG002
        remaining_s: float | None,
    ) -> None:
        now = self._enter("starting")
        now.layout, now.block = layout, block
        now.remaining_s, now.reported_at_s = remaining_s, now.since_s
        self._changed(at_once=True)

    def in_turns(self, started: Sequence[Layout], works: Layout | None) -> None:  # noqa: D102
        now = self._now
        if now.layout is not None and now.layout in self._started:
            self._idle[now.layout] = now
        self._started = tuple(started)
        self._idle = {layout: idle for layout, idle in self._idle.items() if layout in started}
        if works is not None and works != now.layout:
            if works in self._idle:
                self._now = self._idle[works].with_counts_of(now)
            else:
                self._enter("starting").layout = works
        self._changed(at_once=False)

    def warming_up(self, layout: Layout, elapsed_s: float, items_per_s: float | None) -> None:  # noqa: D102
        now = self._now if self._now.phase == "warming-up" else self._enter("warming-up")
        now.layout, now.elapsed_s, now.items_per_s = layout, elapsed_s, items_per_s
        self._changed(at_once=False)

    def sampled(  # noqa: D102
        self, layout: Layout, elapsed_s: float, window_s: float, sample: Sample, items_per_s: float
    ) -> None:
        now = self._now if self._now.phase == "window" else self._enter("window")
        now.layout, now.elapsed_s, now.window_s, now.items_per_s = layout, elapsed_s, window_s, items_per_s
        now.load1, now.n_active = sample.load1, sample.n_active
        self._changed(at_once=False)

    def window_taken(  # noqa: D102
        self,
        window: Window,
        n_taken: int,
        n_planned: int | None,
        remaining_s: float | None,
    ) -> None:
        now = self._enter("between")
        now.n_taken, now.n_planned = n_taken, n_planned
        now.n_void += bool(window.void) and now.block != WARMING_BLOCK
        now.remaining_s, now.reported_at_s = remaining_s, now.since_s
        self._changed(at_once=False)

    def warning(self, slug: str, text: str) -> None:  # noqa: D102
        self._warnings = [*self._warnings[1 - _MOST_WARNINGS :], (slug, text[:_LONGEST_WARNING])]
        self._changed(at_once=False)

    def turn_to(self, box: str) -> None:  # noqa: D102
        if box == self._box:
            return
        before = self._now
        self._box = box
        if box in self._boxes:
            self._now = self._boxes[box].with_counts_of(before)
        else:
            now = self._enter("between")
            now.layout, now.block = None, 0

    def box_left(self, box: str) -> None:  # noqa: D102
        self._boxes.pop(box, None)
        if box == self._box:
            self._box = None
        self._changed(at_once=False)

    def _begins(self, n_taken: int, n_void: int) -> None:
        """So many windows that count, and that do not, are known from earlier sessions."""
        self._now.n_taken, self._now.n_void = n_taken, n_void

    def _changed(self, *, at_once: bool) -> None:
        """There is something new to be shown; *at_once*: what runs now is another one than before."""
        raise NotImplementedError

    def _enter(self, phase: Phase) -> _Now:
        before = self._now
        self._now = _Now(
            phase=phase,
            since_s=time.monotonic(),
            layout=before.layout,
            block=before.block,
            n_taken=before.n_taken,
            n_planned=before.n_planned,
            n_void=before.n_void,
            remaining_s=before.remaining_s,
            reported_at_s=before.reported_at_s,
        )
        if self._box is not None:
            self._boxes[self._box] = self._now
        return self._now


@dataclass(slots=True)
class _Now:
    """Times are monotonic seconds."""

    reported_at_s: float  #: when *remaining_s* was told
    phase: Phase = "between"
    since_s: float = 0.0  #: the phase began
    layout: Layout | None = None
    block: int = 0
    elapsed_s: float | None = None  #: of the phase, as it was told; None: nobody does
    window_s: float | None = None
    items_per_s: float | None = None
    load1: float | None = None
    n_active: int | None = None
    n_taken: int = 0
    n_planned: int | None = None
    n_void: int = 0
    remaining_s: float | None = None

    def with_counts_of(self, other: _Now) -> _Now:
        """Take over the counts of the whole study from *other*."""
        self.n_taken, self.n_planned, self.n_void = other.n_taken, other.n_planned, other.n_void
        self.remaining_s, self.reported_at_s = other.remaining_s, other.reported_at_s
        return self


def _elapsed_s(now: _Now, at_s: float) -> float:
    """Of the phase; nobody tells while a layout starts or stops."""
    return at_s - now.since_s if now.elapsed_s is None else now.elapsed_s


def _on_box(box: str, now: _Now, at_s: float) -> BoxLive:
    return BoxLive(
        box=box,
        phase=now.phase,
        layout=now.layout,
        block=now.block,
        elapsed_s=_elapsed_s(now, at_s),
        window_s=now.window_s,
        items_per_s=now.items_per_s,
        load1=now.load1,
        n_active=now.n_active,
    )
