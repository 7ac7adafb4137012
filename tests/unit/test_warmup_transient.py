"""What is left of a start-up transient, followed beyond what noise lets see."""

from __future__ import annotations

import math
import random
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.core.domain.layout import Layout
from tuner.core.warmup import (
    BATCH,
    EarlierTransients,
    batch_means,
    has_settled,
    remaining_ratio,
    transient_end,
    truncation_point,
    warming_n,
)

from ..raising import raises
from ..wording import wording


def rising(n_s: int, time_constant_s: float, noise: float, seed: int, lacks: float = 1.0) -> list[float]:
    draw = random.Random(seed)
    return [
        100 * (1 - lacks * math.exp(-second / time_constant_s)) + 100 * noise * draw.gauss(0, 1)
        for second in range(n_s)
    ]


@pytest.mark.parametrize("seen_s", [60, 120])
def test_what_an_exponential_without_noise_leaves_is_known(seen_s: int) -> None:
    """Against what a second gives now, which is less than what it will give: never too little."""
    bound = remaining_ratio(batch_means(rising(seen_s, 60.0, 1e-9, 0)), 120)
    truly = math.exp(-seen_s / 60) * 60 / 600

    assert truly <= bound <= 2 * truly


def test_the_bound_falls_as_time_passes_and_with_the_length_of_the_window() -> None:
    bounds = [remaining_ratio(batch_means(rising(n_s, 20.0, 0.02, 3)), 120) for n_s in (30, 60, 120)]
    longer = remaining_ratio(batch_means(rising(60, 20.0, 0.02, 3)), 240)

    assert bounds == sorted(bounds, reverse=True)
    assert longer < bounds[1]


def test_the_end_of_a_transient_lies_behind_msers_point_where_noise_hides_its_rest() -> None:
    """A minute's time constant, seconds that scatter by a quarter: MSER leaves 1.5 % of bias, this 0.3 %."""
    left, left_by_mser = [], []
    for seed in range(60):
        batches = batch_means(rising(660, 60.0, 0.25, seed))
        for cut, found in ((transient_end(batches), left), (truncation_point(batches), left_by_mser)):
            found.append(math.exp(-cut * 5 / 60) * 60 / (660 - cut * 5))

    assert sum(left) / 60 <= 0.005
    assert sum(left_by_mser) / 60 >= 0.01


def test_a_straight_line_is_no_transient_that_could_be_cut() -> None:
    batches = batch_means([100 + 0.01 * second for second in range(600)])

    assert transient_end(batches) == truncation_point(batches)


@given(st.lists(st.floats(0, 1e6, allow_subnormal=False), min_size=4, max_size=80))
def test_whatever_is_seen_the_end_is_behind_msers_point_and_within_the_series(batches: list[float]) -> None:
    assert truncation_point(batches) <= transient_end(batches) <= len(batches)
    assert remaining_ratio(batches, 120.0) >= 0.0


def test_a_step_within_a_window_is_its_head() -> None:
    heads = []
    for seed in range(40):
        draw = random.Random(seed)
        items = [draw.gauss(60.0 if second < 80 else 100.0, 10.0) for second in range(640)]
        heads.append(warming_n(items, 40))

        assert warming_n(items, 160) in (0, 5) or heads[-1] > 80
    assert min(heads) == 40
    assert median(heads) in (40, 45)


def test_a_step_in_the_later_half_of_what_was_seen_is_not_kept_by_msers_leave() -> None:
    """MSER looks at the first half, and keeps it all: what comes before the step is the larger part."""
    draw = random.Random(4)
    items = [draw.gauss(60.0 if second < 100 else 100.0, 5.0) for second in range(155)]

    assert truncation_point(batch_means(items)) == 0
    assert warming_n(items, 35) >= 65


def test_a_head_that_does_not_change_the_windows_figure_stays() -> None:
    """A hundredth lacks for 60 s of 600: 0.1 % of the mean."""
    items = [99.0 if second < 80 else 100.0 for second in range(640)]

    assert warming_n(items, 20) == 0


def test_a_window_of_nothing_is_a_callers_mistake() -> None:
    with raises(ValueError, wording("rank.seconds-them-before-window")):
        warming_n([1.0] * 5, 5)


ONE, OTHER = Layout(1, 4), Layout(4, 1)


def began(items: list[float], earlier: EarlierTransients | None) -> int:
    expected = None if earlier is None else earlier.expected(ONE)
    return next(n for n in range(20, 300) if has_settled(items[:n], [None] * n, 10.0, expected))


def learnt(n: int, time_constant_s: float, lacks: float, layout: Layout = ONE) -> EarlierTransients:
    earlier = EarlierTransients()
    for seed in range(n):
        earlier.learn(layout, rising(60, time_constant_s, 0.05, seed, lacks))
    return earlier


@pytest.mark.parametrize("layout", [ONE, OTHER])
def test_after_steady_launches_a_steady_one_begins_its_windows_sooner(layout: Layout) -> None:
    launches = [rising(300, 1.0, 0.05, 100 + seed, 0.0) for seed in range(30)]
    earlier = learnt(20, 1.0, 0.0, layout)

    assert median(began(one, earlier) for one in launches) <= 30
    assert median(began(one, None) for one in launches) >= 40


def test_after_slow_launches_a_slow_one_begins_later_and_is_less_biased() -> None:
    """With 10 % noise a single launch hides a transient of half a minute."""
    launches = [rising(300, 30.0, 0.1, 100 + seed, 0.2) for seed in range(30)]

    def bias(earlier: EarlierTransients | None) -> float:
        return sum(0.2 * math.exp(-began(one, earlier) / 30) for one in launches) / len(launches)

    assert bias(learnt(20, 30.0, 0.2)) < 0.75 * bias(None)


def test_a_transient_that_no_earlier_launch_had_counts_in_full() -> None:
    batches = batch_means(rising(40, 20.0, 0.02, 7, 0.4))
    alone = remaining_ratio(batches, 2.0)

    assert remaining_ratio(batches, 2.0, learnt(20, 1.0, 0.0).expected(ONE)) >= 0.9 * alone


def test_a_few_launches_lead_to_no_expectation() -> None:
    assert learnt(4, 1.0, 0.0).expected(ONE) is None
    assert learnt(5, 1.0, 0.0).expected(ONE) is not None


def test_with_enough_launches_of_its_own_a_layout_is_expected_to_be_as_they_were() -> None:
    earlier = learnt(20, 1.0, 0.0, OTHER)
    for seed in range(10):
        earlier.learn(ONE, rising(60, 10.0, 0.02, seed, 0.3))
    own, other = earlier.expected(ONE), earlier.expected(OTHER)

    assert own is not None
    assert other is not None
    tested = 8.0 / BATCH
    assert own[tested].amplitude < -0.2
    assert abs(other[tested].amplitude) < 0.05
