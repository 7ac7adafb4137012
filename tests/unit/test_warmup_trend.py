"""A trend and its standard error, on noise whose memory is known."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.core.warmup import Trend, detectable_slope, estimate_trend, pool_trends

from ..raising import raises
from ..wording import wording

N_RUNS = 400


def noise(n: int, seed: int, memory: float = 0.0) -> list[float]:
    """Of sd 0.1 around 1; *memory* is the correlation of neighbours."""
    draw = random.Random(seed)
    values, value = [], draw.gauss(0, 0.1)
    for _ in range(n):
        values.append(1 + value)
        value = memory * value + math.sqrt(1 - memory**2) * draw.gauss(0, 0.1)
    return values


def share_found(n: int, slope: float, *, memory: float = 0.0, alpha: float = 0.05) -> float:
    found = 0
    for seed in range(N_RUNS):
        values = [value + slope * i for i, value in enumerate(noise(n, seed, memory))]
        trend = estimate_trend(values)
        assert trend is not None
        found += trend.p_value < alpha
    return found / N_RUNS


def test_a_line_without_noise_is_found_exactly() -> None:
    trend = estimate_trend([100 + 0.5 * i for i in range(60)])

    assert trend is not None
    assert trend.slope * (100 + 0.5 * 29.5) == pytest.approx(0.5)
    assert trend.standard_error < 1e-9
    assert trend.p_value < 1e-9


@pytest.mark.parametrize("n", [12, 30, 120])
def test_white_noise_has_a_trend_as_often_as_said(n: int) -> None:
    """At most: 5 % of 400, and three standard errors; of two answers the less certain one counts."""
    assert 0.005 <= share_found(n, 0.0) <= 0.085


def test_noise_with_a_memory_of_two_values_has_one_hardly_more_often() -> None:
    """The usual standard error of a slope would say so three times as often."""
    assert share_found(120, 0.0, memory=math.exp(-1 / 2)) <= 0.09


def test_the_slope_that_should_be_found_nine_times_in_ten_is() -> None:
    slope = detectable_slope(0.1, 120, alpha=0.05)

    assert 0.83 <= share_found(120, slope) <= 0.96
    assert share_found(120, slope / 4) <= 0.35


def test_what_can_be_detected_shrinks_with_length_to_the_three_halves() -> None:
    short, long = (detectable_slope(0.25, n, alpha=0.02) for n in (100, 400))

    assert short / long == pytest.approx(8, rel=0.01)


def test_a_trend_that_no_launch_shows_is_found_in_many() -> None:
    slope = detectable_slope(0.1, 120, alpha=0.05) / 3
    trends = []
    for seed in range(40):
        trend = estimate_trend([value + slope * i for i, value in enumerate(noise(120, seed))])
        assert trend is not None
        trends.append(trend)
    pooled = pool_trends(trends)

    assert pooled is not None
    assert pooled.p_value < 0.001
    assert pooled.slope == pytest.approx(slope, abs=4 * pooled.standard_error)
    assert sum(trend.p_value < 0.05 for trend in trends) < 25


def test_launches_without_a_trend_have_none_together() -> None:
    found = 0
    for study in range(200):
        trends = [estimate_trend(noise(60, 1000 * study + launch)) for launch in range(6)]
        pooled = pool_trends([trend for trend in trends if trend is not None])
        assert pooled is not None
        found += pooled.p_value < 0.05

    assert found <= 20


def test_too_little_says_nothing() -> None:
    assert estimate_trend([1.0] * 11) is None
    assert estimate_trend([0.0] * 60) is None
    assert pool_trends([Trend(0.1, 0.01, 16)] * 2) is None
    with raises(ValueError, wording("rank.need-more", least=12, what="values", got=11)):
        detectable_slope(0.1, 11, alpha=0.05)


@given(st.lists(st.floats(1.0, 100.0), min_size=12, max_size=60))
def test_time_turned_round_turns_the_trend_round(values: list[float]) -> None:
    forward, backward = estimate_trend(values), estimate_trend(values[::-1])

    assert forward is not None
    assert backward is not None
    assert backward.slope == pytest.approx(-forward.slope, abs=1e-12)
    assert backward.standard_error == pytest.approx(forward.standard_error, abs=1e-12)
    assert 0.0 <= forward.p_value <= 1.0
