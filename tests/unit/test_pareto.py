"""The Pareto front: known answers. How often what it says is wrong: test_limits_calibration.py."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import exp
from random import Random

import pytest

from tuner.core.domain.layout import Layout, parse_layout
from tuner.core.ranking.pareto import Front, FrontPlace, Traded, pareto_front
from tuner.reports.ranking.pareto import front_table


def launches(
    truth: Mapping[str, tuple[float, float | None]],
    noise: float,
    n_blocks: int,
    seed: int = 1,
    drift: float = 0.1,
) -> list[Traded]:
    """layout -> its true throughput and cost; both vary by *noise*, throughput with the box too."""
    random = Random(seed)
    seen = []
    for block in range(n_blocks):
        of_box = random.gauss(0, drift)
        for text, (throughput, cost) in truth.items():
            gave = throughput * exp(of_box + random.gauss(0, noise))
            spent = None if cost is None else cost * exp(random.gauss(0, noise))
            seen.append(Traded(parse_layout(text), block, gave, spent))
    return seen


def front(truth: Mapping[str, tuple[float, float | None]], noise: float = 0.001, n_blocks: int = 4) -> Front:
    return pareto_front(launches(truth, noise, n_blocks), "load", confidence=0.95, within=0.02)


def place(got: Front, layout: str) -> FrontPlace:
    return next(one for one in got.places if one.layout == parse_layout(layout))


#: 12x2 gives what 24x1 gives; 6x4 gives less for less; 2x12 is slower than 6x4 and dearer
CLEAR = {"24x1": (100.0, 24.0), "12x2": (99.8, 19.2), "6x4": (80.0, 8.0), "2x12": (60.0, 10.0)}


def test_a_layout_that_matches_the_fastest_for_less_is_the_finding() -> None:
    got = front(CLEAR)
    trade = got.trades[0]

    assert got.reference == Layout(24, 1)
    assert (str(trade.layout), trade.kind) == ("12x2", "matches")
    assert trade.cost_ratio.mean == pytest.approx(0.8, abs=0.01)
    assert trade.cost_ratio.low is not None
    assert trade.cost_ratio.high is not None
    assert trade.cost_ratio.low < 0.8 < trade.cost_ratio.high < 0.82


def test_what_is_slower_and_dearer_than_another_is_dominated_and_reported_by_whom() -> None:
    got = front(CLEAR)

    # that 24x1 gives 0.2 % more than 12x2 is not seen, so it may be dominated
    assert [place(got, text).is_on_front for text in CLEAR] == [None, True, True, False]
    assert place(got, "2x12").dominated_by == Layout(6, 4)
    assert [(str(trade.layout), trade.kind) for trade in got.trades] == [
        ("12x2", "matches"), ("6x4", "less"),
    ]  # fmt: skip


def test_a_dearer_layout_that_matches_the_fastest_is_reported_the_other_way_round() -> None:
    got = front({"24x1": (99.8, 24.0), "12x2": (100.0, 19.2), "2x12": (60.0, 30.0)})
    [trade] = got.trades

    assert got.reference == Layout(12, 2)
    assert (str(trade.layout), str(trade.against), trade.kind) == ("12x2", "24x1", "matches")
    assert trade.cost_ratio.mean == pytest.approx(0.8, abs=0.01)
    assert trade.cost_ratio.low is not None
    assert trade.cost_ratio.high is not None
    assert trade.cost_ratio.low < 0.8 < trade.cost_ratio.high < 0.82


def test_without_enough_data_nothing_is_claimed_to_match() -> None:
    got = front({"24x1": (100.0, 24.0), "12x2": (100.0, 12.0)}, noise=0.05)

    # the cost is half, so that is sure; the throughput is the same, which this noise cannot show
    assert [trade.kind for trade in got.trades] == ["open"]


def test_a_cost_that_is_not_known_from_the_fastests_is_no_finding() -> None:
    got = front({"24x1": (100.0, 24.0), "12x2": (99.9, 24.0), "6x4": (50.0, 24.0)}, noise=0.01)

    assert got.trades == ()
    assert [one.is_on_front for one in got.places if one.layout != Layout(6, 4)] == [None, None]


def test_one_block_puts_nobody_on_the_front_nor_off_it() -> None:
    got = front(CLEAR, n_blocks=1)

    assert [one.is_on_front for one in got.places] == [None] * 4
    assert got.trades == ()


def test_layouts_whose_cost_was_not_seen_are_left_out() -> None:
    got = front({**CLEAR, "1x24": (500.0, None)})

    assert got.reference == Layout(24, 1)
    assert len(got.places) == 4
    assert front({"1x24": (500.0, None)}).places == ()


def test_a_cost_of_many_times_the_fastests_is_written_out() -> None:
    got = front({"8x1": (100.0, 1.0), "4x1": (50.0, 24.0)})

    result = repr(front_table(got))
    assert re.search(r"2\d{3} to 2\d{3} %", result), result
    assert "e+" not in result


def test_the_sentences_are_few_however_many_layouts_there_are() -> None:
    many = {f"1x{threads}": (100.0 + threads / 1000, 10.0 + threads) for threads in range(1, 30)}
    got = front(many, noise=0.0001)

    assert [trade.kind for trade in got.trades] == ["matches"] * 3
    assert [str(trade.layout) for trade in got.trades] == ["1x1", "1x2", "1x3"]
