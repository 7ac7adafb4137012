"""A race states that the ratio of two layouts changed while it ran, and finds no changes that are none."""

from __future__ import annotations

from math import exp
from random import Random

import pytest

from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Goal, Observed
from tuner.core.search.by_time import LEVEL, Launch, changed_gaps
from tuner.core.search.posterior import Posterior, flat_posterior
from tuner.core.search.racing import Race

WINDOW_S = 600.0
N_LAYOUTS = 3


def bank_of(n_layouts: int) -> Posterior:
    return flat_posterior(n_layouts, lengths_vary=False)


def race(
    late_gain: float, *, rounds: int = 12, seed: int = 1, sds: tuple[float, ...] = (0.02,) * 3
) -> list[Launch]:
    """Rounds of all layouts; the last layout gains *late_gain* in the second half. All share one drift."""
    random, launches, drift = Random(seed), [], 0.0
    for number in range(rounds * N_LAYOUTS):
        drift = 0.98 * drift + random.gauss(0, 0.004)
        turn, layout = divmod(number, N_LAYOUTS)
        gain = late_gain if layout == 2 and turn >= rounds / 2 else 0.0
        value = 7.0 - 0.05 * layout + gain + drift + random.gauss(0, sds[layout])
        launches.append(Launch(layout, value, 700.0 * number, WINDOW_S))
    return launches


def test_a_layout_that_gains_against_the_named_one_is_found_with_both_ratios() -> None:
    (gap,) = changed_gaps(race(0.1), 0, bank_of, N_LAYOUTS)

    assert gap.layout == 2
    assert gap.early == pytest.approx(exp(-0.1), abs=0.02)
    assert gap.late == pytest.approx(1.0, abs=0.02)


def test_a_gain_that_all_layouts_share_is_drift() -> None:
    shared = [
        one._replace(log_value=one.log_value + 0.3 * (n >= len(launches) / 2))
        for launches in [race(0.0)]
        for n, one in enumerate(launches)
    ]

    assert changed_gaps(shared, 0, bank_of, N_LAYOUTS) == []


@pytest.mark.parametrize("sds", [(0.02, 0.02, 0.02), (0.02, 0.02, 0.1), (0.1, 0.02, 0.02)], ids=str)
def test_without_a_change_few_races_find_one(sds: tuple[float, ...]) -> None:
    found = [bool(changed_gaps(race(0.0, seed=seed, sds=sds), 0, bank_of, N_LAYOUTS)) for seed in range(100)]

    assert sum(found) <= 4  # 1 is expected at LEVEL; 5 or more have a probability of 0.4 %
    assert LEVEL == 0.01


def test_a_layout_without_two_launches_in_each_half_is_not_tested() -> None:
    launches = race(0.1)
    n_late = max(n for n, one in enumerate(launches) if one.layout == 2)
    few = [one for n, one in enumerate(launches) if one.layout != 2 or n <= 12 or n == n_late]

    assert changed_gaps(few, 0, bank_of, N_LAYOUTS) == []
    assert changed_gaps(launches[:3], 0, bank_of, N_LAYOUTS) == []


def test_the_answer_of_a_race_names_the_layouts_whose_ratio_changed() -> None:
    layouts = tuple(Layout(24 // threads, threads) for threads in (1, 2, 4))
    goal = Goal(layouts, within=0.1)
    found = Race(goal, 1)
    for number, launch in enumerate(race(0.1)):
        layout, began_s = layouts[launch.layout], launch.at_s - WINDOW_S / 2
        found.learn([Observed(layout, exp(launch.log_value), number, began_s - 60.0, began_s, WINDOW_S)])
    answer = found.answer()

    assert (answer.layout, answer.reached) == (layouts[0], True)
    (changed,) = answer.changed
    assert changed.layout == layouts[2]
    assert changed.early == pytest.approx(exp(-0.1), abs=0.02)
