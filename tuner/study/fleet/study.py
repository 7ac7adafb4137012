"""The use case of a study on several hosts: each host gets its next launch as soon as it is free."""

from __future__ import annotations

from dataclasses import replace

from tuner.core.domain.fleet import (
    LOST,
    Began,
    BoxCame,
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
from tuner.core.domain.records import WARMING_BLOCK, LaunchRecord, StudyRecord
from tuner.core.domain.safety_limits import BRAKED, OVER_LIMIT, parse_brake_error
from tuner.core.domain.strategy import Proposal
from tuner.core.domain.window import Window
from tuner.core.messages import Message
from tuner.core.messages.fleet import launch_lost, needs_boxes
from tuner.core.messages.study import block_without_window_on
from tuner.core.search.fleet_strategy import SpreadingStrategy
from tuner.core.text.figures import pluralize
from tuner.core.warmup.report import SettlingCount, alarm_of
from tuner.core.windows.layout_check import refuse_wrong_layout
from tuner.core.windows.summary import record_of
from tuner.ports import Fleet, FleetProgress, Hooks, Stop, Store
from tuner.study.fleet.places import Ahead, Places
from tuner.study.fleet.roster import (
    Member,
    Roster,
    Work,
    clear_layout,
    enough_of,
    normalize_launch,
    note_place,
    note_start,
)
from tuner.study.history import History, read_ran_before
from tuner.study.launch.outcome import StudyOutcome, around_hooks, finishing
from tuner.study.run import CACHE_KEEPS_S
from tuner.study.study_plan import keep_gil, note_inner
from tuner.study.timetable import Timetable, check_budget

LOOK_S = 1.0  #: longest wait for news in one step of the loop


def run_fleet(
    fleet: Fleet, store: Store, progress: FleetProgress, stop: Stop, strategy: SpreadingStrategy, hooks: Hooks
) -> StudyOutcome:
    """Measure, on the hosts of *fleet*, the launches that *strategy* requests and *store* lacks.

    A new study and a resumed one are the same call. Each window is stored as soon as it is reported; the work
    of a host that left, or of a killed session, is requested again.

    Args:
        fleet: the fleet; hosts may join and leave meanwhile.
        store: opened for writing.
        progress: receives every event, warnings included.
        stop: after a request the present windows are finished and stored, and no further ones begin.
        strategy: a new strategy for the store's study; it first gets the windows in the store.
        hooks: the hooks around the study, which run on the coordinator; all other hooks run on the hosts.

    Raises:
        ConfigError: no host can use the study's configuration, or the budget has no room for one block.
        MeasurementError: no host joined, or the hook before the study failed.
        KeyboardInterrupt: after the second Ctrl-C; the caller must stop the launches of *fleet*.
    """
    return _FleetStudy(fleet, store, progress, stop, strategy, hooks).run()


def least_on_fleet(study: StudyRecord, n_windows: int = 0) -> list[Proposal]:
    """Return the launches that must fit into the budget: the first block of a new grid, else one window."""
    if study.strategy == "all" and not n_windows:
        return [Proposal(layout, study.window_s, study.windows_per_launch) for layout in study.layouts]
    return [Proposal(study.layouts[0], study.shortest_window_s)]


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
        before = [launch for _, launch in launches]
        self._history = History(self._asked, launches, windows, store.warmup_samples)
        self._settling = SettlingCount.of(before)
        self._ran = read_ran_before(store, windows)
        self._timetable = Timetable(self._asked, launches, windows)
        self._places = Places(self._asked, self._history, strategy, progress)
        self._ahead = Ahead(self._asked, self._timetable, strategy, self._clock, before)
        self._roster = Roster(self._asked, store, progress, self._clock, before, self._give_up)
        self._session = f"{self._asked.created_wall_s:.6f}-{self._clock.wall_s():.6f}"
        self._n_orders = 0
        self._smallest = min(self._asked.layouts, key=lambda layout: (layout.total_threads, layout))
        self._by_order: dict[str, Member] = {}  #: hosts at work, by the id of their order
        self._is_over = self._is_finishing = False
        self._has_changed = True  #: whether anything has changed since free hosts last got work
        self._braked: str | None = None

    def run(self) -> StudyOutcome:
        check_budget(self._asked, least_on_fleet(self._asked, self._history.n_windows))
        facts = {"service": self._asked.service, "box": ""}
        with finishing(self._hooks, facts, lambda: self._history.n_windows) as ending:
            with around_hooks(self._hooks, self._progress.warning, "study", facts):
                self._measure()
                if self._braked is not None:
                    facts["brake"] = self._braked  # for the hook after it too
            return ending.at(self._outcome())

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
        """Return whether the study is at its end, while no host is at work."""
        if self._must_end() or self._places.out_of_budget:
            return True
        if not self._roster.in_use and not self._is_answered():
            self._roster.check_patience()
            return False
        self._is_over = True  # no host that is present has work left
        answer, n_boxes = self._strategy.answer(), self._roster.n_ever
        if self._asked.strategy == "race" and not answer.reached and answer.ties and n_boxes > 1:
            self._progress.warning(*needs_boxes(n_boxes))
        return True

    def _must_end(self) -> bool:
        return self._stop.requested() or self._braked is not None

    def _hand_out(self) -> None:
        """Give work to every free host."""
        if self._must_end() or not self._has_changed:
            return
        self._has_changed = False
        for member in self._roster.in_use:
            if member.work is not None and member.work.order is not None:
                continue
            if member.work is None:
                member.work = self._next_work(member)
            if member.work is None or self._must_end():
                continue
            if self._ahead.has_room(member.work.cell.rest):
                self._order(member, member.work)
            else:
                self._places.end_budget()
                self._give_up(member, "the budget is over")

    def _end_when_answered(self) -> None:
        """Give up all launches under way once a race has its answer, because they cannot change it."""
        if self._has_changed and self._is_answered():
            for member in self._roster.members.values():
                self._give_up(member, "the result was known before")

    def _is_answered(self) -> bool:
        return self._asked.strategy == "race" and self._strategy.answer().reached

    def _next_work(self, member: Member) -> Work | None:
        in_use = self._roster.in_use
        others = [one.work.place for one in in_use if one is not member and one.work is not None]
        names = [one.facts.name for one in in_use]
        return self._places.next_for(member.facts.name, others, names, self._ahead)

    def _order(self, member: Member, work: Work) -> None:
        """Order the next launch of a host's work, or first a launch that is discarded."""
        self._n_orders += 1
        cell, place = work.cell, work.place
        is_cold = self._asked.warms_cache and self._clock.wall_s() - member.warm_wall_s >= CACHE_KEEPS_S
        discards = is_cold or member.is_on_trial
        if discards:
            layout = self._smallest if member.is_on_trial else cell.layout
            place = Place(WARMING_BLOCK, 0, place.box, Proposal(layout, self._asked.window_s, 0))
        work.launched, work.began_s = None, self._clock.monotonic_s()
        after = self._places.after(place, len(self._roster.in_use))
        work.order = Order(
            id=f"{self._session}-{self._n_orders}",
            place=place,
            attempt=1 if discards else cell.n_spoilt + 1,
            tries={} if discards else dict(cell.tries),
            kept=() if discards else tuple(sorted(cell.kept)),
            discards=discards,
            time_left=self._ahead.time_left(
                place.asked if discards else cell.rest, [cell.rest, *after] if discards else after
            ),
        )
        self._by_order[work.order.id] = member
        self._fleet.send(work.order)

    # ------------------------------------------------------------------ handling of news

    def _take(self, news: News) -> None:
        match news:
            case BoxCame(facts):
                self._has_changed = True
                self._roster.came(facts)
            case BoxWent(box, why):
                self._has_changed = True
                self._roster.went(box, why)
            case Warned(box, slug, text):
                self._progress.warning(*Message(slug, text).on(box))
            case _:
                self._take_of_order(news)

    def _take_of_order(self, news: Began | WarmedUp | Sampled | Took | Ended | Lost | Refused) -> None:
        member = self._by_order.get(news.order)
        if member is None or member.work is None:  # news of a finished order: of its twin, or late
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
            case Ended(_, launch, stop_s):
                self._has_changed = True
                self._timetable.add_stop(stop_s)
                self._finish_launch(member, work, launch)
            case Lost(_, why):
                self._has_changed = True
                self._repeat_lost(member, work, why)
            case Refused(_, problem, hint):
                self._has_changed = True
                self._roster.refused(member, problem, hint)

    def _began(self, member: Member, work: Work, launch: LaunchRecord) -> None:
        launch = normalize_launch(launch, member.facts)
        assert work.order is not None
        work.launch_id = self._store.add_launch(launch)
        work.launched = self._history.begin(launch)
        place = work.order.place
        self._progress.launch_started(launch.box, launch.layout, place.block, self._remaining_s())

    def _took(self, member: Member, work: Work, window: Window) -> None:
        assert work.launched is not None
        window = replace(window, started_wall_s=window.started_wall_s - member.facts.ahead_s)
        window = self._ran.judged(window)
        self._store.add_window(work.launch_id, window)
        refuse_wrong_layout(window)
        work.n_lost = 0
        box, block = member.facts.name, work.place.block
        record = record_of(window, launch_id=work.launch_id, block=block, box=box)
        self._history.add_window(work.cell, work.launched, record)
        note_inner(window, self._store, self._progress.warning)
        n_taken, rest = self._history.n_windows, self._ahead.rest(self._roster.at_work())
        n_planned = None if rest is None else n_taken + sum(one.n_windows for one in rest)
        self._progress.window_taken(box, window, n_taken, n_planned, self._remaining_s())

    def _finish_launch(self, member: Member, work: Work, launch: LaunchRecord) -> None:
        order, launched = self._is_free(work), work.launched
        assert launched is not None
        launched.launch = launch = normalize_launch(launch, member.facts)
        self._store.finish_launch(work.launch_id, launch)
        keep_gil(self._store, launch, self._progress.warning)
        self._timetable.add(launch, self._clock.monotonic_s() - work.began_s, launched.counted_s)
        member.warm_wall_s = self._clock.wall_s()
        self._settling.add(launch)
        if (alarm := alarm_of(launch, self._settling)) is not None:
            self._progress.warning(*alarm.on(member.facts.name))
        self._progress.launch_ended(member.facts.name)
        self._braked = parse_brake_error(launch.error, BRAKED) or self._braked
        self._roster.has_served |= launch.error is None
        if order.discards:
            self._history.end_warming(launched)
            if launch.layout == work.cell.layout:  # on trial a host starts another layout
                work.cell.is_over_limit |= parse_brake_error(launch.error, OVER_LIMIT) is not None
        else:
            self._history.end_launch(work.cell, launched)
            if launched.is_spoilt:
                work.spoilt.append((work.launch_id, launch))
        if note_start(member, launch, may_try=not self._must_end()):
            self._leave_out_as_dead(member, launch)
        else:
            self._close_when_done(member)

    def _is_free(self, work: Work) -> Order:
        """Mark the host as free, and return its order."""
        assert work.order is not None
        order, work.order = work.order, None
        del self._by_order[order.id]
        return order

    def _leave_out_as_dead(self, member: Member, launch: LaunchRecord) -> None:
        if member.work is not None:
            clear_layout(member.work, member.facts.name, self._store)
        why = f"{self._asked.service} does not start there, not even as {launch.layout}"
        self._roster.leave_out(member, why)

    def _close_when_done(self, member: Member) -> None:
        work, name = member.work, member.facts.name
        if work is None or member.is_on_trial or self._places.is_open(work.cell):
            return
        member.work, cell = None, work.cell
        if cell.is_void and not cell.is_over_limit:
            self._progress.warning(*block_without_window_on(cell.layout, cell.block, name))
        is_whole = not note_place(member, cell, self._places.elsewhere(name))
        self._places.end(work, is_whole=is_whole)
        why = enough_of(member, cell)
        if why is not None:
            self._roster.leave_out(member, why)

    def _repeat_lost(self, member: Member, work: Work, why: str) -> None:
        """Repeat a lost launch of a host that is still present; after too many, exclude the host."""
        self._record_lost(work, why)
        work.n_lost += 1
        self._progress.warning(*launch_lost(member.facts.name, work.place.asked.layout, why))
        if work.n_lost >= self._asked.max_attempts:
            self._give_up(member, why)
            self._roster.leave_out(member, f"{pluralize(work.n_lost, 'launch')} in a row came to nothing")

    def _give_up(self, member: Member, why: str) -> None:
        """Cancel a host's work, which is requested again."""
        work, member.work = member.work, None
        if work is None:
            return
        if work.order is not None:
            self._fleet.give_up(work.order.id)
            self._record_lost(work, why)
        self._places.end(work, is_whole=False)

    def _record_lost(self, work: Work, why: str) -> None:
        """Record a lost launch in the store."""
        self._is_free(work)
        if work.launched is None:
            return
        launch = replace(work.launched.launch, error=f"{LOST}: {why}", ended_wall_s=self._clock.wall_s())
        work.launched.launch = launch
        self._store.finish_launch(work.launch_id, launch)
        self._timetable.add(launch, self._clock.monotonic_s() - work.began_s, work.launched.counted_s)
        work.launched = None

    def _remaining_s(self) -> float | None:
        return self._ahead.remaining_s(self._roster.at_work(), len(self._roster.in_use))

    def _outcome(self) -> StudyOutcome:
        interrupted = self._stop.requested() and not self._is_over
        return self._places.outcome(braked=self._braked, interrupted=interrupted, is_over=self._is_over)
