"""The launches of a study: each is made and kept, and may show that no further one is worth making."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import inf

from tuner.core.domain.layout import Layout
from tuner.core.domain.records import WARMING_BLOCK, LaunchRecord, StudyRecord
from tuner.core.domain.strategy import Proposal
from tuner.core.domain.window import Window
from tuner.core.messages import study as messages
from tuner.core.settings.safety_limits import BRAKED, parse_brake_error, was_stopped_by_brake
from tuner.core.warmup.report import SettlingCount, alarm_of
from tuner.core.windows.summary import record_of
from tuner.ports import Box, Progress, Stop, Store
from tuner.study.history import History, Launched
from tuner.study.launch.launching import Workbench
from tuner.study.launch.plan_cells import Cell, Deadline
from tuner.study.launch.source_away import SourceWatch, lost_source_reason
from tuner.study.strategy_driver import FailingAlike
from tuner.study.timetable import Timetable
from tuner.study.worker_facts import keep_gil, note_inner

CACHE_KEEPS_S = 3600.0  #: so long after its last launch a study expects the page cache still to be warm


class StudyLaunches:
    """Makes the launches of a study, and notes what they say of the service and its limits."""

    def __init__(
        self,
        box: Box,
        store: Store,
        progress: Progress,
        stop: Stop,
        *,
        usual_deadline: Callable[[Proposal], Deadline],
        remaining_s: Callable[[], float | None],
        n_planned: Callable[[], int | None],
    ) -> None:
        """The functions give what the study plans: the deadline of a launch that is discarded, the rest."""
        self._box, self._store, self._progress, self._stop = box, store, progress, stop
        self._usual_deadline, self._remaining_s, self._n_planned = usual_deadline, remaining_s, n_planned
        self.braked: str | None = None  #: what passed a limit of the user's, and so stops the study
        self.works: bool | None = None  #: whether any layout comes through its warm-up; None: not known yet
        self.source = SourceWatch(box.clock, box.feeder, progress.warning, stop.requested)

    def use(self, asked: StudyRecord, bench: Workbench, history: History, timetable: Timetable) -> None:
        """Make launches of the study *asked* from now on, and keep them in *history* and *timetable*."""
        self._asked, self._bench, self._history, self._timetable = asked, bench, history, timetable

    def recall(self, launches: Sequence[tuple[int, LaunchRecord]]) -> None:
        """Note what the launches of earlier sessions showed."""
        self._settling = SettlingCount.of(launch for _, launch in launches)
        if any(launch.warmup_s is not None for _, launch in launches):
            self.works = True
        self._alike = FailingAlike(_smallest(self._asked.layouts))
        self._seen_wall_s = max((_last_seen_s(launch) for _, launch in launches), default=-inf)

    @property
    def must_end(self) -> bool:
        """Whether no further launch is worth making."""
        return self.works is False or self.braked is not None or self.source.gave_up

    def make_for(self, cell: Cell, deadline: Deadline, bench: Workbench | None = None) -> Launched:
        """Make the next launch of *cell*; *bench* is that of a launch that takes turns."""
        which = cell.block, cell.position, cell.n_spoilt + 1
        return self._make(cell.asked, which, deadline, cell, bench)

    def warm_cache(self, layout: Layout, deadline: Callable[[], Deadline] | None = None) -> None:
        """Page cache, compiled bytecode, the CPU's clock: let a launch that is discarded pay for them."""
        if not self._asked.warms_cache or self._box.clock.wall_s() - self._seen_wall_s < CACHE_KEEPS_S:
            return
        self._discard(layout, deadline)

    def _discard(
        self,
        layout: Layout,
        deadline_of: Callable[[], Deadline] | None = None,
        bench: Workbench | None = None,
    ) -> LaunchRecord:
        asked = Proposal(layout, self._asked.window_s, 0)
        deadline = deadline_of() if deadline_of else self._usual_deadline(asked)
        launched = self._make(asked, (WARMING_BLOCK, 0, 1), deadline, bench=bench)
        self._history.end_warming(launched)
        return launched.launch

    def _make(
        self,
        asked: Proposal,
        which: tuple[int, int, int],
        deadline: Deadline,
        cell: Cell | None = None,
        bench: Workbench | None = None,
    ) -> Launched:
        """Make a launch, and take the windows that *cell* still needs; None: it only warms up.

        *bench* is that of a launch that takes turns with others; None: it runs alone.
        """
        bench = bench or self._bench
        block, position, attempt = which
        self._progress.launch_started(asked.layout, block, position, self._remaining_s())
        began_s = bench.box.clock.monotonic_s()
        launch = LaunchRecord(
            block=block,
            position=position,
            attempt=attempt,
            layout=asked.layout,
            box=self._box.name,
            started_wall_s=self._box.clock.wall_s(),
            running_after_s=None,
            warmup_s=None,
            settled=None,
            window_s=asked.window_s,
            n_windows=asked.n_windows,
            heat=asked.heat,
        )
        launched = self._history.begin(launch)
        window_taken = partial(self._window_taken, cell, launched)
        launched.launch = launch = bench.make(launch, cell, window_taken, deadline)
        keep_gil(self._store, launch, self._progress.warning)
        self._settling.add(launch)
        if (alarm := alarm_of(launch, self._settling)) is not None:
            self._progress.warning(*alarm)
        self._timetable.add(launch, bench.box.clock.monotonic_s() - began_s, launched.counted_s)
        self._seen_wall_s = self._box.clock.wall_s()
        self.braked = parse_brake_error(launch.error, BRAKED) or self.braked
        if launch.warmup_s is not None:  # one that was given up while it started shows nothing
            self.works = self.works is not False
        self.source.after(launch)
        if launch.error is not None and not self._stop.requested() and not _was_cut_off(launch):
            if self.works is None:
                self._see_whether_it_works(bench)
            elif self.works and self._history.n_windows == 0:
                self._end_if_all_fail_alike(launch)
        return launched

    def _see_whether_it_works(self, bench: Workbench) -> None:
        """Try the smallest layout after the very first launch failed, lest all fail at every attempt.

        A launch that the brake stops says nothing about that.
        """
        self.works = False
        smallest = _smallest(self._asked.layouts)
        tried = self._discard(smallest, bench=bench)
        if tried.warmup_s is not None:
            self.works = True
        elif tried.error is None or _was_cut_off(tried):
            self.works = None
        else:
            self._progress.warning(
                *messages.never_started(
                    self._asked.service,
                    smallest,
                    failed_in="start" if tried.running_after_s is None else "warm-up",
                )
            )

    def _end_if_all_fail_alike(self, launch: LaunchRecord) -> None:
        """End the study where no window counts yet and its launches fail for one reason."""
        if (failed := self._alike.add(launch)) is None:
            return
        self.works = False
        self._progress.warning(*messages.fails_alike(failed, self._alike.smallest))

    def _window_taken(self, cell: Cell | None, launched: Launched, window: Window, launch_id: int) -> None:
        assert cell is not None  # a launch without one takes no windows
        record = record_of(window, launch_id=launch_id, block=cell.block, box=self._box.name)
        self._history.add_window(cell, launched, record)
        note_inner(window, self._store, self._progress.warning)
        self._progress.window_taken(window, self._history.n_windows, self._n_planned(), self._remaining_s())


def _smallest(layouts: Sequence[Layout]) -> Layout:
    return min(layouts, key=lambda layout: (layout.total_threads, layout))


def _was_cut_off(launch: LaunchRecord) -> bool:
    """Whether the brake or a lost source ended *launch*, which tells nothing of the service."""
    return was_stopped_by_brake(launch) or lost_source_reason(launch) is not None


def _last_seen_s(launch: LaunchRecord) -> float:
    """When *launch* surely had the service's files in the page cache."""
    if launch.ended_wall_s is not None:
        return launch.ended_wall_s
    return -inf if launch.block == WARMING_BLOCK else launch.started_wall_s
