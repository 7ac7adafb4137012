"""Warm-up and steady state in whole studies: what is counted follows a known course over each launch."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from statistics import fmean
from typing import Any

import pytest

from tuner.adapters.virtual.box import Noise, Trouble, VirtualBox, VirtualClock, VirtualService, virtual_study
from tuner.adapters.virtual.memory import MemoryProgress, MemoryStore, PlannedStop
from tuner.core.domain.layout import Layout
from tuner.core.domain.records import LaunchRecord
from tuner.core.domain.requests import Latencies, Requests
from tuner.core.domain.window import Reading, Sample
from tuner.core.search.strategies.of_study import strategy_of
from tuner.core.windows.summary import items_per_s
from tuner.study.run import run_study

from ..wording import start_of, wording

PER_S = 200.0
A = Layout(1, 4)
SERVICE = VirtualService({A: PER_S}, settle_s=0.0)
QUIET = Noise(0, 0, 0, 0, 0)
Course = Callable[[float], float]


class CourseProbe:
    """Counts what a service of a known course finishes, a share of it random."""

    environment: Mapping[str, str] = {}

    def __init__(self, clock: VirtualClock, course: Course, noise: float) -> None:
        self._clock, self._course, self._noise = clock, course, noise
        self._random = random.Random(1)
        self._began_s = self._until_s = self._n_done = 0.0

    @contextmanager
    def counting(self, layout: Layout) -> Iterator[CourseProbe]:
        self._began_s = self._until_s = self._clock.monotonic_s()
        self._n_done = 0.0
        yield self

    def pids(self) -> frozenset[int]:
        return frozenset()

    def read(self) -> Reading:
        now_s = self._clock.monotonic_s()
        elapsed_s = now_s - self._until_s
        if elapsed_s > 0:
            middle_s = (now_s + self._until_s) / 2 - self._began_s
            noise = self._noise / math.sqrt(elapsed_s) * self._random.gauss(0, 1)
            self._n_done += max(0.0, PER_S * elapsed_s * (self._course(middle_s) + noise))
            self._until_s = now_s
        return Reading(now_s, int(self._n_done), 0)


class TellingBox(VirtualBox):
    """Its feeder knows of a request for each item that the probe has counted."""

    course_probe: CourseProbe

    def requests(self) -> Requests:  # type: ignore[override]
        return Requests(Latencies({1000: self.course_probe.read().n_done_total}))


class Ran:
    """A study that has run on such a service."""

    def __init__(
        self, course: Course, *, noise: float = 0.05, troubles: tuple[Trouble, ...] = (), **asked: Any
    ) -> None:
        usual: dict[str, Any] = {"n_blocks": 1, "warms_cache": False, "window_s": 600.0}
        self.store = MemoryStore(virtual_study(SERVICE, **{**usual, **asked}))
        self.progress = MemoryProgress()
        clock = VirtualClock.resumed(self.store)
        virtual = TellingBox(SERVICE, QUIET, cores=4, clock=clock, troubles=troubles)
        virtual.course_probe = CourseProbe(clock, course, noise)
        box = replace(virtual.box(), probe=virtual.course_probe)
        strategy = strategy_of(self.store.study())
        run_study(box, self.store, self.progress, PlannedStop(), strategy)

    @property
    def launch(self) -> LaunchRecord:
        return self.store.launches()[0][1]

    @property
    def samples(self) -> list[Sample]:
        """Warm-up and windows of the first launch, in one row."""
        found = list(self.store.warmup_samples(1))
        for window in self.store.windows():
            found += self.store.samples(1, window.index, window.attempt)
        return found

    @property
    def slugs(self) -> list[str]:
        return [slug for slug, _ in self.progress.warnings]


def steady(_: float) -> float:
    return 1.0


def test_every_second_of_a_warm_up_is_kept() -> None:
    ran = Ran(lambda s: 1 - math.exp(-s / 20))
    warmup = ran.store.warmup_samples(1)

    assert len(warmup) == ran.launch.warmup_s + 1
    assert warmup[0].n_done_total < 0.1 * PER_S
    assert warmup[-1].n_done_total == ran.store.samples(1, 0, 1)[0].n_done_total
    assert items_per_s(warmup)[0] < 0.2 * PER_S < 0.9 * PER_S < items_per_s(warmup)[-1]


def test_a_service_that_warms_up_slowly_is_measured_in_its_steady_state() -> None:
    """Six time constants of a transient that lacks everything at first."""
    ran = Ran(lambda s: 1 - math.exp(-s / 25), noise=0.1)
    (window,) = ran.store.windows()

    assert ran.launch.settled is True
    assert 60 <= ran.launch.warmup_s <= 200
    assert ran.launch.steady_from_s is not None
    assert window.n_done / window.length_s / PER_S == pytest.approx(1, abs=0.005 + 3 * 0.1 / math.sqrt(600))
    assert ran.slugs == []


def test_a_step_after_the_warm_up_goes_to_the_warm_up_and_the_window_is_as_long_as_asked() -> None:
    ran = Ran(lambda s: 0.6 if s < 90 else 1.0)
    (window,) = ran.store.windows()
    taken = ran.store.window(1, 0, 1)

    assert 90 <= ran.launch.warmup_s <= 110
    assert len(ran.store.warmup_samples(1)) == ran.launch.warmup_s + 1
    assert (window.length_s, len(taken.samples)) == (600.0, 601)
    assert window.n_done / 600 / PER_S == pytest.approx(1, abs=0.01)
    assert 90 <= ran.launch.steady_from_s <= 110
    assert ran.launch.settled is True
    assert taken.usage[0].at_s == taken.samples[0].at_s
    assert taken.requests is not None
    assert taken.requests.n_total == taken.n_done  # those of the head are not among them
    assert [b.at_s - a.at_s for a, b in zip(ran.samples, ran.samples[1:], strict=False)].count(1.0) >= 680


def test_no_window_begins_later_than_the_cap_of_the_warm_up() -> None:
    """The step comes at 100 s, the cap at 60: it stays in the window, and is said."""
    ran = Ran(lambda s: 0.6 if s < 100 else 1.0, warmup_cap_s=60.0, window_s=120.0, n_blocks=2)
    launched_s = ran.store.warmup_samples(1)[0].at_s
    begins_s = ran.store.samples(1, 0, 1)[0].at_s - launched_s

    assert begins_s <= 65
    assert ran.launch.settled is False
    assert "never-settled" in ran.slugs


def test_a_window_that_the_cap_let_begin_before_steady_state_is_said() -> None:
    ran = Ran(lambda s: 0.6 if s < 100 else 1.0, warmup_cap_s=60.0)

    assert ran.launch.settled is False
    assert ran.launch.unsettled is not None
    assert wording("rank.late-steady-state") in start_of(ran.launch.unsettled)
    assert wording("grid.first-window-after") in ran.launch.unsettled


def test_a_leak_is_said_and_measured_all_the_same() -> None:
    ran = Ran(lambda s: 1 - 0.03 * s / 600, windows_per_launch=3, n_blocks=2)
    (_, _), (_, second) = ran.store.launches()

    assert ran.launch.settled is False
    assert ran.launch.unsettled is not None
    assert wording("rank.trend-fell") in start_of(ran.launch.unsettled)
    assert ran.launch.trend_ratio_per_h == pytest.approx(-0.19, abs=0.06)
    assert len(ran.store.windows()) == 6
    ((slug, text),) = (
        ran.progress.warnings
    )  # one launch that did not settle may be chance, two of two are not
    assert slug == "never-settled"
    assert text == wording("grid.never-settled-twice", why=second.unsettled)


def test_a_service_with_two_speeds_is_said() -> None:
    ran = Ran(lambda s: 0.8 if s % 240 < 110 else 1.0)

    assert ran.launch.settled is False
    assert ran.launch.unsettled is not None
    assert ran.launch.unsettled.startswith("levels: throughput moved ")


def test_a_steady_launch_keeps_how_well_its_trend_is_known() -> None:
    ran = Ran(steady, windows_per_launch=2)

    assert ran.launch.settled is True
    assert ran.launch.unsettled is None
    assert abs(ran.launch.trend_ratio_per_h) < 4 * ran.launch.trend_se_ratio_per_h
    assert ran.launch.warmup_s <= 60


def test_windows_that_differ_as_the_studys_noise_lets_them_are_no_trend() -> None:
    """Of 60 launches of three windows with a window noise of 5 %, few are said not to settle."""
    unsettled = 0
    for seed in range(60):
        store = MemoryStore(
            virtual_study(SERVICE, n_blocks=1, windows_per_launch=3, seed=seed, warms_cache=False)
        )
        box = VirtualBox(SERVICE, Noise(0.05, 0, 0, 0, 0.1), seed=seed).box()
        run_study(box, store, MemoryProgress(), PlannedStop(), strategy_of(store.study()))
        unsettled += store.launches()[0][1].settled is False

    assert unsettled <= 12


def test_a_warm_up_of_fixed_length_is_kept_but_not_judged() -> None:
    ran = Ran(lambda s: 1 - math.exp(-s / 60), warmup_s=30.0)
    launch = ran.launch

    assert len(ran.store.warmup_samples(1)) == 31
    assert (launch.settled, launch.unsettled, launch.steady_from_s, launch.trend_ratio_per_h) == (None,) * 4
    assert ran.slugs == []


def test_a_void_window_is_no_part_of_the_verdict() -> None:
    """It ran dry for a while; what was counted then says nothing of the steady state."""
    dry = Trouble("dry", A, block=0, window_attempt=1, after_s=100.0)
    ran = Ran(lambda s: 0.0 if 110 < s < 160 else 1.0, troubles=(dry,))
    tries = ran.store.windows()

    assert [[reason.slug for reason in window.void] for window in tries] == [["source-dry"], []]
    assert ran.launch.settled is True
    assert len(ran.store.warmup_samples(1)) > ran.launch.warmup_s + 10  # it warmed up twice


def test_what_strangers_did_to_a_window_is_no_part_of_the_verdict() -> None:
    burst = Trouble("foreign-cpu", A, block=0, window_attempt=1, after_s=480.0, lasts_s=200.0)
    ran = Ran(lambda s: 0.6 if 500 < s < 615 else 1.0, troubles=(burst,))
    tries = ran.store.windows()

    assert [[reason.slug for reason in window.void] for window in tries] == [["disturbed"], []]
    assert ran.launch.settled is True


def test_a_window_shorter_than_what_it_would_lose_is_taken_anew_in_the_same_go() -> None:
    ran = Ran(lambda s: 0.5 if s < 50 else 1.0, window_s=20.0, noise=0.02)
    rates = items_per_s(ran.store.samples(1, 0, 1))

    assert len(rates) == 20
    assert fmean(rates) / PER_S == pytest.approx(1, abs=0.02)
