"""Settled or not, and why: over whole launches with known answers (bench/warmup.py has the long tables)."""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Callable
from statistics import fmean, median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.core.warmup import NotSettled, Steady, Trend, judge
from tuner.core.warmup.verdict import _describe_trend, find_levels

from ..raising import raises
from ..wording import start_of, wording

Course = Callable[[int], float]
N_RUNS = 40


def launch(course: Course, n_s: int, noise: float, seed: int) -> list[float]:
    draw = random.Random(seed)
    return [max(0.0, 100 * (course(second) + noise * draw.gauss(0, 1))) for second in range(n_s)]


def verdicts(course: Course, n_s: int, noise: float = 0.1) -> Counter[str]:
    found = [judge(launch(course, n_s, noise, seed)) for seed in range(N_RUNS)]
    return Counter(verdict.reason if isinstance(verdict, NotSettled) else "steady" for verdict in found)


def drifting(percent_per_ten_minutes: float) -> Course:
    return lambda second: 1 + percent_per_ten_minutes / 100 * second / 600


@pytest.mark.parametrize("noise", [0.05, 0.1, 0.25])
def test_a_steady_launch_is_called_steady(noise: float) -> None:
    assert verdicts(lambda _: 1.0, 660, noise)["steady"] >= 0.9 * N_RUNS


def test_a_step_at_the_beginning_is_warm_up_and_cut_where_it_is() -> None:
    found = [
        judge(launch(lambda second: 0.4 if second < 50 else 1.0, 660, 0.1, seed)) for seed in range(N_RUNS)
    ]
    begins = [verdict.from_n for verdict in found]

    assert sum(isinstance(verdict, Steady) for verdict in found) >= 0.9 * N_RUNS
    assert min(begins) == 50
    assert median(begins) <= 60


@pytest.mark.parametrize("time_constant_s", [5.0, 20.0, 60.0])
def test_a_slow_start_leaves_half_a_percent_of_bias_at_most(time_constant_s: float) -> None:
    def course(second: int) -> float:
        return 1 - 0.7 * math.exp(-second / time_constant_s)

    found = [judge(launch(course, 660, 0.25, seed)) for seed in range(N_RUNS)]
    bias = [fmean(course(second) for second in range(verdict.from_n, 660)) - 1 for verdict in found]

    assert abs(fmean(bias)) <= 0.005
    assert sum(isinstance(verdict, Steady) for verdict in found) >= 0.85 * N_RUNS


@pytest.mark.parametrize(
    ("percent", "noise", "n_s"),
    [
        (-1, 0.05, 1600),
        (1, 0.05, 1600),
        (-1, 0.25, 4600),
        pytest.param(-1, 0.1, 2500, marks=pytest.mark.full),
        pytest.param(1, 0.1, 2500, marks=pytest.mark.full),
        pytest.param(1, 0.25, 4600, marks=pytest.mark.full),
    ],
)
def test_a_leak_of_one_percent_per_ten_minutes_is_seen_in_a_launch_that_is_long_enough(
    percent: int, noise: float, n_s: int
) -> None:
    """In 90 % and more of a thousand (bench/warmup.py); here in so many that chance is no excuse."""
    assert verdicts(drifting(percent), n_s, noise)["steady"] <= 0.2 * N_RUNS


def test_a_leak_of_half_a_percent_an_hour_is_let_pass_however_clear_it_is() -> None:
    assert verdicts(drifting(-0.08), 3600, 0.001)["steady"] == N_RUNS


def test_the_trend_is_reported_with_its_direction_and_size() -> None:
    verdict = judge(launch(drifting(-6), 1200, 0.02, 1))

    assert isinstance(verdict, NotSettled)
    assert wording("rank.trend-fell-by-6") in start_of(str(verdict))
    assert verdict.trend is not None
    assert verdict.trend.slope * 600 == pytest.approx(-0.06, rel=0.1)


def test_a_steep_fall_in_a_short_launch_is_stated_over_what_was_seen() -> None:
    """From 80 to 60 items a second in its later half: a straight line would lose 283 % in ten minutes."""
    verdict = judge(launch(lambda second: 1 - 0.4 * second / 120, 120, 0.02, 1))

    assert isinstance(verdict, NotSettled)
    assert wording("rank.trend-fell-steeply") in start_of(str(verdict))


@given(
    st.integers(60, 200),
    st.floats(0, 100),
    st.floats(0.2, 3),
    st.lists(st.floats(0, 1), min_size=10, max_size=10),
)
def test_no_fall_is_stated_as_more_than_all(n_s: int, end: float, power: float, noise: list[float]) -> None:
    """Whatever the course and the length of the launch."""
    course = [100 + (end - 100) * (second / n_s) ** power for second in range(n_s)]
    verdict = judge([max(0.0, value + noise[second % 10]) for second, value in enumerate(course)])

    for fell in re.findall(r"fell by ([\d.e+-]+) %", str(verdict)):
        assert 0 <= float(fell) <= 100


@given(st.floats(-1, 0), st.floats(0, 10), st.integers(20, 10_000))
def test_no_slope_gives_a_fall_of_more_than_all(slope: float, error: float, lasted_s: int) -> None:
    text = _describe_trend(Trend(slope, error, 5), lasted_s)

    assert 0 <= float(re.findall(r"by ([\d.e+-]+) %", text)[0]) <= 100


@pytest.mark.parametrize(
    "course",
    [
        lambda second: 0.8 if second >= 450 else 1.0,  # a late step
        lambda second: 1.0 if second // 100 % 2 else 0.75,  # back and forth
        lambda second: 0.7 if 300 <= second < 420 else 1.0,  # once, and back
    ],
)
def test_a_launch_that_moves_between_levels_never_settles(course: Course) -> None:
    found = verdicts(course, 700)

    assert found["levels"] >= 0.9 * N_RUNS
    assert found["steady"] == 0


def test_levels_are_reported_with_their_figures() -> None:
    verdict = judge([80.0 if second // 100 % 2 else 100.0 for second in range(700)])

    assert str(verdict) == wording("rank.levels-throughput-moved-times")


def test_quick_changes_average_out_and_are_no_levels() -> None:
    found = verdicts(lambda second: 1.0 if second // 6 % 2 else 0.7, 700)

    assert found["steady"] >= 0.9 * N_RUNS


def test_levels_that_differ_by_no_more_than_windows_do_are_no_levels() -> None:
    assert verdicts(lambda second: 1.0 if second // 200 % 2 else 0.95, 1000, 0.02)["levels"] == 0


def test_a_launch_that_warms_up_for_more_than_half_of_what_was_seen_has_not_settled() -> None:
    verdict = judge(launch(lambda second: 0.5 if second < 55 else 1.0, 100, 0.02, 1))

    assert isinstance(verdict, NotSettled)


def test_nothing_finished_is_said_as_such() -> None:
    verdict = judge([0.0] * 100)

    assert str(verdict) == wording("rank.idle-item-finished-first")


def test_the_time_before_the_first_item_is_warm_up() -> None:
    verdict = judge([0.0] * 60 + [10.0] * 300)

    assert verdict == Steady(60, verdict.trend)


def test_too_short_a_launch_is_a_callers_mistake() -> None:
    with raises(ValueError, wording("rank.need-more", least=20, what="seconds", got=19)):
        judge([1.0] * 19)


@given(st.lists(st.floats(0, 1e5, allow_subnormal=False), min_size=20, max_size=200))
def test_whatever_is_seen_there_is_a_verdict_within_the_series(items: list[float]) -> None:
    verdict = judge(items)

    assert 0 <= verdict.from_n <= len(items)
    assert "nan" not in str(verdict)


def test_noise_alone_is_one_level() -> None:
    found = [len(find_levels(launch(lambda _: 1.0, 700, 0.1, seed))) for seed in range(N_RUNS)]

    assert found.count(1) >= 0.85 * N_RUNS


def test_levels_are_found_where_they_change_however_often_they_do() -> None:
    """A change every 90 s is in almost half of the differences that measure the noise."""
    for seed in range(10):
        levels = find_levels(launch(lambda second: 1.0 if second // 90 % 2 else 0.8, 720, 0.05, seed))

        assert len(levels) == 8
        assert all(abs(level.start - 90 * n) <= 10 for n, level in enumerate(levels))


@given(st.lists(st.floats(1, 100), min_size=1, max_size=400))
def test_levels_cover_the_series_without_gaps(values: list[float]) -> None:
    levels = find_levels(values)

    assert [level.start for level in levels[1:]] == [level.stop for level in levels[:-1]]
    assert (levels[0].start, levels[-1].stop) == (0, len(values))
    assert all(level.stop - level.start >= 30 for level in levels) or len(levels) == 1
