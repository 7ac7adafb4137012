"""A study driven by its strategy, block after block, beginning with the contents of the store."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tuner.core.domain.layout import Layout
from tuner.core.domain.records import LaunchRecord, StudyRecord
from tuner.core.domain.strategy import (
    Claim,
    Comparing,
    Foreseeing,
    Proposal,
    RemainingTime,
    Slicing,
    Strategy,
)
from tuner.ports import Store
from tuner.study.history import History
from tuner.study.launch.plan_cells import Block, Cell
from tuner.study.timetable import Timetable

if TYPE_CHECKING:
    from tuner.core.ranking.overview import Ending
    from tuner.study.aging import LongerLaunches


class Course:
    """The exchange between a study and its strategy: proposals, and the windows measured for them.

    The same windows give the same calls in the same order, whether they are measured now or read from the
    store, so a strategy decides in a resumed study as before the interruption. If it decides differently
    (another version of tuner wrote the file), it gets the stored windows and continues from there.
    """

    def __init__(
        self, history: History, strategy: Strategy, max_attempts: int, longer: LongerLaunches | None = None
    ) -> None:
        """*longer*: the launches that follow when *strategy* proposes nothing more; None: none."""
        self.otherwise: list[int] = []  #: blocks that differ from the present proposals of the strategy
        self.n_blocks_done = 0
        self._history = history
        self._strategy = strategy
        self._failing = Failing(max_attempts)
        self._longer = longer
        self._is_for_longer = False  #: whether the latest proposals are longer launches
        #: block of longer launches, from which the strategy does not learn
        self.longer_block: Block | None = None

    @property
    def failed(self) -> Sequence[Layout]:
        """Layouts that cannot run, gave no valid window while other layouts did, or passed a safety limit."""
        return self._failing.failed

    def next_proposals(self) -> Sequence[Proposal]:
        """Return the next launches of the strategy, else the longer launches; empty: all is measured."""
        self._is_for_longer = False
        proposals = self._strategy.propose()
        if proposals or self._longer is None or self.longer_block is not None:
            return proposals
        self._is_for_longer = True
        return self._longer.proposals()

    def next_block(self) -> Block | None:
        """Return the next block, with its launches in the store; None: there is none."""
        proposals = self.next_proposals()
        if not proposals and not self._history.holds_more:
            return None
        block, as_asked = self._history.next_block(proposals)
        if self._is_for_longer and proposals:
            self.longer_block = block
        if not as_asked:
            self.otherwise.append(block.number)
        self._failing.add(block.cells)
        return block

    def forward(self) -> Block | None:
        """Return the next block that is not fully measured; None: there is none."""
        while (block := self.next_block()) is not None and not self.open_cells(block):
            self.end_block(block)
        return block

    def open_cells(self, block: Block) -> list[Cell]:
        """Return the cells of *block* that are still to be measured, in run order."""
        return [] if block.is_closed else [cell for cell in block.cells if self.is_open(cell)]

    def is_open(self, cell: Cell) -> bool:
        """Return whether *cell*, of a block that is not closed, is still to be measured."""
        return self._failing.is_open(cell)

    def end_block(self, block: Block) -> list[Layout]:
        """Pass the windows of *block*, complete or not, to the strategy; return layouts that now failed."""
        observed = [seen for cell in block.cells for seen in cell.kept.values()]
        observed.sort(key=lambda seen: seen.began_s)
        failed = self._failing.end(block.cells)
        counted = isinstance(self._strategy, Slicing) and self._strategy.counts_slices
        self._strategy.learn(() if block is self.longer_block else observed, failed)
        if isinstance(self._strategy, Slicing) and counted and not self._strategy.counts_slices:
            self._failing.forget_slices()
        self.n_blocks_done += not self.open_cells(block)
        return failed

    def expected_rest(self) -> list[Proposal] | None:
        """Return the launches expected after the present block; None: the strategy has no estimate."""
        if not isinstance(self._strategy, Foreseeing):
            return None
        rest = self._strategy.expected_rest()
        return None if rest is None else [one for one in rest if not self._failing.is_hopeless(one.layout)]

    @property
    def over_limit(self) -> frozenset[Layout]:
        """Layouts that are left out because they passed a safety limit in the blocks so far."""
        return self._failing.over_limit


# The state of a study without measuring: its strategy, after all windows in the store.


@dataclass(frozen=True, slots=True)
class Recalled:
    """A strategy after all windows of a store, with the totals of the study."""

    study: StudyRecord
    strategy: Strategy
    failed: tuple[Layout, ...]  #: layouts that cannot be run
    otherwise: tuple[int, ...]  #: blocks that differ from what this strategy would have proposed
    n_windows: int  #: valid windows
    spent_s: float  #: time in launches, over all sessions
    rest: RemainingTime | None  #: None: the strategy has no estimate
    timetable: Timetable  #: covers all sessions
    propose: Callable[[], Sequence[Proposal]]  #: returns the next launches
    is_whole: bool = True  #: whether all of the last block was measured

    def ending(self) -> Ending:
        """Return why the study ended; call it last, because it advances the strategy."""
        if not self.is_whole:
            return "cut-off"
        proposals = self.propose()
        if not proposals:
            return "over"
        return "cut-off" if self.timetable.fits(proposals) else "out-of-budget"

    def claim(self) -> Claim:
        """Return the claim of the strategy about the study, with its cost."""
        study = self.study
        seen = self.strategy.estimates()
        return Claim(
            answer=self.strategy.answer(),
            asked=study.layouts,
            failed=self.failed,
            unseen=tuple(x for x in study.layouts if x not in seen and x not in self.failed),
            within=study.within_ratio,
            confidence=study.confidence,
            n_windows=self.n_windows,
            spent_s=self.spent_s,
            rest=self.rest,
            has_limits=bool(study.limits),
            n_otherwise=len(self.otherwise),
            of_best=self.strategy.beside() if isinstance(self.strategy, Comparing) else {},
        )


def longer_launches_of(store: Store, strategy: Strategy) -> LongerLaunches | None:
    """Return the source of longer launches of the study in *store*; None: it is no race, so it has none."""
    if store.study().strategy != "race":
        return None
    from tuner.study.aging import LongerLaunches

    return LongerLaunches(store, strategy)


def replay_study(store: Store, strategy: Strategy) -> Recalled:
    """Pass every window of *store*, block by block, to *strategy*, which must be new.

    An unfinished block is passed with the windows it has; the strategy must not be resumed after that.
    """
    study, launches, windows = store.study(), store.launches(), store.windows()
    history = History(study, launches, windows, store.warmup_samples)
    course = Course(history, strategy, study.max_attempts, longer_launches_of(store, strategy))
    missing: list[Proposal] = []
    while history.holds_more and (block := course.next_block()) is not None:
        missing = [cell.rest for cell in course.open_cells(block)]
        course.end_block(block)
    timetable = Timetable(study, launches, windows)
    foreseen = course.expected_rest()
    rest = None if foreseen is None else [*missing, *foreseen]
    return Recalled(
        study=study,
        strategy=strategy,
        failed=tuple(course.failed),
        otherwise=tuple(course.otherwise),
        n_windows=history.n_windows,
        spent_s=timetable.total_s,
        rest=None
        if rest is None
        else RemainingTime(sum(one.n_windows for one in rest), timetable.expected_s(rest)),
        timetable=timetable,
        propose=course.next_proposals,
        is_whole=not missing,
    )


# The layouts that fail, found block by block.


#: slug from docs/messages.md in the error of a launch
_SLUG = re.compile(r"(?:^|[:;] )([a-z]+(?:-[a-z]+)+): ")
#: varying parts of an error: layouts, pids, seconds, ports
_VARYING = re.compile(r"\d+x(?:\d+|-)(?:\S*\w)?|\d+(?:\.\d+)?")


def smallest_of(layouts: Sequence[Layout]) -> Layout:
    """Return the layout with the fewest threads."""
    return min(layouts, key=lambda layout: (layout.total_threads, layout))


class FailingAlike:
    """Reasons of failed launches while no window is valid, to detect that all fail for one reason."""

    def __init__(self, smallest: Layout) -> None:
        self.smallest = smallest
        self._layouts: dict[str, list[Layout]] = {}  #: layouts of the failed launches, by their reasons

    def add(self, launch: LaunchRecord) -> int | None:
        """Record a failed *launch*; return the number of launches with its reason, itself included.

        None: it is the only one, or the smallest layout has not failed for this reason.
        """
        error = launch.error or ""
        found = []
        for reason in set(_SLUG.findall(error)) or {_VARYING.sub("#", error)}:
            layouts = self._layouts.setdefault(reason, [])
            layouts.append(launch.layout)
            if len(layouts) > 1 and self.smallest in layouts:
                found.append(len(layouts))
        return max(found, default=None)


class Failing:
    """Record of failing layouts, updated when cells are requested and when they end."""

    def __init__(self, max_attempts: int) -> None:
        #: layouts that cannot be run, gave no window while others did, or passed a safety limit
        self.failed: list[Layout] = []
        self._max_attempts = max_attempts
        self._first_cell: dict[Layout, Cell] = {}
        self._cells: dict[int, Cell] = {}  #: open cells by id(); a study may have 20 000 closed ones
        self._over_limit: set[Layout] = set()  #: layouts of closed cells that passed a safety limit
        self._seen: set[Layout] = set()  #: layouts that gave a window on any host
        self._n_vain: Counter[Layout] = Counter()  # cells in a row without a window
        self._since: dict[Layout, int] = {}  # windows of all layouts when that began
        self._n_windows = 0  # in the cells that have ended

    def add(self, cells: Sequence[Cell]) -> None:
        """Record the requested *cells*."""
        for cell in cells:
            self._first_cell.setdefault(cell.layout, cell)
            self._cells[id(cell)] = cell

    @property
    def over_limit(self) -> frozenset[Layout]:
        """Layouts that are left out because they passed a safety limit so far."""
        now = (cell.layout for cell in self._cells.values() if cell.is_over_limit)
        return frozenset((*self._over_limit, *now))

    def leave_out(self, layouts: Iterable[Layout]) -> list[Layout]:
        """Record *layouts* that passed a safety limit outside any cell; return them sorted."""
        left_out = sorted(layouts)
        self._over_limit.update(left_out)
        self.failed += left_out
        return left_out

    def forget_slices(self) -> None:
        """Forget which layouts failed in slices; those over a safety limit fail again in the next block."""
        self.failed.clear()
        self._first_cell.clear()
        self._n_vain.clear()
        self._since.clear()

    def is_hopeless(self, layout: Layout) -> bool:
        """Return whether *layout* is not tried again: it failed, or will be recorded as failed at the end of
        its block."""
        first = self._first_cell.get(layout)
        has_failed = first is not None and first.is_hopeless and layout not in self._seen
        return layout in self.failed or has_failed or layout in self.over_limit

    def is_open(self, cell: Cell) -> bool:
        """Return whether *cell* is still to be measured."""
        return not cell.is_done and not self.is_hopeless(cell.layout)

    def end(self, cells: Sequence[Cell]) -> list[Layout]:
        """Record the end of *cells*, a block or a part of it; return the layouts that failed with it.

        A layout fails if every launch of its first cell failed, if a launch passed a safety limit, or if
        `max_attempts` cells in a row gave no window while other layouts gave some. A host that is never quiet
        proves nothing about a layout.
        """
        for cell in cells:
            self._cells.pop(id(cell), None)
            if cell.is_over_limit:
                self._over_limit.add(cell.layout)
            if cell.kept:
                self._seen.add(cell.layout)
                self._n_vain[cell.layout] = 0
            elif cell.is_vain:
                self._n_vain[cell.layout] += 1
                self._since.setdefault(cell.layout, self._n_windows)
            if not self._n_vain[cell.layout]:
                self._since.pop(cell.layout, None)
        self._n_windows += sum(not one.is_silent for cell in cells for one in cell.kept.values())
        failed = [
            layout
            for layout in dict.fromkeys(cell.layout for cell in cells)
            if layout not in self.failed
            and (
                self.is_hopeless(layout)
                or (self._n_vain[layout] >= self._max_attempts and self._n_windows > self._since[layout])
            )
        ]
        self.failed += failed
        return failed
