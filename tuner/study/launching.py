"""One launch of one cell: started, warmed up, its windows taken and kept, stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace

from tuner.core.brake import BRAKED, OVER_LIMIT, Braked
from tuner.core.connection_spread import uneven_told
from tuner.core.errors import MeasurementError
from tuner.core.few_items import few_items_told, mixed_items_told
from tuner.core.layout import Layout
from tuner.core.pace import Pace
from tuner.core.ran import RanLayouts, refuse_alike
from tuner.core.records import WARMING_BLOCK, LaunchRecord, StudyRecord
from tuner.core.shortage import shortage
from tuner.core.warmup.by_chance import CUT
from tuner.core.window import Window
from tuner.ports import Box, Clock, Launch, LaunchLog, Progress, Stop, Watch
from tuner.study.around import between
from tuner.study.cells import Cell, spoils_launch
from tuner.study.deadline import NO_END, Deadline, NotWanted
from tuner.study.pacing import find_rate, usual_search_s
from tuner.study.second_probe import SecondCounting
from tuner.study.source_away import error_text, lost_source
from tuner.study.watching import RunningLayout, Warmup

LONG_SILENCE_S = 5.0  #: of a warm-up: without an item so long, worth a word before the window is waited for


@dataclass(frozen=True, slots=True)
class Workbench:
    """Where a study's launches are made, and who is told."""

    study: StudyRecord
    box: Box
    store: LaunchLog
    progress: Progress
    stop: Stop
    ran: RanLayouts | None = None  #: None: somebody else looks whether layouts ran as they were asked for
    #: gets how long it took until a launch was gone
    stopped: Callable[[float], None] = lambda _lasted_s: None
    said: set[str] = field(default_factory=set)  #: slugs of warnings that are given once

    def discard(self, launch: LaunchRecord, deadline: Deadline = NO_END) -> LaunchRecord:
        """Make a launch that only warms up."""
        ending = _Ending(self.box.clock, self.stop, deadline)
        return self._made(
            launch, self.study.window_s, ending, lambda _running, _launch_id: None, is_paced=False
        )

    def measure(
        self,
        launch: LaunchRecord,
        cell: Cell,
        window_taken: Callable[[Window, int], None],
        deadline: Deadline = NO_END,
    ) -> LaunchRecord:
        """Make a launch and take the windows that *cell* still needs, each in the store once it is taken.

        *window_taken* gets the window and its launch's id. Returns with the cell done, the launch failed,
        spoilt or stopped by the brake (its ``error`` says so), a stop requested, or no room for a window
        before the *deadline*.
        """
        ending = _Ending(self.box.clock, self.stop, deadline, cell)

        def take_windows(running: RunningLayout, launch_id: int) -> None:
            while (index := cell.next_index) is not None and not ending.is_due():
                attempt = cell.tries[index] + 1
                facts = {**_facts(self.study, launch), "window": str(index), "window_attempt": str(attempt)}
                with self.between("window", facts):
                    window = running.take_window(index, attempt, self._sampled(cell))
                    if head := running.unkept_warmup():  # the window had begun before steady state
                        self.store.add_warmup(launch_id, head)
                    if self.ran is not None:
                        window = self.ran.judged(window)
                    self.store.add_window(launch_id, window)
                window_taken(window, launch_id)
                refuse_alike(window)
                self._warn_of_uneven_connections(window)
                if launch.block != WARMING_BLOCK:  # those windows are short, whatever the study's are
                    self._warn_of_items(window)
                if passed := [reason.detail for reason in window.void if reason.slug == BRAKED]:
                    raise Braked(f"in window {index + 1}: {passed[0]}")
                if spoils_launch(window):
                    seen = "; ".join(f"{reason.slug}: {reason.detail}" for reason in window.void)
                    raise MeasurementError(f"{launch.layout} in window {index + 1}: {seen}")
                is_dry = any(reason.slug == "source-dry" for reason in window.void)
                if is_dry and not cell.is_done:
                    # steady state is gone, and the source may fill meanwhile
                    self._warm_up(running, launch_id, ending)

        launch = self._made(launch, cell.window_s, ending, take_windows)
        if launch.error is None and not cell.is_done and not self.stop.requested():
            text = f"{launch.layout} was stopped: the budget has no room any more for its window"
            self.progress.warning("budget-short", text)
        return launch

    def between(self, what: str, facts: Mapping[str, str]) -> AbstractContextManager[None]:
        """Run the hooks before and after *what*."""
        return between(self.box.hooks, self.progress.warning, what, facts)

    def _made(
        self,
        launch: LaunchRecord,
        window_s: float,
        ending: _Ending,
        used: Callable[[RunningLayout, int], None],
        *,
        is_paced: bool = True,
    ) -> LaunchRecord:
        """Make *launch*, warm it up and use it; what became of it is in the store and returned.

        Only a MeasurementError, or what a layout can use up (processes, files), is the launch's own trouble;
        with any other error it stays without an end in the store, as one that was cut off.
        """
        clock, left_at_s = self.box.clock, None
        launch_id = self.store.add_launch(launch)
        facts = _facts(self.study, launch)
        try:
            with ExitStack() as stack:
                stack.enter_context(self.between("launch", facts))
                brake = None
                if self.box.brake is not None:
                    brake = stack.enter_context(self.box.brake.watching(facts))
                counting = stack.enter_context(self.box.probe.counting(launch.layout))
                second, told = self._cross_check(launch.layout, stack)
                stack.enter_context(self.box.feeder.feeding(launch.layout))
                stack.enter_context(self._given_up_while_starting(ending))
                running = self.box.launcher.running(launch.layout, {**counting.environment, **told})
                live = stack.enter_context(running)
                stack.callback(self.box.feeder.rest)  # before the service is stopped
                launch = replace(launch, running_after_s=live.running_after_s)
                own_pids = self.box.feeder.pids() | counting.pids()
                if second is not None:
                    own_pids |= second.pids()
                watch = stack.enter_context(self.box.sampler.watching(live, own_pids))
                pace = self.box.feeder.pace if is_paced else None
                cap_s = min(self.study.warmup_cap_s, ending.warmup_s(pace))
                asked = replace(self.study, window_s=window_s, warmup_cap_s=cap_s)  # as this launch has it
                feeder = self.box.feeder
                layout = RunningLayout(
                    launch.layout,
                    asked,
                    clock,
                    live,
                    counting,
                    watch,
                    feeder,
                    second=second,
                    brake=brake,
                    told=self._warming_told(launch.layout),
                )
                warmup = self._warm_up(layout, launch_id, ending)
                if pace is not None:
                    warmup = self._paced(layout, launch_id, pace, warmup, ending)
                launch = replace(launch, warmup_s=warmup.lasted_s, settled=warmup.settled)
                try:
                    used(layout, launch_id)
                finally:  # also of a launch that was spoilt
                    launch = self._with_gil(launch, live, watch)
                    left_at_s = clock.monotonic_s()
                launch = layout.judged(launch)
                if warmup.settled is False and cap_s < self.study.warmup_cap_s:
                    launch = replace(launch, settled=False, unsettled=_cut_told(launch))
        except NotWanted:
            pass
        except MeasurementError as error:
            if braked := _brake_behind(error):
                launch = replace(launch, error=self._told_of_brake(braked, launch, facts))
            else:
                launch = self._failed(launch, error_text(error))
        except (OSError, RuntimeError, MemoryError) as error:
            if (lacking := shortage(error)) is None:
                raise
            launch = self._failed(launch, f"{launch.layout}: {lacking[0]}")
        if left_at_s is not None:
            self.stopped(clock.monotonic_s() - left_at_s)
        launch = replace(launch, ended_wall_s=clock.wall_s())
        self.store.finish_launch(launch_id, launch)
        return launch

    @contextmanager
    def _given_up_while_starting(self, ending: _Ending) -> Iterator[None]:
        """Have a launch end that is not wanted any more before it is ready."""

        def check() -> None:
            if ending.is_due():
                raise NotWanted("it is not wanted any more")

        self.box.while_starting.check = check
        try:
            yield
        finally:
            self.box.while_starting.check = lambda: None

    def _with_gil(self, launch: LaunchRecord, live: Launch, watch: Watch) -> LaunchRecord:
        """*launch* with what was seen of the GIL of its workers."""
        if (n := watch.n_interpreters()) > 1:
            self._warn_once("several-interpreters", interpreters_told(launch.layout, n))
        has_gil = watch.has_gil()
        return replace(launch, has_gil=has_gil, gil_module=live.gil_module() if has_gil else None)

    def _warn_of_uneven_connections(self, window: Window) -> None:
        requests = window.requests
        if requests is None or requests.rate_per_s is not None:
            return  # at a rate threads have no request because none is due
        spread = requests.spread
        if spread is not None and (told := uneven_told(spread, window.layout.total_threads)) is not None:
            self.progress.warning(
                "connections-uneven", f"{window.layout} in window {window.index + 1}: {told}"
            )

    def _warn_of_items(self, window: Window) -> None:
        if window.void:
            return
        if (told := few_items_told(window)) is not None:
            self._warn_once("few-items", f"{window.layout}: {told}")
        if (told := mixed_items_told(window)) is not None:
            self._warn_once("mixed-items", f"{window.layout}: {told}")

    def _warn_once(self, slug: str, text: str) -> None:
        """Of what holds for all launches of the service: once in a session is enough."""
        if slug not in self.said:
            self.said.add(slug)
            self.progress.warning(slug, text)

    def _failed(self, launch: LaunchRecord, problem: str) -> LaunchRecord:
        launch = replace(launch, error=problem)
        which = f"attempt {launch.attempt} of {self.study.max_attempts}"
        if (lost := lost_source(launch)) is not None:
            problem, which = lost, "this attempt does not count"
        self.progress.warning("launch-failed", f"{problem} ({which})")
        return launch

    def _cross_check(
        self, layout: Layout, stack: ExitStack
    ) -> tuple[SecondCounting | None, Mapping[str, str]]:
        """The second probe as long as *stack*, and what it has to tell the workers."""
        check = self.box.cross_check
        if check is None:
            return None, {}
        counting = stack.enter_context(check.probe.counting(layout))
        return SecondCounting(counting, check, self.progress.warning), counting.environment

    def _told_of_brake(self, braked: Braked, launch: LaunchRecord, facts: Mapping[str, str]) -> str:
        """What the launch's record says of the brake that stopped it; the launch is gone by now.

        A layout is only blamed when the box recovers without it: else all the others would be left out too.
        """
        brake, passed = self.box.brake, braked.problem
        assert brake is not None
        stopped = f"a safety limit stopped {launch.layout} {passed}"
        still = brake.still_over(facts, self.stop.requested) if brake.leaves_out else None
        if brake.leaves_out and not still:
            self.progress.warning("over-limit", f"{stopped}; it is left out from now on")
            return f"{OVER_LIMIT}: {passed}"
        why = f"; and with nothing running, {still}" if still else ""
        self.progress.warning("braked", f"{stopped}{why}; the study stops here")
        return f"{BRAKED}: {passed}{why}"

    def _warm_up(self, running: RunningLayout, launch_id: int, ending: _Ending) -> Warmup:
        layout = running.layout
        warmup = running.warm_up(self._warming_told(layout), ending.is_due, ending.warmup_s())
        self.store.add_warmup(launch_id, running.unkept_warmup())
        if not warmup.counted and warmup.lasted_s >= LONG_SILENCE_S and not self.stop.requested():
            why = f": {warmup.problem}" if warmup.problem else ""
            if self.box.feeder.requests() is None and (clue := running.launch.clue()):
                why += f". {clue}"
            text = f"{layout} counted no item in {warmup.lasted_s:.0f} s of warm-up{why}"
            self.progress.warning("nothing-counted", text)
        return warmup

    def _paced(
        self, running: RunningLayout, launch_id: int, pace: Pace, before: Warmup, ending: _Ending
    ) -> Warmup:
        """Go over to the rate of the windows, which takes another warm-up; gives both as one."""
        if ending.is_due():
            return before
        began_s = self.box.clock.monotonic_s()
        find_rate(running, pace, ending.is_due)
        if ending.is_due():
            return before
        searched_s = self.box.clock.monotonic_s() - began_s
        warmup = self._warm_up(running, launch_id, ending)
        return replace(warmup, lasted_s=before.lasted_s + searched_s + warmup.lasted_s)

    def _warming_told(self, layout: Layout) -> Callable[[float, float | None], None]:
        return lambda elapsed_s, items_per_s: self.progress.warming_up(layout, elapsed_s, items_per_s)

    def _sampled(self, cell: Cell) -> Callable[..., None]:
        layout, window_s = cell.layout, cell.window_s
        sampled = self.progress.sampled
        return lambda elapsed_s, sample, rate: sampled(layout, elapsed_s, window_s, sample, rate)


@dataclass(slots=True)
class _Ending:
    """Whether a launch is to end: somebody wants it, or its budget has no room for a window any more."""

    clock: Clock
    stop: Stop
    deadline: Deadline
    cell: Cell | None = None  #: that it takes windows for; None: it is discarded

    def is_due(self) -> bool:
        window_s = 0.0 if self.cell is None else self.cell.window_s
        return self.stop.requested() or not self.deadline.has_room(self.clock.monotonic_s(), window_s)

    def warmup_s(self, pace: Pace | None = None) -> float:
        """How long it may warm up from now on, if its windows are to follow in time.

        With a *pace* that is to be found first, it warms up again after that.
        """
        windows_s = 0.0 if self.cell is None else self.cell.rest.n_windows * self.cell.window_s
        room_s = self.deadline.warmup_s(self.clock.monotonic_s(), windows_s)
        return room_s if pace is None else max(0.0, (room_s - usual_search_s(pace)) / 2)


def _cut_told(launch: LaunchRecord) -> str:
    return f"{CUT}: its warm-up was ended after {launch.warmup_s or 0:.0f} s for want of time"


def _brake_behind(error: BaseException) -> Braked | None:
    """The brake that *error* is, or that was on its way when *error* came: a stop may fail too."""
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, Braked):
        seen = seen.__context__
    return seen


def _facts(study: StudyRecord, launch: LaunchRecord) -> dict[str, str]:
    layout = launch.layout
    return {
        "service": study.service,
        "box": launch.box,
        "layout": str(layout),
        "processes": str(layout.processes),
        "threads": str(layout.threads),
        "variant": layout.variant,
        "block": str(launch.block),
        "position": str(launch.position),
        "attempt": str(launch.attempt),
    }


def interpreters_told(layout: Layout, n: int) -> str:
    """That worker processes have several GILs, which no figure of tuner's has."""
    return (
        f"{layout}: a worker process has {n} interpreters with a GIL each (subinterpreters); tuner does not"
        " support them: what it says of the GIL is of the first one"
    )
