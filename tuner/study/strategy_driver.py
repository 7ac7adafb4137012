"""A study as its strategy leads it, block after block; what the store holds comes first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tuner.core.domain.layout import Layout
from tuner.core.domain.records import StudyRecord
from tuner.core.domain.strategy import Claim, Comparing, Foreseeing, Proposal, RemainingTime, Strategy
from tuner.ports import Store
from tuner.study.exclusions import Failing
from tuner.study.history import History
from tuner.study.launch.plan_cells import Block, Cell
from tuner.study.timetable import Timetable

if TYPE_CHECKING:
    from tuner.core.ranking.overview import Ending


class Course:
    """The talk between a study and its strategy.

    The same calls in the same order for the same windows, whether they are measured now or were before: so a
    strategy decides in a resumed study as it did before the cut. Where it would have decided otherwise (the
    file is of another version of tuner), it is told what was measured and goes on from there.
    """

    def __init__(self, history: History, strategy: Strategy, max_attempts: int) -> None:
        self.otherwise: list[int] = []  #: blocks that were measured otherwise than the strategy asks now
        self.n_blocks_done = 0
        self._history = history
        self._strategy = strategy
        self._failing = Failing(max_attempts)

    @property
    def failed(self) -> Sequence[Layout]:
        """Layouts that cannot be run, gave no window while others did, or passed a limit of the user's."""
        return self._failing.failed

    def next_block(self) -> Block | None:
        """What the strategy asks for next; None: nothing."""
        proposals = self._strategy.propose()
        if not proposals and not self._history.holds_more:
            return None
        block, as_asked = self._history.next_block(proposals)
        if not as_asked:
            self.otherwise.append(block.number)
        self._failing.add(block.cells)
        return block

    def forward(self) -> Block | None:
        """The next block with something left to measure; None: there is none."""
        while (block := self.next_block()) is not None and not self.open_cells(block):
            self.end_block(block)
        return block

    def open_cells(self, block: Block) -> list[Cell]:
        """What is left to do of *block*, in run order."""
        return [] if block.is_closed else [cell for cell in block.cells if self.is_open(cell)]

    def is_open(self, cell: Cell) -> bool:
        """Whether *cell*, of a block that is not closed, is to be tried."""
        return self._failing.is_open(cell)

    def end_block(self, block: Block) -> list[Layout]:
        """Tell the strategy what *block* gave, as far as it got; gives the layouts that failed with it."""
        observed = [seen for cell in block.cells for seen in cell.kept.values()]
        observed.sort(key=lambda seen: seen.began_s)
        failed = self._failing.end(block.cells)
        self._strategy.learn(observed, failed)
        self.n_blocks_done += not self.open_cells(block)
        return failed

    def expected_rest(self) -> list[Proposal] | None:
        """The launches to be expected after the block in hand; None: the strategy cannot tell."""
        if not isinstance(self._strategy, Foreseeing):
            return None
        rest = self._strategy.expected_rest()
        return None if rest is None else [one for one in rest if not self._failing.is_hopeless(one.layout)]

    @property
    def over_limit(self) -> frozenset[Layout]:
        """Layouts that passed a limit of the user's in the blocks up to now, and are left out for it."""
        return self._failing.over_limit


# What is known of a study, without measuring: its strategy, shown all that the store holds.


@dataclass(frozen=True, slots=True)
class Recalled:
    """A strategy that knows all windows of a store, and what there is to know beside it."""

    study: StudyRecord
    strategy: Strategy
    failed: tuple[Layout, ...]  #: cannot be run
    otherwise: tuple[int, ...]  #: blocks that this strategy would have asked for otherwise
    n_windows: int  #: that count
    spent_s: float  #: in launches, over all sessions
    rest: RemainingTime | None  #: None: the strategy cannot tell
    timetable: Timetable  #: of all sessions
    is_whole: bool = True  #: whether the last block was measured to its end

    def ending(self) -> Ending:
        """Why it goes no further; the last thing to be asked: the strategy moves on by it."""
        if not self.is_whole:
            return "cut-off"
        proposals = self.strategy.propose()
        if not proposals:
            return "over"
        return "cut-off" if self.timetable.fits(proposals) else "out-of-budget"

    def claim(self) -> Claim:
        """What the strategy claims of the study, with what it took."""
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


def replay_study(store: Store, strategy: Strategy) -> Recalled:
    """Show *strategy*, which has seen nothing yet, every window of *store*, block by block.

    A block that is not finished is shown as far as it got; the strategy is not to be resumed after that.
    """
    study, launches, windows = store.study(), store.launches(), store.windows()
    history = History(study, launches, windows)
    course = Course(history, strategy, study.max_attempts)
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
        is_whole=not missing,
    )
