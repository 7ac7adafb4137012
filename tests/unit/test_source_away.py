"""A source that goes away in the middle of a study (a broker that is restarted), on a virtual box."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from math import inf
from typing import Any

import pytest

from tuner.adapters.virtual.box import Noise, VirtualBox, VirtualClock, VirtualService, virtual_study
from tuner.adapters.virtual.memory import MemoryProgress, MemoryStore, PlannedStop
from tuner.core.domain.layout import Layout
from tuner.core.errors import SourceAway
from tuner.core.search.strategies.of_study import strategy_of
from tuner.ports import Feeder
from tuner.study.launch.outcome import AWAY, LONGEST_WAIT_S, MOST_LOST, StudyOutcome
from tuner.study.run import run_study

from ..wording import wording

A, B = Layout(1, 4), Layout(2, 2)
SERVICE = VirtualService({A: 10.0, B: 20.0})


class LeavingFeeder:
    """The feeder of a virtual box, whose source is away between two moments of the box's clock."""

    def __init__(self, virtual: VirtualBox, from_s: float, to_s: float) -> None:
        self._virtual, self._from_s, self._to_s = virtual, from_s, to_s
        self.asked_s: list[float] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._virtual, name)

    @property
    def _is_gone(self) -> bool:
        return self._from_s <= self._virtual.clock.monotonic_s() < self._to_s

    @contextmanager
    def feeding(self, layout: Layout) -> Iterator[None]:
        if self._is_gone:
            raise SourceAway("the broker does not answer")
        began_s = self._virtual.clock.monotonic_s()
        yield
        if began_s < self._from_s <= self._virtual.clock.monotonic_s():
            raise SourceAway("the broker went away")

    def is_dry(self) -> bool:
        return self._is_gone

    def away(self) -> str:
        self.asked_s.append(self._virtual.clock.monotonic_s())
        return "the broker does not answer" if self._is_gone else ""


class Ran:
    """A study whose source goes away, and all that it left."""

    def __init__(self, from_s: float, to_s: float, store: MemoryStore | None = None) -> None:
        self.store = store or MemoryStore(
            virtual_study(SERVICE, window_s=10.0, warmup_s=5.0, n_blocks=3, max_attempts=2)
        )
        self.progress = MemoryProgress()
        clock = VirtualClock.resumed(self.store)
        virtual = VirtualBox(SERVICE, Noise(), seed=5, cores=4, clock=clock)
        began_s = clock.monotonic_s()
        self.feeder = LeavingFeeder(virtual, began_s + from_s, began_s + to_s)
        feeder: Feeder = self.feeder
        box = replace(virtual.box(), feeder=feeder)
        strategy = strategy_of(self.store.study())
        self.outcome: StudyOutcome = run_study(
            box, self.store, self.progress, PlannedStop(lambda: False), strategy
        )

    @property
    def reported(self) -> list[str]:
        return [text for slug, text in self.progress.warnings if slug == AWAY]

    @property
    def lost(self) -> list[int]:
        """The attempts of launches that lost their source."""
        launches = [launch for _, launch in self.store.launches()]
        return [one.attempt for one in launches if one.error is not None and one.error.startswith(AWAY)]


def test_a_source_that_is_away_for_a_while_is_waited_for_and_nothing_is_missing() -> None:
    ran = Ran(50.0, 90.0)

    assert ran.outcome.exit_code == 0
    assert ran.outcome.n_windows == 6
    assert ran.outcome.void_cells == ran.outcome.left_out == ()
    assert ran.outcome.n_launches_failed == 0  # no fault of a layout
    assert ran.lost == [1]
    assert wording("launch.source-back") in ran.reported[-1]


def test_pauses_grow_between_questions() -> None:
    ran = Ran(50.0, 250.0)
    asked_s = ran.feeder.asked_s
    pauses_s = [later - earlier for earlier, later in pairwise(asked_s)]

    assert pauses_s == sorted(pauses_s)
    assert pauses_s[0] == pytest.approx(1.0)
    assert pauses_s[-1] == pytest.approx(15.0)
    assert len(ran.reported) <= 2 + 200 / 30  # not one line for each question


def test_a_source_that_stays_away_ends_the_study_and_a_resumed_one_retakes_what_was_lost() -> None:
    ended = Ran(50.0, inf)

    assert not ended.outcome.is_over
    assert ended.outcome.void_cells == ()  # still open, although so many attempts as are allowed were lost
    assert wording("launch.source-gives-up") in ended.reported[-1]
    assert ended.feeder.asked_s[-1] - ended.feeder.asked_s[0] >= LONGEST_WAIT_S

    resumed = Ran(inf, inf, ended.store)
    assert resumed.outcome.is_over
    assert resumed.outcome.exit_code == 0
    assert resumed.outcome.n_windows == 6
    assert resumed.outcome.void_cells == ()


def test_a_source_that_goes_away_at_every_launch_is_given_up() -> None:
    class Flapping(LeavingFeeder):
        @contextmanager
        def feeding(self, layout: Layout) -> Iterator[None]:
            yield
            raise SourceAway("the broker went away")

        def away(self) -> str:
            return ""

    store = MemoryStore(virtual_study(SERVICE, window_s=10.0, warmup_s=5.0, n_blocks=9, windows_per_launch=2))
    progress = MemoryProgress()
    virtual = VirtualBox(SERVICE, Noise(), seed=5, cores=4, clock=VirtualClock.resumed(store))
    box = replace(virtual.box(), feeder=Flapping(virtual, inf, inf))
    run_study(box, store, progress, PlannedStop(lambda: False), strategy_of(store.study()))

    assert len(store.launches()) == MOST_LOST
    assert wording("launch.source-gives-up") in [text for slug, text in progress.warnings if slug == AWAY][-1]
