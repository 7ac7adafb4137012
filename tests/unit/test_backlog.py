from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.core.domain.load import FEWEST_WAITING, MOST_WAITING_BYTES, BestRate, wanted_backlog


def test_twenty_seconds_of_the_best_rate_wait() -> None:
    assert wanted_backlog(1000.0, 8, 500) == 20_000


def test_before_any_rate_is_known_enough_wait_for_a_start() -> None:
    assert wanted_backlog(0.0, 8, 500) == FEWEST_WAITING


def test_large_messages_wait_in_smaller_numbers() -> None:
    assert wanted_backlog(1000.0, 8, 2**20) == 256


@given(st.floats(0, 1e6), st.integers(1, 10_000), st.floats(0, 1e9))
def test_never_fewer_wait_than_the_workers_take_beforehand(rate: float, threads: int, size: float) -> None:
    wanted = wanted_backlog(rate, threads, size)

    assert wanted >= 8 * threads
    assert wanted * size <= MOST_WAITING_BYTES or wanted == 8 * threads


def test_the_best_rate_is_of_two_seconds_or_more() -> None:
    rate = BestRate()
    for quarter, total in enumerate([0, 500, 500, 500, 500, 500, 500, 500, 500, 600]):
        rate.add(10 + quarter / 4, total)

    assert rate.per_s == 250  # 500 in the first 2 s; not 2000, as in the first quarter


def test_a_rate_known_from_before_stays_the_best() -> None:
    rate = BestRate(300.0)
    for second in range(10):
        rate.add(second, 10 * second)

    assert rate.per_s == pytest.approx(300)
