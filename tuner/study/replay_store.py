"""What is known of a study, without measuring: its strategy, shown all that the store holds."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.core.domain.layout import Layout
from tuner.core.domain.records import StudyRecord
from tuner.core.domain.strategy import Comparing, Proposal, Strategy
from tuner.core.ranking.overview import Ending
from tuner.core.ranking.race_result import Claim, RemainingTime
from tuner.ports import Store
from tuner.study.history import History
from tuner.study.strategy_driver import Course
from tuner.study.timetable import Timetable


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
