"""A race states that layouts react differently to the host's speed, and finds no difference that is none."""

from __future__ import annotations

from math import exp, log, pi, sin
from random import Random

import pytest

from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Goal, Observed
from tuner.core.search.by_speed import LEVEL, unequal_reaction
from tuner.core.search.by_time import Launch
from tuner.core.search.posterior import HEAT_DRIFTS, Posterior, flat_posterior
from tuner.core.search.racing import Race

WINDOW_S = 600.0
LAYOUTS = (Layout(1, 24), Layout(4, 6), Layout(8, 3), Layout(24, 1))
EQUAL = (1.0, 1.0, 1.0, 1.0)
BY_PROCESSES = tuple(1 + log(layout.processes) / log(24) for layout in LAYOUTS)
SDS = (0.02, 0.02, 0.02, 0.02)


def race(
    loads: tuple[float, ...],
    *,
    rounds: int = 20,
    seed: int = 1,
    sds: tuple[float, ...] = SDS,
    wave: float = 0.1,
) -> list[Launch]:
    """Rounds of all layouts on a host in a daily wave; *loads* are factors of its effect on the layouts."""
    random, launches = Random(seed), []
    for number in range(rounds * len(LAYOUTS)):
        layout, at_s = number % len(LAYOUTS), 700.0 * number
        speed = loads[layout] * wave * sin(2 * pi * at_s / 86_400)
        launches.append(
            Launch(layout, 7.0 - 0.05 * layout + speed + random.gauss(0, sds[layout]), at_s, WINDOW_S)
        )
    return launches


def bank_of(launches: list[Launch], *, in_heats: bool = False) -> Posterior:
    drifts = {"drifts": HEAT_DRIFTS} if in_heats else {}
    bank = flat_posterior(len(LAYOUTS), lengths_vary=False, **drifts)
    bank.in_heats = in_heats
    for one in launches:
        bank.observe(one.layout, one.log_value, one.at_s, one.length_s)
    return bank


def test_layouts_that_react_more_strongly_are_found_with_their_change() -> None:
    launches = race(BY_PROCESSES)
    found = unequal_reaction(launches, LAYOUTS, bank_of(launches))

    assert found is not None
    assert found.axis in ("processes", "threads")  # the two are opposite in these layouts
    assert (found.weakest, found.strongest) == (LAYOUTS[0], LAYOUTS[3])
    assert found.weakest_ratio == pytest.approx(exp(-0.2), rel=0.05)
    assert found.strongest_ratio == pytest.approx(exp(-0.4), rel=0.07)


def test_the_axis_is_the_one_that_the_reaction_depends_on() -> None:
    layouts = (Layout(2, 1), Layout(2, 8), Layout(16, 1), Layout(16, 8))
    launches = race((1.0, 2.0, 1.0, 2.0))
    found = unequal_reaction(launches, layouts, bank_of(launches))

    assert found is not None
    assert found.axis == "threads"
    assert (found.weakest.threads, found.strongest.threads) == (1, 8)


def test_layouts_that_fill_the_cores_may_react_most() -> None:
    layouts = (Layout(1, 1), Layout(1, 8), Layout(8, 1), Layout(2, 2))
    launches = race((1.0, 2.0, 2.0, 1.67))
    found = unequal_reaction(launches, layouts, bank_of(launches))

    assert found is not None
    assert found.axis == "total_threads"
    assert (found.weakest.total_threads, found.strongest.total_threads) == (1, 8)


def test_launches_that_take_turns_are_tested_by_the_effects_of_their_heats() -> None:
    def in_heats(launches: list[Launch]) -> list[Launch]:
        return [one._replace(at_s=2800.0 * (n // len(LAYOUTS))) for n, one in enumerate(launches)]

    unequal, equal = in_heats(race(BY_PROCESSES)), in_heats(race(EQUAL))

    found = unequal_reaction(unequal, LAYOUTS, bank_of(unequal, in_heats=True))
    assert found is not None
    assert found.strongest == LAYOUTS[3]
    assert unequal_reaction(equal, LAYOUTS, bank_of(equal, in_heats=True)) is None


@pytest.mark.parametrize("sds", [SDS, (0.02, 0.02, 0.02, 0.1), (0.1, 0.02, 0.02, 0.02)], ids=str)
def test_without_a_difference_few_races_find_one(sds: tuple[float, ...]) -> None:
    found = []
    for seed in range(100):
        launches = race(EQUAL, seed=seed, sds=sds)
        found.append(unequal_reaction(launches, LAYOUTS, bank_of(launches)) is not None)

    assert sum(found) <= 4  # 1 is expected at LEVEL; 5 or more have a probability of 0.4 %
    assert LEVEL == 0.01


def test_launches_that_lose_most_of_their_throughput_are_left_out() -> None:
    launches = race(BY_PROCESSES, seed=3)
    failed = [
        one._replace(log_value=one.log_value - 0.9) if n in (20, 47) else one
        for n, one in enumerate(launches)
    ]
    found = unequal_reaction(failed, LAYOUTS, bank_of(launches))

    assert found is not None
    assert found.strongest == LAYOUTS[3]
    assert found.strongest_ratio == pytest.approx(exp(-0.4), rel=0.07)


@pytest.mark.parametrize("why", ["no drift", "few launches", "one layout", "none"])
def test_races_that_cannot_be_tested_have_no_result(why: str) -> None:
    launches = {
        "no drift": race(BY_PROCESSES, wave=0.0),
        "few launches": race(BY_PROCESSES, rounds=2),
        "one layout": [one for one in race(BY_PROCESSES) if one.layout == 2],
        "none": [],
    }[why]

    assert unequal_reaction(launches, LAYOUTS, bank_of(launches)) is None


def test_the_answer_of_a_race_states_the_reaction() -> None:
    found = Race(Goal(LAYOUTS, within=0.1), 1)
    for number, launch in enumerate(race(BY_PROCESSES)):
        layout, began_s = LAYOUTS[launch.layout], launch.at_s - WINDOW_S / 2
        found.learn([Observed(layout, exp(launch.log_value), number, began_s - 60.0, began_s, WINDOW_S)])
    answer = found.answer()

    assert answer.reached
    assert answer.reaction is not None
    assert answer.reaction.strongest == LAYOUTS[3]
