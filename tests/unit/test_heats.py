"""Heats: launches that are resident at once and take turns, on a simulated host."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from math import inf, log
from pathlib import Path
from random import Random
from statistics import mean, stdev
from typing import Any

import pytest

from tuner.adapters.virtual.box import Noise, Trouble, VirtualBox, VirtualClock
from tuner.adapters.virtual.launch import RunningLayout
from tuner.adapters.virtual.memory import MemoryProgress, MemoryStore, PlannedStop
from tuner.app.layouts_in_turns import with_turns
from tuner.app.plan_builder import build_plan
from tuner.bootstrap.configs import settings_of
from tuner.bootstrap.stores import new_store, open_store
from tuner.core.domain.layout import Layout
from tuner.core.domain.records import StudyRecord
from tuner.core.domain.requests import ConnectionSpread, Latencies, Requests
from tuner.core.domain.service import Gate
from tuner.core.domain.window import Reading, Sample, Usage
from tuner.core.errors import MeasurementError
from tuner.core.ranking.anova import blocks_of
from tuner.core.search.heat_race import HeatRace
from tuner.core.search.strategies.of_study import goal_of, strategy_of
from tuner.core.stats.two_way_anova import Observation, fit
from tuner.core.windows.launch_sums import LaunchTally
from tuner.core.windows.slices import Slice
from tuner.ports import Box, Counting, CrossCheck, Launch, Probe, Sampler, Watch
from tuner.study.aging import memory_growth
from tuner.study.first_look import before
from tuner.study.heat.resident_box import _Watch
from tuner.study.heat.turns import LONGEST_STEP_S, Cancelled, Resident, Turns
from tuner.study.run import run_study
from tuner.study.strategy_driver import replay_study

from ..leaking_studies import MB
from .heat_studies import QUIET, RATES, SERVICE, box_with_places, heat_study, measured


def test_growth_and_trends_in_slices_are_per_hour_in_which_the_layout_ran() -> None:
    """All layouts leak 1 MB in each minute of work, and lose 30 % in an hour of it."""
    aging = replace(
        SERVICE,
        leak_bytes_per_s=dict.fromkeys(RATES, MB / 60),
        trend_per_h=dict.fromkeys(RATES, log(0.7)),
    )

    def kind(_service: object, *args: Any, **more: Any) -> VirtualBox:
        return VirtualBox(aging, *args, **more)

    study = heat_study(window_s=900.0, min_window_s=900.0, within_ratio=0.2, warmup_s=None)
    store = measured(study, box_with_places(Noise(0.0, 0.0, sample_sd=0.01), kind=kind))
    in_heats = {n: launch for n, launch in store.launches() if launch.heat is not None}
    sums = store.sums()
    only = replace(sums, launches=[one for one in sums.launches if one.launch in in_heats])
    found = memory_growth(store, only, 0.95, 86_400.0)

    assert len(in_heats) > 6
    assert all(0.7 < (launch.counted_ratio or 0.0) < 0.95 for launch in in_heats.values())
    assert [one.per_h.mean for one in found.values()] == pytest.approx([60 * MB] * 6, rel=0.02)
    trends = [launch.trend_ratio_per_h or 0.0 for launch in in_heats.values()]
    assert mean(trends) == pytest.approx(log(0.7), abs=0.02)


@pytest.mark.parametrize("gate", ["freeze", "feed"])
def test_a_race_in_heats_finds_the_best_layout(gate: Gate) -> None:
    study = heat_study()
    store = measured(study, box_with_places(gate=gate))
    answer = replay_study(store, strategy_of(study)).claim().answer
    assert answer.reached
    assert answer.layout == Layout(4, 1)


def test_all_windows_of_a_heat_span_the_same_time_in_turns() -> None:
    store = measured(heat_study(), box_with_places())
    launches = dict(store.launches())
    spans = defaultdict(list)
    for window in store.windows():
        launch = launches[window.launch_id]
        if launch.heat is not None:
            ended_s = launch.ended_wall_s
            assert ended_s is not None
            spans[launch.block, launch.heat].append((window.started_wall_s, ended_s, window.length_s))
    assert len(spans) > 2
    for of_heat in spans.values():
        began_s, ended_s = max(one[0] for one in of_heat), min(one[1] for one in of_heat)
        assert ended_s - began_s > 1.2 * max(one[2] for one in of_heat)


def test_a_window_in_turns_counts_only_its_own_time_and_items() -> None:
    store = measured(heat_study(), box_with_places())
    launches = dict(store.launches())
    in_turns = [one for one in store.windows() if launches[one.launch_id].heat is not None]
    assert in_turns
    for window in in_turns:
        assert not window.void
        assert window.n_done / window.length_s == pytest.approx(RATES[window.layout], rel=0.06)
        assert window.service_cpu_s / window.length_s == pytest.approx(RATES[window.layout] * 0.1, rel=0.06)
        assert window.foreign_cpu_s < 0.05 * window.length_s
        assert window.n_active_from_load1 is None


class BoxWithInterrupts(VirtualBox):
    """A host on which interrupts always use 0.3 cores."""

    def box(self) -> Box:
        box = super().box()
        return replace(box, sampler=InterruptedSampler(box.sampler, self.clock))


class InterruptedSampler:
    """A sampler that adds the time of these interrupts."""

    def __init__(self, sampler: Sampler, clock: VirtualClock) -> None:
        self._sampler, self._clock = sampler, clock

    def idle_fixed_work_cpu_s(self) -> float | None:
        return self._sampler.idle_fixed_work_cpu_s()

    @contextmanager
    def watching(self, launch: Launch, extra_pids: frozenset[int]) -> Iterator[Watch]:
        with self._sampler.watching(launch, extra_pids) as watch:
            alone = watch.usage

            def usage(*, closing: bool = False, at_edge: bool = False) -> Usage:
                used = alone(closing=closing, at_edge=at_edge)
                return replace(used, interrupt_s_total=0.3 * self._clock.monotonic_s())

            watch.usage = usage  # type: ignore[method-assign]
            yield watch


def test_a_window_in_turns_has_only_the_interrupts_of_its_own_time() -> None:
    store = measured(heat_study(), box_with_places(kind=BoxWithInterrupts))
    launches = dict(store.launches())
    in_turns = [one for one in store.windows() if launches[one.launch_id].heat is not None]
    assert in_turns
    for window in in_turns:
        assert window.interrupt_s == pytest.approx(0.3 * window.length_s, rel=0.01)


class CountedTasks:
    """A sampler that counts a given number of active tasks."""

    n_active = 0

    def sample(self, reading: Reading) -> Sample:
        return Sample(reading.at_s, 0, 0, 50.0, 50.0, 50.0, self.n_active)

    def usage(self) -> None:
        """Usage does not matter here."""


def test_load_averages_of_a_window_in_turns_forget_the_warm_up() -> None:
    clock, tasks, seen = VirtualClock(), CountedTasks(), []

    def work(resident: Resident) -> None:
        watch = _Watch(tasks, resident)  # type: ignore[arg-type]
        for tasks.n_active in [9] * 60 + [2] * 5:
            if tasks.n_active == 2 and len(seen) == 60:
                watch.begin_window()
            clock.sleep_until(clock.monotonic_s() + 1.0)
            sample = watch.sample(Reading(clock.monotonic_s(), 0, 0))
            seen.append((sample.load1, sample.load5, sample.load15))

    resident = Resident(Layout(1, 1), Turns(), clock, work)
    resident.start()
    resident.join()

    assert resident.error is None
    assert seen == [(9.0, 9.0, 9.0)] * 60 + [(2.0, 2.0, 2.0)] * 5


def test_throughput_does_not_depend_on_how_long_a_look_at_the_host_takes() -> None:
    """Every other look takes 0.3 s: at the end of slices, not at their beginning."""

    class SlowWatch:
        def __init__(self, watch: Watch, clock: VirtualClock) -> None:
            self._watch, self._clock, self._n = watch, clock, 0

        def __getattr__(self, name: str) -> object:
            return getattr(self._watch, name)

        def usage(self, *, closing: bool = False, at_edge: bool = False) -> Usage:
            self._n += 1
            usage = self._watch.usage(closing=closing, at_edge=at_edge)
            self._clock.sleep_until(self._clock.monotonic_s() + 0.3 * (self._n % 2))
            return usage

    class SlowSampler:
        def __init__(self, box: Box, clock: VirtualClock) -> None:
            self._sampler, self._clock = box.sampler, clock

        def idle_fixed_work_cpu_s(self) -> float | None:
            return self._sampler.idle_fixed_work_cpu_s()

        @contextmanager
        def watching(self, launch: Launch, extra_pids: frozenset[int]) -> Iterator[SlowWatch]:
            with self._sampler.watching(launch, extra_pids) as watch:
                yield SlowWatch(watch, self._clock)

    clock = VirtualClock()

    def place() -> Box:
        box = VirtualBox(SERVICE, QUIET, seed=5, cores=4, clock=clock).box()
        return replace(box, sampler=SlowSampler(box, clock))

    @contextmanager
    def another() -> Iterator[Box]:
        yield place()

    study = heat_study(layouts=(Layout(2, 2), Layout(4, 1)), n_resident=2)
    store = MemoryStore(study)
    run_study(replace(place(), another=another), store, MemoryProgress(), PlannedStop(), _Pairs(study))
    for window in store.windows():
        assert window.n_done / window.length_s == pytest.approx(RATES[window.layout], rel=0.03)


class Sending(VirtualBox):
    """A host whose generator gets an answer every 10 ms, also in parts of slices that do not count."""

    def requests(self) -> Requests:  # type: ignore[override]
        n_answered = round(100 * self.clock.monotonic_s())
        spread = ConnectionSpread(seconds=self.clock.monotonic_s())
        return Requests(Latencies({7: n_answered}), spread=spread)


def test_a_window_in_turns_has_only_the_requests_of_its_counted_parts() -> None:
    store = measured(heat_study(), box_with_places(kind=Sending))
    launches = dict(store.launches())
    in_turns = [one for one in store.windows() if launches[one.launch_id].heat is not None]

    assert in_turns
    for window in in_turns:
        assert window.requests is not None
        assert window.requests.n_total == pytest.approx(100 * window.length_s, rel=0.01)
        assert window.requests.spread is not None
        assert window.requests.spread.seconds == pytest.approx(window.length_s, rel=0.01)


class Sluggish(VirtualBox):
    """A host whose layouts work at half speed for 0.6 s after they were idle: more than is skipped."""

    slow_s = 0.6

    @contextmanager
    def running(self, layout: Layout, environment: Mapping[str, str]) -> Iterator[RunningLayout]:
        with super().running(layout, environment) as live:
            self._lost, self._thawed_s, self._read_s = 0.0, -inf, 0.0
            thaw = live.thaw

            def thaw_slowly() -> None:
                thaw()
                self._thawed_s = self._read_s = self.clock.monotonic_s()

            live.thaw = thaw_slowly  # type: ignore[method-assign]
            yield live

    @contextmanager
    def counting(self, layout: Layout) -> Iterator[Counting]:
        with super().counting(layout) as counting:
            read = counting.read

            def read_fewer() -> Reading:
                reading = read()
                slow_s = min(reading.at_s, self._thawed_s + self.slow_s) - self._read_s
                self._lost += max(0.0, slow_s) * RATES[layout] / 2
                self._read_s = max(self._read_s, reading.at_s)
                return replace(reading, n_done_total=max(0, round(reading.n_done_total - self._lost)))

            self._lost, self._thawed_s, self._read_s = 0.0, -inf, 0.0
            counting.read = read_fewer  # type: ignore[method-assign]
            yield counting


def test_more_of_each_slice_is_skipped_if_layouts_start_slowly() -> None:
    study = heat_study(layouts=(Layout(2, 2), Layout(4, 1)), n_resident=2)
    store = MemoryStore(study)
    box = box_with_places(kind=Sluggish)
    run_study(box, store, MemoryProgress(), PlannedStop(), _Pairs(study))
    off = [window.n_done / window.length_s / RATES[window.layout] for window in store.windows()]

    assert max(off[:2]) < 0.9
    assert min(off[-2:]) > 0.97


class Slow(Sluggish):
    """A host whose layouts work at half speed for 0.2 s after they were idle: as long as is skipped."""

    slow_s = 0.2


def test_the_last_layout_of_a_heat_starts_as_slowly_as_the_others() -> None:
    """Windows of one slice and a half: nobody follows the layout that ends last, so it keeps the turn."""

    def rate(kind: type[VirtualBox]) -> float:
        study = heat_study(layouts=(Layout(2, 2), Layout(4, 1)), n_resident=2, min_window_s=1.5, window_s=1.5)
        store = MemoryStore(study)
        run_study(box_with_places(kind=kind), store, MemoryProgress(), PlannedStop(), _Pairs(study))
        return mean(window.n_done / window.length_s / RATES[window.layout] for window in store.windows())

    assert rate(Slow) == pytest.approx(rate(VirtualBox), abs=0.005)


def test_a_long_skipped_part_does_not_delay_the_end_of_a_heat() -> None:
    turns = Turns()

    class Cancelling(VirtualClock):
        def sleep_until(self, at_s: float) -> None:
            turns.is_cancelled = True
            super().sleep_until(at_s)

    clock = Cancelling()
    resident = Resident(Layout(1, 1), turns, clock, lambda resident: resident.await_others())
    resident.start()
    began_s = clock.monotonic_s()
    resident.take_slice(Slice(20.0, 10.0), 0)
    resident.join()

    assert isinstance(resident.error, Cancelled)
    assert clock.monotonic_s() - began_s <= LONGEST_STEP_S


def test_what_the_host_does_cancels_between_layouts_that_take_turns() -> None:
    def scatter(n_resident: int) -> float:
        study = heat_study(
            layouts=(Layout(2, 2), Layout(4, 1)),
            n_resident=n_resident,
            strategy="all",
            n_blocks=12,
            kind="none",
        )
        noisy = Noise(window_sd=0.0, launch_sd=0.0, sample_sd=0.02, host_sd=0.2, host_lasts_s=30.0)
        store = MemoryStore(study)
        strategy = _Pairs(study) if n_resident > 1 else strategy_of(study)
        run_study(box_with_places(noisy), store, MemoryProgress(), PlannedStop(), strategy)
        rates = defaultdict(dict)
        for window in store.windows():
            rates[window.block][window.layout] = log(window.n_done / window.length_s)
        return stdev(of[Layout(2, 2)] - of[Layout(4, 1)] for of in rates.values())

    assert scatter(2) < scatter(1) / 3


class _Pairs(HeatRace):
    """Twelve heats of the same two layouts."""

    def __init__(self, study: StudyRecord) -> None:
        super().__init__(replace(goal_of(study), kind="strict"), 1, 2)
        self._n = 0

    def propose(self):
        self._n += 1
        return [] if self._n > 12 else self._first_heats()


def test_at_the_end_the_best_layout_and_its_rival_run_alone_for_a_full_window() -> None:
    study = heat_study()
    store = measured(study, box_with_places())
    launches = dict(store.launches())
    alone = [one for one in store.windows() if launches[one.launch_id].heat is None]
    assert alone == list(store.windows())[-2:]
    assert {window.layout for window in alone} == {Layout(4, 1), Layout(2, 2)}
    assert [window.length_s for window in alone] == pytest.approx([60.0, 60.0])


def test_the_strategy_decides_the_same_when_the_file_is_read() -> None:
    study = heat_study()
    store = measured(study, box_with_places())
    assert replay_study(store, strategy_of(study)).otherwise == ()


@pytest.mark.parametrize("host_sd", [0.0, 0.2])
def test_each_launch_has_the_noise_of_its_slices_without_that_of_the_host(host_sd: float) -> None:
    noisy = Noise(window_sd=0.0, launch_sd=0.003, sample_sd=0.02, host_sd=host_sd, host_lasts_s=600.0)
    study = heat_study()
    studies = [measured(replace(study, seed=seed), box_with_places(noisy, seed=seed)) for seed in range(5)]
    launches = [launch for store in studies for _, launch in store.launches()]
    found = [one.noise_of_second_ratio for one in launches if one.heat is not None]
    assert len(found) > 30
    # items are whole numbers, which adds to the noise of a second, 0.02
    assert 0.02 < mean(one for one in found if one is not None) < 0.032
    assert [one.noise_of_second_ratio for one in launches if one.heat is None] == [None, None] * 5


def test_windows_are_as_short_as_the_noise_between_launches_makes_them() -> None:
    def lengths_s(sample_sd: float, launch_sd: float) -> list[float]:
        noise = Noise(window_sd=0.0, launch_sd=launch_sd, sample_sd=sample_sd)
        study = heat_study(min_window_s=4.0, within_ratio=0.02)
        store = measured(study, box_with_places(noise))
        assert replay_study(store, strategy_of(study)).otherwise == ()
        launches = [launch for _, launch in store.launches() if launch.heat is not None]
        return [one.window_s for one in launches if one.block > 0 and one.window_s is not None]

    steady, noisy = lengths_s(0.02, 0.02), lengths_s(0.3, 0.003)
    assert max(steady) < 6
    assert mean(noisy) > 3 * mean(steady)


def test_a_heat_that_was_stopped_goes_on_with_what_is_missing() -> None:
    study = heat_study()
    clock = VirtualClock()
    store = MemoryStore(study)
    measured(
        study, box_with_places(clock=clock), store=store, stop=PlannedStop(lambda: len(store.windows()) > 3)
    )
    n_before = len(store.windows())
    assert n_before < 12
    measured(study, box_with_places(clock=VirtualClock.resumed(store)), store=store)
    recalled = replay_study(store, strategy_of(study))
    assert recalled.claim().answer.layout == Layout(4, 1)
    assert recalled.otherwise == ()


def test_a_worker_that_dies_in_its_slice_costs_its_own_launch_only() -> None:
    died = Trouble("dies", layout=Layout(2, 2), block=0, attempt=1)
    store = measured(heat_study(), box_with_places(troubles=(died,)))
    first = [launch for _, launch in store.launches() if launch.block == 0]
    assert {launch.layout for launch in first if launch.error is not None} == {Layout(2, 2)}
    assert any(launch.layout == Layout(2, 2) and launch.attempt == 2 for launch in first)


def test_the_second_ctrl_c_ends_all_launches_of_a_heat() -> None:
    class Interrupted(MemoryProgress):
        n = 0

        def sampled(self, *seen: object) -> None:
            self.n += 1
            if self.n == 40:
                raise KeyboardInterrupt

    box = box_with_places()
    study = heat_study()
    store = MemoryStore(study)
    with pytest.raises(KeyboardInterrupt):
        measured(study, box, progress=Interrupted(), store=store)
    assert not [one.name for one in threading.enumerate() if one.name.startswith("tuner-heat")]
    assert all(launch.ended_wall_s is None for _, launch in store.launches() if launch.block == 0)


def test_an_error_of_one_launch_is_raised_and_the_others_are_gone() -> None:
    class Broken(MemoryProgress):
        n = 0

        def sampled(self, *seen: object) -> None:
            self.n += 1
            if self.n == 30:
                raise LookupError("the view broke")

    with pytest.raises(LookupError, match="the view broke"):
        measured(heat_study(), box_with_places(), progress=Broken())
    assert not [one.name for one in threading.enumerate() if one.name.startswith("tuner-heat")]


def test_fewer_layouts_are_resident_if_memory_runs_short() -> None:
    free = iter([8e9, 6e9, 3e9, 2e9, *([2e9] * 1000)])
    box = replace(box_with_places(), free_bytes=lambda: next(free))
    progress = MemoryProgress()
    store = measured(heat_study(), box, progress=progress)
    assert "heat-smaller" in {slug for slug, _ in progress.warnings}
    assert replay_study(store, strategy_of(heat_study())).claim().answer.layout == Layout(4, 1)


def turns_of(folder: Path, gate: str, slices: str = "auto") -> tuple[StudyRecord, list[str]]:
    """The record of a grid whose service has such a gate, and what is printed."""
    path = folder / "s.yaml"
    path.write_text(
        f"service: {{kind: script, name: jobs, gate: {gate}, command: [python3, worker.py, '{{threads}}']}}\n"
        f"study: {{layouts: [1x1, 2x2], slices: {slices}}}\n"
    )
    settings, said = settings_of(path, {}), list[str]()
    record = build_plan(settings, None, None, said.append)
    assert record.n_resident == 1  # so of `aa`, `check` and `plan`
    return with_turns(record, settings, said.append, is_simulated=False, on_fleet=False), said


def test_a_grid_takes_turns_if_its_service_can_be_made_idle(tmp_path: Path) -> None:
    record, said = turns_of(tmp_path, "freeze")
    assert (record.n_resident, record.min_window_s) == (4, 10.0)
    assert "take turns" in said[-1]


@pytest.mark.parametrize(
    ("command", "more", "why"),
    [
        ("[python3, worker.py, --port, '8123', '{threads}']", "", "listen at port 8123"),
        ("[python3, worker.py, '{threads}']", ", feeder: {kind: command, command: [cat]}", "same source"),
    ],
)
def test_layouts_that_would_share_a_port_or_a_source_take_no_turns(
    tmp_path: Path, command: str, more: str, why: str
) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(
        f"service: {{kind: script, name: jobs, gate: freeze, command: {command}{more}}}\n"
        "study: {layouts: [1x1, 2x2], slices: auto}\n"
    )
    settings, said = settings_of(path, {}), list[str]()
    record = build_plan(settings, None, None, said.append)
    record = with_turns(record, settings, said.append, is_simulated=False, on_fleet=False)
    assert record.n_resident == 1
    assert why in said[-1]


@pytest.mark.parametrize(("gate", "slices"), [("none", "auto"), ("freeze", "off")])
def test_else_layouts_run_one_after_the_other(tmp_path: Path, gate: str, slices: str) -> None:
    record, said = turns_of(tmp_path, gate, slices)
    assert (record.n_resident, record.min_window_s) == (1, 60.0)
    assert ("one after the other" in "".join(said)) == (slices == "auto")


@pytest.mark.parametrize("own_sd", [0.003, 0.02])
def test_the_expected_times_are_those_of_a_study_in_slices(own_sd: float) -> None:
    """Its windows are shorter than one after the other, and two full windows alone follow the race."""
    noise = Noise(window_sd=0.003, launch_sd=own_sd, sample_sd=0.02)
    study, clock = heat_study(window_s=600.0, min_window_s=10.0), VirtualClock()
    began_s = clock.wall_s()
    store = measured(study, box_with_places(noise, clock))

    of_block = [one for _, one in store.launches() if one.block == 0 and one.heat is not None]
    first_s = max(one.ended_wall_s or inf for one in of_block) - began_s
    expected = before(study)
    assert expected.first_s == pytest.approx(first_s, rel=0.2)
    assert expected.quickest_s < clock.wall_s() - began_s < expected.longest_s
    assert before(replace(study, n_resident=1)).longest_s > 1.2 * expected.longest_s


def test_the_sums_of_a_stored_study_have_its_groups(tmp_path: Path) -> None:
    store = measured(heat_study(), box_with_places())
    groups = [one.group for one in store.sums().launches]
    assert len(set(groups)) > len({group[:2] for group in groups}) > 1

    with new_store(tmp_path / "s.tuner.db", store.study()) as file:
        for number, launch in store.launches():
            assert file.add_launch(launch) == number
            for window in store.windows():
                if window.launch_id == number:
                    file.add_window(number, store.window(number, window.index, window.attempt))
            file.finish_launch(number, launch)
    with open_store(tmp_path / "s.tuner.db", read_only=True) as file:
        assert [one.group for one in file.sums().launches] == groups


def test_comparisons_leave_out_what_the_host_did_between_groups() -> None:
    """The host is at 1.0 and at 0.6 in the two groups of one block; both layouts are equally fast."""
    one, other, both = Layout(1, 4), Layout(4, 1), Layout(2, 2)
    seen = [
        LaunchTally(layout, ("x", 0), n, 1, 10.0, round(1000 * speed), rates=100 * speed, heat=heat)
        for n, (layout, heat, speed) in enumerate(
            ((one, 0, 1.0), (both, 0, 1.0), (other, 1, 0.6), (both, 1, 0.6)), start=1
        )
    ]
    block_of = blocks_of(seen, joins_single=True)
    found = fit(
        [
            Observation([one, other, both].index(tally.layout), block_of[tally.launch], log(tally.n_done))
            for tally in seen
        ],
        3,
    )
    assert found.effects[0] == pytest.approx(found.effects[1], abs=1e-9)


class HostSampler:
    """A sampler of a host with the active tasks that a function computes from those of the layout."""

    def __init__(
        self, sampler: Sampler, n_active: Callable[[int], int], random: Random | None = None
    ) -> None:
        self._sampler, self._n_active, self._random = sampler, n_active, random

    def idle_fixed_work_cpu_s(self) -> float | None:
        return self._sampler.idle_fixed_work_cpu_s()

    @contextmanager
    def watching(self, launch: Launch, extra_pids: frozenset[int]) -> Iterator[Watch]:
        with self._sampler.watching(launch, extra_pids) as watch:
            alone = watch.sample

            def sample(reading: Reading) -> Sample:
                seen = alone(reading)
                return replace(seen, n_active=self._n_active(seen.n_active or 0))

            watch.sample = sample  # type: ignore[method-assign]
            if self._random is not None:
                watch.next_sample_s = self._random.uniform  # type: ignore[method-assign]
            yield watch


def test_tasks_of_others_do_not_prolong_a_warm_up_in_slices() -> None:
    def warm_ups(*, in_company: bool) -> list[float | None]:
        clock = VirtualClock()
        box = box_with_places(clock=clock)
        began_s = clock.monotonic_s()

        def with_others(n_active: int) -> int:
            """Eight more tasks of others run for the first 12 s of every 30 s."""
            return n_active + (8 if (clock.monotonic_s() - began_s) % 30 < 12 else 0)

        if in_company:
            box = replace(box, sampler=HostSampler(box.sampler, with_others))
        study = heat_study(warmup_s=None, min_window_s=10.0)
        store = measured(study, box)
        return [one.warmup_s for _, one in store.launches() if one.block == 0 and one.position == 0]

    assert warm_ups(in_company=True) == warm_ups(in_company=False)


class AnsweringProbe:
    """A probe whose server is an active task at the moment at which it answers."""

    def __init__(self, probe: Probe, clock: VirtualClock) -> None:
        self._probe, self._clock = probe, clock
        self.answered_s = -1.0

    @contextmanager
    def counting(self, layout: Layout) -> Iterator[Counting]:
        with self._probe.counting(layout) as counting:
            read = counting.read

            def answered() -> Reading:
                self.answered_s = self._clock.monotonic_s()
                return read()

            counting.read = answered  # type: ignore[method-assign]
            yield counting


def test_a_server_that_just_answered_the_probe_is_no_load_of_the_layout() -> None:
    clock = VirtualClock()
    box = box_with_places(clock=clock)
    probe = AnsweringProbe(box.probe, clock)
    server = HostSampler(box.sampler, lambda _: int(probe.answered_s == clock.monotonic_s()))
    box = replace(box, probe=probe, sampler=server)
    store = measured(heat_study(n_resident=1, strategy="all", kind=None, n_blocks=1), box)
    assert store.windows()
    for window in store.windows():
        samples = store.samples(window.launch_id, window.index, window.attempt)
        assert {sample.n_active for sample in samples[1:]} == {0}  # the warm-up ends at the time of the first
        assert samples[-1].n_done_total > samples[0].n_done_total


class BoxOfRegularItems(VirtualBox):
    """A host whose only task runs for the first 40 ms of every 100 ms."""

    def box(self) -> Box:
        box, random = super().box(), Random(1)

        def n_active(_: int) -> int:
            return int(self.clock.monotonic_s() % 0.1 < 0.04)

        return replace(box, sampler=HostSampler(box.sampler, n_active, random))


@pytest.mark.parametrize("in_slices", [False, True], ids=["alone", "in slices"])
def test_tasks_are_counted_at_all_parts_of_items_that_begin_at_regular_moments(*, in_slices: bool) -> None:
    study = heat_study(min_window_s=60.0, n_resident=3 if in_slices else 1)
    store = measured(study, box_with_places(kind=BoxOfRegularItems))
    heats = {id_: launch.heat for id_, launch in store.launches()}
    windows = [one for one in store.windows() if (heats[one.launch_id] is not None) == in_slices]
    n_active = [one.n_active_mean for one in windows]

    assert len(windows) >= 10
    assert mean(n_active) == pytest.approx(0.4, abs=0.08)  # standard deviation: 0.02


class OldCounts:
    """A probe whose counts are up to a second old, or that cannot be read."""

    def __init__(self, probe: Probe, fails: bool) -> None:
        self._probe, self._fails = probe, fails

    @contextmanager
    def counting(self, layout: Layout) -> Iterator[Counting]:
        with self._probe.counting(layout) as counting:
            read = counting.read
            kept = [read()]

            def old() -> Reading:
                if self._fails:
                    raise MeasurementError("metrics cannot be read")
                if (now := read()).at_s - kept[0].at_s >= 1:
                    kept[0] = now
                return kept[0]

            counting.read = old  # type: ignore[method-assign]
            yield counting


@pytest.mark.parametrize("fails", [False, True])
def test_a_second_probe_with_old_counts_or_none_makes_no_window_in_slices_invalid(fails: bool) -> None:
    class CrossChecked(VirtualBox):
        def box(self) -> Box:
            box = super().box()
            check = CrossCheck(OldCounts(box.probe, fails), 0.05, ("first", "second"))
            return replace(box, cross_check=check)

    progress = MemoryProgress()
    store = measured(heat_study(), box_with_places(kind=CrossChecked), progress=progress)

    assert not any(window.void for window in store.windows())
    assert {slug for slug, _ in progress.warnings} == {"cross-check-gap"}
    assert replay_study(store, strategy_of(store.study())).claim().answer.reached


def test_after_a_stop_while_layouts_start_no_window_begins() -> None:
    store = MemoryStore(heat_study())
    stop = PlannedStop(lambda: len(store.launches()) == 2)
    measured(store.study(), box_with_places(), store=store, stop=stop)

    assert len(store.launches()) == 2
    assert not store.windows()


def test_a_host_that_allows_no_more_threads_ends_the_heat(monkeypatch: pytest.MonkeyPatch) -> None:
    start, n_started = threading.Thread.start, 0

    def limited(thread: threading.Thread) -> None:
        nonlocal n_started
        n_started += thread.name.startswith("tuner-heat-")
        if n_started == 3:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    with pytest.raises(RuntimeError, match="new thread"):
        measured(heat_study(), box_with_places())
