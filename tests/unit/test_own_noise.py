from __future__ import annotations

from dataclasses import replace
from math import log
from random import Random

import pytest

from tuner.core.domain.layout import Layout
from tuner.core.planning.heteroscedastic_change import estimate_changes
from tuner.core.ranking.study_difference import Side
from tuner.core.search.recheck import Launched
from tuner.core.stats.interval import Estimate

from ..bench_modules import loaded
from ..luck import at_most

NOISE = {Layout(1, 24): 0.1, Layout(4, 6): 0.005, Layout(6, 4): 0.005, Layout(24, 1): 0.005}


def side(seed: int, n: int, gain: float = 0.0, *, is_adaptive: bool = False) -> Side:
    random = Random(seed)
    launches = [
        Launched(block, layout, log(layout.processes) + gain + random.gauss(0, sd))
        for block in range(n)
        for layout, sd in NOISE.items()
    ]
    return Side(launches, is_adaptive)


def width(ratio: Estimate) -> float:
    assert ratio.low is not None
    assert ratio.high is not None
    return log(ratio.high / ratio.low)


def test_a_noisy_layout_is_wide_and_the_calm_ones_are_not() -> None:
    found = estimate_changes(side(1, 4), side(2, 4, log(1.05)), 0.95)
    noisy, *calm = found.layouts

    assert width(noisy.ratio) > 4 * max(width(one.ratio) for one in calm)
    assert not noisy.has_changed
    assert all(one.has_changed for one in calm)
    assert [one.beside for one in found.layouts] == [None] * 4


def test_swapping_two_studies_turns_it_round_and_one_that_looked_is_wider() -> None:
    there = estimate_changes(side(1, 3), side(2, 5, 0.2), 0.95)
    back = estimate_changes(side(2, 5, 0.2), side(1, 3), 0.95)
    looked = estimate_changes(side(1, 3), side(2, 5, 0.2, is_adaptive=True), 0.95)

    for one, other, wider in zip(there.layouts, back.layouts, looked.layouts, strict=True):
        assert one.ratio.mean == pytest.approx(1 / (other.ratio.mean or 0.0))
        assert width(one.ratio) == pytest.approx(width(other.ratio), rel=0.02)
        assert width(wider.ratio) > width(one.ratio)


def test_a_layout_launched_once_borrows_the_noise_of_the_others_and_nothing_is_known_without_any() -> None:
    after = side(2, 1)
    found = estimate_changes(side(1, 4), after, 0.95)
    nothing = estimate_changes(side(1, 1), after, 0.95)

    assert all(one.ratio.low is not None for one in found.layouts)
    assert all(one.ratio.low is None and one.ratio.mean is not None for one in nothing.layouts)


def test_what_never_differs_is_known_to_a_rounding() -> None:
    sides = [Side([Launched(b, layout, 3.0) for b in range(3) for layout in NOISE]) for _ in range(2)]
    found = estimate_changes(sides[0], sides[1], 0.95)

    assert all(width(one.ratio) < 0.001 and not one.has_changed for one in found.layouts)
    assert found.shared == Estimate(1.0)


def test_nothing_in_common_gives_nothing() -> None:
    other = Side([Launched(0, Layout(3, 3), 1.0)])

    assert estimate_changes(side(1, 3), other, 0.95).layouts == ()


@pytest.mark.parametrize(
    ("name", "gap"),
    [
        ("as measured: 6 layouts, 2 and 2 launches", 0.0),
        ("as measured: 24 layouts, 3 and 3 launches", 0.0),
        ("one is ten times as noisy: 6 layouts, 6 and 6 launches", 0.0),
        ("as measured: 6 layouts, 3 and 3 launches, then 2 times as noisy", 0.5),
    ],
)
def test_intervals_of_layouts_of_unlike_noise_hold_as_often_as_they_say(name: str, gap: float) -> None:
    """*gap* is what changed, on the logarithmic scale: a case of the bench with it, too."""
    n = 80
    with loaded("own_noise") as bench:
        case = replace(next(case for case in bench.own_noise.CASES if case.name == name), gap=gap)
        found = [bench.own_noise.one_pair((case, 1), number)[0] for number in range(n)]

    assert sum(not holds for holds, _ in found) / n <= at_most(0.08, n)
