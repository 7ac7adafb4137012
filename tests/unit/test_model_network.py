"""The analytic network against exact chains, product form, and laws that hold for any network."""

from __future__ import annotations

from dataclasses import fields, replace
from math import comb, inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.core.domain.layout import Layout, full_grid
from tuner.core.model import network
from tuner.core.model.demand import Demands, LayoutDemands, Terms, layout_demands, stacked_demands
from tuner.core.model.machine import Machine
from tuner.core.model.network import Prediction, predict, solve

from ..queueing import exact_chain, product_form

pytestmark = pytest.mark.pythons

MIXES = [(0.02, 0.01, 0.01), (0.02, 0.03, 0.01), (0.01, 0.03, 0.03), (0.01, 0.01, 0.05)]


def one(prediction: Prediction, name: str) -> float:
    return float(getattr(prediction, name)[0])


@pytest.mark.parametrize("cores", [1, 2, 4])
@pytest.mark.parametrize("threads", [2, 4, 8])
@pytest.mark.parametrize("mix", MIXES)
def test_one_process_is_within_2_percent_of_its_exact_chain(
    mix: tuple[float, float, float], threads: int, cores: int
) -> None:
    gil_s, child_s, away_s = mix
    throughput, load, _ = exact_chain(threads, cores, gil_s, child_s, away_s)
    demands = Demands(gil_s=gil_s, child_s=child_s, asleep_s=away_s)
    got = predict(demands, Machine(cores, wake_s=0.0), [Layout(1, threads)])

    assert one(got, "throughput_per_s") == pytest.approx(throughput, rel=0.02)
    assert one(got, "load") == pytest.approx(load, rel=0.03)


@pytest.mark.parametrize("cores", [2, 4, 24])
@pytest.mark.parametrize("factor", [0.5, 1, 2])
def test_without_a_gil_threads_are_customers_of_the_cores_in_product_form(cores: int, factor: float) -> None:
    n = int(cores * factor)
    throughput, load = product_form(n, cores, 0.7, 0.3)
    layouts = [Layout(1, n), Layout(n, 1)]
    got = predict(Demands(gil_s=0.2, child_s=0.5, asleep_s=0.3), Machine(cores, has_gil=False), layouts)

    assert got.throughput_per_s == pytest.approx([throughput] * 2, rel=1e-3)
    assert got.load == pytest.approx([load] * 2, rel=1e-3)
    assert list(got.gil_utilization_ratio) == [0.0, 0.0]


@pytest.mark.parametrize("cores", [1, 2, 4, 24])
@pytest.mark.parametrize("n_per_core", [1, 2, 6])
@pytest.mark.parametrize("gil_s", [0.2, 0.7])
def test_processes_of_one_thread_are_as_well_though_each_has_a_gil(
    cores: int, n_per_core: int, gil_s: float
) -> None:
    n = cores * n_per_core
    for away_s in (0.3, 2.8):
        throughput, load = product_form(n, cores, 0.7, away_s)
        demands = Demands(gil_s=gil_s, child_s=0.7 - gil_s, asleep_s=away_s)
        got = predict(demands, Machine(cores), [Layout(n, 1)])

        assert one(got, "throughput_per_s") == pytest.approx(throughput, rel=0.005)
        assert one(got, "load") == pytest.approx(load, rel=0.005)
        # held by whoever is in Python, be it that he waits for a core
        held = gil_s / 0.7 * (n - throughput * away_s) / n
        assert one(got, "gil_utilization_ratio") == pytest.approx(held, rel=0.015)


def test_no_gil_is_no_loss_where_nobody_waits_for_one() -> None:
    layouts = [Layout(processes, 1) for processes in (1, 2, 3, 4, 6, 8, 12)]
    for cores in (1, 2, 4):
        with_gil, without = (
            predict(Demands(gil_s=0.02, asleep_s=0.08), Machine(cores, has_gil=has), layouts)
            for has in (True, False)
        )

        assert without.throughput_per_s == pytest.approx(with_gil.throughput_per_s, rel=1e-6)
        assert without.load == pytest.approx(with_gil.load, rel=1e-6)


def test_a_gil_without_rivals_for_cores_is_a_machine_repairman() -> None:
    threads, gil_s, away_s = 6, 0.1, 0.4
    # M/M/1//N: the chance that nobody is at the GIL
    terms = [
        comb(threads, k) * np.prod(np.arange(1, k + 1)) * (gil_s / away_s) ** k for k in range(threads + 1)
    ]
    got = predict(Demands(gil_s=gil_s, asleep_s=away_s), Machine(64), [Layout(1, threads)])

    assert one(got, "throughput_per_s") == pytest.approx((1 - terms[0] / sum(terms)) / gil_s, rel=1e-6)


def test_many_threads_of_one_process_come_to_what_its_gil_lets_through() -> None:
    got = predict(Demands(gil_s=0.1, child_s=0.3, asleep_s=0.2), Machine(64), [Layout(1, 60)])

    assert one(got, "throughput_per_s") == pytest.approx(10.0, rel=1e-3)
    assert one(got, "gil_utilization_ratio") == pytest.approx(1.0, abs=1e-3)
    assert one(got, "n_gil_waiting") == pytest.approx(60 - 1 - 10 * 0.5, rel=0.01)


def test_the_socorro_base_model_saturates_as_the_published_table_does() -> None:
    layouts = [Layout(1, 12), Layout(1, 24), Layout(2, 12)]
    got = predict(Demands(gil_s=0.586, child_s=3.3, asleep_s=0.54), Machine(24), layouts)
    per_10min = 600 * got.throughput_per_s

    assert per_10min[1] / per_10min[0] < 1.03, "nothing beyond 12 threads"
    assert per_10min[2] / per_10min[0] == pytest.approx(2.0, rel=0.02)


durations = st.floats(0.0, 0.5)


@st.composite
def networks(draw: st.DrawFn) -> tuple[Demands, Machine, Layout]:
    demands = Demands(
        gil_s=draw(st.floats(0.001, 0.5)),
        python_s=draw(durations),
        child_s=draw(durations),
        asleep_s=draw(durations),
        blocked_s=draw(durations),
        spawn_s=draw(st.floats(0.0, 0.01)),
    )
    cores = draw(st.integers(1, 24))
    physical = draw(st.sampled_from([None, max(1, cores // 2)]))
    machine = Machine(cores, physical_cores=physical, foreign_cores=draw(st.sampled_from([0.0, 0.3])))
    return demands, machine, Layout(draw(st.integers(1, 24)), draw(st.integers(1, 24)))


@given(networks())
@settings(max_examples=150, deadline=None)
def test_every_thread_is_somewhere_and_no_bound_is_broken(
    network: tuple[Demands, Machine, Layout],
) -> None:
    demands, machine, layout = network
    got = predict(demands, machine, [layout])
    throughput = one(got, "throughput_per_s")
    n = layout.total_threads
    runnable = throughput * demands.cpu_s + one(got, "n_core_waiting")
    somewhere = runnable + one(got, "n_gil_waiting") + one(got, "n_asleep") + one(got, "n_blocked")

    assert somewhere == pytest.approx(n, rel=0.02)
    assert throughput <= n / demands.total_s * 1.001
    assert throughput <= layout.processes / demands.gil_s * 1.001
    assert throughput * demands.cpu_s <= float(machine.total_speed(np.array(inf))) * 1.001
    assert 0 <= one(got, "gil_utilization_ratio") <= 1
    assert one(got, "n_core_waiting") >= 0


@given(networks())
@settings(max_examples=60, deadline=None)
def test_more_cores_and_more_threads_never_do_harm_in_the_base_model(
    network: tuple[Demands, Machine, Layout],
) -> None:
    demands, machine, layout = network
    more_threads = Layout(layout.processes, layout.threads + 1)
    few, many = predict(demands, machine, [layout, more_threads]).throughput_per_s
    on_more = predict(demands, Machine(machine.cores + 1), [layout]).throughput_per_s[0]

    assert many >= few * 0.99
    assert on_more >= few * 0.99


def test_tasks_of_others_are_in_the_load_and_in_nothing_else() -> None:
    alone = Demands(gil_s=0.05, child_s=0.2, asleep_s=0.1)
    beside = replace(alone, others_s=0.01)
    layouts = [Layout(1, 1), Layout(2, 4)]
    got, without = predict(beside, Machine(4), layouts), predict(alone, Machine(4), layouts)

    assert got.load - without.load == pytest.approx(0.01 * without.throughput_per_s)
    for name in ("throughput_per_s", "busy_cores", "n_core_waiting", "n_blocked", "residence_s"):
        assert getattr(got, name) == pytest.approx(getattr(without, name)), name
    assert beside.total_s == alone.total_s


def test_grids_are_solved_as_layouts_are_one_by_one() -> None:
    demands, machine = Demands(gil_s=0.05, child_s=0.2, asleep_s=0.1, blocked_s=0.05), Machine(8)
    layouts = full_grid(8)
    together = predict(demands, machine, layouts)
    for k, layout in enumerate(layouts):
        alone = predict(demands, machine, [layout])
        assert together.throughput_per_s[k] == pytest.approx(one(alone, "throughput_per_s"), rel=0.01)
        assert together.load[k] == pytest.approx(one(alone, "load"), rel=0.02)


def test_terms_apply_as_they_say() -> None:
    demands = Demands(gil_s=1.0, child_s=2.0, asleep_s=3.0, blocked_s=4.0)
    terms = Terms(
        process_cores=0.1,
        cpu_per_process_ratio=0.5,
        blocked_per_process_ratio=0.25,
        threaded_asleep_s=7.0,
        convoy_ratio=0.4,
    )
    got = layout_demands(demands, terms, [1, 3], [1, 4])

    assert list(got.gil_s) == pytest.approx([1.0, 2.0 * 1.3])
    assert list(got.child_s) == [2.0, 4.0]
    assert list(got.asleep_s) == [3.0, 10.0]
    assert list(got.blocked_s) == [4.0, 6.0]
    assert list(got.process_cores) == pytest.approx([0.1, 0.3])


def test_what_processes_use_beside_their_items_is_taken_from_the_cores() -> None:
    demands = Demands(gil_s=0.1, child_s=0.9)
    plain = solve(layout_demands(demands, Terms(), [8], [1]), Machine(4))
    beside = solve(layout_demands(demands, Terms(process_cores=0.25), [8], [1]), Machine(4))

    assert plain.throughput_per_s[0] == pytest.approx(4.0, rel=1e-3)
    assert beside.throughput_per_s[0] == pytest.approx(2.0, rel=1e-3)
    assert beside.cpu_cores[0] == pytest.approx(4.0, rel=1e-3)


def load_by_waking(demands: Demands, cores: float, layout: Layout) -> float:
    """What waking up for the GIL adds to the load."""
    awake, asleep = [predict(demands, Machine(cores, wake_s=s), [layout]).load[0] for s in (0.0003, 0.0)]
    return float(awake - asleep)


def test_waiters_for_the_gil_count_in_the_load_where_cores_are_busy() -> None:
    demands = Demands(gil_s=0.02, child_s=0.03, asleep_s=0.01)

    assert load_by_waking(demands, 2, Layout(1, 8)) > 0.5
    assert load_by_waking(demands, 32, Layout(1, 8)) < 0.05
    assert load_by_waking(demands, 2, Layout(8, 1)) == pytest.approx(0.0, abs=1e-6)  # there is no line


def test_who_starts_children_lets_go_of_the_gil_more_often_and_wakes_more() -> None:
    child, own = Demands(gil_s=0.02, child_s=0.02), Demands(gil_s=0.02, python_s=0.02)

    assert load_by_waking(child, 2, Layout(1, 8)) > 2 * load_by_waking(own, 2, Layout(1, 8))


@given(
    gil_s=st.floats(1e-4, 1.0),
    child_s=st.floats(0, 1.0),
    threads=st.integers(1, 64),
    cores=st.integers(1, 64),
)
def test_those_who_wake_up_are_some_of_those_in_line(
    gil_s: float, child_s: float, threads: int, cores: int
) -> None:
    demands, layout = Demands(gil_s=gil_s, child_s=child_s), Layout(1, threads)
    in_line = predict(demands, Machine(cores), [layout]).n_gil_waiting[0]

    assert -1e-9 <= load_by_waking(demands, cores, layout) <= in_line + 1e-9


@pytest.mark.parametrize(
    "bad", [{"gil_s": -1.0}, {"gil_s": 0.0}, {"gil_s": inf}, {"gil_s": 1.0, "cv_ratio": 2.0}]
)
def test_demands_that_cannot_be_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"should be|no demand"):
        Demands(**bad)


@pytest.mark.parametrize("threads", [8, 48])
def test_layouts_requested_several_times_at_once_get_the_same_answer_to_the_last_bit(threads: int) -> None:
    layouts = [*full_grid(4), Layout(2, threads)]
    demands, machine = Demands(0.02, child_s=0.03, asleep_s=0.01), Machine(4, 2)
    once = predict(demands, machine, layouts)
    often = predict(demands, machine, layouts * 3)

    for name in ("throughput_per_s", "load", "n_gil_waiting", "busy_cores"):
        assert np.array_equal(np.tile(getattr(once, name), 3), getattr(often, name)), name


#: near saturation, where one round after the other comes to rest in hundreds
CROWDED = [
    (Demands(0.9, child_s=0.01, asleep_s=4.0), 8, Layout(24, 2)),
    (Demands(0.05, child_s=0.01, asleep_s=4.0), 2, Layout(24, 6)),
    (Demands(0.05, child_s=0.01, asleep_s=4.0), 4, Layout(48, 6)),
    (Demands(0.048, asleep_s=0.5), 1, Layout(3, 2)),
    (Demands(0.6, child_s=1e-4, asleep_s=9.68), 1, Layout(5, 2)),
    (Demands(1.0, asleep_s=33.43), 8, Layout(96, 4)),
    (Demands(1.0, asleep_s=33.43), 1, Layout(9, 4)),
    (Demands(1.0, asleep_s=60.0), 1, Layout(16, 2)),
]


def plainly(demands: Demands, machine: Machine, layout: Layout, n_rounds: int) -> Prediction:
    """By so many rounds, each of which assumes what came of the one before, or until nothing moves at all."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(network, "_nearer", lambda _assumed, found, _earlier: found)
        patch.setattr(network, "_SETTLED", 0.0)
        patch.setattr(network, "_MOST_ROUNDS", n_rounds)
        return predict(demands, machine, [layout])


@pytest.mark.parametrize(("demands", "cores", "layout"), CROWDED)
def test_many_processes_on_few_cores_come_to_rest(demands: Demands, cores: int, layout: Layout) -> None:
    result = predict(demands, Machine(cores), [layout])
    at_rest = plainly(demands, Machine(cores), layout, 3000)
    early = plainly(demands, Machine(cores), layout, 5)

    assert result.throughput_per_s == pytest.approx(at_rest.throughput_per_s, rel=1e-6)
    assert result.load == pytest.approx(at_rest.load, rel=1e-5)
    assert result.gil_utilization_ratio == pytest.approx(at_rest.gil_utilization_ratio, abs=1e-6)
    assert early.load != pytest.approx(at_rest.load, rel=1e-5)


@given(networks())
@settings(max_examples=50, deadline=None)
def test_the_network_is_at_rest(network_: tuple[Demands, Machine, Layout]) -> None:
    result, at_rest = predict(*network_[:2], [network_[2]]), plainly(*network_, 600)

    assert result.throughput_per_s == pytest.approx(at_rest.throughput_per_s, rel=1e-5)
    assert result.gil_utilization_ratio == pytest.approx(at_rest.gil_utilization_ratio, abs=1e-4)


def test_layouts_in_parts_are_no_wider_than_they_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many narrow ones and a wide one: they do not share a part that is as wide as that."""
    sizes = []
    solve_ = network._solve

    def seen(of: LayoutDemands, *rest: Any) -> Prediction:
        sizes.append(len(of.processes) * (1 + (of.processes * of.threads).max()))
        return solve_(of, *rest)

    monkeypatch.setattr(network, "_solve", seen)
    monkeypatch.setattr(network, "_MOST_CELLS", 300)
    grid = [Layout(1, 1)] * 100 + [Layout(8, 30)] + [Layout(2, 2)] * 20
    got = predict(Demands(0.02, asleep_s=0.1), Machine(4), grid)

    assert max(sizes) <= 300
    assert len(got.load) == 121
    assert got.load[100] == max(got.load)


def test_what_the_network_answers_alike_is_still_told_apart() -> None:
    """What an item waits for is one to the network, and not to whoever looks at the box."""
    sets = {name: np.full(3, 0.0) for name in ("python_s", "spawn_s", "others_s")}
    sets |= {"gil_s": np.full(3, 0.02), "child_s": np.array([0.03, 0.03, 0.04])}
    sets |= {"asleep_s": np.array([0.01, 0.0, 0.01]), "blocked_s": np.array([0.0, 0.01, 0.0])}
    grid = full_grid(4)
    sizes = [x.processes for x in grid], [x.threads for x in grid]
    got = solve(stacked_demands(sets, {}, *sizes), Machine(4))

    each = [
        Demands(**{name: float(values[n]) for name, values in sets.items()})  # type: ignore[arg-type]
        for n in range(3)
    ]
    alone = [predict(demands, Machine(4), grid) for demands in each]
    for field in fields(Prediction):
        wanted = np.concatenate([getattr(one_, field.name) for one_ in alone])
        assert getattr(got, field.name) == pytest.approx(wanted, rel=1e-9, abs=1e-12), field.name
    assert not np.allclose(alone[0].n_blocked, alone[1].n_blocked)


@pytest.mark.parametrize(("cores", "own"), [(1.0, 1), (3.0, 2), (4.0, 2), (1.5, 1), (0.5, 0.5)])
def test_a_part_of_a_physical_core_is_no_core(cores: float, own: float) -> None:
    # of a box with two threads to each core, of which the service may use so many
    machine = Machine(cores, cores / 2)
    alone = predict(Demands(0.1), machine, [Layout(processes, 1) for processes in (1, 2, 3)])
    per_s = [10 * min(n, own) + 10 * 0.3 * max(0.0, min(n, cores) - own) for n in (1, 2, 3)]

    assert machine.own_cores == own
    assert alone.throughput_per_s == pytest.approx(per_s, rel=1e-3)


def test_what_second_threads_add_may_differ_from_layout_to_layout() -> None:
    layouts = full_grid(4)
    of = layout_demands(
        Demands(0.02, child_s=0.03), Terms(), [x.processes for x in layouts], [x.threads for x in layouts]
    )
    gains = np.where(np.arange(len(layouts)) % 2, 0.1, 0.6)
    mixed = solve(of, Machine(4, 2), gains)

    for gain in (0.1, 0.6):
        alone = solve(of, Machine(4, 2, smt_gain_ratio=gain))
        own = gains == gain
        assert np.array_equal(mixed.throughput_per_s[own], alone.throughput_per_s[own])
        assert np.array_equal(mixed.load[own], alone.load[own])
    assert len({float(one) for one in solve(of, Machine(4, 2)).throughput_per_s}) > 2


def test_layouts_that_are_too_many_to_be_solved_at_once_get_the_same_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    box, grid = Machine(12, physical_cores=6), full_grid(12)[::-1]
    mix = Demands(0.02, child_s=0.03, asleep_s=0.01, blocked_s=0.01)
    of = layout_demands(mix, Terms(), [one.processes for one in grid], [one.threads for one in grid])
    gains = np.linspace(0.2, 0.4, len(grid))
    at_once = solve(of, box, gains)
    monkeypatch.setattr(network, "_MOST_CELLS", 200)
    in_parts = solve(of, box, gains)

    for field in fields(Prediction):
        result, wanted = getattr(in_parts, field.name), getattr(at_once, field.name)
        assert result == pytest.approx(wanted, rel=1e-9, abs=1e-12), field.name


@pytest.mark.parametrize("gil_s", [5e-324, 1e-310, 1e-300])
def test_next_to_no_python_is_as_none(gil_s: float) -> None:
    """A fit to workers whose clocks stand still comes this near to its bound."""
    box, grid = Machine(2), [Layout(1, 1), Layout(1, 4), Layout(2, 2)]
    little = predict(Demands(gil_s=gil_s, asleep_s=2.0), box, grid)
    none = predict(Demands(gil_s=0.0, asleep_s=2.0), box, grid)

    assert little.throughput_per_s == pytest.approx(none.throughput_per_s)
    assert little.load == pytest.approx(none.load)
