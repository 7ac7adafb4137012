"""The plan of a running study: its blocks, the rest of its budget, and its outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import inf

from tuner.core.domain.provenance import GIL, GIL_MODULE, GIL_SEEN, Provenance, WorkerFacts
from tuner.core.domain.records import WARMING_BLOCK, LaunchRecord, WindowRecord
from tuner.core.domain.strategy import Proposal, Strategy
from tuner.core.domain.window import Window
from tuner.core.errors import MeasurementError
from tuner.core.messages import study as messages
from tuner.core.messages.launch import gil_came_back, inner_threads
from tuner.core.messages.study import slices_disagree, slices_lose_throughput, slower_in_slices
from tuner.core.text.figures import render_rest
from tuner.core.windows.layout_check import inner_of, inner_to_facts
from tuner.ports import Clock, Progress, Store
from tuner.study.history import History
from tuner.study.launch.outcome import StudyOutcome
from tuner.study.launch.plan_cells import Block, Cell, Deadline
from tuner.study.strategy_driver import Course, longer_launches_of
from tuner.study.timetable import Timetable, check_budget


class StudyPlan:
    """The contents of a running study, its present block, and the rest of its budget."""

    def __init__(
        self,
        store: Store,
        strategy: Strategy,
        progress: Progress,
        clock: Clock,
        began_s: float | None,
        must_end: Callable[[], bool],
    ) -> None:
        """*began_s*: when the budget begins; None: now. *must_end*: whether another cause ended the study."""
        self._store, self._strategy, self._progress, self._clock = store, strategy, progress, clock
        self._began_s = clock.monotonic_s() if began_s is None else began_s
        self._must_end = must_end
        self._before_s: float | None = None  #: launch time of earlier sessions
        self.block: Block | None = None  #: present block; None: nothing remains to be measured
        #: proposals expected after the present block; None: not known
        self._foreseen: list[Proposal] | None = None
        self._out_of_budget = False

    def recall(self) -> tuple[Sequence[tuple[int, LaunchRecord]], Sequence[WindowRecord]]:
        """Load the study from the store, and return its launches and windows."""
        self.asked = self._store.study()
        launches, windows = self._store.launches(), self._store.windows()
        self.history = History(self.asked, launches, windows, self._store.warmup_samples)
        self._longer = longer_launches_of(self._store, self._strategy)
        self.course = Course(self.history, self._strategy, self.asked.max_attempts, self._longer)
        self.timetable = Timetable(self.asked, launches, windows)
        if self._before_s is None:
            self._before_s = self.timetable.total_s
        self.timetable.session_began(self._began_s, self._before_s, self._clock.monotonic_s)
        return launches, windows

    def begin(self) -> None:
        """Go to the first block that is not fully measured."""
        self.forward()
        self._report_otherwise()
        if self.block is not None and self.block.number == 0 and not self.block.is_started:
            check_budget(self.asked, [cell.asked for cell in self.block.cells])

    def forward(self) -> None:
        """Go to the next block that is not fully measured."""
        self.block = self.course.forward()
        self._report_slices()
        self._foreseen = self.course.expected_rest() if self.block is not None else []
        is_longer = self.block is not None and self.block is self.course.longer_block
        if is_longer and self._longer is not None and self._longer.due is not None:
            for message in self._longer.due.messages():
                self._progress.warning(*message)

    def renew_budget(self) -> None:
        """Renew the budget of a resumed study if the rest of the block does not fit; else keep the rest."""
        if self._before_s and self.block is not None and not self.timetable.fits(self.rest_in_hand()):
            self.timetable.renew_budget()

    def may_begin(self, block: Block) -> bool:
        """Return whether to measure the rest of *block*: it fits into the budget, or may be cut to fit.

        The warm-ups of the first block, or of a block that has begun, are cut to fit.
        """
        rest, left_s = self.rest_in_hand(), self.timetable.left_s
        if left_s is None or self.timetable.fits(rest):
            return True
        first = [one for one in rest if one.heat is not None and one.heat == rest[0].heat] or rest[:1]
        if (self.course.n_blocks_done == 0 or block.is_started) and self.timetable.has_room(*first):
            needs, left = render_rest(self.timetable.expected_s(rest)), render_rest(left_s)
            self._progress.warning(*messages.warmups_cut(block.number, needs, left))
            return True
        self.report_budget_over()
        return False

    def report_budget_over(self) -> None:
        """Warn that the budget is used up, unless another cause ended the study."""
        if self._must_end():
            return
        self._out_of_budget = True
        block = self.block
        partial = block.number if block is not None and block.is_started else None
        self._progress.warning(*messages.budget_over(self.course.n_blocks_done, partial))

    def deadline(self, launch: Proposal, *, after: Sequence[Proposal]) -> Deadline:
        """Return the deadline of *launch*, if *after* is to be measured after it."""
        return self.timetable.deadline(launch, after, self._clock.monotonic_s())

    def rest_in_hand(self) -> list[Proposal]:
        """Return the launches that are left of the present block."""
        return [] if self.block is None else [cell.rest for cell in self.course.open_cells(self.block)]

    def rest_of(self, cells: Iterable[Cell]) -> list[Proposal]:
        """Return the launches that are left of *cells*."""
        return [cell.rest for cell in cells if self.course.is_open(cell)]

    def n_planned(self) -> int | None:
        """Return the expected number of valid windows of the study; None: the strategy has no estimate."""
        if self._foreseen is None:
            return None
        ahead = [*self.rest_in_hand(), *self._foreseen]
        return self.history.n_windows + sum(one.n_windows for one in ahead)

    def remaining_s(self) -> float | None:
        """Return the seconds until all is measured or the budget ends; None: the strategy has no estimate."""
        if self._foreseen is None:
            return None
        in_hand_s = self.timetable.expected_s(self.rest_in_hand())
        all_s = in_hand_s + self.timetable.expected_s(self._foreseen)
        left_s = self.timetable.left_s
        return all_s if left_s is None else min(all_s, max(0.0, left_s))

    def _report_otherwise(self) -> None:
        numbers = self.course.otherwise
        if numbers:
            self._progress.warning(*messages.chosen_otherwise(len(numbers), numbers[0]))

    def end_block(self, block: Block) -> None:
        """Pass the windows of *block* to the strategy, and warn of layouts that are launched no more."""
        for layout in self.course.end_block(block):
            if layout in self.course.over_limit:
                continue  # warned of when it was stopped
            self._progress.warning(*messages.left_out(layout))

    def _report_slices(self) -> None:
        """Warn if finished blocks show that slices are wrong; end a study that needs them.

        From then on, the study is as one without slices: other processes may not disturb its windows.

        Raises:
            MeasurementError: launches of a check or a self-test lose throughput in slices.
        """
        if self.asked.n_resident == 1:
            return
        answer = self._strategy.answer()
        if (lost := answer.lost_in_slices) is not None:
            if self.asked.strategy != "race":
                raise MeasurementError(slower_in_slices(lost), hint=messages.WITHOUT_SLICES)
            self._progress.warning(*slices_lose_throughput(lost))
        elif (agreement := answer.agreement) is not None and not agreement.holds:
            self._progress.warning(*slices_disagree(agreement))
        if not answer.counts_slices:
            self.asked = replace(self.asked, n_resident=1)

    def outcome(self, *, braked: str | None, interrupted: bool, is_over: bool) -> StudyOutcome:
        """Return the outcome so far."""
        history, course = self.history, self.course
        return StudyOutcome(
            answer=self._strategy.answer(),
            n_blocks_done=course.n_blocks_done,
            n_windows=history.n_windows,
            n_void=history.n_void,
            n_launches_failed=history.n_launches_spoilt,
            left_out=tuple(sorted(course.failed)),
            void_cells=tuple(
                (cell.block, cell.layout)
                for block in history.blocks
                for cell in block.cells
                if cell.is_void and cell.layout not in course.failed
            ),
            out_of_budget=self._out_of_budget,
            braked=braked,
            interrupted=interrupted,
            is_over=is_over,
        )


# Facts about workers, stored and warned of: threads beyond the layout, and whether they have a GIL.


def note_inner(window: Window, store: Store, warn: Callable[[str, str], None]) -> None:
    """Store and warn of threads beyond the layout, once per layout: at the first valid window with them."""
    study = store.study()
    if window.void or f"{window.layout}" in study.provenance.inner_threads:
        return
    if (found := inner_of(window)) is not None:
        store.add_to_study((), inner_to_facts(found))
        warn(*inner_threads(found.layout, found.n_threads, study.box_cores, found.cause))


# The GIL of the workers, stored after a launch, with a warning if it is unexpected.


def keep_gil(store: Store, launch: LaunchRecord, warn: Callable[[str, str], None]) -> None:
    """Store whether workers of *launch* had a GIL; warn if they had one on a free-threaded interpreter.

    A GIL found in one launch of a variant is assumed in all of them, because all import the same modules.
    """
    if launch.has_gil is None:
        return
    workers, variant = store.study().provenance.workers, launch.layout.variant
    before, now = workers.fact(GIL_SEEN, variant), "on" if launch.has_gil else "off"
    if before in ("on", now):
        return
    data = {GIL_SEEN: now}
    if launch.gil_module is not None:
        data[GIL_MODULE] = launch.gil_module
    store.add_to_study((), Provenance(workers=WorkerFacts.of_variant(variant, data)))
    if launch.has_gil and workers.fact(GIL, variant) == "off":
        warn(*gil_came_back(launch.gil_module, variant))


def last_seen_s(launch: LaunchRecord) -> float:
    """Return the wall time at which *launch* surely had filled the page cache; -inf: never."""
    if launch.ended_wall_s is not None:
        return launch.ended_wall_s
    return -inf if launch.block == WARMING_BLOCK else launch.started_wall_s
