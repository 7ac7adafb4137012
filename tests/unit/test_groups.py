"""In which group a layout stands, and what would move it out of the middle one."""

from __future__ import annotations

from dataclasses import replace
from math import inf, log
from random import Random

import pytest

from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Goal, Observed
from tuner.core.search.strategies.baselines import SuccessiveHalving
from tuner.core.stats.groups import Beside, compare, far_gap, group_of, launches_to_decide
from tuner.core.stats.two_way_anova import Observation

WITHIN, CONFIDENCE = 0.02, 0.95
NEAR = Beside(n_launches=5, is_told_apart=False, share=0.985, far_doubt=0.01)


def group(beside: Beside) -> str:
    return group_of(beside, within=WITHIN, confidence=CONFIDENCE)


def test_what_measured_within_the_margin_and_is_surely_not_far_behind_is_tied() -> None:
    assert group(NEAR) == "best-or-tied"
    assert group(replace(NEAR, share=1.3)) == "best-or-tied"


@pytest.mark.parametrize("change", [{"share": 0.979}, {"far_doubt": 0.051}, {"far_doubt": None}])
def test_what_measured_beyond_the_margin_or_not_precisely_enough_is_not_ruled_out(change: dict) -> None:  # type: ignore[type-arg]
    assert group(replace(NEAR, **change)) == "not-ruled-out"


def test_what_is_kept_apart_is_slower_but_never_by_a_single_launch() -> None:
    apart = Beside(n_launches=2, is_told_apart=True, share=0.4, far_doubt=1.0)

    assert group(apart) == "slower"
    assert group(replace(apart, n_launches=1)) == "not-ruled-out"
    assert group(replace(NEAR, n_launches=1)) == "not-ruled-out"


def test_a_margin_of_half_makes_nothing_too_far() -> None:
    assert far_gap(0.02) == pytest.approx(-log(0.96))
    assert far_gap(0.5) == inf


@pytest.mark.parametrize("sds", [(0.1, 0.1), (0.1, 0.02), (0.02, 0.1)], ids=str)
@pytest.mark.parametrize(
    ("n_of", "gap"), [((10, 10), 0.1), ((2, 200), 0.15), ((1, 30), 0.9), ((40, 40), 0.0), ((3, 9), 0.019)]
)
def test_the_launches_that_would_decide_are_the_fewest_that_make_the_error_small_enough(
    n_of: tuple[int, int], gap: float, sds: tuple[float, float]
) -> None:
    found = launches_to_decide(
        gap, n_of=n_of, launch_variances=(sds[0] ** 2, sds[1] ** 2), reaches=(4.0, 1.645), within=WITHIN
    )

    def can_decide(total: int) -> bool:
        return any(_decides(gap, n_of[0] + more, n_of[1] + total - more, sds) for more in range(total + 1))

    assert can_decide(found)
    assert found == 1 or not can_decide(found - 2)


def _decides(gap: float, n: int, n_best: int, sds: tuple[float, float]) -> bool:
    if n < 2:
        return False
    error = (sds[0] ** 2 / n + sds[1] ** 2 / n_best) ** 0.5
    if gap > -log(1 - WITHIN):
        return 4.0 * error <= gap * (1 + 1e-9)
    return gap + 1.645 * error <= far_gap(WITHIN) * (1 + 1e-9)


def launches(table: dict[int, list[float]], seed: int = 1) -> list[Observation]:
    random = Random(seed)
    return [
        Observation(layout, block, log(value) + random.gauss(0, 0.002))
        for layout, values in table.items()
        for block, value in enumerate(values)
    ]


def test_a_layout_below_any_other_is_slower_and_its_interval_ends_below_the_best() -> None:
    compared = compare(launches({0: [1000.0] * 6, 1: [999.0] * 6, 2: [900.0] * 6}), 3, CONFIDENCE)
    near, of_near = compared.beside(1, 0, [0, 1, 2], WITHIN)
    far, of_far = compared.beside(2, 0, [0, 1, 2], WITHIN)

    assert (group(near), group(far)) == ("best-or-tied", "slower")
    assert (of_far.ratio.high or 2) < 1
    assert (of_near.ratio.high or 0) > 0.995
    assert (of_near.least or 0) > 0.96
    assert (of_near.n_to_decide, of_far.n_to_decide) == (None, None)


def test_the_interval_of_a_layout_reaches_the_best_exactly_where_it_is_not_slower() -> None:
    for seed in range(60):
        table = {layout: [1000.0 - 3 * layout] * 4 for layout in range(5)}
        compared = compare(launches(table, seed), 5, CONFIDENCE)
        best = max(range(5), key=lambda one: compared.fit.effects[one])
        for one in set(range(5)) - {best}:
            beside, of_best = compared.beside(one, best, range(5), WITHIN)
            assert of_best.ratio.high is not None
            assert (group(beside) == "slower") == (of_best.ratio.high < 1)


def test_a_single_launch_has_no_interval_and_is_not_ruled_out_however_far_it_is_behind() -> None:
    compared = compare(launches({0: [1000.0] * 6, 1: [990.0] * 6, 2: [100.0]}), 3, CONFIDENCE)
    once, of_once = compared.beside(2, 0, [0, 1, 2], WITHIN)

    assert group(once) == "not-ruled-out"
    assert (of_once.ratio.low, of_once.ratio.high) == (None, None)
    assert of_once.n_to_decide == 1
    assert compared.n_better([0, 1, 2])[2] == 0


def test_successive_halving_drops_no_layout_after_a_single_launch() -> None:
    layouts = tuple(Layout(1, threads) for threads in range(1, 9))
    strategy = SuccessiveHalving(Goal(layouts), 1, n_windows=16)
    launched: list[Layout] = []
    while proposals := strategy.propose():
        launched += [one.layout for one in proposals]
        strategy.learn(
            [
                Observed(one.layout, float(one.layout.threads), len(launched) + n, 0.0, 0.0, 600.0)
                for n, one in enumerate(proposals)
            ]
        )

    assert all(launched.count(layout) >= 2 for layout in layouts)
