"""The use case: one study on several boxes. Each box is given its next launch as soon as it is free."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from tuner.core.brake import BRAKED, OVER_LIMIT, braked_by
from tuner.core.errors import ConfigError, MeasurementError
from tuner.core.figures import counted
from tuner.core.fleet import (
    LOST,
    Began,
    BoxCame,
    BoxFacts,
    BoxWent,
    Ended,
    Lost,
    News,
    Order,
    Place,
    Refused,
    Sampled,
    Took,
    WarmedUp,
    Warned,
)
from tuner.core.records import WARMING_BLOCK, LaunchRecord
from tuner.core.simulated import is_simulated
from tuner.core.spreading import SpreadingStrategy
from tuner.core.strategy import Proposal
from tuner.core.summary import record_of
from tuner.core.window import Window
from tuner.ports import Fleet, FleetProgress, Hooks, Stop, Store
from tuner.study.around import led
from tuner.study.cells import Cell
from tuner.study.failing import Failing
from tuner.study.fleet_ahead import Ahead
from tuner.study.fleet_members import Member, Work, in_our_words
from tuner.study.fleet_recall import done_of, shown
from tuner.study.history import History
from tuner.study.outcome import StudyOutcome
from tuner.study.run import CACHE_KEEPS_S, MOST_DISTURBED
from tuner.study.timetable import Timetable, check_budget

LOOK_S = 1.0  #: so long news are waited for before anything else is looked at
MOST_VAIN = 2  #: layouts in a row that fail on a box and run on others
PATIENCE_S = 600.0  #: so long a study without any box waits for one


def run_fleet(
    fleet: Fleet, store: Store, progress: FleetProgress, stop: Stop, strategy: SpreadingStrategy, hooks: Hooks
) -> StudyOutcome:
    """Have the boxes of *fleet* measure what *strategy* asks for and *store* does not hold yet.

    A new study and a resumed one are the same call. Each window is in the store once it is told; what a box
    was at when it went, or when this was killed, is asked for again.

    Args:
        fleet: boxes may come and go meanwhile.
        store: opened for writing.
        progress: told about everything, warnings included.
        stop: once it says so, the windows in hand are finished and kept, and no further ones begun.
        strategy: a new one, made as the store's study says; it is shown first what the store holds.
        hooks: those around the study, which run where the coordinator does; the others run on the boxes.

    Raises:
        ConfigError: no box can use the study's configuration, or the budget has no room for one block.
        MeasurementError: no box came, or the hook before the study failed.
        KeyboardInterrupt: the second Ctrl-C; whoever made *fleet* has it give up what is under way.
    """
    return _FleetStudy(fleet, store, progress, stop, strategy, hooks).run()


class _FleetStudy:
    def __init__(
        self,
        fleet: Fleet,
        store: Store,
        progress: FleetProgress,
        stop: Stop,
        strategy: SpreadingStrategy,
        hooks: Hooks,
    ) -> None:
        self._fleet, self._store, self._progress, self._stop = fleet, store, progress, stop
        self._strategy, self._hooks, self._clock = strategy, hooks, fleet.clock
        self._asked = store.study()
        launches, windows = store.launches(), store.windows()
        self._history = History(self._asked, launches, windows)
        self._failing = Failing(self._asked.max_attempts)
        self._timetable = Timetable(self._asked, launches, windows)
        self._session = f"{self._asked.created_wall_s:.6f}-{self._clock.wall_s():.6f}"
        self._n_orders = 0
        self._smallest = min(self._asked.layouts, key=lambda layout: (layout.total_threads, layout))
        self._members: dict[str, Member] = {}
        self._by_order: dict[str, Member] = {}  #: those that are at work
        #: by block, position and box: a place that was given up goes on with what it has
        self._cells = {
            (cell.block, cell.position, place.box): cell
            for place, cell in shown(self._history, self._failing, strategy)
        }
        before = [launch for _, launch in launches]
        self._ahead = Ahead(self._asked, self._timetable, strategy, self._clock, before)
        self._warm_wall_s: dict[str, float] = {}
        for _, launch in launches:
            seen_s = launch.ended_wall_s or launch.started_wall_s
            self._warm_wall_s[launch.box] = max(self._warm_wall_s.get(launch.box, -inf), seen_s)
        self._alone_since_s = self._clock.monotonic_s()  #: since when no box is there
        self._is_over = self._out_of_budget = self._is_finishing = False
        self._has_changed = True  #: since boxes that are free were last asked for
        self._braked: str | None = None

    def run(self) -> StudyOutcome:
        check_budget(self._asked, [Proposal(self._asked.layouts[0], self._asked.shortest_window_s)])
        facts = {"service": self._asked.service, "box": ""}
        return led(
            self._hooks,
            self._progress.warning,
            facts,
            self._measured,
            self._outcome,
            lambda: self._history.n_windows,
        )

    def _measured(self) -> str | None:
        self._measure()
        return self._braked

    # ------------------------------------------------------------------ from news to orders

    def _measure(self) -> None:
        while True:
            if self._must_end() and not self._is_finishing:
                self._is_finishing = True
                self._fleet.finish()
            self._end_when_answered()
            self._hand_out()
            if not self._by_order and self._is_at_its_end():
                return
            news = self._fleet.news(self._clock.monotonic_s() + LOOK_S)
            if news is not None:
                self._take(news)

    def _is_at_its_end(self) -> bool:
        """Whether nothing is to be waited for, while no box is at work."""
        if self._must_end() or self._out_of_budget:
            return True
        if self._asks_nobody() and not self._is_answered():
            self._check_patience()
            return False
        self._is_over = True  # whoever is there was asked, and has nothing to do
        answer, boxes = self._strategy.answer(), {*self._warm_wall_s, *self._members}
        if self._asked.strategy == "race" and not answer.reached and answer.ties and len(boxes) > 1:
            n = counted(len(boxes), "box")
            text = (
                f"layouts differ too much from box to box for {n} to tell: it takes more boxes, not windows"
            )
            self._progress.warning("needs-boxes", text)
        return True

    def _asks_nobody(self) -> bool:
        return all(one.is_left_out for one in self._members.values())

    def _check_patience(self) -> None:
        """Wait for a box, though not for ever, and not where those that came cannot be used."""
        problems = [one.problem for one in self._members.values() if one.problem is not None]
        if problems and len(problems) == len(self._members):
            raise problems[0]
        if any(one.does_not_start for one in self._members.values()):
            raise MeasurementError(f"{self._asked.service} does not start on any box; why is told above")
        if self._clock.monotonic_s() - self._alone_since_s > PATIENCE_S:
            raise MeasurementError(
                f"no box for {PATIENCE_S / 60:.0f} minutes", hint="Start one with tuner box, and go on."
            )

    def _hand_out(self) -> None:
        """Give work to every box that is free."""
        if self._must_end() or not self._has_changed:
            return
        self._has_changed = False
        for name, member in list(self._members.items()):
            if member.is_left_out or (member.work is not None and member.work.order is not None):
                continue
            if member.work is None:
                member.work = self._next_work(name)
            if member.work is not None and not self._must_end():
                self._order(member, member.work)

    def _end_when_answered(self) -> None:
        """Once a race has its answer, what is under way cannot change it: nobody waits for that."""
        if self._has_changed and self._is_answered():
            for member in self._members.values():
                self._give_up(member, "the answer was known before")

    def _is_answered(self) -> bool:
        return self._asked.strategy == "race" and self._strategy.answer().reached

    def _next_work(self, box: str) -> Work | None:
        others = [
            one.work.place
            for name, one in self._members.items()
            if name != box and one.work is not None and not one.is_left_out
        ]
        boxes = [name for name, one in self._members.items() if not one.is_left_out]
        place = self._strategy.next_for(box, others, boxes)
        if place is None:
            return None
        if not self._fits(place):
            self._tell_out_of_budget()
            return None
        key = (place.block, place.position, box)
        cell = self._cells.get(key)
        if cell is None or cell.asked != place.asked:
            asked = place.asked
            cell = Cell(*key[:2], asked.layout, asked.window_s, asked.n_windows, self._asked.max_attempts)
            self._cells[key] = cell
            self._failing.add([cell])
        self._ahead.handed_out()
        return Work(place, cell)

    def _order(self, member: Member, work: Work) -> None:
        """Have a box make the next launch of what it is at, or one that is discarded before it."""
        self._n_orders += 1
        cell, place = work.cell, work.place
        is_cold = self._asked.warms_cache and self._clock.wall_s() - member.warm_wall_s >= CACHE_KEEPS_S
        discards = is_cold or member.is_on_trial
        if discards:
            layout = self._smallest if member.is_on_trial else cell.layout
            place = Place(WARMING_BLOCK, 0, place.box, Proposal(layout, self._asked.window_s, 0))
        work.launched, work.began_s = None, self._clock.monotonic_s()
        work.order = Order(
            id=f"{self._session}-{self._n_orders}",
            place=place,
            attempt=1 if discards else cell.n_spoilt + 1,
            tries={} if discards else dict(cell.tries),
            kept=() if discards else tuple(sorted(cell.kept)),
            discards=discards,
        )
        self._by_order[work.order.id] = member
        self._fleet.send(work.order)

    # ------------------------------------------------------------------ what comes of it

    def _take(self, news: News) -> None:
        match news:
            case BoxCame(facts):
                self._has_changed = True
                self._box_came(facts)
            case BoxWent(box, why):
                self._has_changed = True
                self._box_went(box, why)
            case Warned(box, slug, text):
                self._progress.warning(slug, f"{box}: {text}")
            case _:
                self._take_of_order(news)

    def _take_of_order(self, news: Began | WarmedUp | Sampled | Took | Ended | Lost | Refused) -> None:
        member = self._by_order.get(news.order)
        if member is None or member.work is None:  # an order that is over: a twin's, or late news
            return
        work = member.work
        match news:
            case Began(_, launch):
                self._began(member, work, launch)
            case WarmedUp(_, samples):
                self._store.add_warmup(work.launch_id, samples)
            case Sampled(_, elapsed_s, items_per_s, sample):
                window_s = None if sample is None else work.place.asked.window_s
                layout = work.place.asked.layout
                name = member.facts.name
                self._progress.sampled(name, layout, elapsed_s, window_s, items_per_s, sample)
            case Took(_, window):
                self._took(member, work, window)
            case Ended(_, launch):
                self._has_changed = True
                self._ended(member, work, launch)
            case Lost(_, why):
                self._has_changed = True
                self._lost(member, work, why)
            case Refused(_, problem, hint):
                self._has_changed = True
                self._refused(member, problem, hint)

    def _began(self, member: Member, work: Work, launch: LaunchRecord) -> None:
        launch = in_our_words(launch, member.facts)
        assert work.order is not None
        work.launch_id = self._store.add_launch(launch)
        work.launched = self._history.begin(launch)
        place = work.order.place
        self._progress.launch_started(launch.box, launch.layout, place.block, self._remaining_s())

    def _took(self, member: Member, work: Work, window: Window) -> None:
        assert work.launched is not None
        window = replace(window, started_wall_s=window.started_wall_s - member.facts.ahead_s)
        self._store.add_window(work.launch_id, window)
        work.n_lost = 0
        box, block = member.facts.name, work.place.block
        record = record_of(window, launch_id=work.launch_id, block=block, box=box)
        self._history.add_window(work.cell, work.launched, record)
        n_taken, rest = self._history.n_windows, self._ahead.rest(self._at_work())
        n_planned = None if rest is None else n_taken + sum(one.n_windows for one in rest)
        self._progress.window_taken(box, window, n_taken, n_planned, self._remaining_s())

    def _ended(self, member: Member, work: Work, launch: LaunchRecord) -> None:
        order, launched = self._is_free(work), work.launched
        assert launched is not None
        launched.launch = launch = in_our_words(launch, member.facts)
        self._store.finish_launch(work.launch_id, launch)
        self._timetable.add(launch, self._clock.monotonic_s() - work.began_s, launched.counted_s)
        member.warm_wall_s = self._clock.wall_s()
        self._progress.launch_ended(member.facts.name)
        self._braked = braked_by(launch.error, BRAKED) or self._braked
        if order.discards:
            self._history.end_warming(launched)
            work.cell.is_over_limit |= braked_by(launch.error, OVER_LIMIT) is not None
        else:
            self._history.end_launch(work.cell, launched)
            if launched.is_spoilt:
                work.spoilt.append((work.launch_id, launch))
        self._see_whether_it_starts(member, launch)
        self._close_when_done(member)

    def _is_free(self, work: Work) -> Order:
        """The box makes no launch any more; gives the one that it made."""
        assert work.order is not None
        order, work.order = work.order, None
        del self._by_order[order.id]
        return order

    def _see_whether_it_starts(self, member: Member, launch: LaunchRecord) -> None:
        """Where a first start, or all launches of a layout, failed, the smallest tells whose fault it is."""
        has_started = launch.running_after_s is not None
        if member.is_on_trial and not has_started:
            member.does_not_start = True
            self._blame_box(member)
            why = f"{self._asked.service} does not start there, not even as {launch.layout}"
            self._leave_out(member, why)
            return
        was_tried, member.is_on_trial = member.is_on_trial, False
        member.starts = member.starts or has_started
        cell = None if member.work is None else member.work.cell
        is_in_vain = cell is not None and cell.is_hopeless and not cell.is_over_limit
        if not was_tried and not self._must_end() and (not member.starts or is_in_vain):
            member.is_on_trial = True

    def _blame_box(self, member: Member) -> None:
        """What did not start on a box that starts nothing says nothing of its layout."""
        if member.work is None:
            return
        for launch_id, launch in member.work.spoilt:
            told = f"{LOST}: nothing starts on {member.facts.name}; {launch.error}"
            self._store.finish_launch(launch_id, replace(launch, error=told))
            member.work.cell.n_spoilt -= 1

    def _close_when_done(self, member: Member) -> None:
        work = member.work
        if work is None or member.is_on_trial or self._failing.is_open(work.cell):
            return
        member.work, cell = None, work.cell
        if cell.is_void and not cell.is_over_limit:
            where = f"in block {cell.block + 1} on {member.facts.name}"
            self._progress.warning("cell-void", f"{cell.layout} lacks a valid window {where}")
        if cell.kept:
            member.n_disturbed = member.n_vain = 0
        elif cell.is_vain and not cell.is_hopeless:
            member.n_disturbed += 1
        is_its_fault = cell.is_hopeless and self._gives_elsewhere(cell, member)
        member.n_vain += is_its_fault
        self._learn(work, is_whole=not is_its_fault)
        if member.n_disturbed >= MOST_DISTURBED:
            self._leave_out(member, f"{MOST_DISTURBED} launches in a row gave no window that counts")
        elif member.n_vain >= MOST_VAIN:
            self._leave_out(member, f"{counted(MOST_VAIN, 'layout')} in a row failed that others could run")

    def _gives_elsewhere(self, cell: Cell, member: Member) -> bool:
        """Whether the layout of *cell*, all of whose launches failed on a box, gave windows on another."""
        if cell.is_over_limit:
            return False
        name = member.facts.name
        return any(
            one.layout == cell.layout and one.kept for (_, _, box), one in self._cells.items() if box != name
        )

    def _learn(self, work: Work, *, is_whole: bool) -> None:
        failed = self._failing.end([work.cell]) if is_whole else []
        self._strategy.learn(done_of(work.place, work.cell, failed, is_whole=is_whole))
        for layout in failed:
            if layout not in self._failing.over_limit:
                text = f"{layout} gave no window at any attempt and is left out from now on"
                self._progress.warning("left-out", text)

    # ------------------------------------------------------------------ boxes that come and go

    def _box_came(self, facts: BoxFacts) -> None:
        known = self._members.get(facts.name)
        if known is not None:  # free again after something that was given up
            self._give_up(known, "it is free, and did not end it")
            return
        self._store.add_box(facts, self._clock.wall_s())
        warm_wall_s = self._warm_wall_s.get(facts.name, -inf)
        self._members[facts.name] = member = Member(facts, warm_wall_s)
        self._progress.box_came(facts)
        if not is_simulated(self._asked) and abs(facts.cores - self._asked.box_cores) > 0.01:
            self._leave_out(
                member, f"it offers {facts.cores:g} cores, and the study is for {self._asked.box_cores:g}"
            )
        ours, theirs = (one.get("tuner") for one in (self._asked.provenance, facts.provenance))
        if ours != theirs:
            self._leave_out(member, f"it has tuner {theirs}, and the study is of tuner {ours}")

    def _box_went(self, box: str, why: str) -> None:
        member = self._members.pop(box, None)
        if member is None:
            return
        self._warm_wall_s[box] = member.warm_wall_s
        self._store.end_box(box, self._clock.wall_s(), why)
        self._progress.box_went(box, why)
        self._give_up(member, why)
        if not self._members:
            self._alone_since_s = self._clock.monotonic_s()

    def _lost(self, member: Member, work: Work, why: str) -> None:
        """The box is there, its launch is not: it makes another one, though not for ever."""
        self._end_lost(work, why)
        work.n_lost += 1
        self._progress.warning("launch-lost", f"{member.facts.name}: {work.place.asked.layout}: {why}")
        if work.n_lost >= self._asked.max_attempts:
            self._give_up(member, why)
            self._leave_out(member, f"{counted(work.n_lost, 'launch')} in a row came to nothing")

    def _refused(self, member: Member, problem: str, hint: str | None) -> None:
        member.problem = ConfigError(problem, hint=hint or "")
        self._give_up(member, problem)
        self._leave_out(member, problem)

    def _leave_out(self, member: Member, why: str) -> None:
        if member.is_left_out:
            return
        member.is_left_out = True
        if member.work is not None:
            self._give_up(member, why)
        self._store.end_box(member.facts.name, self._clock.wall_s(), why)
        self._progress.warning("box-left-out", f"{member.facts.name} is left out: {why}")
        if self._asks_nobody():
            self._alone_since_s = self._clock.monotonic_s()

    def _give_up(self, member: Member, why: str) -> None:
        """Nothing more comes of what a box was at: it is asked for again.

        Its windows are kept, and the strategy is shown them once the same box has made the rest.
        """
        work, member.work = member.work, None
        if work is None:
            return
        if work.order is not None:
            self._fleet.give_up(work.order.id)
            self._end_lost(work, why)
        self._learn(work, is_whole=False)

    def _end_lost(self, work: Work, why: str) -> None:
        """Keep that a launch was lost."""
        self._is_free(work)
        if work.launched is None:
            return
        launch = replace(work.launched.launch, error=f"{LOST}: {why}", ended_wall_s=self._clock.wall_s())
        work.launched.launch = launch
        self._store.finish_launch(work.launch_id, launch)
        self._timetable.add(launch, self._clock.monotonic_s() - work.began_s, work.launched.counted_s)
        work.launched = None

    # ------------------------------------------------------------------ how long it takes

    def _must_end(self) -> bool:
        return self._stop.requested() or self._braked is not None

    def _fits(self, place: Place) -> bool:
        """Whether *place* can be measured within the budget: of a grid, its whole block."""
        if self._asked.strategy != "all":
            return self._ahead.fits([place.asked])
        is_begun = any((block, who) == (place.block, place.box) for block, _, who in self._cells)
        return is_begun or self._ahead.fits([place.asked] * len(self._asked.layouts))

    def _tell_out_of_budget(self) -> None:
        if not self._out_of_budget:
            self._out_of_budget = True
            text = f"the budget ends after {counted(self._history.n_windows, 'window')}"
            self._progress.warning("budget-over", text)

    def _at_work(self) -> list[Work]:
        return [one.work for one in self._members.values() if one.work is not None]

    def _remaining_s(self) -> float | None:
        n_boxes = sum(not one.is_left_out for one in self._members.values())
        return self._ahead.remaining_s(self._at_work(), n_boxes)

    def _outcome(self) -> StudyOutcome:
        history, failed = self._history, self._failing.failed
        cells = self._cells.values()
        made = {(one.block, one.layout) for one in cells if one.is_done and not one.is_void}
        # of a grid that is over also what was given up with its box so often that it is left
        is_whole_grid = self._is_over and self._asked.strategy == "all"
        lacking = [one for one in cells if one.is_void or (is_whole_grid and not one.is_done)]
        void = {(one.block, one.layout): None for one in lacking if one.layout not in failed}
        open_blocks = {one.block for one in self._cells.values() if not one.is_done}
        return StudyOutcome(
            answer=self._strategy.answer(),
            n_blocks_done=len({block for block, _, _ in self._cells} - open_blocks),
            n_windows=history.n_windows,
            n_void=history.n_void,
            n_launches_failed=history.n_launches_spoilt,
            left_out=tuple(sorted(failed)),
            void_cells=tuple(place for place in void if place not in made),
            out_of_budget=self._out_of_budget,
            braked=self._braked,
            interrupted=self._stop.requested() and not self._is_over,
            is_over=self._is_over,
        )
