"""Studies that a limit of the user's stops, on the virtual box."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from tuner.adapters.processes.repeated_command import RepeatedCommand
from tuner.adapters.safety_limits import LimitsBrake
from tuner.adapters.virtual.box import VirtualBox, VirtualClock, VirtualService, virtual_study
from tuner.adapters.virtual.launch import RunningLayout
from tuner.adapters.virtual.memory import MemoryProgress, MemoryStore, PlannedStop
from tuner.core.domain.layout import Layout
from tuner.core.domain.records import WARMING_BLOCK
from tuner.core.domain.safety_limits import BoxNow, BrakeLimits
from tuner.core.errors import MeasurementError
from tuner.core.ranking.ranking import rank
from tuner.core.search.strategies.of_study import strategy_of
from tuner.ports import BrakeWatch
from tuner.study.launch.outcome import StudyOutcome
from tuner.study.run import run_study
from tuner.study.strategy_driver import replay_study

from ..wording import end_of, wording

A, B, C = Layout(1, 4), Layout(2, 2), Layout(4, 1)
SERVICE = VirtualService({A: 10.0, B: 20.0, C: 30.0})
SHORT: dict[str, Any] = {"window_s": 30.0, "warmup_s": 5.0, "n_blocks": 3, "warms_cache": False}
GIB = 1024**3


class Eaten(VirtualBox):
    """Knows how long what runs has run, and what was told to its hooks."""

    def __init__(self, *args: Any, failing_stop: bool = False, **named: Any) -> None:
        super().__init__(*args, **named)
        self.events: list[tuple[str, dict[str, str]]] = []
        self.failing_stop = failing_stop

    def run(self, event: str, facts: Mapping[str, str]) -> None:
        super().run(event, facts)
        self.events.append((event, dict(facts)))

    @contextmanager
    def running(self, layout: Layout, environment: Mapping[str, str]) -> Iterator[RunningLayout]:
        with super().running(layout, environment) as running:
            try:
                yield running
            except MeasurementError:
                if self.failing_stop:
                    raise MeasurementError("it would not stop") from None
                raise

    def running_layout(self) -> tuple[Layout, float, int] | None:
        """What runs, for how long, in which block."""
        running = self._running
        if running is None:
            return None
        return running.layout, self.clock.monotonic_s() - running._began_s, self._try.block


Uses = Callable[["Eaten"], float]  #: GiB of the 10 there are


class Ran:
    """A study with a brake at 9 GiB that has run, or has gone on in *store*."""

    def __init__(
        self,
        uses: Uses,
        *,
        leaves_out: bool = False,
        store: MemoryStore | None = None,
        failing_stop: bool = False,
        **asked: Any,
    ) -> None:
        self.store = store or MemoryStore(virtual_study(SERVICE, **{**SHORT, **asked}))
        self.progress = MemoryProgress()
        self.clock = VirtualClock.resumed(self.store)
        self.box = Eaten(SERVICE, seed=5, cores=4, clock=self.clock, failing_stop=failing_stop)
        brake = LimitsBrake(
            self.clock,
            BrakeLimits(memory_ratio=0.9),
            leaves_out=leaves_out,
            look=lambda: BoxNow(0.0, int(uses(self.box) * GIB), 10 * GIB),
            warn=self.progress.warning,
        )
        self.strategy = strategy_of(self.store.study())
        self.outcome: StudyOutcome = run_study(
            replace(self.box.box(), brake=brake), self.store, self.progress, PlannedStop(), self.strategy
        )

    @property
    def slugs(self) -> list[str]:
        return [slug for slug, _ in self.progress.warnings]

    def errors(self) -> list[tuple[Layout, str]]:
        return [(launch.layout, launch.error) for _, launch in self.store.launches() if launch.error]


def eats(layout: Layout, after_s: float, block: int | None = None) -> Uses:
    def uses(box: Eaten) -> float:
        running = box.running_layout()
        if running is None or running[0] != layout or block not in (None, running[2]):
            return 2.0
        return 9.5 if running[1] >= after_s else 2.0

    return uses


SAID = wording("brake.memory-over")


def test_nothing_happens_while_nothing_is_over() -> None:
    ran = Ran(lambda _: 8.9)

    assert (ran.outcome.exit_code, ran.outcome.n_windows, ran.slugs) == (0, 9, [])


def test_the_window_ends_at_once_and_the_study_with_it_all_hooks_run() -> None:
    ran = Ran(eats(B, after_s=15.0, block=1))

    void = [window for window in ran.store.windows() if window.void]
    assert [(window.layout, window.block, window.length_s) for window in void] == [(B, 1, 10.0)]
    assert [(reason.slug, reason.detail) for reason in void[0].void] == [("braked", SAID)]
    assert ran.errors() == [(B, wording("brake.braked-in-window", said=SAID))]
    assert ran.progress.warnings == [("braked", wording("launch.brake-stopped-and-study-stops", said=SAID))]
    assert [event for event, _ in ran.box.events[-4:]] == [
        "after_window",
        "after_launch",
        "after_study",
        "finished",
    ]
    assert ran.box.events[-1][1]["exit_code"] == "6"
    assert [facts["brake"] for _, facts in ran.box.events[-2:]] == [f"in window 1: {SAID}"] * 2
    assert (ran.outcome.exit_code, ran.outcome.is_over) == (6, False)
    assert all(launch.ended_wall_s is not None for _, launch in ran.store.launches())


def test_it_looks_while_a_launch_warms_up_too() -> None:
    ran = Ran(eats(B, after_s=2.0))

    assert ran.errors() == [(B, wording("brake.braked-while-warmed-up", said=SAID))]
    assert not [window for window in ran.store.windows() if window.void]


def test_it_looks_at_the_launch_that_warms_the_cache() -> None:
    ran = Ran(lambda box: 9.5 if box.running_layout() else 2.0, warms_cache=True)

    assert [launch.block for _, launch in ran.store.launches()] == [WARMING_BLOCK]
    assert ran.outcome.exit_code == 3


def test_a_layout_that_passes_a_limit_while_it_warms_the_cache_is_not_started_again() -> None:
    ran = Ran(
        lambda box: 9.5 if (box.running_layout() or [C])[0] != C else 2.0, leaves_out=True, warms_cache=True
    )

    warmed = ran.store.launches()[0][1]
    tried = [launch.layout for _, launch in ran.store.launches()]
    assert warmed.block == WARMING_BLOCK
    assert (tried.count(warmed.layout), set(tried)) == (1 if warmed.layout != C else 4, {A, B, C})
    assert set(ran.outcome.left_out) == {A, B}
    again = Ran(lambda _: 2.0, leaves_out=True, store=ran.store)
    assert set(again.outcome.left_out) == {A, B}
    assert len(again.store.launches()) == len(tried)


def test_a_study_that_was_stopped_continues_and_nobody_is_blamed() -> None:
    stopped = Ran(eats(B, after_s=15.0, block=1))
    for _ in range(5):
        again = Ran(eats(B, after_s=15.0, block=1), store=stopped.store)
        assert again.outcome.exit_code == 6
    resumed = Ran(lambda _: 2.0, store=stopped.store)

    assert (resumed.outcome.exit_code, resumed.outcome.n_windows) == (0, 9)
    assert resumed.outcome.n_launches_failed == 0
    assert "chosen-otherwise" not in resumed.slugs


def test_a_brake_is_not_lost_when_stopping_goes_wrong_too() -> None:
    assert Ran(eats(B, after_s=2.0, block=1), failing_stop=True).outcome.exit_code == 6


@pytest.mark.parametrize("block", [0, 1])
def test_a_layout_that_is_over_is_left_out_and_the_others_are_measured(block: int) -> None:
    ran = Ran(eats(B, after_s=15.0, block=block), leaves_out=True)

    assert ran.errors() == [(B, wording("brake.over-limit-in-window", said=SAID))]
    assert ran.progress.warnings == [("over-limit", wording("launch.brake-left-out", said=SAID))]
    assert ran.outcome.left_out == (B,)
    assert ran.outcome.n_windows == 6 + block
    assert (ran.outcome.exit_code, ran.outcome.is_over) == (5, True)


def test_a_layout_that_is_left_out_is_not_ranked_though_it_has_windows() -> None:
    ran = Ran(eats(C, after_s=15.0, block=1), leaves_out=True)

    launches = [launch for _, launch in ran.store.launches()]
    ranking = rank(ran.store.study(), ran.store.windows(), launches=launches)
    rows = {row.layout: row for row in ranking.rows}
    assert rows[C].rank is None
    assert rows[C].reason == wording("brake.left-out-in-window", said=SAID)
    assert rows[C].n_windows == 1
    assert {rows[A].rank, rows[B].rank} == {1, 2}


@pytest.mark.parametrize("strategy", ["all", "race"])
def test_what_was_left_out_stays_so_in_a_study_that_continues_and_in_what_is_recalled(strategy: str) -> None:
    asked = {"strategy": strategy, "n_blocks": 3 if strategy == "all" else 0}
    whole = Ran(eats(C, after_s=15.0, block=1), leaves_out=True, **asked)
    again = Ran(lambda _: 2.0, leaves_out=True, store=whole.store)

    assert again.outcome.left_out == (C,)
    assert again.progress.launches == []
    known = replay_study(whole.store, strategy_of(whole.store.study()))
    assert known.failed == (C,)
    assert known.otherwise == ()
    assert known.strategy.answer().layout != C


def test_a_box_that_stays_over_with_nothing_running_stops_the_study() -> None:
    seen: list[Layout] = []

    def others(box: Eaten) -> float:
        running = box.running_layout()
        if running is not None:
            seen.append(running[0])
        return 9.5 if len(set(seen)) == 2 else 2.0

    ran = Ran(others, leaves_out=True)

    assert ran.outcome.left_out == ()
    assert ran.outcome.exit_code == 6
    (waiting, _), (slug, text) = ran.progress.warnings
    assert (waiting, slug) == ("still-over", "braked")
    assert wording("launch.too-much-with-nothing-running", said=SAID) in end_of(text)


def test_nothing_is_started_on_a_box_that_is_over_already() -> None:
    ran = Ran(lambda _: 9.5)

    assert list(ran.store.launches()) == []
    assert ran.progress.warnings[0][0] == "still-over"
    assert ran.progress.warnings[1:] == [("braked", wording("brake.no-layout-is-started", said=SAID))]
    assert [event for event, _ in ran.box.events] == ["before_study", "after_study", "finished"]
    assert ran.box.events[-1][1]["exit_code"] == "3"


def test_a_study_that_is_over_asks_no_brake() -> None:
    whole = Ran(lambda _: 2.0)

    assert Ran(lambda _: 9.5, store=whole.store).outcome.exit_code == 0


def test_a_load_of_others_is_not_taken_for_the_layouts() -> None:
    clock_of: list[VirtualClock] = []

    def look() -> BoxNow:
        at_s = clock_of[0].monotonic_s() - 1000.0
        if at_s < 60:
            return BoxNow(1.0, GIB, 10 * GIB)
        return BoxNow(20.0 + (at_s // 5 % 2) / 10, GIB, 10 * GIB)  # it wavers, as load averages do

    store, progress = MemoryStore(virtual_study(SERVICE, **SHORT)), MemoryProgress()
    box = Eaten(SERVICE, seed=5, cores=4, clock=VirtualClock.resumed(store))
    clock_of.append(box.clock)
    brake = LimitsBrake(box.clock, BrakeLimits(load=10.0), leaves_out=True, look=look, warn=progress.warning)
    outcome = run_study(
        replace(box.box(), brake=brake), store, progress, PlannedStop(), strategy_of(store.study())
    )

    assert (outcome.left_out, outcome.exit_code) == ((), 6)
    assert wording("launch.load-with-nothing-running") in progress.warnings[-1][1]


def test_a_box_that_needs_a_while_to_recover_is_given_it() -> None:
    stopped_s: list[float] = []

    def slowly(box: Eaten) -> float:
        running, now_s = box.running_layout(), box.clock.monotonic_s()
        if running is not None and running[0] == B:
            stopped_s.append(now_s)
            return 9.5
        return 9.5 if stopped_s and now_s < stopped_s[-1] + 30 else 2.0

    ran = Ran(slowly, leaves_out=True)

    assert ran.outcome.left_out == (B,)
    assert ran.outcome.n_windows == 6


def over_for_ever(clock: VirtualClock, command: RepeatedCommand | None = None) -> LimitsBrake:
    used = 2 if command is not None else 10
    return LimitsBrake(
        clock,
        BrakeLimits(memory_ratio=0.9),
        leaves_out=False,
        look=lambda: BoxNow(0.0, used * GIB, 10 * GIB),
        warn=MemoryProgress().warning,
        command=command,
    )


def test_nobody_waits_for_the_box_once_the_study_is_to_stop() -> None:
    clock = VirtualClock()
    began_s = clock.monotonic_s()

    still = over_for_ever(clock).still_over({}, lambda: clock.monotonic_s() > began_s + 3)

    assert still is not None
    assert clock.monotonic_s() - began_s < 10
    store, progress = MemoryStore(virtual_study(SERVICE, **SHORT)), MemoryProgress()
    box = Eaten(SERVICE, seed=5, cores=4, clock=VirtualClock.resumed(store))
    stop = PlannedStop(lambda: True)
    outcome = run_study(
        replace(box.box(), brake=over_for_ever(box.clock)), store, progress, stop, strategy_of(store.study())
    )
    assert (outcome.interrupted, outcome.braked, progress.warnings) == (True, None, [])


def test_a_command_that_takes_longer_than_the_box_has_to_recover_is_waited_for() -> None:
    """A minute of the clock passes in no time here, and the command takes its time."""
    clock = VirtualClock()
    slow = RepeatedCommand(clock, ["sh", "-c", "sleep 0.3"], 1e9, 1e9)

    assert over_for_ever(clock, slow).still_over({}, lambda: False) is None
    assert clock.monotonic_s() > 60


def test_the_port_is_kept() -> None:
    brake = LimitsBrake(
        VirtualClock(),
        BrakeLimits(),
        leaves_out=False,
        look=lambda: BoxNow(0.0, GIB, 10 * GIB),
        warn=MemoryProgress().warning,
    )

    with brake.watching({}) as watch:
        kept: BrakeWatch = watch
        assert kept.passed(None) is None
