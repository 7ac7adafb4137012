"""The full grid: the plan's own order, gaps, sizing by power."""

from __future__ import annotations

from dataclasses import replace
from math import exp, log
from random import Random

import pytest

from tuner.core.domain.layout import Layout, blocks
from tuner.core.domain.strategy import Goal, Observed, Proposal
from tuner.core.search.strategies.full_grid import FullGrid, GridFit

LAYOUTS = tuple(Layout(1, threads) for threads in range(1, 6))
GOAL = Goal(LAYOUTS)


def took(proposals: list[Proposal], *, first: int = 0, random: Random | None = None) -> list[Observed]:
    """The windows of *proposals*: a layout of n threads gives n, with 5 % of noise when there is *random*."""
    return [
        Observed(
            proposal.layout,
            proposal.layout.threads * (exp(random.gauss(0, 0.05)) if random else 1.0),
            first + number,
            0.0,
            0.0,
            proposal.window_s,
        )
        for number, proposal in enumerate(proposals)
        for _ in range(proposal.n_windows)
    ]


def test_its_order_is_the_plan_s_and_it_ends_with_the_last_block() -> None:
    grid = FullGrid(GOAL, seed=7, n_blocks=3)
    order = []
    while proposals := list(grid.propose()):
        order.append(tuple(proposal.layout for proposal in proposals))
        grid.learn(took(proposals, first=10 * len(order)))

    assert tuple(order) == blocks(LAYOUTS, 3, 7)
    assert grid.answer().layout == Layout(1, 5)


def test_shown_the_windows_of_a_study_that_was_cut_off_it_continues_in_the_same_block() -> None:
    order = blocks(LAYOUTS, 3, 7)
    shown = [Proposal(layout, 600.0) for layout in (*order[0], *order[1][:2])]

    grid = FullGrid(GOAL, seed=7, n_blocks=3)
    grid.learn(took(shown))

    assert tuple(proposal.layout for proposal in grid.propose()) == order[1][2:]


def test_a_layout_that_failed_is_requested_no_more_and_a_void_one_in_the_next_block_again() -> None:
    order = blocks(LAYOUTS, 3, 7)
    grid = FullGrid(GOAL, seed=7, n_blocks=3)
    proposals = list(grid.propose())
    grid.learn(took(proposals[2:]), failed=[proposals[0].layout])
    second = list(grid.propose())
    grid.learn(took(second, first=10))

    assert [proposal.layout for proposal in second] == [x for x in order[1] if x != proposals[0].layout]
    assert [proposal.layout for proposal in grid.propose()] == [
        x for x in order[2] if x != proposals[0].layout
    ]
    assert proposals[0].layout not in grid.answer().ties


def test_windows_of_one_launch_are_requested_together_and_count_once() -> None:
    grid = FullGrid(GOAL, seed=1, n_blocks=2, windows_per_launch=3)
    first = list(grid.propose())
    grid.learn(took(first))
    second = list(grid.propose())

    assert {proposal.n_windows for proposal in first} == {3}
    assert tuple(proposal.layout for proposal in second) == blocks(LAYOUTS, 2, 1)[1]


def test_the_sums_of_whole_blocks_say_what_the_fit_says() -> None:
    random = Random(3)
    whole, with_gap = (FullGrid(GOAL, seed=1, n_blocks=6) for _ in range(2))
    for block in range(5):
        proposals = list(whole.propose())
        with_gap.propose()
        windows = took(proposals, first=10 * block, random=random)
        whole.learn(windows)
        with_gap.learn(windows)
    sums, fitted = whole._fit._table.seen(), with_gap._fit._launches.fitted()
    of_fit = dict(zip(fitted[1], fitted[0].effects, strict=True))

    assert sums.effects == pytest.approx(of_fit)
    assert sums.variance == pytest.approx(fitted[0].residual_variance)
    assert sums.df == fitted[0].residual_df


@pytest.mark.parametrize(("place", "values"), [(0, (0.1, 6.0)), (-1, (6.0, 0.1))])
def test_a_layout_that_was_launched_twice_in_a_block_is_judged_by_both_its_launches(
    place: int, values: tuple[float, float]
) -> None:
    grid = FullGrid(GOAL, seed=7, n_blocks=1, windows_per_launch=2)
    windows = took(list(grid.propose()))
    layout = windows[place].layout
    others = [one for one in windows if one.layout != layout]
    again = [Observed(layout, value, 100 + n, 0.0, 0.0, 600.0) for n, value in enumerate(values)]
    grid.learn([*again, *others] if place == 0 else [*others, *again])

    assert grid.answer().layout == max(one.layout for one in others)


def test_a_gap_changes_no_more_than_it_must() -> None:
    random = Random(3)
    whole, with_gap = (FullGrid(GOAL, seed=1, n_blocks=6) for _ in range(2))
    for block in range(6):
        proposals = list(whole.propose())
        with_gap.propose()
        windows = took(proposals, first=10 * block, random=random)
        whole.learn(windows)
        with_gap.learn(windows[1:] if block == 2 else windows)

    assert with_gap.answer().layout == whole.answer().layout == Layout(1, 5)
    for layout, estimate in with_gap.estimates().items():
        assert estimate.mean == pytest.approx(whole.estimates()[layout].mean, rel=0.05)


def test_it_sizes_itself_by_the_usual_formula() -> None:
    random = Random(11)
    grid = FullGrid(GOAL, seed=1)
    n_blocks = 0
    while proposals := list(grid.propose()):
        grid.learn(took(proposals, first=10 * n_blocks, random=random))
        n_blocks += 1
    # n = 2 (sd (1.96 + 0.84) / ln 0.98)^2; the sd is known to 1 / sqrt(2 df) of itself, df is about 4 n
    usual = 2 * (0.05 * (1.960 + 0.842) / log(0.98)) ** 2

    assert abs(n_blocks / usual - 1) < 3 * 2 / (2 * 4 * usual) ** 0.5


def test_without_a_second_block_all_are_tied() -> None:
    grid = FullGrid(GOAL, seed=1, n_blocks=1)
    grid.learn(took(list(grid.propose())))

    assert set(grid.answer().ties) == set(LAYOUTS) - {Layout(1, 5)}
    assert not grid.answer().reached


def test_what_shares_no_block_with_the_best_is_tied_with_it_also_without_noise() -> None:
    alone, *others = LAYOUTS[:3]
    fit = GridFit(Goal(LAYOUTS[:3]))
    blocks_of = [(others, 0), (others, 1), ([alone], 2)]
    for layouts, block in blocks_of:
        for number, proposal in enumerate(Proposal(layout, 600.0) for layout in layouts):
            alike = [replace(one, value=1.0) for one in took([proposal], first=10 * block + number)]
            fit.add(alike, block)
        fit.end_block(block)

    answer = fit.answer(failed=())
    assert fit.seen().variance == 0
    assert {answer.layout, *answer.ties} == {alone, *others}


def test_where_everything_failed_nothing_is_proposed_and_nothing_named() -> None:
    grid = FullGrid(GOAL, seed=1, n_blocks=2)
    grid.propose()
    grid.learn([], failed=LAYOUTS)

    assert not grid.propose()
    assert grid.answer().layout is None
