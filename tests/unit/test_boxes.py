"""What the boxes of a fleet do."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log
from random import Random

import pytest

from tuner.core.domain.layout import Layout
from tuner.core.ranking.host_effects import Boxes, estimate_host_effects
from tuner.core.stats.groups import compare
from tuner.core.stats.mixed_model import BoxTable, box_table

from .box_launches import drawn, whole

LAYOUTS = tuple(Layout(1, threads) for threads in range(1, 9))
NAMES = tuple(f"box-{number}" for number in range(1, 9))


def done(table: BoxTable, *, within: float = 0.02, confidence: float = 0.95) -> Boxes:
    return estimate_host_effects(
        table,
        compare(table.observations, table.n_layouts, confidence).fit,
        boxes=NAMES[: table.n_boxes],
        layouts=LAYOUTS[: table.n_layouts],
        confidence=confidence,
        within=within,
    )


def made(values: Sequence[Sequence[float]], n_blocks: int = 3, noise: float = 0.005) -> BoxTable:
    """Of logarithms per box and layout."""
    random = Random(9)

    def value(layout: int, box: int, _: int) -> float:
        return values[box][layout] + random.gauss(0, noise)

    return box_table(*whole(len(values[0]), len(values), n_blocks, value), len(values[0]))


def test_a_box_that_is_slower_is_named_with_how_much() -> None:
    """box-3 gives 12 % less than the mean of four boxes, the others as much as each other."""
    slower = 4 / 3 * log(0.88)  # of the others
    table = drawn(
        Random(1), effects=(0.0, 0.3, 0.5), levels=(0.0, 0.0, slower, 0.0), n_blocks=4, noise=0.01, drift=0.01
    )
    found = done(table)
    first = found.differing[0]

    assert first.box == "box-3"
    assert first.level.mean == pytest.approx(0.88, abs=0.02)
    assert first.level.low is not None
    assert first.level.high is not None
    assert first.level.low < 0.88 < first.level.high < 1
    assert found.drifts


def test_levels_are_ratios_of_their_mean() -> None:
    found = done(drawn(Random(2), effects=(0.0, 0.1), levels=(0.2, -0.1, 0.4), n_blocks=3, noise=0.02))

    product = 1.0
    for one in found.levels:
        product *= one.level.mean or 0.0
    assert product == pytest.approx(1.0)


def test_boxes_that_drift_as_much_as_they_differ_are_not_told_apart() -> None:
    """The block means of each box go as far up as down."""
    drift = (0.05, -0.05, 0.05, -0.05)
    seen, box_of = whole(2, 2, 2, lambda layout, box, block: layout + 0.01 * box + drift[block])
    found = done(box_table(seen, box_of, 2))

    assert found.differing == ()
    assert found.between is not None
    assert found.between.low == 0.0


def test_one_block_on_each_box_tells_nothing_of_its_drift_so_levels_have_no_interval() -> None:
    found = done(drawn(Random(3), effects=(0.0, 0.1, 0.2), levels=(0.0, 0.5, 0.1), n_blocks=1, noise=0.01))

    assert not found.drifts
    assert [one.level.low for one in found.levels] == [None, None, None]
    assert found.differing == ()
    assert found.between is not None
    assert found.apart is None


def test_what_a_layout_has_more_on_one_box_than_on_others_is_reported_from_noise() -> None:
    """sd 5 % beside noise of 1 %: 49 degrees of freedom, so its estimate has a standard error of 10 %."""
    table = drawn(
        Random(4), effects=(0.0,) * 8, levels=(0.0,) * 8, n_blocks=3, noise=0.01, drift=0.02, apart=0.05
    )
    found = done(table)

    assert found.is_apart
    assert found.apart is not None
    assert found.apart.mean == pytest.approx(0.05, rel=0.3)
    assert found.apart.low is not None
    assert found.apart.high is not None
    assert found.apart.low < 0.05 < found.apart.high


def test_where_layouts_do_the_same_on_every_box_nothing_is_shown_to_be_apart() -> None:
    """Of 40 fleets 2 are expected to be wrong; 8 and more in 1 of 2000."""
    found = [
        done(drawn(Random(seed), effects=(0.0, 0.1, 0.2), levels=(0.0, 0.1, 0.2), n_blocks=3, noise=0.02))
        for seed in range(40)
    ]

    assert sum(bool(one.is_apart) for one in found) < 8


def test_a_layout_that_wins_on_one_box_and_collapses_on_another_is_seen() -> None:
    table = made([[log(100), log(90)], [log(100), log(90)], [log(60), log(90)]])
    found, other = done(table).collapses

    assert (found.layout, found.best_on) == (LAYOUTS[0], "box-1")
    assert (found.worse_on, found.than) == ("box-3", LAYOUTS[1])
    assert found.ratio.mean == pytest.approx(60 / 90, rel=0.02)
    assert found.ratio.high is not None
    assert found.ratio.high < 0.98
    assert (other.layout, other.best_on) == (LAYOUTS[1], "box-3")
    assert other.worse_on in ("box-1", "box-2")


def test_the_winner_of_a_box_that_is_worse_elsewhere_by_less_than_the_margin_does_not_collapse() -> None:
    table = made([[log(100), log(99)], [log(96), log(99)]], noise=0.001)

    assert [one.layout for one in done(table, within=0.02).collapses] == [LAYOUTS[0]]
    assert done(table, within=0.1).collapses == ()


def test_what_wins_by_luck_alone_does_not_collapse() -> None:
    """All layouts are alike and launches noisy: some layout is best on each box, and worst on another."""
    for seed in range(20):
        table = drawn(Random(seed), effects=(0.0,) * 6, levels=(0.0,) * 4, n_blocks=2, noise=0.1)

        assert done(table).collapses == ()


def test_a_layout_that_is_only_worse_on_a_box_that_is_slower_as_a_whole_does_not_collapse() -> None:
    table = made([[log(100), log(90)], [log(60), log(54)]])

    assert done(table).collapses == ()


def test_two_boxes_differ_from_their_mean_alike() -> None:
    found = done(drawn(Random(6), effects=(0.0, 0.1), levels=(0.0, 0.1), n_blocks=4, noise=0.02, drift=0.01))
    one, other = (level.level for level in found.levels)

    assert one.mean == pytest.approx(1 / (other.mean or 0.0))
    assert one.low == pytest.approx(1 / (other.high or 0.0))


def test_launches_without_any_noise_are_no_trouble() -> None:
    found = done(made([[0.0, 1.0], [0.5, 1.5]], noise=0.0))

    assert [one.level.mean for one in found.levels] == pytest.approx([exp(-0.25), exp(0.25)])
    assert found.collapses == ()
