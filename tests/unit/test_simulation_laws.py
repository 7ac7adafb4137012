"""Laws that hold for any network, and what a scenario may ask for. Tolerances: three standard errors."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cache
from math import inf, isfinite, log
from statistics import fmean, stdev
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.core.domain.layout import Layout
from tuner.core.model.demand import Demands, Terms
from tuner.core.model.machine import Machine
from tuner.core.model.simulation.scenario import Scenario, Simulated, path_of, scenario_of, simulate

from ..raising import raises
from ..wording import key_of, wording

FULL = Demands(
    gil_s=0.05, python_s=0.02, child_s=0.2, asleep_s=0.1, blocked_s=0.03, spawn_s=0.01, n_gil_visits=3
)
BOX = Machine(cores=4, handover_s=0)

seconds = st.one_of(st.just(0.0), st.floats(1e-4, 1.0))
demands_of_any_kind = st.builds(
    Demands,
    gil_s=st.floats(1e-3, 0.1),
    python_s=seconds,
    child_s=seconds,
    asleep_s=seconds,
    blocked_s=seconds,
    spawn_s=seconds,
    n_gil_visits=st.integers(1, 7),
    cv_ratio=st.sampled_from([0.0, 0.5, 1.0]),
)


def closed(layout: Layout, demands: Demands = FULL, machine: Machine = BOX, n_items: int = 6000) -> Scenario:
    return Scenario(layout, demands, machine, n_items=n_items, n_warm_items=300)


@cache
def simulated(layout: Layout) -> Simulated:
    """What comes of FULL on BOX, for all who only read it."""
    return simulate(closed(layout))


@settings(max_examples=25, deadline=None)
@given(
    demands=demands_of_any_kind,
    processes=st.integers(1, 4),
    threads=st.integers(1, 4),
    cores=st.sampled_from([0.5, 1, 2, 8]),
    has_gil=st.booleans(),
    has_smt=st.booleans(),
)
def test_every_thread_is_somewhere(
    demands: Demands, processes: int, threads: int, cores: float, has_gil: bool, has_smt: bool
) -> None:
    machine = Machine(cores, cores / 2 if has_smt else None, has_gil=has_gil, switch_interval_s=0.02)
    one = simulate(closed(Layout(processes, threads), demands, machine, n_items=100))
    n_runnable = one.load - one.n_blocked
    n = processes * threads

    assert n_runnable + one.n_blocked + one.n_asleep + one.n_gil_waiting == pytest.approx(n, rel=1e-9)
    assert n_runnable - one.n_core_waiting == pytest.approx(one.cpu_cores)
    assert one.cpu_cores * (1 - 1e-9) <= one.busy_cores <= min(cores, n_runnable) * (1 + 1e-9)
    assert has_smt or one.busy_cores == pytest.approx(one.cpu_cores)
    assert 0 <= one.gil_utilization_ratio <= 1 + 1e-9
    assert one.core_utilization_ratio <= 1 + 1e-9
    assert 0 < one.residence_p50_s <= one.residence_p95_s <= one.residence_p99_s


@pytest.mark.parametrize("layout", [Layout(1, 1), Layout(1, 6), Layout(3, 2), Layout(6, 1)])
def test_items_spend_in_the_network_what_littles_law_says(layout: Layout) -> None:
    one = simulated(layout)
    per_s = one.throughput_per_s

    assert per_s * one.residence_s == pytest.approx(layout.processes * layout.threads, rel=0.005)
    assert one.n_asleep == pytest.approx(per_s * FULL.asleep_s, rel=0.02)
    assert one.n_blocked == pytest.approx(per_s * (FULL.blocked_s + FULL.spawn_s), rel=0.02)


@pytest.mark.parametrize("layout", [Layout(1, 6), Layout(3, 2)])
def test_cores_do_what_items_ask_for_and_no_more(layout: Layout) -> None:
    one = simulated(layout)

    assert one.cpu_cores == pytest.approx(one.throughput_per_s * FULL.cpu_s, rel=0.01)


def test_one_thread_alone_takes_what_an_item_asks_for() -> None:
    one = simulate(closed(Layout(1, 1), replace(FULL, cv_ratio=0.0), n_items=20))

    assert one.throughput_per_s == pytest.approx(1 / FULL.total_s)
    assert one.residence_s == pytest.approx(FULL.total_s)
    assert one.throughput_error_per_s == pytest.approx(0, abs=1e-9)
    assert one.gil_utilization_ratio == pytest.approx(FULL.gil_s / FULL.total_s)
    assert one.load == pytest.approx(1 - FULL.asleep_s / FULL.total_s)


def test_nobody_waits_for_the_gil_where_each_process_has_one_thread() -> None:
    one = simulated(Layout(6, 1))

    assert (one.n_gil_waiting, one.n_forced_per_s) == (0.0, 0.0)


def test_without_a_gil_threads_are_as_good_as_processes() -> None:
    free = replace(BOX, has_gil=False)
    python = Demands(gil_s=0.1, asleep_s=0.05)
    threads, processes = (
        simulate(closed(Layout(1, 6), python, free, n_items=1000)),
        simulate(closed(Layout(6, 1), python, free, n_items=1000)),
    )

    assert threads == processes
    assert threads.gil_utilization_ratio == 0.0
    assert (
        threads.throughput_per_s > 3 * simulate(closed(Layout(1, 6), python, n_items=1000)).throughput_per_s
    )


def test_a_process_does_no_more_than_its_gil_lets_it() -> None:
    one = simulate(closed(Layout(1, 30), machine=Machine(cores=100, handover_s=0), n_items=3000))

    assert one.gil_utilization_ratio == pytest.approx(1.0, abs=0.005)
    assert one.throughput_per_s == pytest.approx(1 / FULL.gil_s, rel=0.01)


def test_hand_overs_cost_throughput_where_the_gil_is_the_limit() -> None:
    """A visit of W = 25 ms takes W / 4.5 + 1/2 turns on average, and each costs 0.5 ms."""
    python = Demands(gil_s=0.05, asleep_s=0.05)
    dear, free = (
        simulate(closed(Layout(1, 8), python, replace(BOX, handover_s=cost_s), n_items=2000))
        for cost_s in (0.0005, 0.0)
    )

    assert dear.throughput_per_s / free.throughput_per_s == pytest.approx(
        25 / (25 + 0.5 * (25 / 4.5 + 0.5)), abs=0.01
    )


def test_cores_that_processes_use_themselves_are_missing_and_are_reported() -> None:
    terms = Terms(process_cores=0.5)
    work = Demands(gil_s=0, child_s=0.1, cv_ratio=0)
    one = simulate(scenario_of(work, BOX, Layout(4, 2), terms, n_items=80, n_warm_items=24))

    assert one.throughput_per_s == pytest.approx((4 - 2) / 0.1)
    assert one.cpu_cores == pytest.approx(4.0)
    assert one.load == pytest.approx(8 + 2)


def test_terms_make_demands_of_the_layout() -> None:
    terms = Terms(cpu_per_process_ratio=0.1, threaded_asleep_s=0.5, convoy_ratio=0.2)
    scenario = scenario_of(FULL, BOX, Layout(3, 2), terms)

    assert scenario.demands.child_s == pytest.approx(FULL.child_s * 1.2)
    assert scenario.demands.asleep_s == pytest.approx(FULL.asleep_s + 0.5)
    assert scenario.demands.gil_s == pytest.approx(FULL.gil_s * 1.2 * 1.1)
    assert (scenario.demands.n_gil_visits, scenario.demands.cv_ratio) == (3, FULL.cv_ratio)


@given(demands=demands_of_any_kind, has_gil=st.booleans())
def test_stages_add_up_to_the_demands(demands: Demands, has_gil: bool) -> None:
    path = path_of(demands, has_gil=has_gil)
    by_kind = {
        kind: sum(s.mean_s for s in path if s.kind == kind) for kind in ("gil", "core", "asleep", "blocked")
    }

    assert by_kind["asleep"] == pytest.approx(demands.asleep_s)
    assert by_kind["blocked"] == pytest.approx(demands.blocked_s + demands.spawn_s)
    assert by_kind["gil"] + by_kind["core"] == pytest.approx(demands.cpu_s)
    assert sum(s.kind == "gil" for s in path) == (demands.n_gil_visits if has_gil else 0)
    assert all(stage.mean_s > 0 for stage in path)


@pytest.mark.parametrize(
    ("visits", "kinds"),
    [
        (1, "gil asleep blocked core core blocked"),
        (2, "gil asleep blocked core core gil blocked"),
        (3, "gil asleep gil blocked core core gil blocked"),
        (5, "gil asleep gil asleep gil asleep gil blocked core core gil blocked"),
    ],
)
def test_the_gil_is_visited_before_the_child_and_after(visits: int, kinds: str) -> None:
    path = path_of(replace(FULL, n_gil_visits=visits), has_gil=True)

    assert " ".join(stage.kind for stage in path) == kinds


def test_what_an_item_does_not_ask_for_is_no_stage() -> None:
    assert [s.kind for s in path_of(Demands(gil_s=0, child_s=1.0), has_gil=True)] == ["core"]
    assert [s.kind for s in path_of(Demands(gil_s=0, asleep_s=1.0), has_gil=True)] == ["asleep"]


def test_quantiles_are_those_of_the_residence_times() -> None:
    """One thread, one exponential stage: residence times are exponential."""
    one = simulate(closed(Layout(1, 1), Demands(gil_s=0, child_s=2.0, cv_ratio=1), n_items=40_000))

    assert one.residence_p50_s == pytest.approx(2 * log(2), rel=0.03)
    assert one.residence_p95_s == pytest.approx(2 * log(20), rel=0.03)
    assert one.residence_p99_s == pytest.approx(2 * log(100), rel=0.05)


def test_quantiles_of_equal_times_are_within_the_width_of_a_bucket() -> None:
    one = simulate(closed(Layout(1, 1), Demands(gil_s=0, child_s=2.0, cv_ratio=0), n_items=20))

    assert one.residence_p50_s == pytest.approx(2.0, rel=0.01)
    assert one.residence_p99_s == pytest.approx(2.0, rel=0.01)


def test_the_standard_error_is_that_of_repeated_runs() -> None:
    demands = Demands(gil_s=0.02, child_s=0.1, n_gil_visits=1)
    runs = [simulate(replace(closed(Layout(2, 2), demands, n_items=300), seed=seed)) for seed in range(40)]
    scatter = stdev(one.throughput_per_s for one in runs)
    result = fmean(one.throughput_error_per_s for one in runs)

    assert 0.7 < result / scatter < 1.4


def test_open_arrivals_come_at_their_rate_and_littles_law_holds() -> None:
    scenario = replace(closed(Layout(2, 2), n_items=8000), arrival_per_s=6.0)
    one = simulate(scenario)
    n_present = one.n_queued + (one.load - one.n_blocked) + one.n_blocked + one.n_asleep + one.n_gil_waiting

    assert one.throughput_per_s == pytest.approx(6.0, rel=0.035)
    assert n_present == pytest.approx(one.throughput_per_s * one.residence_s, rel=0.005)


@pytest.mark.parametrize(
    ("layout", "demands", "machine", "most_per_s"),
    [
        (Layout(2, 2), Demands(gil_s=0.01, child_s=0.04), Machine(cores=1), 1 / 0.05),  # cores
        (Layout(3, 1), Demands(gil_s=0, child_s=1.0), Machine(2, 1, 0.25), 1.25),  # two threads on a core
        (Layout(2, 8), Demands(gil_s=0.05, child_s=0.1), Machine(cores=64), 2 / 0.05),  # GILs
        (Layout(2, 8), Demands(gil_s=0.05, child_s=0.1), Machine(64, has_gil=False), 16 / 0.15),  # none
        (Layout(2, 8), Demands(gil_s=0.01, asleep_s=0.99), Machine(cores=64), 16 / 1.0),  # threads
        (Layout(1, 8), Demands(gil_s=0.1), Machine(64, foreign_cores=63.5), 5.0),  # what strangers leave
    ],
)
def test_arrivals_beyond_capacity_are_refused(
    layout: Layout, demands: Demands, machine: Machine, most_per_s: float
) -> None:
    scenario = closed(layout, demands, machine, n_items=20)

    assert scenario.most_per_s == pytest.approx(most_per_s)
    assert replace(scenario, arrival_per_s=0.99 * most_per_s).arrival_per_s is not None
    with raises(ValueError, wording("simulate.arrivals-below", layout=layout)):
        replace(scenario, arrival_per_s=scenario.most_per_s)


def test_no_layout_does_more_than_its_most() -> None:
    for layout in (Layout(1, 8), Layout(4, 2), Layout(8, 1), Layout(1, 1)):
        scenario = closed(layout, replace(FULL, cv_ratio=0.0), n_items=400)

        assert 0.5 * scenario.most_per_s < simulate(scenario).throughput_per_s < 1.01 * scenario.most_per_s


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"n_items": 19}, wording("simulate.items-or-more")),
        ({"n_warm_items": -1}, wording("simulate.warm-items")),
        ({"seed": -1}, wording("simulate.seed-should-be")),
        ({"seed": 2**64}, wording("simulate.seed-should-be")),
        ({"arrival_per_s": 0.0}, wording("simulate.arrivals-or-more")),
        ({"arrival_per_s": 1e-320}, wording("simulate.arrivals-or-more")),
        ({"arrival_per_s": inf}, wording("simulate.arrivals-or-more")),
        ({"process_cores": -0.1}, wording("simulate.process-cores")),
        ({"machine": Machine(cores=4, switch_interval_s=0.0)}, wording("simulate.switch-interval")),
        ({"machine": Machine(cores=4, handover_s=-1e-6)}, wording("simulate.handover-or-more")),
        ({"machine": Machine(cores=4, handover_s=0.005)}, wording("simulate.handover-got")),
        ({"machine": Machine(cores=0.1, handover_s=0.0004)}, wording("simulate.half-of-switch-interval")),
    ],
    ids=key_of,
)
def test_a_scenario_that_cannot_be_is_refused(changes: dict[str, Any], says: str) -> None:
    with raises(ValueError, says):
        replace(closed(Layout(2, 4)), **changes)


def test_a_dear_hand_over_is_nobodys_concern_where_nobody_waits_for_a_gil() -> None:
    dear = Machine(cores=4, handover_s=0.005)

    assert simulate(closed(Layout(4, 1), machine=dear, n_items=20)).throughput_per_s > 0
    assert (
        simulate(closed(Layout(1, 4), machine=replace(dear, has_gil=False), n_items=20)).throughput_per_s > 0
    )


def test_threads_that_only_hold_a_gil_and_wait_are_as_many_runnable_tasks_as_processes() -> None:
    """With a task for each of the 1024 threads a hand-over would take more of the cores than a turn gives."""
    waiting = Demands(gil_s=0.001, asleep_s=1.0)
    scenario = closed(Layout(4, 256), waiting, Machine(cores=2), n_items=2000)

    assert scenario.most_runnable == 4
    assert simulate(scenario).throughput_per_s == pytest.approx(1024 / waiting.total_s, rel=0.05)
    with raises(ValueError, wording("simulate.tasks-need")):
        replace(scenario, demands=replace(waiting, child_s=0.001))


def test_a_clock_that_cannot_tell_a_turn_is_reported() -> None:
    """After a billion seconds the clock goes in steps of 0.12 us: a turn of 1 ns ends as it begins."""
    rare = Demands(gil_s=1e-7, asleep_s=1e9, n_gil_visits=1, cv_ratio=0)
    machine = Machine(cores=2, switch_interval_s=1e-9, handover_s=0)

    with raises(ValueError, wording("simulate.switch-interval-too-short-for-clock")):
        simulate(closed(Layout(1, 2), rare, machine, n_items=20))


def test_work_of_a_turn_that_the_clock_would_round_away_is_reported() -> None:
    """A turn of 1 ms on 1/1000 of a core is 1 us of work, a sixteenth of it less than a step of the clock."""
    rare = Demands(gil_s=0.01, child_s=0.01, asleep_s=2e9, n_gil_visits=1, cv_ratio=0)
    machine = Machine(cores=0.1, switch_interval_s=0.001, handover_s=0)

    with raises(ValueError, wording("simulate.switch-interval-too-short-for-clock")):
        simulate(closed(Layout(1, 100), rare, machine, n_items=400))
    assert simulate(closed(Layout(1, 1), rare, machine, n_items=20)).throughput_per_s > 0


def test_times_that_have_no_end_are_reported() -> None:
    endless = Demands(gil_s=0, child_s=1e308, cv_ratio=0)

    with raises(ValueError, wording("simulate.times-too-long")):
        simulate(closed(Layout(1, 1), endless, Machine(cores=0.1), n_items=20))


def test_an_endless_switch_interval_forces_nothing() -> None:
    one = simulate(closed(Layout(1, 4), machine=replace(BOX, switch_interval_s=inf), n_items=400))

    assert one.n_forced_per_s == 0.0
    assert one.n_gil_waiting > 0.0


def test_every_figure_is_a_number() -> None:
    one = simulate(closed(Layout(2, 2), n_items=100))

    assert all(isfinite(getattr(one, field.name)) and getattr(one, field.name) >= 0 for field in fields(one))
