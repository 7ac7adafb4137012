"""Current figures of a running study, which the study updates and a metrics scrape reads.

An update is a few assignments a second. The thread that serves a scrape does the remaining work.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from tuner.core.domain.layout import Layout
from tuner.core.domain.records import WARMING_BLOCK, StudyRecord, WindowRecord
from tuner.core.domain.strategy import Answer
from tuner.core.domain.window import Sample, Window
from tuner.core.stats.interval import Estimate
from tuner.core.windows.summary import record_of

Phase = Literal["starting", "warming-up", "window", "between", "ended"]
PHASES: tuple[Phase, ...] = ("starting", "warming-up", "window", "between", "ended")
PERCENTILES = (50, 95, 99)


@dataclass(frozen=True, slots=True)
class Known:
    """Present results of the study on its layouts."""

    estimates: Mapping[Layout, Estimate]  #: items/s, or items per CPU second, by the study's objective
    answer: Answer


@dataclass(slots=True)
class LayoutFigures:
    """Figures of one layout, over all sessions of the study; totals only grow."""

    n_launches: int = 0  #: launches of this session
    n_valid: int = 0  #: valid windows
    n_void: int = 0
    #: number of windows by reason; a window may have several reasons
    void_reasons: Counter[str] = field(default_factory=Counter)
    n_items: int = 0  #: items finished during windows, invalid windows and the present one included
    n_failed: int = 0
    window_s: float = 0.0  #: total length of valid windows
    #: CPU time in valid windows, by user: service, tuner, backends, others
    cpu_s: dict[str, float] = field(default_factory=dict)
    n_answered: int = 0  #: answered requests of the feeder
    n_requests_failed: int = 0
    # From the last valid window; None: there is none, or it has no such value.
    throughput_per_s: float | None = None
    load1: float | None = None
    memory_bytes: float | None = None
    latency_s: dict[int, float] = field(default_factory=dict)  #: latency by percentile


@dataclass(slots=True)
class Now:
    """Current activity; None: unknown, or nothing runs."""

    phase: Phase = "between"
    layout: Layout | None = None
    block: int = 0
    elapsed_s: float = 0.0  #: time since the phase began
    window_s: float | None = None
    items_per_s: float | None = None
    load1: float | None = None
    n_active: int | None = None


class StudyFigures:
    """A Progress that records figures.

    Args:
        study: the requested study.
        name: name of the study's file.
        box: the host it runs on.
        known: returns the strategy's results on *layouts*; called once per block, in the study's thread.
        wall_s: the time in seconds.
    """

    def __init__(
        self,
        study: StudyRecord,
        name: str,
        box: str,
        known: Callable[[], Known],
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        self.study, self.name, self.box = study, name, box
        self.layouts: dict[Layout, LayoutFigures] = {}
        self.nows: dict[str, Now] = {box: Now()}  #: by host; more than one only in a fleet
        self.known: Known | None = None
        self.n_taken = 0
        self.n_planned: int | None = None
        self.remaining_s: float | None = None
        self.warnings: Counter[str] = Counter()
        self.reported_wall_s = wall_s()
        self._ask, self._wall_s = known, wall_s
        self._on, self._is_fleet = box, False  #: host of the present events
        #: last total of items in the present window, by host and layout, because layouts may take turns
        self._seen_totals: dict[tuple[str, Layout], int | None] = {}
        self._asked_in_block: int | None = None
        self._lock = threading.Lock()

    def recall(self, windows: Sequence[WindowRecord]) -> None:
        """Record the windows that the study's file already contains."""
        with self._lock:
            for window in windows:
                self._add(window)
                self._add_items(window.layout, window.block, window.n_done)

    def grew(self, study: StudyRecord) -> None:
        """Record that the grid of the study has grown, before its first block."""
        with self._lock:
            self.study = study

    @contextmanager
    def still(self) -> Iterator[StudyFigures]:
        """Hold all figures constant within the ``with`` block, to read several of one moment."""
        with self._lock:
            yield self

    def launch_started(  # noqa: D102  # documented in ports.Progress, as are the others
        self,
        layout: Layout,
        block: int,
        position: int,  # noqa: ARG002
        remaining_s: float | None,
    ) -> None:
        if block != self._asked_in_block:  # results change when a block has ended
            self._asked_in_block = block
            self._update_known()
        with self._updating():
            self.nows[self._on] = Now("starting", layout, block)
            self.remaining_s = remaining_s
            self._seen_totals[self._on, layout] = None
            self._of(layout).n_launches += 1

    def in_turns(self, started: Sequence[Layout], works: Layout | None) -> None:
        """Do nothing: the next sample, within a second, is of the working layout."""

    def warming_up(self, layout: Layout, elapsed_s: float, items_per_s: float | None) -> None:  # noqa: D102
        with self._updating():
            self._go_on("warming-up", layout, elapsed_s, None, items_per_s)

    def sampled(  # noqa: D102
        self, layout: Layout, elapsed_s: float, window_s: float, sample: Sample, items_per_s: float
    ) -> None:
        with self._updating():
            self._go_on("window", layout, elapsed_s, window_s, items_per_s)
            self.now.load1, self.now.n_active = sample.load1, sample.n_active
            before = self._seen_totals.get((self._on, layout))
            new = items_per_s * elapsed_s if before is None else sample.n_done_total - before
            self._seen_totals[self._on, layout] = sample.n_done_total
            self._add_items(layout, self.now.block, round(new))

    def window_taken(  # noqa: D102
        self, window: Window, n_taken: int, n_planned: int | None, remaining_s: float | None
    ) -> None:
        record = record_of(window, launch_id=0, block=self.now.block, box=self._on)
        with self._updating():
            self._add(record)
            # A fleet host reports about every fifth second, and may report no sample of a short window.
            before = self._seen_totals.get((self._on, window.layout))
            new = record.n_done if before is None else window.samples[-1].n_done_total - before
            self._add_items(window.layout, record.block, new)
            # samples before the next window are not part of one
            self._seen_totals[self._on, window.layout] = None
            self.nows[self._on] = Now("between", window.layout, self.now.block)
            self.n_taken, self.n_planned, self.remaining_s = n_taken, n_planned, remaining_s

    def warning(self, slug: str, text: str) -> None:  # noqa: ARG002, D102
        with self._updating():
            self.warnings[slug] += 1

    @property
    def now(self) -> Now:
        """Return the current activity on the host that was last selected."""
        return self.nows.setdefault(self._on, Now())

    def turn_to(self, box: str) -> None:  # noqa: D102
        with self._lock:
            if not self._is_fleet:
                self._is_fleet = True
                self.nows = {}
            self._on = box
            self.nows.setdefault(box, Now())

    def box_left(self, box: str) -> None:  # noqa: D102
        with self._updating():
            self.nows.pop(box, None)
            self._seen_totals = {place: n for place, n in self._seen_totals.items() if place[0] != box}

    def end(self, *, as_planned: bool) -> None:
        """Record the end of the study; *as_planned*: the strategy may be called a last time."""
        if as_planned:
            self._update_known()
        with self._updating():
            self.nows = {box: Now("ended", None, now.block) for box, now in self.nows.items()}
            self.remaining_s = None

    @contextmanager
    def _updating(self) -> Iterator[None]:
        with self._lock:
            self.reported_wall_s = self._wall_s()
            yield

    def _update_known(self) -> None:
        known = self._ask()
        with self._lock:
            self.known = known

    def _go_on(
        self,
        phase: Phase,
        layout: Layout,
        elapsed_s: float,
        window_s: float | None,
        items_per_s: float | None,
    ) -> None:
        now = self.now
        now.phase, now.layout, now.elapsed_s = phase, layout, elapsed_s
        now.window_s, now.items_per_s = window_s, items_per_s

    def _of(self, layout: Layout) -> LayoutFigures:
        return self.layouts.setdefault(layout, LayoutFigures())

    def _add_items(self, layout: Layout, block: int | None, n: int) -> None:
        """Count finished items, except those of scouts, which are in no figure of a layout."""
        if block != WARMING_BLOCK:
            self._of(layout).n_items += max(0, n)

    def _add(self, window: WindowRecord) -> None:
        """Add a finished window, whose items are counted already; a scout's window is in no figure."""
        if window.block == WARMING_BLOCK:
            return
        of = self._of(window.layout)
        of.n_failed += window.n_failed
        if requests := window.requests:
            of.n_answered += requests.latencies.n_recorded
            of.n_requests_failed += requests.n_failed
        if window.void:
            of.n_void += 1
            of.void_reasons.update({reason.slug for reason in window.void})
            return
        of.n_valid += 1
        of.window_s += window.length_s
        for whose, cpu_s in _cpu_s(window).items():
            of.cpu_s[whose] = of.cpu_s.get(whose, 0.0) + max(0.0, cpu_s)
        of.throughput_per_s = window.n_done / window.length_s
        of.load1, of.memory_bytes = window.load1_mean, window.pss_bytes
        of.latency_s = {
            percentile: latency_s
            for percentile in PERCENTILES
            if requests and (latency_s := requests.latency_s(percentile / 100)) is not None
        }


def _cpu_s(window: WindowRecord) -> dict[str, float]:
    return {
        "service": window.service_cpu_s,
        "tuner": window.tuner_cpu_s,
        "backends": window.backend_cpu_s,
        "others": window.foreign_cpu_s,
        "stolen": window.steal_s,
    }
