"""Where MSER-5 cuts, on series with known answers."""

from __future__ import annotations

import random
from statistics import median, pvariance

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.core.warmup import batch_means, truncation_point

from ..raising import raises
from ..wording import wording

SERIES = st.lists(st.integers(0, 1000).map(float), min_size=4, max_size=60)


def test_a_run_that_starts_slow_loses_only_its_slow_batches() -> None:
    assert truncation_point([2.0, 5.0, 9.9, 10.1, 10.0, 9.9, 10.0, 10.1]) == 2


def test_nothing_is_cut_of_a_level_series() -> None:
    assert truncation_point([10.0] * 20) == 0


def test_a_step_is_cut_where_it_is_or_a_batch_later_by_chance() -> None:
    cuts = []
    for seed in range(40):
        draw = random.Random(seed)
        cuts.append(truncation_point([draw.gauss(50.0 if n < 7 else 100.0, 5.0) for n in range(60)]))

    assert min(cuts) == 7
    assert median(cuts) in (7, 8)


def test_a_series_that_only_rises_is_cut_at_its_middle() -> None:
    assert truncation_point([float(n) for n in range(40)]) == 20


@given(SERIES)
def test_it_is_the_least_marginal_standard_error_of_the_first_half(batches: list[float]) -> None:
    cut = truncation_point(batches)
    scores = [pvariance(batches[n:]) / (len(batches) - n) for n in range(len(batches) // 2 + 1)]

    assert scores[cut] == pytest.approx(min(scores), rel=1e-9, abs=1e-6)


@given(SERIES, st.sampled_from([0.25, 2.0, 1024.0]))
def test_neither_the_unit_nor_the_sign_moves_the_cut(batches: list[float], unit: float) -> None:
    """Powers of two: equal scores stay equal to the last digit."""
    cut = truncation_point(batches)

    assert truncation_point([unit * value for value in batches]) == cut
    assert truncation_point([-value for value in batches]) == cut


def test_a_series_of_three_batches_is_a_callers_mistake() -> None:
    with raises(ValueError, wording("rank.need-more", least=4, what="batches", got=3)):
        truncation_point([1.0, 2.0, 3.0])


def test_batches_are_means_of_five_and_an_incomplete_one_is_left_out() -> None:
    assert batch_means([float(n) for n in range(14)]) == [2.0, 7.0]
    assert batch_means([1.0] * 4) == []
