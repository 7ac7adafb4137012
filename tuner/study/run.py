"""The use case: measure the launches that the strategy requests and the store lacks, block by block."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import groupby
from math import inf
from random import Random
from typing import TYPE_CHECKING

from tuner.core.domain.layout import Layout
from tuner.core.domain.provenance import Provenance
from tuner.core.domain.records import WARMING_BLOCK, LaunchRecord, StudyRecord, WindowRecord
from tuner.core.domain.safety_limits import BRAKED, parse_brake_error
from tuner.core.domain.strategy import Proposal, Strategy
from tuner.core.domain.window import Window
from tuner.core.messages import study as messages
from tuner.core.warmup.report import SettlingCount, alarm_of
from tuner.core.windows.summary import record_of
from tuner.ports import Box, Progress, Stop, Store
from tuner.study.history import Launched, new_launch, read_ran_before
from tuner.study.launch.launching import Workbench
from tuner.study.launch.outcome import SourceWatch, StudyOutcome, around_hooks, finishing, was_cut_off
from tuner.study.launch.plan_cells import Cell, Deadline
from tuner.study.strategy_driver import FailingAlike, smallest_of
from tuner.study.study_plan import StudyPlan, keep_gil, last_seen_s, note_inner

if TYPE_CHECKING:
    from tuner.core.search.growth import Growth
    from tuner.study.heat.heat import Heats
    from tuner.study.scouting import Scouting

CACHE_KEEPS_S = 3600.0  #: time after its last launch during which a study expects the page cache to be warm
#: successive launches without a window, through no fault of their own, until the host counts as unsuitable
MOST_DISTURBED = 10

#: makes a new strategy for a study whose grid has grown
Renewed = Callable[[StudyRecord], None]
#: receives the windows of a first look
Looked = Callable[[Sequence[WindowRecord]], None]


def run_study(
    box: Box,
    store: Store,
    progress: Progress,
    stop: Stop,
    strategy: Strategy,
    grew: Renewed | None = None,
    *,
    began_s: float | None = None,
    looked: Looked | None = None,
) -> StudyOutcome:
    """Measure the launches that *strategy* requests and *store* lacks; each window is stored at once.

    A new study and a resumed one are the same call. Windows already in the store stay unchanged; a launch
    that was cut off is repeated.

    Args:
        box: the host to measure on.
        store: opened for writing.
        progress: receives every event, warnings included.
        stop: checked every second; after a request the present window is finished and stored, and no further
            one begins.
        strategy: a new strategy for the store's study; it first gets the windows in the store.
        grew: called with the study after its grid has grown; it resets *strategy* to the new layouts. None:
            the grid does not grow.
        began_s: the monotonic second at which the budget begins; None: now.
        looked: called with the windows of the first look; None: the study has no first look.

    Raises:
        ConfigError: the budget is too short for one block (raised before anything starts), the service cannot
            be run at all, or the store cannot be written; finished windows are in the store.
        MeasurementError: the hook before the study failed.
        KeyboardInterrupt: after the second Ctrl-C; all processes are stopped before it is raised.
    """
    study = _Study(box, store, progress, stop, strategy, grew, began_s, looked)
    study.prepare()
    facts = {"service": study.asked.service, "box": box.name}
    with finishing(box.hooks, facts, study.n_windows) as ending:
        with around_hooks(box.hooks, progress.warning, "study", facts):
            if not study.is_stopped_by_limit(facts):
                study.look()
                study.scout()
                with ExitStack() as places:
                    study.measure(places)
            if study.braked is not None:
                facts["brake"] = study.braked  # for the hook after it too
        return ending.at(study.outcome())


class _Study:
    """A running study: its blocks, the rest of its budget, and the reason why it must end."""

    def __init__(
        self,
        box: Box,
        store: Store,
        progress: Progress,
        stop: Stop,
        strategy: Strategy,
        grew: Renewed | None,
        began_s: float | None,
        looked: Looked | None,
    ) -> None:
        self._box, self._store, self._progress, self._stop = box, store, progress, stop
        self._grew, self._looked = grew, looked
        self._plan = StudyPlan(store, strategy, progress, box.clock, began_s, self._must_end)
        self._said: set[str] = set()  #: slugs of warnings that are printed once per session
        launches = self._recall()
        self._scouts_first = self._looks_first = False
        if grew is not None and self.asked.provenance.may_grow:
            from tuner.study import scouting

            self._scouts_first = scouting.is_due(self.asked, launches)
        if looked is not None:
            from tuner.study import first_look

            self._looks_first = first_look.is_due(self.asked, launches)
        self._settling = SettlingCount.of(launch for _, launch in launches)
        self._n_disturbed = 0  #: successive launches without a window, except those that failed
        self.braked: str | None = None  #: safety limit that was passed, which stops the study
        self._works: bool | None = None  #: whether any layout completes its warm-up; None: not known yet
        if any(launch.warmup_s is not None for _, launch in launches):
            self._works = True
        self._alike = FailingAlike(smallest_of(self.asked.layouts))
        self._heats: Heats | None = None  #: None: no heat yet
        self._source = SourceWatch(box.clock, box.feeder, progress.warning, stop.requested)
        self._seen_wall_s = max((last_seen_s(launch) for _, launch in launches), default=-inf)

    @property
    def asked(self) -> StudyRecord:
        """The study, including layouts added so far."""
        return self._plan.asked

    def _recall(self) -> Sequence[tuple[int, LaunchRecord]]:
        """Load the plan from the store, and return the stored launches."""
        launches, windows = self._plan.recall()
        ran = read_ran_before(self._store, windows)
        self._bench = Workbench(
            self.asked, self._box, self._store, self._progress, self._stop, ran, self._add_stop, self._said
        )
        return launches

    def _add_stop(self, lasted_s: float) -> None:
        self._plan.timetable.add_stop(lasted_s)

    def n_windows(self) -> int:
        """Return the number of valid windows so far."""
        return self._plan.history.n_windows

    def prepare(self) -> None:
        """Check that the first block fits into the budget, unless the grid may still grow."""
        if not self._scouts_first:
            self._plan.begin()

    def look(self) -> None:
        """Take a first look if the study begins with one, and report its windows."""
        if not self._looks_first:
            return
        from tuner.study import first_look

        assert self._looked is not None
        clock = self._box.clock
        for n, layout in enumerate(first_look.layouts_of(self.asked)):
            cell = self._plan.history.look(n, first_look.look_at(layout))
            if cell.is_done or self._must_end():
                continue
            self._warm_cache(layout, lambda: first_look.deadline(clock.monotonic_s(), discards=True))
            self._measure_cell(cell, lambda _: first_look.deadline(clock.monotonic_s()))
        if self._must_end():
            return
        self._n_disturbed = 0
        self._looked(first_look.windows_of(self._store.launches(), self._store.windows()))

    def scout(self) -> None:
        """Measure scouts at the edge of a grid that may grow, add layouts, and begin the plan."""
        while self._scouts_first and not self._must_end():
            scouting = self._scouting()
            if (cell := scouting.next_cell()) is None:
                self._grow(*scouting.grown())
                return
            block = [Proposal(one, self.asked.shortest_window_s) for one in self.asked.layouts]
            self._measure_cell(cell, partial(self._plan.deadline, after=block))
            if not cell.is_done and not self._must_end():  # the budget has no room for the cell any more
                self._grow(*self._scouting().grown())
                return

    def _scouting(self) -> Scouting:
        from tuner.study.scouting import Scouting

        return Scouting.of(
            self.asked, self._box, self._plan.history, self._plan.timetable, self._store.windows()
        )

    def _grow(self, growth: Growth, more: Sequence[Layout]) -> None:
        from tuner.core.search.growth import growth_to_json, growth_warning

        assert self._grew is not None
        self._store.add_to_study(more, Provenance(grid_grew=growth_to_json(growth)))
        self._recall()
        if more:
            self._grew(self.asked)
            self._progress.warning(*growth_warning(growth, more))
        self._scouts_first = False
        self._plan.begin()

    def is_stopped_by_limit(self, facts: Mapping[str, str]) -> bool:
        """Return whether a safety limit is passed before anything runs; then nothing is started."""
        brake = self._box.brake
        nothing_runs = {**facts, "layout": ""}  # commands of limits may rely on it
        if brake is None or (self._plan.block is None and not self._scouts_first):
            return False
        over = brake.still_over(nothing_runs, self._stop.requested)
        if over is None or self._stop.requested():
            return False
        self.braked = f"before anything was started: {over}"
        self._progress.warning(*messages.braked_before_start(over))
        return True

    def measure(self, places: ExitStack) -> None:
        """Measure block after block, until the strategy, the user or the budget ends the study.

        *places* closes the additional places of launches that take turns.
        """
        self._plan.renew_budget()
        while self._plan.block is not None:
            cells = self._plan.course.open_cells(self._plan.block)
            if self._must_end() or not self._plan.may_begin(self._plan.block):
                return
            self._warm_cache(cells[0].layout)
            later = cells
            for (heat, _), group in groupby(cells, key=_heat_or_place):
                first, *others = group
                later = later[1 + len(others) :]
                if heat is not None:
                    self._measure_heat([first, *others], later, places)
                elif self._plan.course.is_open(first):
                    after = self._plan.rest_of(later)
                    self._measure_cell(first, partial(self._plan.deadline, after=after))
            if self._plan.course.open_cells(self._plan.block):
                self._plan.report_budget_over()
                return
            self._plan.end_block(self._plan.block)
            self._plan.forward()

    def _must_end(self) -> bool:
        return (
            self._stop.requested()
            or self._works is False
            or self._n_disturbed >= MOST_DISTURBED
            or self._is_cut_off()
        )

    def _measure_cell(self, cell: Cell, deadline_of: Callable[[Proposal], Deadline]) -> None:
        """Launch *cell* until it is done or the budget has no room for it, each launch until its deadline."""
        while not cell.is_done and not self._must_end() and self._plan.timetable.has_room(cell.rest):
            self._plan.history.end_launch(cell, self._launch_of(cell, deadline_of(cell.rest)))
        self._report_cell(cell)

    def _measure_heat(self, cells: Sequence[Cell], after: Sequence[Cell], places: ExitStack) -> None:
        """Launch *cells* together as long as the budget has room for all of them; *after* follow them."""
        timetable, later = self._plan.timetable, self._plan.rest_of(after)
        while not self._must_end():
            rest = [cell for cell in cells if self._plan.course.is_open(cell)]
            if not rest or not timetable.has_room(*(cell.rest for cell in rest)):
                break
            ends = timetable.deadlines_in_heat([cell.rest for cell in rest], later)
            makes = (partial(self._launch_resident, cell, end) for cell, end in zip(rest, ends, strict=True))
            launches = [(cell.layout, make) for cell, make in zip(rest, makes, strict=True)]
            began_s = self._box.clock.monotonic_s()
            random = Random(f"{self.asked.seed}/{rest[0].block}/{rest[0].heat}")
            self._heats_in(places).run(launches, random, timetable.heat_ends_s(len(rest), began_s))
            timetable.end_heat(self._box.clock.monotonic_s() - began_s)
        for cell in cells:
            self._report_cell(cell)

    def _launch_resident(self, cell: Cell, ends: Callable[[float], Deadline], bench: Workbench) -> None:
        launched = self._launch_of(cell, ends(bench.box.clock.monotonic_s()), bench)
        self._plan.history.end_launch(cell, launched)

    def _heats_in(self, places: ExitStack) -> Heats:
        if self._heats is None:
            from tuner.study.heat.heat import Heats

            self._heats = Heats(self._bench, self._must_end, self._is_cut_off, places)
        return self._heats

    def _is_cut_off(self) -> bool:
        return self.braked is not None or self._source.gave_up

    def _report_cell(self, cell: Cell) -> None:
        """Warn of a cell without a valid window, and of a host on which no layout gives any."""
        if cell.is_void and not cell.is_over_limit:
            self._progress.warning(*messages.block_without_window(cell.layout, cell.block))
        if cell.kept:
            self._n_disturbed = 0
        elif cell.is_vain and not cell.is_hopeless:
            self._n_disturbed += 1
            if self._n_disturbed == MOST_DISTURBED:
                self._progress.warning(*messages.box_not_quiet(MOST_DISTURBED))

    def _launch_of(self, cell: Cell, deadline: Deadline, bench: Workbench | None = None) -> Launched:
        which = cell.block, cell.position, cell.n_spoilt + 1
        return self._launch(cell.asked, which, deadline, cell, bench)

    def _warm_cache(self, layout: Layout, deadline: Callable[[], Deadline] | None = None) -> None:
        """Make a discarded launch, to fill the page cache, compile bytecode and raise the CPU clock."""
        if not self.asked.warms_cache or self._box.clock.wall_s() - self._seen_wall_s < CACHE_KEEPS_S:
            return
        self._discard(layout, deadline)

    def _discard(
        self,
        layout: Layout,
        deadline_of: Callable[[], Deadline] | None = None,
        bench: Workbench | None = None,
    ) -> LaunchRecord:
        asked = Proposal(layout, self.asked.window_s, 0)
        end_of = deadline_of or partial(self._plan.deadline, asked, after=self._plan.rest_in_hand())
        launched = self._launch(asked, (WARMING_BLOCK, 0, 1), end_of(), bench=bench)
        self._plan.history.end_warming(launched)
        return launched.launch

    def _launch(
        self,
        asked: Proposal,
        which: tuple[int, int, int],
        deadline: Deadline,
        cell: Cell | None = None,
        bench: Workbench | None = None,
    ) -> Launched:
        """Make a launch, and measure the windows that *cell* still needs; None: it only warms up.

        *bench* is that of a launch that takes turns with others; None: it runs alone.
        """
        bench = bench or replace(self._bench, study=self.asked)
        self._progress.launch_started(asked.layout, *which[:2], self._plan.remaining_s())
        began_s = bench.box.clock.monotonic_s()
        launch = new_launch(asked, which, self._box.name, self._box.clock.wall_s())
        launched = self._plan.history.begin(launch)
        window_taken = partial(self._add_window, cell, launched)
        launched.launch = launch = bench.make(launch, cell, window_taken, deadline)
        keep_gil(self._store, launch, self._progress.warning)
        self._settling.add(launch)
        if (alarm := alarm_of(launch, self._settling)) is not None:
            self._progress.warning(*alarm)
        self._plan.timetable.add(launch, bench.box.clock.monotonic_s() - began_s, launched.counted_s)
        self._seen_wall_s = self._box.clock.wall_s()
        self.braked = parse_brake_error(launch.error, BRAKED) or self.braked
        if launch.warmup_s is not None:  # a launch that was stopped while it started proves nothing
            self._works = self._works is not False
        self._source.after(launch)
        if launch.error is not None and not self._stop.requested() and not was_cut_off(launch):
            if self._works is None:
                self._see_whether_it_works(bench)
            elif self._works and self._plan.history.n_windows == 0 and not launched.is_silent:
                self._end_if_all_fail_alike(launch)
        return launched

    def _see_whether_it_works(self, bench: Workbench) -> None:
        """Try the smallest layout after the first launch failed, to stop early if no layout works.

        A launch that a safety limit stops proves nothing about this.
        """
        self._works = False
        smallest = smallest_of(self.asked.layouts)
        tried = self._discard(smallest, bench=bench)
        if tried.warmup_s is not None:
            self._works = True
        elif tried.error is None or was_cut_off(tried):
            self._works = None
        else:
            self._progress.warning(
                *messages.never_started(
                    self.asked.service,
                    smallest,
                    failed_in="start" if tried.running_after_s is None else "warm-up",
                )
            )

    def _end_if_all_fail_alike(self, launch: LaunchRecord) -> None:
        """End the study if no window is valid yet and its launches fail for one reason."""
        if (failed := self._alike.add(launch)) is None:
            return
        self._works = False
        self._progress.warning(*messages.fails_alike(failed, self._alike.smallest))

    def _add_window(self, cell: Cell | None, launched: Launched, window: Window, launch_id: int) -> None:
        assert cell is not None  # a launch without a cell measures no windows
        record = record_of(window, launch_id=launch_id, block=cell.block, box=self._box.name)
        self._plan.history.add_window(cell, launched, record)
        note_inner(window, self._store, self._progress.warning)
        plan = self._plan
        self._progress.window_taken(window, plan.history.n_windows, plan.n_planned(), plan.remaining_s())

    def outcome(self) -> StudyOutcome:
        """Return the outcome so far."""
        is_over = self._plan.block is None and not self._scouts_first
        interrupted = self._stop.requested() and not is_over
        return self._plan.outcome(braked=self.braked, interrupted=interrupted, is_over=is_over)


def _heat_or_place(cell: Cell) -> tuple[int | None, int]:
    """Return the same for all cells of a heat, and its own for each other one."""
    return cell.heat, cell.position if cell.heat is None else -1
