"""The calibrated race on several boxes: its guide knows of boxes, and a reference is on each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import log
from random import Random

import numpy as np
import pytest

from tuner.core.domain.fleet import Done, Place
from tuner.core.domain.layout import Layout, divisors_grid
from tuner.core.domain.strategy import Proposal
from tuner.core.model.demand import Demands
from tuner.core.model.machine import Machine
from tuner.core.model.network import predict
from tuner.core.search.fleet_posterior import LEVELS, FleetPosterior
from tuner.core.search.guide import FIRST_FIT, Guide
from tuner.core.search.own_suites import own_suite
from tuner.core.search.posterior import smooth_posterior
from tuner.core.search.strategies.fleet_race import GONE_AFTER, FleetRace, References
from tuner.core.search.suite import Suite, SuiteNoise

from ..arrays import farthest
from ..luck import at_most
from .spread_boxes import Boxes

CORES = 12
LAYOUTS = tuple(divisors_grid(CORES))
BOXES = ("box-1", "box-2", "box-3", "box-4")
N_FIRST = 6  #: layouts of the first block


def network_suite(sd: float = 0.03) -> Suite:
    """What the network gives for a service, as simulated boxes give it."""
    service = Demands(gil_s=0.3, child_s=1.0, asleep_s=0.8)
    rates = predict(service, Machine(CORES), LAYOUTS).throughput_per_s
    truth = tuple(600 * float(rate) for rate in rates)
    return Suite("test", LAYOUTS, (truth,), SuiteNoise(window_sd=sd), within=0.05, cores=CORES)


def some_windows(n: int) -> list[tuple[int, float, float, float, str]]:
    """Layout, logarithm, time, length and box of windows on three boxes of unlike levels."""
    random, truth = Random(4), network_suite().surfaces[0]
    levels, order = {"a": 0.0, "b": 0.2, "c": -0.1}, random.sample(range(len(LAYOUTS)), len(LAYOUTS))
    found = []
    for number in range(n):
        k, box = order[number % 7], "abc"[number % 3]
        value = log(truth[k]) + levels[box] + 0.03 * random.gauss()
        found.append((k, value, 700.0 * number, random.choice([300.0, 600.0]), box))
    return found


# ------------------------------------------------------------------ what it says


def fitted(seen: Sequence[tuple[int, float, float, float, str]]) -> tuple[Guide, FleetPosterior]:
    """A guide of one set that keeps every filter and was not yet asked, and its bank."""
    guide = Guide(
        LAYOUTS, CORES, lengths_vary=False, level_sds=LEVELS, n_sets=1, last_fit=0, filter_kept=1e-300
    )
    bank = FleetPosterior(smooth_posterior(LAYOUTS, lengths_vary=False))
    for window in seen:
        guide.observe(bank, *window)
    return guide, bank


def test_on_boxes_a_fit_says_what_the_bank_gets_by_going_on_from_an_earlier_fit() -> None:
    """With one set nothing is summed up: both are exact, levels and drifts of boxes included."""
    seen = some_windows(FIRST_FIT)
    guide, bank = fitted(seen[:-2])
    bank.take(guide.filters())
    for window in seen[-2:]:
        bank.observe(*window)
    late, on = fitted(seen)
    on.take(late.filters())

    assert bank.guided.sum() == on.guided.sum() > 100
    assert farthest(bank.mean, on.mean, abs=1e-5) <= 1
    assert farthest(bank.covariance, on.covariance, rel=1e-4, abs=1e-3) <= 1
    assert farthest(bank.weight, on.weight, rel=1e-3, abs=1e-9) <= 1
    for guided in (True, False):
        assert bank.log_evidence(guided=guided) == pytest.approx(on.log_evidence(guided=guided), abs=1e-3)
    for box, level in bank.box_levels(0.95).items():
        assert on.box_levels(0.95)[box].mean == pytest.approx(level.mean, rel=1e-4)


def test_what_a_box_s_level_is_taken_to_be_grows_with_what_boxes_differ_by() -> None:
    def likeliest(spread: float) -> float:
        guide, bank = fitted([])
        random, truth = Random(1), network_suite().surfaces[0]
        for number in range(24):
            box = f"box-{number % 6}"
            level = spread * (number % 6 - 2.5) / 1.7
            guide.observe(
                bank,
                number % 4,
                log(truth[number % 4]) + level + 0.02 * random.gauss(),
                700.0 * number,
                600.0,
                box,
            )
        return float(np.exp(bank.weight @ np.log(bank.level_sd)))

    assert likeliest(0.0) < 3 < likeliest(0.3)


# ------------------------------------------------------------------ a race


@pytest.fixture(scope="module")
def led() -> tuple[Boxes, FleetRace]:
    """A calibrated race on four boxes of unlike speed, up to its answer."""
    source = network_suite()
    fleet, strategy = Boxes(source, BOXES), FleetRace(source.goal("calibrated"), 5)
    fleet.log_levels = {"box-2": log(0.9), "box-3": log(1.05)}
    while not strategy.answer().reached and fleet.step(strategy):
        assert len(fleet.done) < 300
    return fleet, strategy


def test_the_guide_has_its_say_on_several_boxes(led: tuple[Boxes, FleetRace]) -> None:
    fleet, strategy = led
    guidance = strategy.answer().guidance

    assert guidance is not None
    assert guidance.used
    assert guidance.n_held_out >= 1
    assert guidance.error_ratio is not None
    assert guidance.error_ratio < 0.1
    answer = strategy.answer()
    assert answer.layout is not None
    truth = dict(zip(LAYOUTS, fleet.suite.surfaces[0], strict=True))
    assert truth[answer.layout] >= 0.95 * max(truth.values())
    assert answer.doubt is not None
    assert answer.doubt <= 0.05
    assert 0.8 < (strategy.levels()["box-2"].mean or 0.0) < 0.98


def test_when_the_answer_is_claimed_a_layout_was_measured_on_every_box(led: tuple[Boxes, FleetRace]) -> None:
    fleet, _ = led
    of_box = {box: {one.place.asked.layout for one in fleet.done if one.place.box == box} for box in BOXES}

    assert set[Layout].intersection(*of_box.values())


def test_the_first_block_is_shared_out_before_anything_is_measured_twice(
    led: tuple[Boxes, FleetRace],
) -> None:
    fleet, _ = led
    first = [one.place for one in fleet.done if one.place.block == 0][:N_FIRST]

    assert len({place.asked.layout for place in first}) == N_FIRST
    assert {place.box for place in first} == set(BOXES)


def test_each_box_has_the_reference_early(led: tuple[Boxes, FleetRace]) -> None:
    fleet, _ = led
    of_box = [[one.place.asked.layout for one in fleet.done if one.place.box == box][:4] for box in BOXES]

    assert set[Layout].intersection(*map(set, of_box))


@pytest.mark.parametrize("n", [3, 8, 17])
def test_a_guided_race_that_is_resumed_continues_as_it_would_have(n: int) -> None:
    source = network_suite()
    fleet, strategy = Boxes(source, BOXES), FleetRace(source.goal("calibrated"), 5)
    fleet.lead(strategy, n=n)
    resumed = FleetRace(source.goal("calibrated"), 5)
    for done in fleet.done:
        resumed.learn(done)

    assert repr(resumed.answer()) == repr(strategy.answer())
    for name in ("box-1", "box-2", "box-3", "box-4", "box-5"):
        others = [place for place in fleet.places() if place.box != name]
        names = [*BOXES, "box-5"]
        assert resumed.next_for(name, others, names) == strategy.next_for(name, others, names)


def test_a_box_that_comes_to_a_calibrated_race_late_begins_with_a_layout_that_another_box_has() -> None:
    source = network_suite(sd=0.1)
    fleet, strategy = Boxes(source, BOXES[:2]), FleetRace(source.goal("calibrated"), 5)
    fleet.lead(strategy, n=14)
    fleet.names = BOXES[:3]
    fleet.hand_out(strategy)
    (late,) = [place for place in fleet.places() if place.box == "box-3"]
    on_both = [{one.place.asked.layout for one in fleet.done if one.place.box == box} for box in BOXES[:2]]

    assert (late.block, late.position) == (0, 0)
    assert late.asked.layout in on_both[0] & on_both[1]


def test_where_no_window_counts_at_all_the_race_ends() -> None:
    source = network_suite()
    fleet, strategy = Boxes(source, BOXES), FleetRace(source.goal("calibrated"), 5)
    fleet.hand_out(strategy)
    while fleet.under_way:
        fleet.vain(strategy, next(iter(fleet.under_way)))
        fleet.hand_out(strategy)
        assert len(fleet.done) < 50

    assert strategy.answer().layout is None


@pytest.mark.full
def test_calibrated_is_wrong_in_at_most_5_percent_over_many_services_on_boxes_unlike_each_other() -> None:
    n, wrong, source = 40, 0, own_suite("curve")
    for seed in range(n):
        random = Random(seed)
        fleet = Boxes(replace(source, surfaces=source.surfaces[seed : seed + 1]), BOXES, str(seed))
        fleet.log_levels = {name: random.gauss(0, 0.1) for name in BOXES}
        strategy = FleetRace(source.goal("calibrated"), seed)
        while not strategy.answer().reached and fleet.step(strategy):
            pass
        answer = strategy.answer()
        assert answer.layout is not None
        wrong += not fleet.suite.box(0, "").is_right(answer.layout)

    assert wrong / n <= at_most(0.05, n, n_sds=3)


# ------------------------------------------------------------------ which layout is the reference

ONE, TWO, THREE = LAYOUTS[:3]


def after(*measured: tuple[str, Layout], gone: Sequence[str] = ()) -> References:
    found = References()
    for number, (box, layout) in enumerate(measured):
        found.learn(Done(Place(number, 0, box, Proposal(layout, 60.0)), ()))
    for box in gone:
        found.learn(Done(Place(99, 0, box, Proposal(ONE, 60.0)), (), is_whole=False))
    return found


def test_the_leader_is_the_reference_unless_another_lacks_on_less_than_half_as_many_boxes() -> None:
    few = after(("a", ONE), ("b", ONE), ("c", TWO), ("d", THREE))
    many = after(("a", ONE), ("b", ONE), ("c", ONE), ("d", TWO))

    assert few.chosen_for("a", TWO, [], ()) == TWO  # 3 boxes lack it, of the other one 2
    assert many.chosen_for("d", TWO, [], ()) == ONE  # 3 boxes against 1
    assert many.chosen_for("d", TWO, [], {ONE}) == TWO
    assert many.chosen_for("d", TWO, [], {ONE, TWO}) is None


def test_what_is_under_way_counts() -> None:
    found = after(("a", ONE), ("b", TWO), ("c", THREE))
    at_it = [Place(1, 0, box, Proposal(ONE, 60.0)) for box in ("b", "c")]

    assert found.chosen_for("a", TWO, [], ()) == TWO
    assert found.chosen_for("a", TWO, at_it, ()) == ONE
    assert not found.is_on_all()


def test_a_box_that_is_gone_is_not_waited_for() -> None:
    lacks = [("a", ONE), ("b", TWO), ("a", TWO), ("c", ONE)]

    assert not after(*lacks).is_on_all()
    assert after(*lacks, gone=["c"]).is_on_all()
    assert not after(*lacks, gone=["a"]).is_on_all()  # b has no layout that c has
    silent = after(*lacks, *(("a", TWO), ("b", TWO)) * 2 * GONE_AFTER)
    assert silent.is_on_all()


def test_a_box_that_is_back_is_waited_for_again() -> None:
    found = after(("a", ONE), ("b", ONE), gone=["b"])
    found.learn(Done(Place(3, 0, "c", Proposal(TWO, 60.0)), ()))
    assert not found.is_on_all()
    found.learn(Done(Place(4, 0, "c", Proposal(ONE, 60.0)), ()))
    assert found.is_on_all()
    found.learn(Done(Place(5, 0, "b", Proposal(TWO, 60.0)), ()))

    assert found.is_on_all()  # it had the reference before it went
    found.learn(Done(Place(6, 0, "d", Proposal(TWO, 60.0)), ()))
    assert not found.is_on_all()  # d lacks ONE, and a lacks TWO
