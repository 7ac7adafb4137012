"""A budget holds: start, warm-up, windows and stops end within it, or nothing is begun."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tuner.adapters.virtual.box import Noise, Trouble, VirtualBox, VirtualClock, VirtualService, virtual_study
from tuner.adapters.virtual.memory import MemoryProgress, MemoryStore, PlannedStop
from tuner.core.domain.layout import Layout
from tuner.core.domain.records import WARMING_BLOCK, StudyRecord
from tuner.core.domain.stored_config import StoredConfig
from tuner.core.domain.strategy import Proposal
from tuner.core.errors import ConfigError
from tuner.core.search.strategies.of_study import strategy_of
from tuner.core.warmup.report import summarize_settling
from tuner.study.history import new_launch
from tuner.study.launch.outcome import StudyOutcome
from tuner.study.pilot_run import pairs_strategy
from tuner.study.run import run_study
from tuner.study.timetable import Timetable, check_budget

from ..raising import raises
from ..wording import wording
from .heat_studies import box_with_places, heat_study, measured

A, B, C = Layout(1, 4), Layout(2, 2), Layout(4, 1)
SERVICE = VirtualService({A: 10.0, B: 20.0, C: 30.0})
NEVER_SETTLES = replace(SERVICE, settle_s=900.0)
RATE_SEARCH = StoredConfig('{"service": {"feeder": {"rate": "p95=100ms"}}}')


class Ran:
    """A study that has run within a budget."""

    def __init__(
        self,
        service: VirtualService = SERVICE,
        troubles: Sequence[Trouble] = (),
        store: MemoryStore | None = None,
        stops: Callable[[MemoryProgress], bool] = lambda _progress: False,
        **asked: Any,
    ) -> None:
        usual = {"strategy": "all", "window_s": 10.0, "warmup_s": None, "n_blocks": 1, **asked}
        self.store = MemoryStore(virtual_study(service, **usual)) if store is None else store
        self.progress = MemoryProgress()
        self.clock = VirtualClock.resumed(self.store)
        began_s = self.clock.monotonic_s()
        box = VirtualBox(service, Noise(0, 0, 0, 0, 0), cores=4, clock=self.clock, troubles=troubles).box()
        stop = PlannedStop(lambda: stops(self.progress))
        self.outcome: StudyOutcome = run_study(
            box, self.store, self.progress, stop, strategy_of(self.store.study())
        )
        self.took_s = self.clock.monotonic_s() - began_s

    @property
    def slugs(self) -> list[str]:
        return [slug for slug, _ in self.progress.warnings]


@pytest.mark.parametrize("budget_s", [150.0, 240.0, 600.0])
def test_warm_ups_that_take_longer_than_expected_are_cut_so_that_every_layout_is_seen(
    budget_s: float,
) -> None:
    ran = Ran(NEVER_SETTLES, budget_s=budget_s)

    assert ran.took_s <= budget_s
    assert [len(ran.store.windows()), ran.outcome.n_blocks_done] == [3, 1]
    assert all(launch.unsettled.startswith("cut: ") for _, launch in ran.store.launches()[1:])


def test_the_answer_says_how_many_warm_ups_the_budget_has_cut() -> None:
    ran = Ran(NEVER_SETTLES, budget_s=150.0)

    result = summarize_settling([launch for _, launch in ran.store.launches()], 10.0)
    assert result.alarms == (wording("rank.warm-ups-cut-by-the-budget"),)


def test_a_launch_that_is_discarded_has_no_more_than_its_share() -> None:
    ran = Ran(NEVER_SETTLES, budget_s=150.0)

    first = ran.store.launches()[0][1]
    assert first.block == WARMING_BLOCK
    assert first.ended_wall_s - first.started_wall_s < 150.0 / 4


def test_a_budget_with_room_for_all_cuts_no_warm_up() -> None:
    free, held = Ran(), Ran(budget_s=3600.0)

    assert held.store.launches() == free.store.launches()
    assert held.slugs == free.slugs == []


def test_a_launch_is_not_begun_that_cannot_end_in_time() -> None:
    """Each start takes 40 s, which nobody could know."""
    ran = Ran(replace(SERVICE, start_s=40.0), warmup_s=5.0, budget_s=100.0)

    assert ran.took_s <= 100.0
    assert ran.outcome.exit_code == 3
    assert ran.slugs[-1] == "budget-over"


def test_a_launch_that_is_still_starting_when_the_budget_ends_is_given_up_and_not_blamed() -> None:
    ran = Ran(replace(SERVICE, start_s=1000.0), budget_s=120.0)

    assert ran.took_s <= 120.0 + 1.0  # it is looked at each second
    assert [launch.error for _, launch in ran.store.launches()] == [None]
    assert ran.outcome.left_out == ()


def test_somebody_who_stops_while_a_layout_starts_need_not_wait_for_it() -> None:
    ran = Ran(replace(SERVICE, start_s=1000.0), stops=lambda progress: len(progress.launches) == 1)

    assert ran.took_s < 10.0
    assert ran.outcome.exit_code == 130


def test_a_void_window_is_not_taken_again_when_there_is_no_time_left_for_it() -> None:
    disturbed = [Trouble("foreign-cpu", x) for x in (A, B, C)]
    ran = Ran(troubles=disturbed, warmup_s=5.0, budget_s=80.0, max_attempts=9)

    assert ran.took_s <= 80.0
    assert ran.outcome.out_of_budget


def test_stops_that_take_long_are_reckoned_with_once_one_was_seen() -> None:
    ran = Ran(replace(SERVICE, stop_s=20.0), warmup_s=5.0, budget_s=100.0)

    assert ran.took_s <= 100.0


def test_what_a_block_gave_by_the_end_of_the_budget_is_kept_and_continues_with_the_same_again() -> None:
    first = Ran(replace(SERVICE, start_s=30.0), warmup_s=5.0, budget_s=150.0, n_blocks=1)
    n_first = len(first.store.windows())
    second = Ran(replace(SERVICE, start_s=30.0), store=first.store)

    assert 0 < n_first < 3
    assert first.outcome.exit_code == 5
    assert second.took_s <= 150.0
    assert second.outcome.exit_code == 0
    assert len(second.store.windows()) == 3


def test_what_came_before_the_first_launch_is_paid_for_by_the_budget() -> None:
    store = MemoryStore(virtual_study(SERVICE, window_s=10.0, warmup_s=5.0, n_blocks=9, budget_s=100.0))
    clock = VirtualClock.resumed(store)
    box, began_s = VirtualBox(SERVICE, cores=4, clock=clock).box(), clock.monotonic_s()
    clock.sleep_until(began_s + 30.0)

    run_study(box, store, MemoryProgress(), PlannedStop(), strategy_of(store.study()), began_s=began_s)

    assert clock.monotonic_s() - began_s <= 100.0


def asked(**changes: Any) -> StudyRecord:
    usual: dict[str, Any] = {"strategy": "race", "window_s": 10.0, "min_window_s": 10.0, "warmup_s": None}
    return virtual_study(SERVICE, **{**usual, **changes})


def block_of(study: StudyRecord) -> list[Proposal]:
    return [Proposal(layout, study.window_s) for layout in study.layouts]


def test_a_budget_without_room_is_refused_with_what_a_block_needs_and_what_fits() -> None:
    study = asked(budget_s=90.0)

    with raises(ConfigError, wording("grid.block-needs-more-than-the-budget")) as caught:
        check_budget(study, block_of(study))
    assert caught.value.hint == wording("grid.what-fits-into-the-budget")


def test_what_is_said_to_fit_fits() -> None:
    study = asked(budget_s=90.0)

    for fits in (replace(study, budget_s=180.0), replace(study, layouts=(A, C))):
        check_budget(fits, block_of(fits))


def test_a_shorter_window_is_named_where_it_makes_a_block_fit() -> None:
    study = asked(window_s=60.0, min_window_s=60.0, budget_s=150.0)

    with pytest.raises(ConfigError) as caught:
        check_budget(study, block_of(study))
    assert wording("grid.shorter-window-fits") in str(caught.value.hint)
    fits = replace(study, window_s=22.0, min_window_s=22.0)
    check_budget(fits, block_of(fits))


def test_fewer_layouts_with_shorter_windows_are_named_where_neither_is_enough() -> None:
    study = asked(window_s=60.0, min_window_s=60.0, budget_s=90.0)

    with pytest.raises(ConfigError) as caught:
        check_budget(study, block_of(study))
    assert wording("grid.fewer-layouts-and-shorter-window-fit") in str(caught.value.hint)
    fits = replace(study, layouts=(A, C), window_s=14.0, min_window_s=14.0)
    check_budget(fits, block_of(fits))


def test_finding_a_rate_is_part_of_what_a_launch_takes_before_any_was_seen() -> None:
    plain, searching = asked(), asked(config=RATE_SEARCH)
    block = block_of(plain)

    takes_s, plainly_s = (Timetable(study, [], []).expected_s(block) for study in (searching, plain))
    assert takes_s > plainly_s + 3 * 120
    with pytest.raises(ConfigError):
        check_budget(replace(searching, budget_s=200.0), block)
    check_budget(replace(plain, budget_s=200.0), block)


def test_looking_for_a_number_of_clients_is_part_of_what_the_budget_has_to_hold() -> None:
    unknown, known = (
        asked(
            config=StoredConfig(f'{{"service": {{"feeder": {{"kind": "http", "clients": {n}}}}}}}'),
            budget_s=120.0,
        )
        for n in ("null", 8)
    )

    with pytest.raises(ConfigError):
        check_budget(unknown, block_of(unknown))
    check_budget(known, block_of(known))


def in_pairs(
    store: MemoryStore, clock: VirtualClock, stops: Callable[[], bool] = lambda: False
) -> MemoryProgress:
    progress, strategy = MemoryProgress(), pairs_strategy(store.study())
    run_study(box_with_places(clock=clock), store, progress, PlannedStop(stops), strategy)
    return progress


def spent_s(store: MemoryStore) -> float:
    return Timetable(store.study(), store.launches(), store.windows()).total_s


@pytest.mark.parametrize("troubles", [(), (Trouble("dies", layout=B, block=0, attempt=1),)])
def test_a_study_in_slices_has_spent_the_time_from_its_first_start_to_its_last_stop(
    troubles: tuple[Trouble, ...],
) -> None:
    clock = VirtualClock()
    began_s = clock.monotonic_s()
    store = measured(heat_study(), box_with_places(clock=clock, troubles=troubles))

    assert spent_s(store) == pytest.approx(clock.monotonic_s() - began_s)


def test_a_study_in_slices_expects_the_same_rest_live_and_after_resume_as_its_groups_take() -> None:
    study = heat_study(strategy="all", n_blocks=2, n_resident=2, layouts=(B,))
    clock, whole = VirtualClock(), MemoryStore(study)
    live = in_pairs(whole, clock)
    cut = MemoryStore(study)
    in_pairs(cut, VirtualClock(), lambda: len(cut.windows()) >= 2)
    resumed = in_pairs(cut, VirtualClock.resumed(cut))

    last = [launch for _, launch in whole.launches() if launch.block == 1]
    took_s = max(one.ended_wall_s or 0.0 for one in last) - min(one.started_wall_s for one in last)
    assert live.launches[2][3] == pytest.approx(resumed.launches[0][3])
    assert live.launches[2][3] == pytest.approx(took_s, rel=0.02)  # skipped parts have random lengths


def test_a_group_that_was_run_again_after_a_pause_is_charged_for_its_two_runs_only() -> None:
    store = MemoryStore(heat_study())
    launch = new_launch(Proposal(A, 20.0, heat=0), (0, 0, 1), "box", 0.0)
    times_s = [(0.0, 60.0), (4.0, 58.0), (1000.0, 1030.0)]
    for from_s, to_s in times_s:
        store.add_launch(replace(launch, started_wall_s=from_s, ended_wall_s=to_s))
    discarded = replace(launch, block=WARMING_BLOCK, heat=None, started_wall_s=10.0, ended_wall_s=20.0)
    store.add_launch(discarded)  # it ran during the first run, so its time is not charged twice

    assert spent_s(store) == 90.0


@pytest.mark.parametrize("budget_s", [410.0, 480.0, 900.0])
def test_warm_ups_before_turns_are_cut_so_that_every_layout_is_measured_within_the_budget(
    budget_s: float,
) -> None:
    def never_settles(service: VirtualService, *args: Any, **settings: Any) -> VirtualBox:
        return VirtualBox(replace(service, settle_s=900.0), *args, **settings)

    study = heat_study(warmup_s=None, budget_s=budget_s)
    clock = VirtualClock()
    began_s = clock.monotonic_s()
    store = measured(study, box_with_places(clock=clock, kind=never_settles))

    assert clock.monotonic_s() - began_s <= budget_s
    assert {one.layout for one in store.windows()} == set(study.layouts)
    assert any(launch.unsettled.startswith("cut: ") for _, launch in store.launches())


def test_turns_without_room_for_all_their_windows_are_refused_before_a_start() -> None:
    study = heat_study(warmup_s=None, budget_s=400.0)
    store = MemoryStore(study)

    with raises(ConfigError, "6m44s"):  # 10 launches, each 10.5 s and a window of 20 s with skipped parts
        measured(study, box_with_places(), store=store)
    assert not store.launches()
