"""The next launches for the hosts of a fleet: requests of the strategy, earlier attempts, orders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil, inf

from tuner.core.domain.fleet import Done, Place, TimeLeft
from tuner.core.domain.layout import Layout
from tuner.core.domain.records import LaunchRecord, StudyRecord
from tuner.core.domain.strategy import Comparing, Proposal, RemainingTime
from tuner.core.messages.study import budget_over_in_fleet, left_out, warmups_cut
from tuner.core.search.fleet_strategy import SpreadingStrategy
from tuner.core.stats.groups import OfBest
from tuner.core.text.figures import render_rest
from tuner.ports import Clock, FleetProgress, Store
from tuner.study.first_look import n_of_first_block
from tuner.study.fleet.roster import Work, covered_s
from tuner.study.history import History, Launched
from tuner.study.launch.outcome import StudyOutcome
from tuner.study.launch.plan_cells import Cell
from tuner.study.strategy_driver import Failing, Recalled
from tuner.study.timetable import Timetable

# What is still to come of a study on several boxes, and whether the budget has room for it.

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


class Places:
    """Each place is asked for once; one that was given up goes on with what it has."""

    def __init__(
        self, study: StudyRecord, history: History, strategy: SpreadingStrategy, progress: FleetProgress
    ) -> None:
        """*strategy*: it has seen nothing yet, and is shown all that *history* holds."""
        self._study, self._history = study, history
        self._strategy, self._progress = strategy, progress
        self._failing = Failing(study.max_attempts)
        #: by block, position and box
        self._cells = {
            (cell.block, cell.position, place.box): cell
            for place, cell in show_history(history, self._failing, strategy)
        }
        self.out_of_budget = False
        self._cut: set[str] = set()  #: hosts of which is said that warm-ups are cut short

    def next_for(
        self, box: str, under_way: Sequence[Place], boxes: Sequence[str], ahead: Ahead
    ) -> Work | None:
        """What *box* is to be at now; None: nothing, or the budget has no room for it."""
        while (place := self._strategy.next_for(box, under_way, boxes)) is not None:
            if not self._fits(place, ahead):
                self.end_budget()
                return None
            work = self._work_at(place)
            if place.asked.layout not in self._history.over_limit:
                ahead.handed_out()
                return work
            work.cell.is_over_limit = True  # in an earlier session, before the first place was over
            self.end(work, is_whole=True)
        return None

    def _work_at(self, place: Place) -> Work:
        key = (place.block, place.position, place.box)
        cell = self._cells.get(key)
        if cell is None or cell.asked != place.asked or cell.is_done:  # done in vain, for its box's fault
            asked = place.asked
            cell = Cell(*key[:2], asked.layout, asked.window_s, asked.n_windows, self._study.max_attempts)
            self._cells[key] = cell
            self._failing.add([cell])
        return Work(place, cell)

    def is_open(self, cell: Cell) -> bool:
        """Whether *cell* is to be tried once more."""
        return self._failing.is_open(cell)

    def elsewhere(self, box: str) -> list[Cell]:
        """What was tried on other boxes."""
        return [one for (_, _, where), one in self._cells.items() if where != box]

    def after(self, place: Place, n_hosts: int) -> list[Proposal]:
        """The launches of its host after *place*: the rest of its block, or its part of a race's first."""
        study, cells = self._study, self._cells.values()
        over = {place.asked.layout, *self._failing.failed}
        if study.strategy == "all":
            over.update(cell.layout for cell in cells if cell.block == place.block and cell.is_done)
            n_left = len(study.layouts)
        else:
            over.update(cell.layout for cell in cells)  # those that other hosts measure now, too
            n_left = ceil((n_of_first_block(study) - len(over)) / n_hosts)
        left = [one for one in study.layouts if one not in over]
        return [replace(place.asked, layout=one) for one in left[: max(0, n_left)]]

    def end(self, work: Work, *, is_whole: bool) -> None:
        """Tell the strategy of a place that is over; not whole: it was given up, and is asked for again.

        The windows of one that was given up are kept, and shown once the same box has made the rest.
        """
        failed = self._failing.end([work.cell]) if is_whole else []
        self._strategy.learn(done_of(work.place, work.cell, failed, is_whole=is_whole))
        for layout in failed:
            if layout not in self._failing.over_limit:
                self._progress.warning(*left_out(layout))

    def outcome(self, *, braked: str | None, interrupted: bool, is_over: bool) -> StudyOutcome:
        """What was reached by now, over all sessions."""
        history, failed = self._history, self._failing.failed
        cells = self._cells.values()
        made = {(one.block, one.layout) for one in cells if one.is_done and not one.is_void}
        # of a grid that is over also what was given up with its box so often that it is left
        is_whole_grid = is_over and self._study.strategy == "all"
        lacking = [one for one in cells if one.is_void or (is_whole_grid and not one.is_done)]
        void = {(one.block, one.layout): None for one in lacking if one.layout not in failed}
        open_blocks = {one.block for one in cells if not one.is_done}
        return StudyOutcome(
            answer=self._strategy.answer(),
            n_blocks_done=len({block for block, _, _ in self._cells} - open_blocks),
            n_windows=history.n_windows,
            n_void=history.n_void,
            n_launches_failed=history.n_launches_spoilt,
            left_out=tuple(sorted(failed)),
            void_cells=tuple(place for place in void if place not in made),
            out_of_budget=self.out_of_budget,
            braked=braked,
            interrupted=interrupted,
            is_over=is_over,
        )

    def _fits(self, place: Place, ahead: Ahead) -> bool:
        """Whether *place* is to be measured: within the budget (of a grid, its whole block), or the first."""
        n_launches = 1
        if self._study.strategy == "all":
            if any((block, who) == (place.block, place.box) for block, _, who in self._cells):
                return True
            n_launches = len(self._study.layouts)
        if ahead.fits([place.asked] * n_launches):
            return True
        if not self._is_first() or not ahead.has_room(place.asked):
            return False
        if place.box not in self._cut:
            self._cut.add(place.box)
            reported = warmups_cut(place.block, *ahead.in_words([place.asked] * n_launches))
            self._progress.warning(*reported.on(place.box))
        return True

    def _is_first(self) -> bool:
        """Whether the first block, or a race's first launch of each layout, is not over yet."""
        cells, study = self._cells.values(), self._study
        if not any(cell.is_done for cell in cells):
            return True
        return study.strategy == "race" and len({cell.layout for cell in cells}) < n_of_first_block(study)

    def end_budget(self) -> None:
        """Begin nothing more, and warn of it once."""
        if not self.out_of_budget:
            self.out_of_budget = True
            self._progress.warning(*budget_over_in_fleet(self._history.n_windows))


# What a study on several boxes has measured, shown to its strategy.


def show_history(
    history: History, failing: Failing, strategy: SpreadingStrategy
) -> Sequence[tuple[Place, Cell]]:
    """Show *strategy*, which has seen nothing yet, all that *history* holds, in the order in which it ended.

    A place that was not tried to its end is shown as one that was given up. Gives what was shown.
    """
    found = []
    places = sorted(history.places(), key=_ended_s)
    left_out = failing.leave_out(history.over_limit) if places else []  # told with the first place
    for box, cell, _ in places:
        place = Place(cell.block, cell.position, box, cell.asked)
        failing.add([cell])
        is_whole = not failing.is_open(cell)
        failed = [*left_out, *(failing.end([cell]) if is_whole else [])]
        left_out = []
        strategy.learn(done_of(place, cell, failed, is_whole=is_whole))
        found.append((place, cell))
    return found


def done_of(place: Place, cell: Cell, failed: Sequence[Layout], *, is_whole: bool) -> Done:
    """What is told of a place that is over, or was given up: then it may be made to its end yet."""
    windows = sorted(cell.kept.values(), key=lambda seen: seen.began_s)
    return Done(place, windows if is_whole else (), is_whole, failed)


def replay_fleet(store: Store, strategy: SpreadingStrategy) -> Recalled:
    """Show *strategy*, which has seen nothing yet, every window of *store*."""
    study, launches, windows = store.study(), store.launches(), store.windows()
    history, failing = History(study, launches, windows), Failing(study.max_attempts)
    show_history(history, failing, strategy)
    timetable = Timetable(study, launches, windows)
    timetable.ran_side_by_side(covered_s([launch for _, launch in launches]))
    boxes = sorted({launch.box for _, launch in launches})
    rest = strategy.expected_rest([])
    as_one = _AsOne(strategy, boxes)
    return Recalled(
        study=study,
        strategy=as_one,
        failed=tuple(failing.failed),
        otherwise=(),
        n_windows=history.n_windows,
        spent_s=timetable.total_s,
        rest=None
        if rest is None
        else RemainingTime(sum(one.n_windows for one in rest), timetable.expected_s(rest)),
        timetable=timetable,
        propose=as_one.propose,
    )


class _AsOne:
    """A strategy of several boxes, for whoever only asks what is known and whether anything is left."""

    def __init__(self, strategy: SpreadingStrategy, boxes: Sequence[str]) -> None:
        self._strategy, self._boxes = strategy, boxes
        self.answer, self.estimates = strategy.answer, strategy.estimates

    def beside(self, layout: Layout | None = None) -> Mapping[Layout, OfBest]:
        """As the strategy; none where that claims nothing."""
        return self._strategy.beside(layout) if isinstance(self._strategy, Comparing) else {}

    def propose(self) -> Sequence[Proposal]:
        """A launch that any of the boxes would make next."""
        for box in self._boxes:
            place = self._strategy.next_for(box, [], self._boxes)
            if place is not None:
                return [place.asked]
        return []

    def learn(self, windows: object, failed: object = ()) -> None:
        """Nobody measures."""
        raise NotImplementedError


def _ended_s(found: tuple[str, Cell, Sequence[Launched]]) -> tuple[float, float]:
    """When the last launch of a place ended, as far as that is known."""
    launches = [one.launch for one in found[2]]
    last = launches[-1]
    return (last.ended_wall_s or last.started_wall_s, last.started_wall_s)
