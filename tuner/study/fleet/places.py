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

# The expected rest of a study on several hosts, and whether the budget has room for it.

#: shortest time between two forecasts of the strategy, because a forecast may be slow
FORESEES_EVERY_S = 30.0


class Ahead:
    """The expected rest of a fleet's study; the budget is elapsed time, for any number of hosts."""

    def __init__(
        self,
        study: StudyRecord,
        timetable: Timetable,
        strategy: SpreadingStrategy,
        clock: Clock,
        launches: Sequence[LaunchRecord],
    ) -> None:
        """*launches*: those of earlier sessions, which the same budget covers."""
        self._study, self._timetable, self._strategy, self._clock = study, timetable, strategy, clock
        timetable.session_began(clock.monotonic_s(), covered_s(launches), clock.monotonic_s)
        self._n_handed_out = 0  #: places handed out since the last forecast
        #: time and result of the last forecast
        self._foreseen: tuple[float, Sequence[Proposal] | None] | None = None

    def handed_out(self) -> None:
        """Record that a host got a place, which moves from the expected places to those under way."""
        self._n_handed_out += 1

    def fits(self, launches: Sequence[Proposal]) -> bool:
        """Return whether *launches*, one after the other, are expected to end within the budget."""
        if self._timetable.fits(launches):
            return True
        needs_s = self._timetable.expected_s(launches)
        if self._n_handed_out or self._foreseen is not None or needs_s > (self._study.budget_s or inf):
            return False
        self._timetable.renew_budget()  # a resumed study whose budget is used up gets it again
        return True

    def has_room(self, launch: Proposal) -> bool:
        """Return whether *launch*, at its shortest, would end within the budget."""
        return self._timetable.has_room(launch)

    def time_left(self, launch: Proposal, after: Sequence[Proposal]) -> TimeLeft | None:
        """Return the time left to *launch*, which runs before those *after* it; None: no budget."""
        if self._timetable.left_s is None:
            return None
        deadline = self._timetable.deadline(launch, after, 0.0)
        return TimeLeft(deadline.ends_s, deadline.share_ends_s, deadline.stop_s)

    def in_words(self, launches: Sequence[Proposal]) -> tuple[str, str]:
        """Return, as texts, the expected duration of *launches* and the time left of the budget."""
        return render_rest(self._timetable.expected_s(launches)), render_rest(self._left_s())

    def rest(self, at_work: Sequence[Work]) -> Sequence[Proposal] | None:
        """Return the launches under way and those expected after them; None: unknown."""
        now_s = self._clock.monotonic_s()
        if self._foreseen is None or now_s - self._foreseen[0] >= FORESEES_EVERY_S:
            self._foreseen = now_s, self._strategy.expected_rest([one.place for one in at_work])
            self._n_handed_out = 0
        rest = self._foreseen[1]
        return None if rest is None else [*(one.cell.rest for one in at_work), *rest[self._n_handed_out :]]

    def remaining_s(self, at_work: Sequence[Work], n_boxes: int) -> float | None:
        """Return the seconds until all is measured or the budget ends; None: unknown."""
        rest = self.rest(at_work)
        if rest is None:
            return None
        return min(self._timetable.expected_s(rest) / max(1, n_boxes), max(0.0, self._left_s()))

    def _left_s(self) -> float:
        left_s = self._timetable.left_s
        return inf if left_s is None else left_s


class Places:
    """The places of a fleet's study: each is requested once; one given up keeps its windows."""

    def __init__(
        self, study: StudyRecord, history: History, strategy: SpreadingStrategy, progress: FleetProgress
    ) -> None:
        """*strategy*: a new strategy; it gets all windows of *history*."""
        self._study, self._history = study, history
        self._strategy, self._progress = strategy, progress
        self._failing = Failing(study.max_attempts)
        #: by block, position and host
        self._cells = {
            (cell.block, cell.position, place.box): cell
            for place, cell in show_history(history, self._failing, strategy)
        }
        self.out_of_budget = False
        self._cut: set[str] = set()  #: hosts for which a warning about shortened warm-ups was printed

    def next_for(
        self, box: str, under_way: Sequence[Place], boxes: Sequence[str], ahead: Ahead
    ) -> Work | None:
        """Return the next work of host *box*; None: there is none, or the budget has no room for it."""
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
        if cell is None or cell.asked != place.asked or cell.is_done:  # failed because of its host
            asked = place.asked
            cell = Cell(*key[:2], asked.layout, asked.window_s, asked.n_windows, self._study.max_attempts)
            self._cells[key] = cell
            self._failing.add([cell])
        return Work(place, cell)

    def is_open(self, cell: Cell) -> bool:
        """Return whether *cell* is still to be measured."""
        return self._failing.is_open(cell)

    def elsewhere(self, box: str) -> list[Cell]:
        """Return the cells of hosts other than *box*."""
        return [one for (_, _, where), one in self._cells.items() if where != box]

    def after(self, place: Place, n_hosts: int) -> list[Proposal]:
        """Return the host's launches after *place*: the rest of its block, or its part of a race's first."""
        study, cells = self._study, self._cells.values()
        over = {place.asked.layout, *self._failing.failed}
        if study.strategy == "all":
            over.update(cell.layout for cell in cells if cell.block == place.block and cell.is_done)
            n_left = len(study.layouts)
        else:
            over.update(cell.layout for cell in cells)  # also those that other hosts measure now
            n_left = ceil((n_of_first_block(study) - len(over)) / n_hosts)
        left = [one for one in study.layouts if one not in over]
        return [replace(place.asked, layout=one) for one in left[: max(0, n_left)]]

    def end(self, work: Work, *, is_whole: bool) -> None:
        """Pass the result of a finished place to the strategy; not whole: given up, to be requested again.

        The windows of a place that was given up are kept; the strategy gets them once the same host has
        measured the rest.
        """
        failed = self._failing.end([work.cell]) if is_whole else []
        self._strategy.learn(done_of(work.place, work.cell, failed, is_whole=is_whole))
        for layout in failed:
            if layout not in self._failing.over_limit:
                self._progress.warning(*left_out(layout))

    def outcome(self, *, braked: str | None, interrupted: bool, is_over: bool) -> StudyOutcome:
        """Return the outcome so far, over all sessions."""
        history, failed = self._history, self._failing.failed
        cells = self._cells.values()
        made = {(one.block, one.layout) for one in cells if one.is_done and not one.is_void}
        # a finished grid also lacks cells that were given up with their hosts
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
        """Return whether to measure *place*: its launch (of a grid, its block) fits, or it is the first."""
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
        """Return whether the first block, or a race's first launch of each layout, is unfinished."""
        cells, study = self._cells.values(), self._study
        if not any(cell.is_done for cell in cells):
            return True
        return study.strategy == "race" and len({cell.layout for cell in cells}) < n_of_first_block(study)

    def end_budget(self) -> None:
        """Begin no further place, and warn of that once."""
        if not self.out_of_budget:
            self.out_of_budget = True
            self._progress.warning(*budget_over_in_fleet(self._history.n_windows))


# The stored results of a study on several hosts, passed to its strategy.


def show_history(
    history: History, failing: Failing, strategy: SpreadingStrategy
) -> Sequence[tuple[Place, Cell]]:
    """Pass all results of *history*, in the order in which they ended, to *strategy*, which must be new.

    An unfinished place is passed as one that was given up. Return the places and cells passed.
    """
    found = []
    places = sorted(history.places(), key=_ended_s)
    left_out = failing.leave_out(history.over_limit) if places else []  # passed with the first place
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
    """Return the result of a place that is finished, or was given up and may still be finished."""
    windows = sorted(cell.kept.values(), key=lambda seen: seen.began_s)
    return Done(place, windows if is_whole else (), is_whole, failed)


def replay_fleet(store: Store, strategy: SpreadingStrategy) -> Recalled:
    """Pass every window of *store* to *strategy*, which must be new."""
    study, launches, windows = store.study(), store.launches(), store.windows()
    history, failing = History(study, launches, windows, store.warmup_samples), Failing(study.max_attempts)
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
    """A fleet's strategy with the interface of a strategy for one host; it cannot learn."""

    def __init__(self, strategy: SpreadingStrategy, boxes: Sequence[str]) -> None:
        self._strategy, self._boxes = strategy, boxes
        self.answer, self.estimates = strategy.answer, strategy.estimates

    def beside(self, layout: Layout | None = None) -> Mapping[Layout, OfBest]:
        """Return the strategy's comparisons; empty: it makes no claim."""
        return self._strategy.beside(layout) if isinstance(self._strategy, Comparing) else {}

    def propose(self) -> Sequence[Proposal]:
        """Return the next launch of the first host that has one; empty: no host has."""
        for box in self._boxes:
            place = self._strategy.next_for(box, [], self._boxes)
            if place is not None:
                return [place.asked]
        return []

    def learn(self, windows: object, failed: object = ()) -> None:
        """Raise NotImplementedError, because this strategy measures nothing."""
        raise NotImplementedError


def _ended_s(found: tuple[str, Cell, Sequence[Launched]]) -> tuple[float, float]:
    """Return the sort key of a place: the end of its last launch if known, else its beginning."""
    launches = [one.launch for one in found[2]]
    last = launches[-1]
    return (last.ended_wall_s or last.started_wall_s, last.started_wall_s)
