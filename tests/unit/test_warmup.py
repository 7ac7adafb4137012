"""The moment a launch is called warm, on simulated launches with known transients (seeded, Poisson items)."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from statistics import median

import pytest

from tuner.core.warmup import has_settled

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


def settled_at_s(items: Course, active: Course | None = lambda _: 4.0, *, seed: int = 0) -> int | None:
    draw = random.Random(seed)
    items_per_s: list[float] = []
    n_active: list[float | None] = []
    for second in range(CAP_S):
        items_per_s.append(poisson(draw, items(second)))
        n_active.append(None if active is None else poisson(draw, active(second)))
        if has_settled(items_per_s, n_active):
            return second + 1
    return None


def all_settled_at_s(items: Course, active: Course | None = lambda _: 4.0) -> list[int]:
    return [settled_at_s(items, active, seed=seed) or CAP_S for seed in SEEDS]


def rising_to(final: float, time_constant_s: float) -> Course:
    return lambda second: final * (1 - math.exp(-second / time_constant_s))


@pytest.mark.parametrize("per_s", [1.0, 10.0, 100.0])
def test_constant_work_settles_within_half_a_minute(per_s: float) -> None:
    at_s = all_settled_at_s(lambda _: per_s)

    assert median(at_s) <= 16
    assert max(at_s) <= 45


def test_perfectly_regular_work_settles_as_soon_as_it_can() -> None:
    assert not has_settled([10.0] * 11, [4] * 11)
    assert has_settled([10.0] * 12, [4] * 12)


def test_slow_items_settle_after_eight_of_them() -> None:
    regular = [1.0 if second % 5 == 4 else 0.0 for second in range(CAP_S)]
    at_s = next(n for n in range(1, CAP_S) if has_settled(regular[:n], [1] * n))

    assert 40 <= at_s <= 60


def test_slow_items_that_come_at_random_settle_within_two_minutes() -> None:
    at_s = all_settled_at_s(lambda _: 0.2)

    assert 30 <= median(at_s) <= 60
    assert max(at_s) <= 120


def test_one_burst_shows_no_rate() -> None:
    items = [0.0] * 20 + [30.0] + [0.0] * 15

    assert not has_settled(items, [4] * 36)


def test_nothing_finished_never_settles() -> None:
    assert not has_settled([0.0] * CAP_S, [0] * CAP_S)


def test_nothing_seen_yet_has_not_settled() -> None:
    assert not has_settled([], [])


def test_the_time_before_the_first_item_is_not_held_against_a_launch() -> None:
    late = [0.0] * 60 + [10.0] * 12

    assert has_settled(late, [2] * 60 + [4] * 12)


def test_a_launch_is_not_called_warm_while_a_step_is_within_sight() -> None:
    """20 s at half the rate: the later half of the time must be past the step."""
    for seed in SEEDS:
        draw = random.Random(seed)
        items = [poisson(draw, 50 if second < 20 else 100) for second in range(60)]
        called = [n for n in range(24, 32) if has_settled([float(x) for x in items[:n]], [None] * n)]

        assert called == []


def test_after_a_step_it_settles() -> None:
    at_s = all_settled_at_s(lambda second: 100.0 if second >= 5 else 20.0)

    assert min(at_s) >= 12
    assert max(at_s) <= 60


@pytest.mark.parametrize(("per_s", "still_to_come"), [(100.0, 0.10), (10.0, 0.22)])
def test_a_transient_is_mostly_over_when_it_settles(per_s: float, still_to_come: float) -> None:
    """The docstring says 6 % and 16 %; the bounds leave three standard errors of the 40 seeds."""
    at_s = all_settled_at_s(rising_to(per_s, 10.0))
    left = [math.exp(-second / 10.0) for second in at_s]

    assert sum(left) / len(left) <= still_to_come


def test_a_strong_trend_without_noise_never_settles() -> None:
    ramp = [100.0 * 1.02**second for second in range(CAP_S)]

    assert not any(has_settled(ramp[:n], [None] * n) for n in range(1, CAP_S))


def test_a_trend_of_one_percent_a_minute_is_let_pass() -> None:
    """Documented: drift is the study's business, by blocks."""
    at_s = all_settled_at_s(lambda second: 100.0 * (1 + 0.01 * second / 60))

    assert median(at_s) <= 20


def test_items_alone_decide_where_the_active_count_cannot_be_seen() -> None:
    assert settled_at_s(lambda _: 100.0, None) is not None


def test_an_active_count_that_climbs_keeps_level_throughput_from_settling() -> None:
    climbing = [float(second) for second in range(CAP_S)]

    assert not any(has_settled([100.0] * n, climbing[:n]) for n in range(1, CAP_S))


def test_a_change_of_less_than_five_percent_is_no_change() -> None:
    assert has_settled([100.0] * 22 + [104.0] * 8, [None] * 30)
    assert not has_settled([100.0] * 22 + [112.0] * 8, [None] * 30)


def test_half_a_task_more_is_no_change() -> None:
    assert has_settled([100.0] * 30, [1.0] * 22 + [1.4] * 8)


def test_two_series_of_different_length_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="3 seconds of items, 2 of the active count"):
        has_settled([1.0, 1.0, 1.0], [1, 1])
