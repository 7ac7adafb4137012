"""The full grid on several boxes: whole blocks on one each, and what becomes of a block that is left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import log

import pytest

from tuner.core.domain.layout import Layout, blocks
from tuner.core.search.strategies.fleet_grid import MOST_GIVEN_UP, FleetGrid, describe_idle_hosts
from tuner.core.search.strategies.full_grid import FullGrid
from tuner.core.search.suite import Suite, SuiteNoise

from ..wording import key_of, wording
from .spread_boxes import Boxes

LAYOUTS = tuple(Layout(1, threads) for threads in range(1, 6))
SUITE = Suite(
    "test", LAYOUTS, ((1000.0, 1100.0, 1200.0, 1300.0, 1400.0),), SuiteNoise(window_sd=0.02), within=0.02
)
GOAL = SUITE.goal("none")


def grid(n_blocks: int | None = 3, windows_per_launch: int = 1) -> FleetGrid:
    return FleetGrid(GOAL, 7, n_blocks, windows_per_launch)


def boxes(n: int) -> Boxes:
    return Boxes(SUITE, [f"box-{number}" for number in range(1, n + 1)])


def launched(fleet: Boxes, *, whole: bool = True) -> dict[tuple[int, str], list[Layout]]:
    """What gave windows, by block and box, as it ended."""
    found: dict[tuple[int, str], list[Layout]] = {}
    for done in fleet.done:
        if done.windows or not whole:
            found.setdefault((done.place.block, done.place.box), []).append(done.place.asked.layout)
    return found


def layouts_of(block: int, order: Sequence[Layout] = ()) -> tuple[Layout, ...]:
    return tuple(order) or blocks(LAYOUTS, block + 1, 7)[block]


def test_on_one_box_it_asks_for_what_the_full_grid_does_and_says_the_same() -> None:
    fleet, strategy, alone = boxes(1), grid(), FullGrid(GOAL, 7, 3)
    fleet.lead(strategy)
    for done in fleet.done:
        alone.learn(done.windows)

    assert [done.place.asked.layout for done in fleet.done] == [
        layout for block in blocks(LAYOUTS, 3, 7) for layout in block
    ]
    assert not alone.propose()
    assert strategy.answer() == alone.answer()
    assert strategy.estimates() == alone.estimates()


def test_each_block_is_whole_on_one_box_and_in_its_own_order() -> None:
    fleet = boxes(3)
    fleet.lead(grid(n_blocks=7))

    found = launched(fleet)
    assert sorted(block for block, _ in found) == list(range(7))
    assert all(tuple(order) == layouts_of(block) for (block, _), order in found.items())
    assert {block: box for block, box in found if block < 3} == {0: "box-1", 1: "box-2", 2: "box-3"}
    places = [done.place for done in fleet.done]
    assert all(layouts_of(one.block)[one.position] == one.asked.layout for one in places)


def test_what_boxes_differ_by_is_no_difference_between_layouts() -> None:
    fleet = boxes(4)
    fleet.log_levels = {"box-1": 0.5, "box-3": -0.7}
    strategy = grid(n_blocks=4)
    fleet.lead(strategy)
    estimates = strategy.estimates()

    best = estimates[LAYOUTS[4]].mean
    assert best is not None
    for layout, true in zip(LAYOUTS, SUITE.surfaces[0], strict=True):
        mean = estimates[layout].mean
        assert mean is not None
        assert mean / best == pytest.approx(true / 1400.0, rel=0.06)
    assert strategy.answer().layout == LAYOUTS[4]


# ------------------------------------------------------------------ boxes that go


def test_what_a_box_that_went_has_left_is_taken_over_under_the_same_number() -> None:
    fleet, strategy = boxes(2), grid(n_blocks=2)
    fleet.lead(strategy, n=4)  # two launches each
    fleet.hand_out(strategy)
    fleet.lose(strategy, "box-2")
    fleet.lead(strategy)

    assert launched(fleet) == {
        (0, "box-1"): list(layouts_of(0)),
        (1, "box-2"): list(layouts_of(1)[:2]),
        (1, "box-1"): list(layouts_of(1)[2:]),
    }
    assert strategy.answer().layout == LAYOUTS[4]


def test_a_box_that_is_back_first_continues_where_it_was() -> None:
    fleet, strategy = boxes(2), grid(n_blocks=2)
    fleet.lead(strategy, n=4)
    fleet.hand_out(strategy)
    (lost,) = [place for place in fleet.places() if place.box == "box-2"]
    fleet.lose(strategy, "box-2")
    fleet.names = ["box-1", "box-2"]
    fleet.hand_out(strategy)

    assert [place for place in fleet.places() if place.box == "box-2"] == [lost]
    fleet.lead(strategy)
    assert launched(fleet)[1, "box-2"] == list(layouts_of(1))


def test_the_last_launch_of_a_block_is_not_taken_over_alone() -> None:
    fleet, strategy = boxes(2), grid(n_blocks=2)
    fleet.lead(strategy, n=8)  # four of five each
    fleet.hand_out(strategy)
    fleet.lose(strategy, "box-2")
    fleet.lead(strategy)

    taken_over = launched(fleet)[1, "box-1"]
    assert len(taken_over) == 2
    assert layouts_of(1)[4] in taken_over
    assert len({done.place for done in fleet.done if done.windows}) == 11


def test_a_launch_that_a_box_left_alone_is_made_again_with_the_rest() -> None:
    fleet, strategy = boxes(2), grid(n_blocks=2)
    fleet.lead(strategy, n=2)
    fleet.lose(strategy, "box-2")
    fleet.lead(strategy)

    assert launched(fleet)[1, "box-1"] == list(layouts_of(1))


def test_a_box_that_is_back_late_begins_another_block() -> None:
    fleet, strategy = boxes(2), grid(n_blocks=3)
    fleet.lead(strategy, n=4)
    fleet.hand_out(strategy)
    fleet.lose(strategy, "box-2")
    fleet.lead(strategy, n=4)  # block 0 to its end, and one of what was left of block 1
    fleet.hand_out(strategy)
    fleet.names = ["box-1", "box-2"]
    fleet.lead(strategy)

    assert launched(fleet)[2, "box-2"] == list(layouts_of(2))
    assert (2, "box-1") not in launched(fleet)


def test_a_place_that_is_lost_again_and_again_stays_empty() -> None:
    fleet, strategy = boxes(1), grid(n_blocks=1)
    for _ in range(MOST_GIVEN_UP):
        fleet.hand_out(strategy)
        fleet.lose(strategy, "box-1")
        fleet.names = ["box-1"]
    fleet.lead(strategy)

    assert launched(fleet) == {(0, "box-1"): list(layouts_of(0)[1:])}


# ------------------------------------------------------------------ launches that come to nothing


def test_a_place_tried_in_vain_stays_empty_and_its_layout_is_in_the_next_block() -> None:
    fleet, strategy = boxes(2), grid(n_blocks=3)
    fleet.hand_out(strategy)
    fleet.vain(strategy, "box-1")
    fleet.lead(strategy)

    assert launched(fleet)[0, "box-1"] == list(layouts_of(0)[1:])
    assert sum(len(order) for order in launched(fleet).values()) == 14
    assert strategy.answer().layout == LAYOUTS[4]


def test_a_layout_that_failed_is_requested_no_more() -> None:
    fleet, strategy = boxes(2), grid(n_blocks=4)
    fleet.hand_out(strategy)
    failed = fleet.under_way["box-1"][1].asked.layout
    fleet.vain(strategy, "box-1", failed=[failed])
    n_before = len(fleet.done)
    fleet.lead(strategy)

    asked = Counter(done.place.asked.layout for done in fleet.done[n_before:])
    assert asked[failed] <= 1  # the other box may have been at it
    assert failed not in strategy.answer().ties
    assert all(n == 4 for layout, n in asked.items() if layout != failed)


def test_where_everything_failed_nothing_is_requested_and_nothing_named() -> None:
    fleet, strategy = boxes(2), grid(n_blocks=2)
    fleet.hand_out(strategy)
    fleet.vain(strategy, "box-1", failed=LAYOUTS)
    fleet.vain(strategy, "box-2")
    fleet.lead(strategy)

    assert len(fleet.done) == 2
    assert strategy.answer().layout is None


# ------------------------------------------------------------------ how many blocks


def test_it_sizes_itself_as_the_full_grid_does_and_finishes_what_it_began() -> None:
    fleet, strategy = boxes(3), grid(n_blocks=None)
    fleet.lead(strategy)
    n_blocks = len(launched(fleet))
    # the same formula and tolerance as for one box; and what the other two had in hand
    usual = 2 * (0.02 * (1.960 + 0.842) / log(0.98)) ** 2

    assert all(len(order) == 5 for order in launched(fleet).values())
    assert abs(n_blocks / usual - 1) < 3 * 2 / (2 * 4 * usual) ** 0.5 + 2 / usual


def test_without_any_window_it_ends_after_the_pilot() -> None:
    fleet, strategy = boxes(1), grid(n_blocks=None)
    for _ in range(15):
        fleet.hand_out(strategy)
        fleet.vain(strategy, "box-1")
    fleet.hand_out(strategy)

    assert not fleet.under_way
    assert strategy.answer().layout is None


def test_the_rest_is_what_is_neither_done_nor_under_way() -> None:
    fleet, strategy = boxes(2), grid(n_blocks=4)

    assert len(strategy.expected_rest([]) or ()) == 20
    for n_done in range(20):
        fleet.hand_out(strategy)
        rest = strategy.expected_rest(fleet.places())
        assert rest is not None
        assert n_done + len(fleet.under_way) + len(rest) == 20
        fleet.step(strategy)
    assert strategy.expected_rest([]) == []
    assert grid(n_blocks=None).expected_rest([]) is None


def test_windows_of_one_launch_are_requested_together_and_count_once() -> None:
    fleet, strategy = boxes(2), grid(n_blocks=2, windows_per_launch=3)
    fleet.lead(strategy)

    assert {done.place.asked.n_windows for done in fleet.done} == {3}
    assert len(fleet.done) == 10


def test_shown_what_was_done_a_new_one_continues_as_the_first_would() -> None:
    fleet, strategy = boxes(3), grid(n_blocks=5)
    fleet.lead(strategy, n=8)
    fleet.hand_out(strategy)
    fleet.lose(strategy, "box-2")
    resumed = grid(n_blocks=5)
    for done in fleet.done:
        resumed.learn(done)

    for names in (["box-1", "box-3"], ["box-1", "box-2", "box-3"], ["box-9"]):
        for name in names:
            others = [place for place in fleet.places() if place.box != name]
            assert resumed.next_for(name, others, names) == strategy.next_for(name, others, names)
    assert resumed.answer() == strategy.answer()


def test_looking_changes_nothing() -> None:
    fleet, strategy = boxes(2), grid()
    fleet.lead(strategy, n=3)
    asked = [strategy.next_for("box-1", [], fleet.names) for _ in range(3)]

    assert asked[0] is not None
    assert asked == asked[:1] * 3


@pytest.mark.parametrize(
    ("n_blocks", "n_boxes", "text"),
    [
        (8, 8, None),
        (16, 8, None),
        (5, 1, None),
        (3, 8, wording("fleet.boxes-idle", blocks="3 blocks", n=3, n_boxes=8, better=8)),
        (1, 2, wording("fleet.one-box-busy", blocks="1 block", n_boxes=2, better=2)),
        (10, 8, wording("fleet.boxes-idle", blocks="the last 2 blocks", n=2, n_boxes=8, better=16)),
        (9, 8, wording("fleet.one-box-busy", blocks="the last block", n_boxes=8, better=16)),
    ],
    ids=key_of,
)
def test_boxes_that_stand_idle_at_the_end_are_reported(n_blocks: int, n_boxes: int, text: str | None) -> None:
    assert describe_idle_hosts(n_blocks, n_boxes) == text
