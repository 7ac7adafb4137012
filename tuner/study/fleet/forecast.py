"""What is still to come of a study on several boxes, and whether the budget has room for it."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from tuner.core.domain.fleet import TimeLeft
from tuner.core.domain.records import LaunchRecord, StudyRecord
from tuner.core.domain.strategy import Proposal
from tuner.core.search.fleet_strategy import SpreadingStrategy
from tuner.core.text.durations import render_rest
from tuner.ports import Clock
from tuner.study.fleet.members import Work, covered_s
from tuner.study.timetable import Timetable

FORESEES_EVERY_S = 30.0  #: at most so often a strategy is asked what is to come: that may be dear


class Ahead:
    """The budget is of time that goes by, however many boxes measure meanwhile."""

    def __init__(
        self,
        study: StudyRecord,
        timetable: Timetable,
        strategy: SpreadingStrategy,
        clock: Clock,
        launches: Sequence[LaunchRecord],
    ) -> None:
        """*launches*: those of earlier sessions, which were paid for by the same budget."""
        self._study, self._timetable, self._strategy, self._clock = study, timetable, strategy, clock
        timetable.session_began(clock.monotonic_s(), covered_s(launches), clock.monotonic_s)
        self._n_handed_out = 0  #: places, since the strategy was last asked
        self._foreseen: tuple[float, Sequence[Proposal] | None] | None = None  #: when, and what

    def handed_out(self) -> None:
        """Take note of a place that a box is given: it was to come, and is under way."""
        self._n_handed_out += 1

    def fits(self, launches: Sequence[Proposal]) -> bool:
        """Whether *launches*, one after the other, can be expected to end within the budget."""
        if self._timetable.fits(launches):
            return True
        needs_s = self._timetable.expected_s(launches)
        if self._n_handed_out or self._foreseen is not None or needs_s > (self._study.budget_s or inf):
            return False
        self._timetable.renew_budget()  # whoever resumes a study whose budget is over gives it the same again
        return True

    def has_room(self, launch: Proposal) -> bool:
        """Whether *launch*, at its quickest, would end within the budget."""
        return self._timetable.has_room(launch)

    def time_left(self, launch: Proposal, after: Sequence[Proposal]) -> TimeLeft | None:
        """The time left to *launch*, made before those *after* it; None: no budget."""
        if self._timetable.left_s is None:
            return None
        deadline = self._timetable.deadline(launch, after, 0.0)
        return TimeLeft(deadline.ends_s, deadline.share_ends_s, deadline.stop_s)

    def in_words(self, launches: Sequence[Proposal]) -> tuple[str, str]:
        """How long *launches* are expected to take, and what is left of the budget."""
        return render_rest(self._timetable.expected_s(launches)), render_rest(self._left_s())

    def rest(self, at_work: Sequence[Work]) -> Sequence[Proposal] | None:
        """What is under way and to be expected after it; None: nobody knows."""
        now_s = self._clock.monotonic_s()
        if self._foreseen is None or now_s - self._foreseen[0] >= FORESEES_EVERY_S:
            self._foreseen = now_s, self._strategy.expected_rest([one.place for one in at_work])
            self._n_handed_out = 0
        rest = self._foreseen[1]
        return None if rest is None else [*(one.cell.rest for one in at_work), *rest[self._n_handed_out :]]

    def remaining_s(self, at_work: Sequence[Work], n_boxes: int) -> float | None:
        """Until there is nothing more to measure, or the budget ends; None: nobody knows."""
        rest = self.rest(at_work)
        if rest is None:
            return None
        return min(self._timetable.expected_s(rest) / max(1, n_boxes), max(0.0, self._left_s()))

    def _left_s(self) -> float:
        left_s = self._timetable.left_s
        return inf if left_s is None else left_s
