"""How connections spread over workers, and what that costs, by arithmetic."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.core.domain.requests import (
    ConnectionSpread,
    n_starved,
    spread_from_json,
    spread_to_json,
    surplus,
    uneven_ratio,
)


@pytest.mark.parametrize(
    ("busy", "threads", "share"),
    [
        ((8, 0), 2, 0.5),  # gunicorn of two workers, measured: 19.7 of 40 a second
        ((7, 1), 2, 0.25),  # 29.5
        ((4, 4), 2, 0.0),  # 39.2
        ((31, 1), 8, 7 / 16),  # 87 of 160
        ((1, 0, 0), 4, 0.0),  # nobody has too many: there is too little work, not uneven work
        ((9, 2, 1, 0), 1, 0.25),
    ],
)
def test_threads_lack_work_as_far_as_other_workers_have_too_much(busy, threads, share) -> None:
    assert n_starved(busy, threads) / (threads * len(busy)) == share


@given(st.lists(st.integers(0, 40), min_size=1, max_size=9))
def test_what_is_opened_anew_is_what_the_fullest_have_beyond_an_even_share(counts: list[int]) -> None:
    held = [[(worker, n) for n in range(count)] for worker, count in enumerate(counts)]
    moved = surplus(held)
    left = [count - sum(one[0] == worker for one in moved) for worker, count in enumerate(counts)]
    most = -(-sum(counts) // len(counts))

    assert max(left) <= most
    assert len(moved) == sum(max(0, n - most) for n in counts) or max(counts) - min(counts) > 1
    assert bool(moved) == (max(counts) - min(counts) > 1)


def test_sums_are_those_of_the_time_between_two_looks_and_of_launches_together() -> None:
    early = ConnectionSpread(10.0, 5.0, (80.0, 0.0), 1.0)
    late = ConnectionSpread(30.0, 5.0, (160.0, 80.0), 1.0)
    window = late.since(early)

    assert window == ConnectionSpread(20.0, 0.0, (80.0, 80.0), 0.0)
    assert window.per_worker == (4.0, 4.0)
    assert (early.starved_ratio(4), window.starved_ratio(4)) == (0.125, 0.0)
    assert window.merged(early) == ConnectionSpread(30.0, 5.0, (160.0, 80.0), 1.0)
    assert (ConnectionSpread().per_worker, ConnectionSpread().starved_ratio(4)) == ((), None)


def test_uneven_connections_are_reported_from_five_percent_on() -> None:
    assert uneven_ratio(ConnectionSpread(10.0, 1.9, (50.0, 30.0)), 4) is None
    assert uneven_ratio(ConnectionSpread(10.0, 2.0, (50.0, 30.0)), 4) == pytest.approx(0.05)
    assert uneven_ratio(ConnectionSpread(), 4) is None


def test_what_a_file_keeps_is_read_back_and_nothing_else() -> None:
    spread = ConnectionSpread(10.0, 2.5, (80.0, 0.5), 1.0)

    assert spread_from_json(spread_to_json(spread)) == spread
    for damaged in (None, [], [1, 2, 3], [1, 2, 3, ["x"]], {"seconds": 1}):
        with pytest.raises(ValueError, match="no spread"):
            spread_from_json(damaged)
