"""Layouts compared over several boxes."""

from __future__ import annotations

from math import exp, log, sqrt
from random import Random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.core.domain.layout import Layout
from tuner.core.ranking.anova import Standings, standings
from tuner.core.stats.groups import compare
from tuner.core.stats.mixed_model import box_table, comparable
from tuner.core.stats.quantiles import studentized_range_quantile
from tuner.core.stats.two_way_anova import Observation
from tuner.core.windows.launch_sums import LaunchTally

from ..wording import wording
from .box_launches import drawn, whole

A, B, C = LAYOUTS = (Layout(1, 1), Layout(1, 2), Layout(2, 1))


def ranked(rates: dict[tuple[Layout, str, int], float]) -> Standings:
    """Standings of one launch of a second per layout, box and block of the box."""
    launches = [
        LaunchTally(
            layout,
            (box, block),
            number,
            n_windows=1,
            length_s=1.0,
            n_done=round(1e6 * rate),
            rates=rate,
            squares=rate**2,
        )
        for number, ((layout, box, block), rate) in enumerate(rates.items())
    ]
    blocks = {key: number for number, key in enumerate(dict.fromkeys(one.block for one in launches))}
    of_layout: dict[Layout, list[LaunchTally]] = {}
    for one in launches:
        of_layout.setdefault(one.layout, []).append(one)
    return standings(
        of_layout,
        confidence=0.95,
        current=A,
        may_win=list(of_layout),
        of_fleet=True,
        block_of={one.launch: blocks[one.block] for one in launches},
    )


def test_boxes_with_one_block_each_say_what_as_many_blocks_of_one_box_say() -> None:
    random = Random(1)
    rates = {
        (x, n): 100.0 * (1 + 0.2 * place) * exp(random.gauss(0, 0.02))
        for place, x in enumerate(LAYOUTS)
        for n in range(4)
    }
    fleet = ranked({(x, f"box-{n}", 0): rate for (x, n), rate in rates.items()})
    alone = ranked({(x, "box", n): rate for (x, n), rate in rates.items()})

    assert fleet.ranks == alone.ranks
    assert fleet.values == pytest.approx(alone.values)
    assert fleet.ratios == pytest.approx(alone.ratios)


def test_whole_tables_are_judged_by_how_layouts_change_from_box_to_box() -> None:
    """By hand: the mean square of layout x box, of values that are means of two launches."""
    of_pair = {(0, 0): 0.0, (0, 1): 0.04, (0, 2): -0.01, (1, 0): 0.1, (1, 1): 0.09, (1, 2): 0.12}
    seen, box_of = whole(
        2, 3, 2, lambda layout, box, block: of_pair[layout, box] + 0.3 * box + 0.01 * (block % 2)
    )
    table = box_table(seen, box_of, 2)
    found = compare(table.observations, 2, 0.95)

    differences = [of_pair[1, box] - of_pair[0, box] for box in range(3)]
    mean = fmean(differences)
    variance = sum((one - mean) ** 2 for one in differences) / 2 / 3  # of their mean
    assert found.fit.residual_df == 2
    assert found.half_width(0, 1) == pytest.approx(
        studentized_range_quantile(0.95, 2, 2) / sqrt(2) * sqrt(variance)
    )
    assert found.fit.effects[1] - found.fit.effects[0] == pytest.approx(mean)


def test_a_layout_that_is_better_on_some_boxes_alone_is_not_called_better() -> None:
    """Within each box launches hardly differ: on these very boxes 1x2 is faster on average."""
    random = Random(2)
    more = {"box-1": 0.30, "box-2": -0.10, "box-3": 0.12}
    rates = {
        (layout, box, block): exp((own if layout == B else 0.0) + random.gauss(0, 0.002))
        for box, own in more.items()
        for block in range(4)
        for layout in (A, B)
    }
    fleet = ranked(rates)
    ratio = fleet.ratios[B]

    assert fleet.ranks == {A: 1, B: 1}
    assert ratio is not None
    assert ratio.mean == pytest.approx(exp(fmean(more.values())), rel=0.01)
    assert fleet.boxes is not None
    assert fleet.boxes.is_apart


def test_a_layout_that_is_better_on_every_box_alike_is_called_better_though_boxes_differ() -> None:
    random = Random(3)
    rates = {
        (layout, box, block): exp(0.05 * (layout == B) + level + random.gauss(0, 0.01))
        for box, level in (("box-1", 0.0), ("box-2", -0.3), ("box-3", 0.2))
        for block in range(3)
        for layout in LAYOUTS
    }
    found = ranked(rates)

    assert found.ranks == {A: 2, B: 1, C: 2}


def test_values_are_of_these_very_boxes_and_do_not_carry_what_boxes_differ_by() -> None:
    """Boxes lie 30 % apart; launches differ by 1 %: intervals of 3 launches on each of 3 boxes are narrow."""
    random = Random(4)
    rates = {
        (layout, box, block): exp(level + random.gauss(0, 0.01))
        for box, level in (("box-1", 0.0), ("box-2", -0.3), ("box-3", 0.3))
        for block in range(3)
        for layout in LAYOUTS
    }
    values = ranked(rates).values

    for layout in LAYOUTS:
        low, mean, high = values[layout].low, values[layout].mean, values[layout].high
        assert low is not None
        assert mean is not None
        assert high is not None
        assert low < mean < high
        assert high / low < 1.05


def test_drift_and_noise_are_those_within_boxes() -> None:
    """What boxes differ by is neither: it is told apart."""
    random = Random(5)
    of_block: dict[tuple[str, int], float] = {}
    rates = {
        (layout, box, block): exp(
            level + of_block.setdefault((box, block), random.gauss(0, 0.03)) + random.gauss(0, 0.01)
        )
        for box, level in (("box-1", 0.0), ("box-2", -0.5), ("box-3", 0.5))
        for block in range(20)
        for layout in LAYOUTS
    }
    found = ranked(rates)

    assert found.noise.residual is not None
    assert found.noise.drift is not None
    assert found.noise.residual.mean == pytest.approx(0.01, rel=0.25)  # 114 degrees of freedom: sd 6.6 %
    assert found.noise.drift.mean == pytest.approx(0.03, rel=0.4)  # 57: sd 9.4 %
    assert found.boxes is not None
    assert found.boxes.between is not None
    assert found.boxes.between.mean == pytest.approx(0.5, rel=0.1)


def test_where_no_two_layouts_were_on_two_boxes_it_is_said_that_boxes_are_taken_to_be_alike() -> None:
    random = Random(6)
    rates = {
        (layout, box, block): exp(0.3 * LAYOUTS.index(layout) + random.gauss(0, 0.01))
        for box, layouts in (("box-1", (A, B)), ("box-2", (B, C)))
        for block in range(5)
        for layout in layouts
    }
    found = ranked(rates)

    assert found.ranks == {A: 3, B: 2, C: 1}
    assert [note for note in found.notes if wording("rank.whether-they-do-same") in note]
    assert found.boxes is not None
    assert found.boxes.apart is None


def test_boxes_that_have_no_layout_in_common_are_not_compared() -> None:
    random = Random(7)
    rates = {
        (layout, box, block): exp(random.gauss(0, 0.01))
        for box, layouts in (("box-1", (A,)), ("box-2", (B, C)))
        for block in range(5)
        for layout in layouts
    }
    found = ranked(rates)

    assert found.ratios[B] is None
    assert found.boxes is not None
    assert [one.level.mean for one in found.boxes.levels] == [None, None]
    assert found.boxes.between is None


@given(
    levels=st.lists(st.floats(-2, 2), min_size=3, max_size=3),
    shift=st.floats(-2, 2),
    seed=st.integers(0, 1000),
)
def test_what_a_whole_box_does_drops_out_of_every_comparison(
    levels: list[float], shift: float, seed: int
) -> None:
    tables = [
        drawn(
            Random(seed), effects=(0.0, 0.1, 0.2), levels=own, n_blocks=2, noise=0.02, drift=0.05, apart=0.01
        )
        for own in (levels, [levels[0] + shift, *levels[1:]])
    ]
    one, other = (compare(table.observations, 3, 0.95) for table in tables)

    for pair in ((0, 1), (0, 2), (1, 2)):
        difference = [found.fit.effects[pair[1]] - found.fit.effects[pair[0]] for found in (one, other)]
        assert difference[0] == pytest.approx(difference[1], abs=1e-9)
        assert one.half_width(*pair) == pytest.approx(other.half_width(*pair), abs=1e-9)


def test_a_table_with_holes_has_a_value_for_what_was_measured() -> None:
    seen = [Observation(0, 0, log(10)), Observation(1, 0, log(20)), Observation(0, 1, log(30))]
    table = box_table(seen, {0: 0, 1: 1}, 2)

    assert [(one.layout, one.box) for one in table.values] == [(0, 0), (1, 0), (0, 1)]
    assert [one.value for one in table.values] == pytest.approx([log(10), log(20), log(30)])
    assert not table.is_whole


def test_launches_of_one_box_are_compared_as_they_are_and_of_several_by_one_value_for_each_box() -> None:
    seen, box_of = whole(2, 2, 3, lambda layout, box, block: layout + 0.1 * box + 0.01 * block * (layout + 1))

    assert comparable(seen, dict.fromkeys(box_of, 0), 2) is seen
    assert comparable(seen, {}, 2) is seen
    assert [(one.layout, one.block) for one in comparable(seen, box_of, 2)] == [
        (0, 0),
        (1, 0),
        (0, 1),
        (1, 1),
    ]


def test_a_box_of_its_own_is_no_value_to_compare_by() -> None:
    seen = [Observation(0, 0, 0.0), Observation(1, 0, 1.0), Observation(1, 1, 1.0), Observation(2, 1, 2.0)]

    assert comparable(seen, {0: 0, 1: 1}, 3) is seen


def test_a_layout_that_was_not_on_the_fast_box_has_the_mean_that_it_would_have_on_all_boxes() -> None:
    level = {"slow": 1.0, "fast": 2.0}
    rates = {
        (layout, box, block): level[box] * share * (1.0 + 0.01 * block)
        for layout, share in {A: 1.0, B: 2.0, C: 1.5}.items()
        for box in level
        for block in range(3)
        if layout != C or box == "slow"
    }

    found = ranked(rates)

    values = {layout: one.mean or 0.0 for layout, one in found.values.items()}
    # 0.712 by the means of launches
    assert values[C] / values[B] == pytest.approx(0.75, rel=0.01)
    assert values[C] / values[B] == pytest.approx(found.of_best[C].ratio.mean)
