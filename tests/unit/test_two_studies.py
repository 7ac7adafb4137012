from __future__ import annotations

from math import exp, log
from random import Random

import pytest

from tuner.core.domain.layout import Layout
from tuner.core.ranking.study_difference import Changes, LayoutChange, Side, changes, ratio_within
from tuner.core.search.recheck import Launched
from tuner.core.stats.interval import Estimate

from ..bench_modules import loaded
from ..luck import at_most

LAYOUTS = [Layout(p, 1) for p in (1, 2, 4, 8)]


def side(
    seed: int, n_blocks: int, gain: dict[Layout, float], *, sd: float = 0.02, drift: float = 0.05
) -> Side:
    random = Random(seed)
    launches = []
    for block in range(n_blocks):
        level = random.gauss(0, drift)
        for layout in LAYOUTS:
            value = log(100.0 * layout.processes) + gain.get(layout, 0.0) + level + random.gauss(0, sd)
            launches.append(Launched(block, layout, value))
    return Side(launches)


def of(found: Changes, layout: Layout) -> LayoutChange:
    one = found.of(layout)
    assert one is not None
    return one


def ends(estimate: Estimate | None) -> tuple[float, float]:
    assert estimate is not None
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.low, estimate.high


def test_what_all_layouts_share_is_reported_from_what_one_has_alone() -> None:
    slower = dict.fromkeys(LAYOUTS, log(0.7))
    slower[LAYOUTS[3]] += log(1.5)
    found = changes(side(1, 6, {}), side(2, 6, slower), 0.95)

    low, high = ends(found.shared)
    assert low <= exp(log(0.7) + log(1.5) / 4) <= high < 1
    assert [one.layout for one in found.layouts if one.stands_out and ends(one.beside)[0] > 1] == [LAYOUTS[3]]
    assert of(found, LAYOUTS[0]).has_changed


def test_drift_between_blocks_widens_the_whole_change_and_not_that_beside_the_others() -> None:
    calm = changes(side(1, 4, {}, drift=0.0), side(2, 4, {}, drift=0.0), 0.95)
    rough = changes(side(1, 4, {}, drift=0.3), side(2, 4, {}, drift=0.3), 0.95)

    for layout in LAYOUTS:
        one, other = (ends(of(found, layout).beside) for found in (calm, rough))
        assert (
            one == pytest.approx(other, rel=1e-6) or abs(log(other[1] / other[0]) / log(one[1] / one[0])) < 3
        )
        low, high = ends(of(rough, layout).ratio)
        assert log(high / low) > 4 * log(other[1] / other[0])


def test_the_same_study_twice_has_no_change_and_swapping_them_turns_it_round() -> None:
    one, other = side(1, 3, {}), side(2, 5, {LAYOUTS[1]: 0.3})
    same, there, back = (changes(*pair, 0.95) for pair in ((one, one), (one, other), (other, one)))

    assert all(of(same, layout).ratio.mean == pytest.approx(1) for layout in LAYOUTS)
    for layout in LAYOUTS:
        low, high = ends(of(there, layout).ratio)
        assert ends(of(back, layout).ratio) == pytest.approx((1 / high, 1 / low))


def test_one_block_says_nothing_of_the_noise() -> None:
    found = changes(side(1, 1, {}), side(2, 5, {}), 0.95)

    assert all(
        one.ratio.low is None and one.beside is not None and one.beside.low is None for one in found.layouts
    )
    assert found.shared is not None
    assert found.shared.low is None
    assert not any(one.has_changed or one.stands_out for one in found.layouts)


def test_only_layouts_of_both_are_compared() -> None:
    after = side(2, 3, {})
    without = Side([one for one in after.launches if one.layout != LAYOUTS[0]])

    assert [one.layout for one in changes(side(1, 3, {}), without, 0.95).layouts] == LAYOUTS[1:]
    assert changes(side(1, 3, {}), Side([]), 0.95).layouts == ()
    nothing = Side([Launched(0, Layout(16, 1), 1.0)])
    assert changes(side(1, 3, {}), nothing, 0.95).shared is None


def test_a_single_layout_has_a_change_and_nothing_to_be_beside() -> None:
    sides = [Side([one for one in side(seed, 4, {}).launches if one.layout == LAYOUTS[0]]) for seed in (1, 2)]
    (one,) = changes(sides[0], sides[1], 0.95).layouts

    assert one.beside is None
    low, high = ends(one.ratio)
    assert low < 1 < high


def test_layouts_that_no_block_joins_are_not_compared_beside_the_others() -> None:
    apart = Side([*side(1, 3, {}).launches, *(Launched(9 + n, Layout(9, 9), 1.0 + n / 50) for n in range(3))])
    found = changes(apart, apart, 0.95)

    assert of(found, Layout(9, 9)).beside is None
    assert found.n_shared == len(LAYOUTS)


def test_figures_without_any_noise_are_compared_exactly() -> None:
    sides = [Side([Launched(b, layout, 3.0) for b in range(3) for layout in LAYOUTS]) for _ in range(2)]
    found = changes(sides[0], sides[1], 0.95)

    assert all(one.ratio == Estimate(1.0, 1.0, 1.0) and not one.has_changed for one in found.layouts)


def test_an_adaptive_study_pays_for_its_looks() -> None:
    fixed = changes(side(1, 5, {}), side(2, 5, {}), 0.95)
    looked = changes(side(1, 5, {}), Side(side(2, 5, {}).launches, is_adaptive=True), 0.95)

    for layout in LAYOUTS:
        for name in ("ratio", "beside"):
            narrow, wide = (ends(getattr(of(found, layout), name)) for found in (fixed, looked))
            assert wide[0] < narrow[0]
            assert wide[1] > narrow[1]


def test_a_pair_within_one_study_is_compared_as_the_ranking_does_and_wider_where_it_looked() -> None:
    launches = side(3, 5, {}).launches
    tukey = ends(ratio_within(Side(launches), LAYOUTS[1], LAYOUTS[0], 0.95))
    looked = ends(ratio_within(Side(launches, is_adaptive=True), LAYOUTS[1], LAYOUTS[0], 0.95))

    assert tukey[0] <= 2 <= tukey[1]
    assert looked[0] < tukey[0] < tukey[1] < looked[1]
    assert ratio_within(Side(launches), LAYOUTS[1], Layout(3, 3), 0.95) is None


def test_races_of_very_many_launches_still_have_an_interval() -> None:
    noise = Random(3)
    launches = [Launched(b, layout, noise.gauss(0, 0.03)) for b in range(5000) for layout in LAYOUTS]
    race = Side(launches, is_adaptive=True)

    for found in (ratio_within(race, LAYOUTS[0], LAYOUTS[1], 0.95), changes(race, race, 0.95).shared):
        low, high = ends(found)
        assert 0.97 < low < 1 < high < 1.03


@pytest.mark.parametrize(
    "name",
    [
        "2 layouts, 2 launches of each, drift 6%",
        "6 layouts, 3 launches of each, drift 6%",
        "6 layouts, 2 launches, then 10",
        "6 layouts, 5 launches, 1 in 5 missing",
    ],
)
def test_intervals_hold_as_often_as_they_say(name: str) -> None:
    n = 250
    with loaded("compare") as bench:
        case = next(case for case in bench.compare.CASES if case.name == name)
        found = [bench.compare.one_pair((case, 1), number) for number in range(n)]

    for what in ("shared", "ratios", "beside"):
        assert sum(not getattr(one, what) for one in found) / n <= at_most(0.06, n)
