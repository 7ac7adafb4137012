"""The moment a launch is called warm, on simulated launches with known transients (seeded, Poisson items)."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from statistics import fmean, median

import pytest

from tuner.core.warmup import has_settled

from ..raising import raises
from ..wording import wording

CAP_S = 300
SEEDS = range(40)
Course = Callable[[int], float]


def poisson(draw: random.Random, mean: float) -> int:
    """Count uniforms until their product falls below e^-mean; large means add up."""
    if mean > 20:
        return poisson(draw, 20) + poisson(draw, mean - 20)
    floor, product, count = math.exp(-mean), draw.random(), 0
    while product > floor:
        product, count = product * draw.random(), count + 1
    return count


def settled_at_s(
    items: Course, active: Course | None = lambda _: 4.0, *, seed: int = 0, window_s: float = 600.0
) -> int | None:
    draw = random.Random(seed)
    items_per_s: list[float] = []
    n_active: list[float | None] = []
    for second in range(CAP_S):
        items_per_s.append(poisson(draw, items(second)))
        n_active.append(None if active is None else poisson(draw, active(second)))
        if has_settled(items_per_s, n_active, window_s):
            return second + 1
    return None


def all_settled_at_s(
    items: Course, active: Course | None = lambda _: 4.0, *, window_s: float = 600.0
) -> list[int]:
    return [settled_at_s(items, active, seed=seed, window_s=window_s) or CAP_S for seed in SEEDS]


def rising_to(final: float, time_constant_s: float) -> Course:
    return lambda second: final * (1 - math.exp(-second / time_constant_s))


@pytest.mark.parametrize(
    ("per_s", "usually_s", "at_most_s"), [(1.0, 90, 200), (10.0, 50, 110), (100.0, 30, 60)]
)
def test_constant_work_settles_the_sooner_the_less_it_scatters(
    per_s: float, usually_s: int, at_most_s: int
) -> None:
    at_s = all_settled_at_s(lambda _: per_s)

    assert median(at_s) <= usually_s
    assert max(at_s) <= at_most_s


def test_perfectly_regular_work_settles_as_soon_as_it_can() -> None:
    assert not has_settled([10.0] * 19, [4] * 19)
    assert has_settled([10.0] * 20, [4] * 20)


def test_slow_items_settle_after_eight_of_them() -> None:
    regular = [1.0 if second % 5 == 4 else 0.0 for second in range(CAP_S)]
    at_s = next(n for n in range(1, CAP_S) if has_settled(regular[:n], [1] * n))

    assert 40 <= at_s <= 60


def test_slow_items_that_come_at_random_settle_within_two_minutes() -> None:
    at_s = all_settled_at_s(lambda _: 0.2)

    assert 40 <= median(at_s) <= 90
    assert max(at_s) <= 150


def test_one_burst_shows_no_rate() -> None:
    items = [0.0] * 20 + [30.0] + [0.0] * 15

    assert not has_settled(items, [4] * 36)


def test_nothing_finished_never_settles() -> None:
    assert not has_settled([0.0] * CAP_S, [0] * CAP_S)


def test_nothing_seen_yet_has_not_settled() -> None:
    assert not has_settled([], [])


def test_the_time_before_the_first_item_is_not_held_against_a_launch() -> None:
    late = [0.0] * 60 + [10.0] * 20

    assert has_settled(late, [2] * 60 + [4] * 20)


def test_a_launch_is_not_called_warm_while_a_step_is_within_sight() -> None:
    """20 s at half the rate, seen clearly after 26 s: the later half of the time must be past the step."""
    for seed in SEEDS:
        draw = random.Random(seed)
        items = [float(poisson(draw, 50 if second < 20 else 100)) for second in range(60)]
        called = [n for n in range(26, 40) if has_settled(items[:n], [None] * n)]

        assert called == []


def test_after_a_step_it_settles() -> None:
    at_s = all_settled_at_s(lambda second: 100.0 if second >= 5 else 20.0)

    assert min(at_s) >= 12
    assert max(at_s) <= 60


@pytest.mark.parametrize(
    ("per_s", "time_constant_s", "still_to_come"),
    [(100.0, 10.0, 0.02), (10.0, 10.0, 0.05), (100.0, 40.0, 0.08)],
)
def test_what_a_transient_leaves_is_small_and_biases_ten_minutes_by_half_a_percent_at_most(
    per_s: float, time_constant_s: float, still_to_come: float
) -> None:
    """Measured: 0.7 %, 2 % and 4 % to come, hence 0.01 %, 0.04 % and 0.27 % of ten minutes."""
    left = [math.exp(-at_s / time_constant_s) for at_s in all_settled_at_s(rising_to(per_s, time_constant_s))]

    assert fmean(left) <= still_to_come
    assert fmean(left) * time_constant_s / 600 <= 0.005


def test_a_shorter_window_waits_longer_for_a_transient_to_end() -> None:
    """What is left of it weighs ten times as much in one minute."""
    long, short = (
        fmean(all_settled_at_s(rising_to(100.0, 20.0), window_s=window_s)) for window_s in (600.0, 60.0)
    )

    assert short > long + 5


def test_a_strong_trend_without_noise_never_settles() -> None:
    ramp = [100.0 * 1.02**second for second in range(CAP_S)]

    assert not any(has_settled(ramp[:n], [None] * n) for n in range(1, CAP_S))


def test_a_trend_of_one_percent_a_minute_is_let_pass() -> None:
    """The verdict over the whole launch finds it; no minute of warm-up could."""
    at_s = all_settled_at_s(lambda second: 100.0 * (1 + 0.01 * second / 60))

    assert median(at_s) <= 30


def test_items_alone_decide_where_the_active_count_cannot_be_seen() -> None:
    assert settled_at_s(lambda _: 100.0, None) is not None


def test_an_active_count_that_climbs_keeps_level_throughput_from_settling() -> None:
    climbing = [float(second) for second in range(CAP_S)]

    assert not any(has_settled([100.0] * n, climbing[:n]) for n in range(1, CAP_S))


def test_a_transient_that_is_over_does_no_harm_however_large_it_was() -> None:
    items = [100.0 + 200.0 * math.exp(-second / 5) + second % 2 for second in range(100)]

    assert not has_settled(items[:25], [None] * 25)
    assert has_settled(items, [None] * 100)


def test_half_a_task_more_is_no_change() -> None:
    assert has_settled([100.0] * 30, [1.0] * 22 + [1.4] * 8)


def test_two_series_of_different_length_are_a_mistake() -> None:
    with raises(ValueError, wording("rank.seconds-items-active-count")):
        has_settled([1.0, 1.0, 1.0], [1, 1])
