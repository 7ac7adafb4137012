"""The forecast of a study: noise read back from a pilot, surfaces through it, the race simulated on them."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest

from tuner.adapters.virtual.box import Noise, VirtualBox, VirtualClock, VirtualService, virtual_study
from tuner.adapters.virtual.memory import MemoryProgress, MemoryStore, PlannedStop
from tuner.app.forecasting import turns_of
from tuner.core.domain.layout import Layout, divisors_grid
from tuner.core.errors import ConfigError
from tuner.core.planning.forecast import (
    CAP_WINDOWS,
    Basis,
    ForecastOptions,
    Saving,
    SimulatedStudy,
    cost_of,
    limiting,
    questions,
    savings,
    simulate,
)
from tuner.core.planning.pilot import pilot_of, slices_square
from tuner.core.planning.plausible import PlausibleStudy
from tuner.core.planning.replay import ReplayJob, replay
from tuner.core.search.strategies.of_study import strategy_of
from tuner.core.search.suite import Suite, SuiteNoise
from tuner.core.windows.slices import MOST_RESIDENT, N_BATCHES
from tuner.reports.plan import Order, Plan, SlicesForecast, plan_facts, render_plan
from tuner.study.pilot_run import pilot_study, read_noise, read_pilot
from tuner.study.run import run_study

from ..raising import raises
from ..wording import wording
from .heat_studies import box_with_places, heat_study
from .heat_studies import measured as measured_in_turns

GRID = tuple(divisors_grid(4))
SERVICE = VirtualService({layout: 100.0 + layout.processes for layout in GRID}, settle_s=1.0)


def measured(noise: Noise, seed: int = 3, **asked: Any) -> MemoryStore:
    store = MemoryStore(virtual_study(SERVICE, warmup_s=5.0, warms_cache=False, **asked))
    box = VirtualBox(SERVICE, noise, seed=seed, cores=4, clock=VirtualClock.resumed(store)).box()
    run_study(box, store, MemoryProgress(), PlannedStop(), strategy_of(store.study()))
    return store


def basis(noise: SuiteNoise, surface: tuple[float, ...], **changes: Any) -> Basis:
    usual = Basis(GRID, (PlausibleStudy(surface, noise, noise),) * 40, 30.0, 60.0, 600.0, 0.95, 4, 1)
    return replace(usual, **changes)


def test_a_pilot_tells_launch_and_window_noise_apart() -> None:
    store = measured(
        Noise(window_sd=0.04, launch_sd=0.02, sample_sd=0.0), n_blocks=8, windows_per_launch=6, window_s=60.0
    )
    pilot = read_pilot(store)

    assert pilot is not None
    assert pilot.window is not None
    n_launches = 8 * len(GRID)
    # standard error of a standard deviation: sd / sqrt(2 df); the launch's holds a sixth of the windows'
    assert pilot.window.mean == pytest.approx(0.04, abs=4 * 0.04 / sqrt(2 * 5 * n_launches))
    residual = sqrt(0.02**2 + 0.04**2 / 6)
    se = residual**2 / 0.02 / sqrt(2 * 7 * (len(GRID) - 1))
    assert pilot.launch.mean == pytest.approx(0.02, abs=4 * se)
    assert pilot.launch_s == pytest.approx(0.5 + 5.0 + 0.25, abs=0.01)
    assert (pilot.n_launches, pilot.n_windows, pilot.n_blocks) == (n_launches, 6 * n_launches, 8)


def test_one_window_per_launch_is_reported_from_its_launch_by_what_is_within_it() -> None:
    store = measured(Noise(window_sd=0.0, launch_sd=0.02, sample_sd=0.3), n_blocks=8, window_s=120.0)
    pilot = read_pilot(store)

    assert pilot is not None
    assert pilot.window is not None
    assert pilot.window.mean == pytest.approx(0.3 / sqrt(120), rel=0.25)
    assert pilot.launch.mean is not None
    assert pilot.launch.mean < 0.03  # with the windows' noise it would be 0.034


def test_a_study_without_a_second_launch_is_no_pilot() -> None:
    assert read_pilot(measured(Noise(), n_blocks=1)) is None


def test_a_pilot_is_short_and_its_layouts_are_far_apart() -> None:
    whole = virtual_study(VirtualService(dict.fromkeys(divisors_grid(24), 1.0)))
    pilot = pilot_study(whole, 600.0)

    assert (len(pilot.layouts), pilot.n_blocks, pilot.windows_per_launch) == (4, 2, 3)
    assert Layout(24, 1) in pilot.layouts
    assert Layout(1, 48) in pilot.layouts
    assert 5.0 <= pilot.window_s <= 600.0 / (8 * 3)
    assert pilot.budget_s is not None
    assert pilot.budget_s <= 1200.0


def test_a_pilot_that_is_too_short_says_how_long_it_takes() -> None:
    whole = virtual_study(SERVICE)

    with raises(ConfigError, wording("grid.pilot-takes")):
        pilot_study(whole, 30.0)
    assert len(pilot_study(whole, 220.0).layouts) == 2


def test_hours_are_those_of_a_replay_with_the_same_noise() -> None:
    noise = SuiteNoise(launch_sd=0.015, sample_sd_1s=0.25)
    surface = tuple(100.0 + 3 * layout.processes for layout in GRID)
    on = basis(noise, surface, min_window_s=600.0)
    foretold = cost_of([simulate(on, ForecastOptions("strict", 0.02), row) for row in range(30)], on.launch_s)

    suite = Suite("direct", GRID, (surface,), noise, launch_s=30.0, window_s=600.0, cores=4)
    direct = [replay(ReplayJob(suite, "race", "strict"), 0, repeat) for repeat in range(30)]
    hours = [one.hours for one in direct]
    se = sqrt(foretold.mean_hours_se**2 + stdev(hours) ** 2 / 30)
    assert foretold.mean_hours == pytest.approx(fmean(hours), abs=4 * se)
    assert foretold.n_cut_off == 0
    assert foretold.mean_window_s == pytest.approx(600.0)


@pytest.mark.parametrize(
    ("noise", "launch_s", "limit"),
    [
        (SuiteNoise(launch_sd=0.02, sample_sd_1s=0.01), 10.0, "launch"),
        (SuiteNoise(launch_sd=0.001, sample_sd_1s=0.2), 10.0, "window"),
        (SuiteNoise(launch_sd=0.001, sample_sd_1s=0.02), 600.0, "restart"),
    ],
)
def test_what_limits_a_study_is_the_noise_that_it_has(noise: SuiteNoise, launch_s: float, limit: str) -> None:
    surface = tuple(100.0 * 0.99 ** abs(n - 3) for n in range(len(GRID)))
    on = basis(noise, surface, launch_s=launch_s)
    rows = range(8)
    asked = {row: simulate(on, ForecastOptions("strict", 0.02), row) for row in rows}
    halved = {
        question.halved: {row: simulate(on, question, row) for row in rows}
        for question in questions("strict", 0.02)
        if question.halved is not None
    }

    found = [saving for saving in savings(asked, halved) if saving.cause != "ties"]

    assert limiting(found)[0].cause == limit


def test_the_same_row_gives_the_same_course() -> None:
    noise = SuiteNoise(launch_sd=0.02, sample_sd_1s=0.3, drift_sd=0.03, drift_ar1_per_600s=0.85)
    on = basis(noise, (100.0,) * len(GRID[:8]), layouts=GRID[:8])

    assert simulate(on, ForecastOptions("calibrated", 0.02), 0) == simulate(
        on, ForecastOptions("calibrated", 0.02), 0
    )


def test_studies_that_were_cut_off_make_figures_a_lower_bound() -> None:
    done = [SimulatedStudy(10 * n, 10 * n, float(n), answered=True, right=True) for n in range(1, 10)]
    cost = cost_of([*done, SimulatedStudy(CAP_WINDOWS, 1000, 100.0, answered=False, right=False)], 0.0)

    assert (cost.p90_windows, cost.p90_hours, cost.n_cut_off) == (90, 9.0, 1)
    assert not cost.is_mean_known
    assert cost.is_p90_known


def test_what_saves_nearly_as_much_is_named_beside_the_first_and_chance_is_not() -> None:
    found = (
        Saving("launch", 0.5, 0.05, 1.0, 40),
        Saving("ties", 0.45, 0.05, 1.0, 40),
        Saving("window", 0.1, 0.02, 1.0, 40),
        Saving("drift", 0.06, 0.04, 1.0, 40),
    )

    assert [one.cause for one in limiting(found)] == ["launch", "ties"]
    assert limiting(found[3:]) == ()


def test_one_or_two_simulated_studies_do_not_show_what_limits_a_study() -> None:
    course = SimulatedStudy(30, 20, 2.0, True, True)
    shorter = replace(course, hours=1.0)

    assert limiting(savings({0: course}, {"launch": {0: shorter}})) == ()
    assert limiting((Saving("launch", 0.5, 0.2, 1.0, 2),)) == ()
    assert limiting((Saving("launch", 0.5, 0.2, 1.0, 40),)) != ()


def test_the_usual_margins_are_simulated_beside_the_one_requested() -> None:
    asked = questions("calibrated", 0.03)

    assert asked[0] == ForecastOptions("calibrated", 0.03)
    assert sum(one.halved is not None for one in asked) == 5
    assert {one.within for one in asked} == {0.01, 0.02, 0.03, 0.05}
    assert len(asked) == len(set(asked)) == 5 + 8


def test_layouts_that_take_turns_need_less_time_if_the_host_drifts() -> None:
    noise = SuiteNoise(launch_sd=0.003, drift_sd=0.1, drift_ar1_per_600s=0.5)
    on = basis(noise, (100.0, 97.0, 94.0), layouts=GRID[:3], n_resident=3, min_window_in_turns_s=20.0)
    rows = range(4)
    in_order = [simulate(on, ForecastOptions("strict", 0.02), row).hours for row in rows]
    in_turns = [simulate(on, ForecastOptions("strict", 0.02, in_turns=True), row) for row in rows]

    assert all(one.answered and one.right for one in in_turns)
    assert fmean(one.hours for one in in_turns) < 0.6 * fmean(in_order)


def test_a_study_in_turns_ends_with_two_full_windows_alone() -> None:
    quiet = SuiteNoise(launch_sd=0.001)
    surface = (100.0, 50.0, 40.0)
    on = basis(quiet, surface, layouts=GRID[:3], n_resident=3, min_window_in_turns_s=20.0)
    once = simulate(on, ForecastOptions("strict", 0.05, in_turns=True), 0)

    assert once.hours * 3600 > 2 * (on.max_window_s + on.launch_s)


def test_layouts_in_turns_are_simulated_beside_the_requested_study_only() -> None:
    asked = questions("strict", 0.02, in_turns=True)

    assert [one for one in asked if one.in_turns] == [ForecastOptions("strict", 0.02, in_turns=True)]


def plan_in_turns(n_layouts: int, times: int = 10, **more: Any) -> Plan:
    """A plan of 2 h in turns, 9 in 10 within 3 h, from three simulated studies or *times* as many."""
    store = measured(Noise(), n_blocks=2, windows_per_launch=2, window_s=60.0)
    pilot = read_pilot(store)
    assert pilot is not None
    courses = [SimulatedStudy(30, 20, hours, True, True) for hours in (1.0, 2.0, 3.0) * times]
    cost = cost_of(courses, 30.0)
    asked = ForecastOptions("strict", 0.02)
    order = Order("virtual", GRID, "strict", 0.02, 0.95)
    slices = SlicesForecast(n_layouts, cost if n_layouts > 1 else None, **more)
    return Plan(order, pilot, {asked: cost}, (), 60.0, 600.0, 1.0, 0.0, slices=slices)


def test_a_plan_in_turns_says_how_many_layouts_and_the_time() -> None:
    plan = plan_in_turns(3)
    facts = plan_facts(plan)["slices"]

    assert (facts["layouts_in_turns"], facts["hours"]) == (3, {"mean": 2.0, "p90": 3.0})
    assert wording("check.plan-in-turns") in render_plan(plan)
    assert wording("check.plan-upper-limit") in render_plan(plan)
    assert wording("check.plan-upper-limit") not in render_plan(plan_in_turns(3, was_in_turns=True))


def test_a_plan_from_few_simulated_studies_does_not_say_what_nine_in_ten_take() -> None:
    few, many = render_plan(plan_in_turns(3, times=3)), render_plan(plan_in_turns(3))

    assert "9 in 10 in 3 h 00 min" in many
    assert "3 h 00 min" not in few
    assert wording("check.plan-few-simulated") in few
    assert wording("check.plan-few-simulated") not in many


def test_a_plan_without_a_limit_gives_the_simulated_times_alone() -> None:
    plan = plan_in_turns(3)
    found = (Saving("restart", 0.04, 0.01, 1.92, 30), Saving("window", 0.01, 0.01, 1.98, 30))

    assert wording("check.plan-no-limit") in render_plan(replace(plan, savings=found))


@pytest.mark.parametrize("host_sd", [0.0, 0.3])
def test_the_noise_of_windows_in_turns_is_what_layouts_do_not_share(host_sd: float) -> None:
    noise = Noise(window_sd=0.0, launch_sd=0.003, sample_sd=0.02, host_sd=host_sd, host_lasts_s=10.0)
    store = measured_in_turns(heat_study(), box_with_places(noise))
    pilot, ranked = read_pilot(store), read_noise(store, store.sums())

    assert pilot is not None
    assert pilot.window is not None
    assert ranked == (pilot.launch, pilot.window)
    assert pilot.squares.second is not None
    assert pilot.squares.second_alone is not None
    own, alone = sqrt(pilot.squares.second.value), sqrt(pilot.squares.second_alone.value)
    # items are whole numbers, which adds to the noise of a second, 0.02; the host also changes within a round
    assert 0.02 < own < (0.15 if host_sd else 0.035)
    assert (alone > 2 * own) == (host_sd > 0)


def test_without_the_noise_of_slices_windows_in_turns_have_no_noise_of_their_own() -> None:
    store = measured_in_turns(heat_study(), box_with_places())
    pilot = pilot_of(store.windows(), store.sums().launches, launch_s=1.0, in_slices=None)

    assert pilot is not None
    assert pilot.window is None


def test_launches_of_a_group_differ_in_one_less_than_their_number() -> None:
    store = measured_in_turns(heat_study(), box_with_places())
    launches = [one for _, one in store.launches() if one.heat is not None]
    square = slices_square(launches)

    assert square is not None
    n_groups = len({(one.block, one.heat) for one in launches})
    assert square.df == (N_BATCHES - 1) * (len(launches) - n_groups)
    assert square.value == pytest.approx(fmean((one.noise_of_second_ratio or 0.0) ** 2 for one in launches))


def test_layouts_that_ran_one_after_the_other_are_forecast_in_turns_if_requested() -> None:
    alone = replace(measured(Noise(), n_blocks=1).study(), n_resident=1)
    in_turns = heat_study()
    file = Path("s.tuner.db")

    assert turns_of(alone, file, None) == (1, "")
    assert turns_of(alone, file, "auto")[0] == MOST_RESIDENT
    assert turns_of(in_turns, file, None) == turns_of(in_turns, file, "auto") == (3, "")
    assert turns_of(in_turns, file, "off") == (1, "")


def test_a_plan_of_layouts_that_cannot_take_turns_says_why() -> None:
    plan = plan_in_turns(1, why_not="All layouts would listen at port 8000.")

    assert wording("check.plan-not-in-turns") in render_plan(plan)
    assert "All layouts would listen at port 8000." in render_plan(plan)
    assert "slices" not in plan_facts(replace(plan, slices=None))
