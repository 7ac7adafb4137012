"""One launch: start, warm-up, windows, stop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from tuner.core.domain.layout import Layout
from tuner.core.domain.load import Pace
from tuner.core.domain.records import WARMING_BLOCK, LaunchRecord, StudyRecord
from tuner.core.domain.requests import uneven_ratio
from tuner.core.domain.safety_limits import BRAKED, OVER_LIMIT, Braked
from tuner.core.domain.window import Window
from tuner.core.errors import MeasurementError, shortage
from tuner.core.messages import Message
from tuner.core.messages import study as messages
from tuner.core.messages.launch import (
    launch_failed,
    launch_lost_its_source,
    nothing_counted,
    over_limit,
    several_interpreters,
)
from tuner.core.warmup import EarlierTransients
from tuner.core.warmup.report import CUT
from tuner.core.windows.layout_check import RanLayouts, refuse_wrong_layout
from tuner.core.windows.summary import mean_fixed_work_cpu_s, mean_or_none
from tuner.core.windows.validity import few_items_warning, mixed_items_warning
from tuner.ports import Box, Clock, Launch, LaunchLog, Progress, Stop, Watch
from tuner.study.launch.outcome import around_hooks, error_text, lost_source_reason
from tuner.study.launch.plan_cells import NO_END, Cell, Deadline, NotWanted, spoils_launch
from tuner.study.launch.watching import RunningLayout, Warmup

if TYPE_CHECKING:
    from tuner.study.launch.cross_check import SecondCounting

LONG_SILENCE_S = 5.0  #: least length of a warm-up without items that causes a warning


@dataclass(frozen=True, slots=True)
class Workbench:
    """The host, store and progress display with which a study makes its launches."""

    study: StudyRecord
    box: Box
    store: LaunchLog
    progress: Progress
    stop: Stop
    ran: RanLayouts | None = None  #: None: the caller checks whether layouts ran as requested
    #: receives the time that a launch took to stop, in seconds
    stopped: Callable[[float], None] = lambda _lasted_s: None
    said: set[str] = field(default_factory=set)  #: slugs of warnings that are printed only once
    #: transients of earlier launches; None: each warm-up is judged by its own launch alone
    earlier: EarlierTransients | None = None

    def make(
        self,
        launch: LaunchRecord,
        cell: Cell | None = None,
        window_taken: Callable[[Window, int], None] = lambda _window, _launch_id: None,
        deadline: Deadline = NO_END,
    ) -> LaunchRecord:
        """Make a launch and measure the windows that *cell* still needs; each is stored at once.

        Without a *cell* the launch only warms up. *window_taken* gets the window and its launch's id.
        Returns once the cell is done, the launch failed, was spoilt or was stopped by a safety limit (see its
        ``error``), a stop is requested, or no window fits before the *deadline*.

        Only a MeasurementError or a lack of processes, files or memory fails the launch. After any other
        error it has no end in the store, like a launch that was cut off.
        """
        ending = _Ending(self.box.clock, self.stop, deadline, cell)
        window_s = self.study.window_s if cell is None else cell.window_s
        clock, left_at_s = self.box.clock, None
        launch = replace(launch, idle_fixed_work_cpu_s=self.box.sampler.idle_fixed_work_cpu_s())
        launch_id = self.store.add_launch(launch)
        facts = _facts(self.study, launch)
        fixed_work_cpu_s: list[float | None] = []  #: CPU time of the fixed work in each valid window
        try:
            with ExitStack() as stack:
                stack.enter_context(self.between("launch", facts))
                brake = None
                if self.box.brake is not None:
                    brake = stack.enter_context(self.box.brake.watching(facts))
                counting = stack.enter_context(self.box.probe.counting(launch.layout))
                second, for_second = self._cross_check(launch.layout, stack)
                stack.enter_context(self.box.feeder.feeding(launch.layout))
                stack.enter_context(self._given_up_while_starting(ending))
                running = self.box.launcher.running(launch.layout, {**counting.environment, **for_second})
                live = stack.enter_context(running)
                stack.callback(self.box.feeder.rest)  # before the service is stopped
                launch = replace(launch, running_after_s=live.running_after_s)
                own_pids = self.box.feeder.pids() | counting.pids()
                if second is not None:
                    own_pids |= second.pids()
                watch = stack.enter_context(self.box.sampler.watching(live, own_pids))
                pace = None if cell is None else self.box.feeder.pace
                cap_s = min(self.study.warmup_cap_s, ending.warmup_s(pace))
                asked = replace(self.study, window_s=window_s, warmup_cap_s=cap_s)  # for this launch
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
                    earlier=self.earlier,
                    in_slices=launch.heat is not None,
                    report=self._warmup_reporter(launch.layout),
                )
                warmup = self._warm_up(layout, launch_id, ending)
                if pace is not None:
                    warmup = self._warm_up_at(layout, launch_id, pace, warmup, ending)
                launch = replace(launch, warmup_s=warmup.lasted_s, settled=warmup.settled)
                try:
                    if cell is not None:
                        taken = partial(_pass_window, window_taken, fixed_work_cpu_s)
                        self._take_windows(layout, launch_id, launch, cell, taken, ending)
                finally:  # also of a launch that was spoilt
                    launch = self._with_gil(launch, live, watch)
                    launch = replace(
                        launch,
                        fixed_work_cpu_s=mean_or_none(fixed_work_cpu_s),
                        noise_of_second_ratio=self.box.noise_of_second(),
                        counted_ratio=self.box.counted_ratio(),
                    )
                    left_at_s = clock.monotonic_s()
                launch = layout.judged(launch)
                if warmup.settled is False and cap_s < self.study.warmup_cap_s:
                    launch = replace(launch, settled=False, unsettled=_describe_cut(launch))
        except NotWanted:
            pass
        except MeasurementError as error:
            if braked := _brake_behind(error):
                launch = replace(launch, error=self._brake_error(braked, launch, facts))
            else:
                launch = self._with_error(launch, error_text(error))
        except (OSError, RuntimeError, MemoryError) as error:
            if (lacking := shortage(error)) is None:
                raise
            launch = self._with_error(launch, f"{launch.layout}: {lacking[0]}")
        if left_at_s is not None:
            self.stopped(clock.monotonic_s() - left_at_s)
        launch = replace(launch, ended_wall_s=clock.wall_s())
        self.store.finish_launch(launch_id, launch)
        if cell is not None and launch.error is None and not cell.is_done and not self.stop.requested():
            self.progress.warning(*messages.no_time_for_window(launch.layout))
        return launch

    def between(self, what: str, facts: Mapping[str, str]) -> AbstractContextManager[None]:
        """Run the hooks before and after *what*."""
        return around_hooks(self.box.hooks, self.progress.warning, what, facts)

    def _take_windows(
        self,
        running: RunningLayout,
        launch_id: int,
        launch: LaunchRecord,
        cell: Cell,
        window_taken: Callable[[Window, int], None],
        ending: _Ending,
    ) -> None:
        """Measure the windows that *cell* still needs, in a launch in steady state."""
        while (index := cell.next_index) is not None and not ending.is_due():
            attempt = cell.tries[index] + 1
            facts = {**_facts(self.study, launch), "window": str(index), "window_attempt": str(attempt)}
            with self.between("window", facts):
                if ending.is_due():  # a stop was requested while the launch waited for its turn
                    return
                window = running.take_window(index, attempt, self._sample_reporter(cell))
                if head := running.unkept_warmup():  # the window had begun before steady state
                    self.store.add_warmup(launch_id, head)
                if self.ran is not None:
                    window = self.ran.judged(window)
                self.store.add_window(launch_id, window)
            window_taken(window, launch_id)
            refuse_wrong_layout(window)
            self._warn_of_uneven_connections(window)
            if launch.block != WARMING_BLOCK:  # windows before the first block are always short
                self._warn_of_items(window)
            if passed := [reason.detail for reason in window.void if reason.slug == BRAKED]:
                raise Braked(f"in window {index + 1}: {passed[0]}")
            if spoils_launch(window):
                seen = "; ".join(f"{reason.slug}: {reason.detail}" for reason in window.void)
                raise MeasurementError(f"{launch.layout} in window {index + 1}: {seen}")
            is_dry = any(reason.slug == "source-dry" for reason in window.void)
            if is_dry and not cell.is_done:
                # the launch has left steady state, and the source may fill meanwhile
                self._warm_up(running, launch_id, ending)

    @contextmanager
    def _given_up_while_starting(self, ending: _Ending) -> Iterator[None]:
        """End a launch that is no longer wanted before it is ready."""

        def check() -> None:
            if ending.is_due():
                raise NotWanted("it is not wanted any more")

        self.box.while_starting.check = check
        try:
            yield
        finally:
            self.box.while_starting.check = lambda: None

    def _with_gil(self, launch: LaunchRecord, live: Launch, watch: Watch) -> LaunchRecord:
        """Return *launch* with the GIL state of its workers."""
        if (n := watch.n_interpreters()) > 1:
            self._warn_once(several_interpreters(launch.layout, n))
        has_gil = watch.has_gil()
        return replace(launch, has_gil=has_gil, gil_module=live.gil_module() if has_gil else None)

    def _warn_of_uneven_connections(self, window: Window) -> None:
        requests = window.requests
        if requests is None or requests.rate_per_s is not None:
            return  # with a fixed rate, threads have no request because none is due
        spread = requests.spread
        starved = None if spread is None else uneven_ratio(spread, window.layout.total_threads)
        if spread is not None and starved is not None:
            from tuner.core.messages.service import connections_uneven

            held = spread.per_worker
            self.progress.warning(
                *connections_uneven(window.layout, window.index + 1, held[-1], held[0], starved)
            )

    def _warn_of_items(self, window: Window) -> None:
        if window.void:
            return
        for message in (few_items_warning(window), mixed_items_warning(window)):
            if message is not None:
                self._warn_once(message)

    def _warn_once(self, message: Message) -> None:
        """Print a warning that holds for all launches of the service, once per session."""
        if message.slug not in self.said:
            self.said.add(message.slug)
            self.progress.warning(*message)

    def _with_error(self, launch: LaunchRecord, problem: str) -> LaunchRecord:
        launch = replace(launch, error=problem)
        if (lost := lost_source_reason(launch)) is not None:
            self.progress.warning(*launch_lost_its_source(lost))
        else:
            self.progress.warning(*launch_failed(problem, launch.attempt, self.study.max_attempts))
        return launch

    def _cross_check(
        self, layout: Layout, stack: ExitStack
    ) -> tuple[SecondCounting | None, Mapping[str, str]]:
        """Open the second probe until *stack* closes; return it and its environment for the workers."""
        check = self.box.cross_check
        if check is None:
            return None, {}
        from tuner.study.launch.cross_check import SecondCounting

        counting = stack.enter_context(check.probe.counting(layout))
        return SecondCounting(counting, check, self.progress.warning), counting.environment

    def _brake_error(self, braked: Braked, launch: LaunchRecord, facts: Mapping[str, str]) -> str:
        """Return the error text of a launch that a safety limit stopped; call it after the launch has ended.

        A layout is left out only if the host recovers without it; else all other layouts would be left out
        too.
        """
        brake, passed = self.box.brake, braked.problem
        assert brake is not None
        still = brake.still_over(facts, self.stop.requested) if brake.leaves_out else None
        if brake.leaves_out and not still:
            self.progress.warning(*over_limit(launch.layout, passed))
            return f"{OVER_LIMIT}: {passed}"
        why = f"; although no layout runs, {still}" if still else ""
        self.progress.warning(*messages.braked(launch.layout, passed, still))
        return f"{BRAKED}: {passed}{why}"

    def _warm_up(self, running: RunningLayout, launch_id: int, ending: _Ending) -> Warmup:
        layout = running.layout
        warmup = running.warm_up(self._warmup_reporter(layout), ending.is_due, ending.warmup_s())
        self.store.add_warmup(launch_id, running.unkept_warmup())
        if not warmup.counted and warmup.lasted_s >= LONG_SILENCE_S and not self.stop.requested():
            clue = running.launch.clue() if self.box.feeder.requests() is None else ""
            self.progress.warning(*nothing_counted(layout, warmup.lasted_s, warmup.problem, clue))
        return warmup

    def _warm_up_at(
        self, running: RunningLayout, launch_id: int, pace: Pace, before: Warmup, ending: _Ending
    ) -> Warmup:
        """Change to the rate of the windows, and warm up again; return both warm-ups as one."""
        if ending.is_due():
            return before
        from tuner.study.launch.rate_search import find_rate

        began_s = self.box.clock.monotonic_s()
        find_rate(running, pace, ending.is_due)
        if ending.is_due():
            return before
        searched_s = self.box.clock.monotonic_s() - began_s
        warmup = self._warm_up(running, launch_id, ending)
        return replace(warmup, lasted_s=before.lasted_s + searched_s + warmup.lasted_s)

    def _warmup_reporter(self, layout: Layout) -> Callable[[float, float | None], None]:
        return lambda elapsed_s, items_per_s: self.progress.warming_up(layout, elapsed_s, items_per_s)

    def _sample_reporter(self, cell: Cell) -> Callable[..., None]:
        layout, window_s = cell.layout, cell.window_s
        sampled = self.progress.sampled
        return lambda elapsed_s, sample, rate: sampled(layout, elapsed_s, window_s, sample, rate)


@dataclass(slots=True)
class _Ending:
    """The end of a launch: a stop is requested, or no further window fits before the deadline."""

    clock: Clock
    stop: Stop
    deadline: Deadline
    cell: Cell | None = None  #: cell that the windows belong to; None: windows are discarded

    def is_due(self) -> bool:
        window_s = 0.0 if self.cell is None else self.cell.window_s
        return self.stop.requested() or not self.deadline.has_room(self.clock.monotonic_s(), window_s)

    def warmup_s(self, pace: Pace | None = None) -> float:
        """Return the longest warm-up, in seconds from now, after which the windows still fit.

        With a *pace*, a rate search and a second warm-up follow the first.
        """
        windows_s = 0.0 if self.cell is None else self.cell.rest.n_windows * self.cell.window_s
        room_s = self.deadline.warmup_s(self.clock.monotonic_s(), windows_s)
        if pace is None:
            return room_s
        from tuner.study.launch.rate_search import usual_search_s

        return max(0.0, (room_s - usual_search_s(pace)) / 2)


def _pass_window(
    window_taken: Callable[[Window, int], None],
    fixed_work_cpu_s: list[float | None],
    window: Window,
    launch_id: int,
) -> None:
    """Pass on a window, and record the CPU time of its fixed work if the window is valid."""
    if not window.void:
        fixed_work_cpu_s.append(mean_fixed_work_cpu_s(window))
    window_taken(window, launch_id)


def _describe_cut(launch: LaunchRecord) -> str:
    return f"{CUT}: its warm-up was ended after {launch.warmup_s or 0:.0f} s for want of time"


def _brake_behind(error: BaseException) -> Braked | None:
    """Return the Braked error that *error* is or replaced (a stop may fail too); None: there is none."""
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, Braked):
        seen = seen.__context__
    return seen


def _facts(study: StudyRecord, launch: LaunchRecord) -> dict[str, str]:
    layout = launch.layout
    in_turns = {} if launch.heat is None else {"heat": str(launch.heat)}
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
        **in_turns,
    }
