"""How a race in heats ends: limits, safety limits, a lost source, the windows alone, repeated windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pytest

from tuner.adapters.safety_limits import LimitsBrake
from tuner.adapters.virtual.box import Trouble, VirtualBox, VirtualClock
from tuner.adapters.virtual.memory import MemoryProgress, MemoryStore, PlannedStop
from tuner.core.domain.layout import Layout
from tuner.core.domain.safety_limits import BoxNow, BrakeLimits
from tuner.core.domain.strategy import Observed
from tuner.core.errors import SourceAway
from tuner.core.search.heat_race import HeatRace
from tuner.core.search.strategies.of_study import goal_of, strategy_of
from tuner.study.run import run_study
from tuner.study.strategy_driver import replay_study

from ..wording import wording
from .heat_studies import box_with_places, heat_study, measured

SMALL, BEST = Layout(1, 1), Layout(4, 1)
GIB = 1024**3


@pytest.mark.parametrize("kind", ["strict", "calibrated"])
def test_the_only_layout_that_limits_leave_is_measured_until_the_answer_is_known(kind: str) -> None:
    """A process needs 60 MB, so two of three layouts need too much, and no rival is left for a heat."""
    study = heat_study(kind=kind, layouts=(SMALL, Layout(2, 1), BEST), limits={"memory_bytes": 100e6})
    answer = replay_study(measured(study, box_with_places()), strategy_of(study)).claim().answer

    assert answer.reached
    assert answer.layout == SMALL


def test_an_answer_is_reached_only_after_the_windows_alone() -> None:
    whole = measured(heat_study(), box_with_places())
    launches = dict(whole.launches())
    cut = MemoryStore(whole.study())
    for number, launch in launches.items():
        if launch.heat is not None:
            cut.add_launch(launch)
            for window in whole.windows():
                if window.launch_id == number:
                    cut.add_window(number, whole.window(number, window.index, window.attempt))

    assert [one.heat for one in list(launches.values())[-2:]] == [None, None]
    assert [replay_study(one, strategy_of(one.study())).claim().answer.reached for one in (cut, whole)] == [
        False,
        True,
    ]


def test_windows_alone_count_for_limits() -> None:
    """In slices 4x1 needs 90 MB; alone, in longer windows, 110 MB: the limit is 100 MB."""
    study = heat_study(layouts=(SMALL, Layout(2, 1), BEST), limits={"memory_bytes": 100e6})
    strategy = HeatRace(goal_of(study), 1, 3)
    for block in range(12):
        strategy.learn(
            [seen(layout, value, 90e6, block, turns_s=block * 100.0) for layout, value in SPEEDS.items()]
        )
    before = strategy.verdicts()[BEST].state
    strategy.learn([seen(layout, SPEEDS[layout], 110e6, 12) for layout in (BEST, Layout(2, 1))])

    assert before == "within"
    assert strategy.verdicts()[BEST].state != "within"
    assert strategy.propose()


SPEEDS = {SMALL: 10.0, Layout(2, 1): 18.0, BEST: 30.0}


def seen(
    layout: Layout, value: float, pss_bytes: float, block: int, turns_s: float | None = None
) -> Observed:
    at_s = block * 100.0
    usage = {"memory_bytes": pss_bytes}
    value *= 1 + 0.002 * ((block * 7 + layout.processes) % 3)
    return Observed(
        layout, value, 10 * block + layout.processes, at_s, at_s, 20.0, usage=usage, turns_s=turns_s
    )


def test_after_a_safety_limit_no_layout_of_the_heat_is_started() -> None:
    clock, progress = VirtualClock(), MemoryProgress()
    store = MemoryStore(heat_study())
    over_s = clock.monotonic_s() + 3.0
    brake = LimitsBrake(
        clock,
        BrakeLimits(memory_ratio=0.9),
        leaves_out=False,
        look=lambda: BoxNow(0.0, (10 if clock.monotonic_s() > over_s else 1) * GIB, 10 * GIB),
        warn=progress.warning,
    )
    box = replace(box_with_places(clock=clock), brake=brake)
    outcome = run_study(box, store, progress, PlannedStop(), strategy_of(store.study()))

    assert outcome.braked
    assert len(store.launches()) == 1


def test_a_source_that_stays_away_is_waited_for_once() -> None:
    clock, progress = VirtualClock(), MemoryProgress()
    store = MemoryStore(heat_study())
    began_s = clock.monotonic_s()

    class Away(VirtualBox):
        """Its source goes away while layouts warm up, and stays away."""

        @property
        def is_gone(self) -> bool:
            return self.clock.monotonic_s() > began_s + 3

        @contextmanager
        def feeding(self, layout: Layout) -> Iterator[None]:
            with super().feeding(layout):
                yield
            if self.is_gone:
                raise SourceAway("the broker went away")

        def is_dry(self) -> bool:
            return self.is_gone

        def away(self) -> str:
            return "the broker does not answer" if self.is_gone else ""

    outcome = run_study(
        box_with_places(clock=clock, kind=Away), store, progress, PlannedStop(), strategy_of(store.study())
    )

    assert outcome.exit_code == 3
    assert sum(wording("launch.source-gives-up") in text for _, text in progress.warnings) == 1
    assert clock.monotonic_s() - began_s < 700


def test_a_window_that_was_repeated_alone_is_not_compared_with_the_others() -> None:
    class Seen(HeatRace):
        """Keeps the windows of the first block."""

        first: Sequence[Observed] = ()

        def learn(self, windows: Sequence[Observed], failed: Sequence[Layout] = ()) -> None:
            self.first = self.first or windows
            super().learn(windows, failed)

    study = heat_study()
    strategy = Seen(replace(goal_of(study), kind="strict"), 1, 3)
    trouble = Trouble("wrong-threads", layout=Layout(2, 2), block=0, attempt=1)
    run_study(
        box_with_places(troubles=(trouble,)), MemoryStore(study), MemoryProgress(), PlannedStop(), strategy
    )
    times = {one.layout: one.turns_s for one in strategy.first}
    of_heat = [layout for layout, at_s in times.items() if at_s == times[Layout(2, 2)]]

    assert of_heat == [Layout(2, 2)]
    assert len(set(times.values())) < len(times)
