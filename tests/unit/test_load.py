"""The inverse of load1, against the kernel's own recurrence in its own fixed point."""

from __future__ import annotations

import random
from collections.abc import Callable
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.core.domain.window import STEP_S, LoadAverage, Sample, active_at_looks, mean_active_from_load1
from tuner.core.stats.interval import Estimate

FSHIFT = 11
FIXED_1 = 1 << FSHIFT
EXP_1 = 1884


def interval(estimate: Estimate) -> tuple[float, float]:
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.low, estimate.high


def kernel_update(load: int, n_active: int) -> int:
    """kernel/sched/loadavg.c, calc_load(): rounds up while rising."""
    active = n_active * FIXED_1
    new = load * EXP_1 + active * (FIXED_1 - EXP_1)
    if active >= load:
        new += FIXED_1 - 1
    return new // FIXED_1


def printed(load: int) -> float:
    """fs/proc/loadavg.c: two decimals."""
    rounded = load + FIXED_1 // 200
    return (rounded >> FSHIFT) + (((rounded & (FIXED_1 - 1)) * 100) >> FSHIFT) / 100


def watched(
    active: Callable[[int], int],
    *,
    seconds: int,
    load_before: float,
    phase_s: float = 2.3,
    jiffies_per_s: int = 250,
    began_s: float = 1000.0,
) -> tuple[list[Sample], list[int]]:
    """Samples of a box, one a second, and what the kernel saw at its looks between the first and the last."""
    load, update_s, look, seen = round(load_before * FIXED_1), began_s + phase_s, 0, []
    samples = []
    for second in range(seconds + 1):
        at_s = began_s + second
        while update_s <= at_s:
            seen.append(active(look))
            load = kernel_update(load, seen[-1])
            look, update_s = look + 1, update_s + 5 + 1 / jiffies_per_s
        samples.append(Sample(at_s, 0, 0, printed(load), 0.0, 0.0, None))
    return samples, seen


def test_a_switch_from_a_heavy_layout_to_a_light_one_shows_at_once() -> None:
    """load1 itself still says 12 of the 30 before, on average over the first minute."""
    samples, _ = watched(lambda _: 3, seconds=60, load_before=30.0)
    estimate = mean_active_from_load1(samples)

    assert fmean(sample.load1 for sample in samples) > 12
    assert estimate.mean == pytest.approx(3, abs=0.03)


@pytest.mark.parametrize("phase_s", [0.0, 0.4, 1.0, 2.5, 3.7, 4.9])
@pytest.mark.parametrize("jiffies_per_s", [100, 250, 1000])
def test_ten_minutes_are_exact_whenever_the_kernel_updates(phase_s: float, jiffies_per_s: int) -> None:
    draw = random.Random(7)
    counts = [draw.randint(0, 40) for _ in range(200)]
    samples, seen = watched(
        counts.__getitem__, seconds=600, load_before=2.0, phase_s=phase_s, jiffies_per_s=jiffies_per_s
    )
    estimate = mean_active_from_load1(samples)

    assert estimate.mean == pytest.approx(fmean(seen), abs=0.4)
    assert abs(len(active_at_looks(samples)) - len(seen)) <= 2


def test_each_look_is_recovered_within_what_two_decimals_allow() -> None:
    draw = random.Random(3)
    counts = [draw.randint(0, 12) for _ in range(40)]
    samples, seen = watched(counts.__getitem__, seconds=120, load_before=5.0)

    assert active_at_looks(samples) == pytest.approx(seen, abs=0.13)


def test_what_two_decimals_hide_cancels_over_a_minute() -> None:
    samples, _ = watched(lambda _: 5, seconds=61, load_before=5.4)
    estimate = mean_active_from_load1(samples)

    assert estimate.mean == pytest.approx(5, abs=0.02)
    low, high = interval(estimate)
    assert high - low < 0.2


def test_the_interval_holds_the_long_run_mean_in_19_of_20_windows() -> None:
    """Looks at a count of 0..8 by chance: the mean is 4. Three sd below 95 % of 200 windows is 90.4 %."""
    hits = 0
    for seed in range(200):
        draw = random.Random(seed)
        counts = [draw.randint(0, 8) for _ in range(60)]
        samples, _ = watched(counts.__getitem__, seconds=120, load_before=9.0, phase_s=draw.uniform(0, 5))
        estimate = mean_active_from_load1(samples)
        low, high = interval(estimate)
        hits += low <= 4 <= high

    assert hits >= 181


def test_an_idle_box_has_no_active_tasks() -> None:
    samples, _ = watched(lambda _: 0, seconds=60, load_before=0.0)
    estimate = mean_active_from_load1(samples)

    assert estimate.mean == pytest.approx(0, abs=0.01)
    assert estimate.low == 0


def test_a_window_of_few_seconds_has_no_interval_and_a_shorter_one_no_mean() -> None:
    samples, _ = watched(lambda _: 5, seconds=12, load_before=0.0, phase_s=4.0)

    assert mean_active_from_load1(samples[:5]) == Estimate(None)
    assert mean_active_from_load1(samples[:1]) == Estimate(None)
    assert mean_active_from_load1([]) == Estimate(None)
    one_look = mean_active_from_load1(samples[:9])
    assert one_look.mean == pytest.approx(5, abs=0.13)
    assert (one_look.low, one_look.high) == (None, None)


def test_seconds_that_were_missed_lose_their_looks_only() -> None:
    """The load climbs meanwhile; taken for one step, that would be a look at hundreds of tasks."""
    samples, seen = watched(lambda look: 4 if look < 8 else 40, seconds=120, load_before=4.0)
    gap = [sample for sample in samples if not 1040 <= sample.at_s < 1060]
    looks = active_at_looks(gap)

    assert len(seen) - 7 <= len(looks) < len(seen)
    assert all(look == pytest.approx(4, abs=0.13) or look == pytest.approx(40, abs=0.13) for look in looks)


@settings(max_examples=50, deadline=None)
@given(
    n_active=st.integers(0, 200),
    load_before=st.floats(0, 200),
    phase_s=st.floats(0, STEP_S),
    began_s=st.floats(0, 1e6),
)
def test_a_constant_count_is_found_from_any_load_before(
    n_active: int, load_before: float, phase_s: float, began_s: float
) -> None:
    samples, _ = watched(
        lambda _: n_active, seconds=120, load_before=load_before, phase_s=phase_s, began_s=began_s
    )
    estimate = mean_active_from_load1(samples)

    assert estimate.mean == pytest.approx(n_active, abs=0.05)
    low, high = interval(estimate)
    assert low <= n_active + 0.05
    assert high >= n_active - 0.05


def test_a_load_average_of_counted_tasks_begins_at_their_number() -> None:
    """Over the first 20 s, as long as a short window; one that begins at 0 would be at 1.1 on average."""
    load, seen = LoadAverage(1000.0), []
    for second in range(21):
        load.advance(1000.0 + second, 6 + 2 * (second % 2))
        seen.append(load.values[0])

    assert fmean(seen) == pytest.approx(7.0, abs=0.5)


def test_a_load_average_of_a_host_that_was_idle_begins_at_0() -> None:
    load = LoadAverage(1000.0, was_idle=True)
    load.advance(1004.0, 7)
    before = load.values[0]
    load.advance(1006.0, 7)

    assert before == 0.0
    assert load.values[0] == pytest.approx(7 * (1 - 2.718281828 ** (-5 / 60)))
