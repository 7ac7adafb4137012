"""Layouts event by event: how long each is simulated, what cannot be, and the load with those who wake up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tuner.config.document import parse_document
from tuner.config.profile import parse_profile
from tuner.core.domain.layout import Layout, parse_layouts
from tuner.core.errors import ConfigError
from tuner.core.model.demand import NO_TERMS, Demands, Terms
from tuner.core.model.machine import Machine
from tuner.core.model.network import Prediction, predict
from tuner.core.model.prediction.whatif import WhatIf
from tuner.core.model.profile import Profile
from tuner.core.model.simulation.layouts import scenarios, simulate_layouts
from tuner.core.model.simulation.scenario import simulate

from ..raising import raises
from ..wording import wording

BOX = Machine(cores=2)
TODAY = WhatIf()
HEAVY = Demands(
    gil_s=0.012, child_s=0.012, asleep_s=0.001, spawn_s=0.001
)  # children of 12 ms, as in docs/method/model.md


def profile(demands: Demands, terms: Terms = NO_TERMS) -> Profile:
    return Profile("shop", demands, BOX, terms)


def simulated(
    of: Profile, machine: Machine, layouts: list[Layout], what_if: WhatIf = TODAY, n_items: int | None = None
) -> Prediction:
    """*n_items* are fewer than usual, for what holds for any number."""
    asked = scenarios(of, machine, layouts, what_if)
    if n_items is not None:
        asked = [replace(one, n_items=n_items) for one in asked]
    return simulate_layouts(asked, [simulate(one) for one in asked]).prediction


def test_the_load_in_a_convoy_is_that_of_the_network_with_those_who_wake_up_for_the_gil() -> None:
    layouts = [Layout(1, 8), Layout(2, 4)]
    got, network = simulated(profile(HEAVY), BOX, layouts), predict(HEAVY, BOX, layouts)
    asleep = predict(HEAVY, replace(BOX, wake_s=0.0), layouts)

    assert network.load[0] > 1.4 * asleep.load[0]
    assert got.load == pytest.approx(network.load, rel=0.1)


def test_tasks_of_others_are_in_the_load_of_a_simulation_too() -> None:
    layouts = [Layout(1, 1), Layout(2, 4)]
    alone = simulated(profile(HEAVY), BOX, layouts, n_items=500)
    got = simulated(profile(replace(HEAVY, others_s=0.004)), BOX, layouts, n_items=500)

    assert got.load - alone.load == pytest.approx(0.004 * alone.throughput_per_s)


def test_nobody_wakes_up_for_a_gil_that_is_not_there() -> None:
    free = WhatIf(no_gil=True)
    (scenario,) = scenarios(profile(HEAVY), BOX, [Layout(1, 8)], free)
    found = simulate(replace(scenario, n_items=500))

    assert simulated(profile(HEAVY), BOX, [Layout(1, 8)], free, n_items=500).load[0] == found.load


def test_cores_that_processes_use_themselves_are_as_if_they_were_not_there() -> None:
    layouts = [Layout(1, 8)]
    used = simulated(profile(HEAVY, Terms(process_cores=1.0)), Machine(cores=4), layouts, n_items=2000)
    missing = simulated(profile(HEAVY), Machine(cores=3), layouts, n_items=2000)

    assert missing.busy_cores[0] < 2.5  # some are idle: who wakes up waits for less long
    assert used.load == pytest.approx(missing.load + 1)
    assert used.busy_cores == pytest.approx(missing.busy_cores + 1)


def test_figures_are_in_the_order_of_the_layouts() -> None:
    layouts = parse_layouts("2x1,1x1,1x2")
    asked = scenarios(profile(HEAVY), BOX, layouts, TODAY)
    found = [simulate(replace(one, n_items=100, n_warm_items=0)) for one in asked]
    result = simulate_layouts(asked, found)

    assert list(result.prediction.throughput_per_s) == [one.throughput_per_s for one in found]
    assert result.residence_p95_s == {
        layout: one.residence_p95_s for layout, one in zip(layouts, found, strict=True)
    }


@pytest.mark.parametrize(
    ("layout", "n_warm_items", "n_items"),
    [
        (Layout(1, 1), 1000, 8000),
        (Layout(8, 10), 1000, 8000),
        (Layout(24, 12), 1440, 28_800),
        (Layout(48, 48), 11_520, 200_000),
    ],
)
def test_every_thread_has_items_enough(layout: Layout, n_warm_items: int, n_items: int) -> None:
    (scenario,) = scenarios(profile(HEAVY), Machine(cores=96), [layout], TODAY)

    assert (scenario.n_warm_items, scenario.n_items) == (n_warm_items, n_items)


def test_without_a_gil_there_is_no_convoy_to_pay_for() -> None:
    of = profile(HEAVY, Terms(convoy_ratio=0.5))
    (convoy,) = scenarios(of, BOX, [Layout(1, 2)], TODAY)
    (free,) = scenarios(of, BOX, [Layout(1, 2)], WhatIf(no_gil=True))

    assert convoy.demands.gil_s == pytest.approx(1.25 * HEAVY.gil_s)
    assert free.demands.gil_s == HEAVY.gil_s


@pytest.mark.parametrize(
    ("of", "machine", "layout"),
    [
        (profile(HEAVY), BOX, Layout(4, 256)),
        (profile(HEAVY, Terms(process_cores=0.2)), BOX, Layout(24, 3)),
        (profile(HEAVY), replace(BOX, handover_s=0.001), Layout(1, 2)),
        (profile(HEAVY), replace(BOX, switch_interval_s=1e-10), Layout(1, 1)),
    ],
)
def test_a_layout_whose_hand_overs_never_end_is_reported_with_what_to_do(
    of: Profile, machine: Machine, layout: Layout
) -> None:
    with raises(ConfigError, wording("simulate.layout-cannot-be", layout=layout)) as caught:
        scenarios(of, machine, [layout], TODAY)

    assert "--by network" in (caught.value.hint or "")


def test_many_threads_that_only_wait_are_no_problem() -> None:
    waiting = Demands(gil_s=0.001, asleep_s=1.0)
    (scenario,) = scenarios(profile(waiting), BOX, [Layout(4, 256)], TODAY)

    assert scenario.n_threads == 1024


def test_a_profile_whose_turns_take_no_time_is_refused() -> None:
    text = "name: x\ndemands: {gil: 1s}\nmachine: {cores: 2, switch_interval: 0s}\n"

    with pytest.raises(ConfigError, match="switch_interval"):
        parse_profile(parse_document(text, "p.yaml").values, "p.yaml")


def test_an_item_of_thousands_of_turns_at_the_gil_is_refused_before_they_are_laid_out() -> None:
    most = replace(HEAVY, n_gil_visits=2000)
    (scenario,) = scenarios(profile(most), BOX, [Layout(1, 1)], TODAY)

    assert len(scenario.path) <= 4096  # as tuner-simulate takes
    with raises(ConfigError, wording("simulate.too-many-gil-visits")):
        scenarios(profile(replace(HEAVY, n_gil_visits=100_000_000)), BOX, [Layout(1, 1)], TODAY)
