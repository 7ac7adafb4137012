"""The simulated box: its noise against theory, its clock, its streams."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import exp, log, sqrt
from random import Random
from statistics import fmean, variance

import pytest

from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Observed, Proposal
from tuner.core.search.suite import Drift, SimulatedBox, Suite, SuiteNoise

ONE, TWO = Layout(1, 24), Layout(24, 1)
SUITE = Suite("test", (ONE, TWO), ((1000.0, 900.0), (500.0, 600.0)), SuiteNoise())


def box(noise: SuiteNoise, *, stream: str = "1/0/0", **changes: float | None) -> SimulatedBox:
    return SimulatedBox(replace(SUITE, noise=noise, **changes), 0, stream)  # type: ignore[arg-type]


def logs(windows: list[Observed]) -> list[float]:
    return [log(seen.value / 1000.0) for seen in windows]


def test_without_noise_windows_are_the_truth() -> None:
    quiet = box(SuiteNoise())

    assert [quiet.take(Proposal(layout, 600.0))[0].value for layout in (ONE, TWO)] == pytest.approx(
        [1000, 900]
    )


def test_time_is_a_launch_and_then_its_windows() -> None:
    quiet = box(SuiteNoise(), launch_s=120.0)
    first, second = quiet.take(Proposal(ONE, 600.0, 2))
    (third,) = quiet.take(Proposal(TWO, 30.0))

    assert [(x.launch, x.launch_began_s, x.began_s, x.length_s) for x in (first, second, third)] == [
        (0, 0.0, 120.0, 600.0),
        (0, 0.0, 720.0, 600.0),
        (1, 1320.0, 1440.0, 30.0),
    ]
    assert (quiet.now_s, quiet.n_windows, quiet.n_launches) == (1470.0, 3, 2)


# An sd from n normal draws is off by 1 / sqrt(2 n) of itself: one standard error. 4 are allowed.
def near(sd: float, n: int) -> object:
    return pytest.approx(sd, rel=4 / sqrt(2 * n))


def test_windows_vary_by_the_window_sd_within_a_launch_and_by_the_launch_sd_between() -> None:
    n = 2000
    noisy = box(SuiteNoise(window_sd=0.05, launch_sd=0.03))
    pairs = [logs(noisy.take(Proposal(ONE, 600.0, 2))) for _ in range(n)]
    within = sqrt(fmean([(one - other) ** 2 / 2 for one, other in pairs]))
    between = sqrt(variance([fmean(pair) for pair in pairs]))

    assert within == near(0.05, n)
    assert between == near(sqrt(0.03**2 + 0.05**2 / 2), n)


@pytest.mark.parametrize("length_s", [10.0, 100.0, 600.0])
def test_seconds_average_out_over_the_length_of_a_window(length_s: float) -> None:
    n = 2000
    noisy = box(SuiteNoise(sample_sd_1s=0.25), window_s=None)
    values = [logs(noisy.take(Proposal(ONE, length_s)))[0] for _ in range(n)]

    assert sqrt(variance(values)) == near(0.25 / sqrt(length_s), n)


def test_heavy_tails_have_the_same_sd_and_more_far_out() -> None:
    n = 20_000
    noisy = box(SuiteNoise(window_sd=0.05, student_t_df=5.0))
    values = logs(noisy.take(Proposal(ONE, 600.0, n)))
    far = sum(abs(value) > 4 * 0.05 for value in values) / n

    # the variance of a variance: kurtosis of t with 5 degrees of freedom is 9
    assert variance(values) == pytest.approx(0.05**2, rel=4 * sqrt((9 - 1) / n))
    # P(|t5| > 4 sqrt(5/3)) = 0.35 %, of a normal 0.006 %
    assert far == pytest.approx(0.0035, abs=4 * sqrt(0.0035 / n))


@pytest.mark.parametrize("step_s", [150.0, 600.0, 720.0, 1500.0])
def test_drift_forgets_with_time_as_the_correlation_per_600_s_says(step_s: float) -> None:
    n, rho = 8000, 0.8 ** (step_s / 600)
    drift = Drift(0.06, 0.8, Random(5))
    values = [drift.at(number * step_s) for number in range(n)]
    squares = fmean([value**2 for value in values])
    lagged = fmean([one * other for one, other in pairwise(values)])

    # Bartlett (1946): the variance of an AR(1)'s variance is 2 sd^4 (1 + rho^2) / (1 - rho^2) / n,
    # that of its correlation (1 - rho^2) / n.
    assert squares == pytest.approx(0.06**2, rel=4 * sqrt(2 * (1 + rho**2) / (1 - rho**2) / n))
    assert lagged / squares == pytest.approx(rho, abs=4 * sqrt((1 - rho**2) / n))


def test_who_looks_at_other_times_sees_the_same_drift_every_600_s() -> None:
    often, rarely = (Drift(0.06, 0.9, Random(5)) for _ in range(2))
    of_often = {time: often.at(time) for time in range(0, 6001, 40)}

    assert [rarely.at(time) for time in range(0, 6001, 600)] == [of_often[x] for x in range(0, 6001, 600)]


def test_between_known_times_drift_is_as_uncertain_as_theory_says() -> None:
    # Halfway, each end 300 s away with r = 0.9^0.5: variance (1 - r^2)^2 / (1 - r^4) of the whole.
    n, ar1 = 2000, 0.9
    off = []
    for seed in range(n):
        drift = Drift(1.0, ar1, Random(seed))
        first, middle, last = drift.at(0.0), drift.at(300.0), drift.at(600.0)
        r = ar1**0.5
        off.append(middle - (first + last) * r * (1 - r**2) / (1 - r**4))

    assert variance(off) == pytest.approx((1 - ar1) ** 2 / (1 - ar1**2), rel=4 * sqrt(2 / n))


def test_drift_without_memory_and_drift_that_never_changes_are_drift_too() -> None:
    forgets, stays = Drift(1.0, 0.0, Random(1)), Drift(1.0, 1.0, Random(1))
    values = [forgets.at(time * 700.0) for time in range(2000)]

    assert sqrt(variance(values)) == near(1.0, 2000)
    assert len({stays.at(time * 700.0) for time in range(50)}) == 1


def test_drift_is_the_same_for_every_layout_and_is_felt_at_the_middle_of_a_window() -> None:
    noise = SuiteNoise(drift_sd=0.06, drift_ar1_per_600s=0.5)
    path = Drift(0.06, 0.5, Random("1/0/0/drift"))
    noisy = box(noise, launch_s=120.0)
    one = noisy.take(Proposal(ONE, 600.0))[0]
    two = noisy.take(Proposal(TWO, 600.0))[0]

    assert one.value == pytest.approx(1000 * exp(path.at(420.0)))
    assert two.value == pytest.approx(900 * exp(path.at(1140.0)))


def test_the_same_stream_gives_the_same_windows_and_another_one_others() -> None:
    noise = SuiteNoise(window_sd=0.05, launch_sd=0.015, drift_sd=0.06, drift_ar1_per_600s=0.95)

    def taken(stream: str) -> list[Observed]:
        return box(noise, stream=stream).take(Proposal(ONE, 600.0, 3))

    assert taken("1/0/0") == taken("1/0/0")
    assert not {seen.value for seen in taken("1/0/0")} & {seen.value for seen in taken("1/0/1")}


def test_a_layout_meets_the_same_luck_whatever_was_launched_before_it() -> None:
    noise = SuiteNoise(window_sd=0.05, launch_sd=0.015)
    alone, after = box(noise), box(noise)
    after.take(Proposal(TWO, 600.0, 3))

    assert alone.take(Proposal(ONE, 600.0))[0].value == after.take(Proposal(ONE, 600.0))[0].value


def test_right_is_what_lies_within_the_margin_of_the_best_the_margin_included() -> None:
    layouts = (ONE, TWO, Layout(2, 12))
    suite = replace(SUITE, layouts=layouts, surfaces=((2598.7, 2598.7 * 0.98, 2598.7 * 0.9799),), within=0.02)

    assert [SimulatedBox(suite, 0, "").is_right(layout) for layout in layouts] == [True, True, False]


def test_rounding_does_not_push_a_layout_off_the_margin() -> None:
    suite = replace(SUITE, surfaces=((100.0, 42.0),), within=0.58)  # (1 - 0.58) x 100 = 42.00000000000001

    assert SimulatedBox(suite, 0, "").is_right(TWO)


def test_a_strategy_is_reported_lengths_and_margins_and_nothing_of_the_noise() -> None:
    fixed, free = SUITE.goal("strict"), replace(SUITE, window_s=None, cores=24).goal("calibrated")

    assert (fixed.min_window_s, fixed.max_window_s, fixed.kind) == (600.0, 600.0, "strict")
    assert (free.min_window_s, free.max_window_s, free.cores, free.kind) == (10.0, 600.0, 24, "calibrated")


def test_a_layout_has_its_own_factors_of_noise_and_of_drift_by_surface() -> None:
    suite = replace(
        SUITE,
        noise=SuiteNoise(window_sd=0.02, tide_amplitude=0.1),
        noise_factors=((0.0, 3.0), (1.0, 1.0)),
        drift_factors=((1.0, 2.0),),
    )
    first = SimulatedBox(suite, 0, "1/0/0")
    n = 2000
    tide = [log(first.take(Proposal(ONE, 600.0))[0].value / 1000.0) for _ in range(n)]
    noisy = [log(first.take(Proposal(TWO, 600.0))[0].value / 900.0) for _ in range(n)]

    assert max(tide) == pytest.approx(0.1, rel=0.01)
    assert sqrt(fmean([value**2 for value in tide])) == pytest.approx(0.1 / sqrt(2), rel=0.05)
    assert sqrt(fmean([value**2 for value in noisy])) == pytest.approx(sqrt(0.2**2 / 2 + 0.06**2), rel=0.05)


def test_slow_periods_that_hit_one_layout_harder_are_part_of_its_mean_over_all_hours() -> None:
    noise = SuiteNoise(spell_every_s=10_000.0, spell_length_s=2000.0, spell_loss=0.2)
    suite = replace(SUITE, noise=noise, drift_factors=((0.5, 2.0),), within=0.02, launch_s=0.0)
    of_hours = SimulatedBox(suite, 0, "1/0/0")
    n = 6000
    means = [fmean(logs(of_hours.take(Proposal(layout, 100.0, n)))) for layout in (ONE, TWO)]
    truths = [log(of_hours.truth[layout] / 1000.0) for layout in (ONE, TWO)]

    assert truths == pytest.approx([0.1 * log(0.8), log(0.9) + 0.4 * log(0.8)])
    assert means == pytest.approx(truths, rel=0.1)


def test_a_trend_counts_from_the_beginning_of_each_launch() -> None:
    falling = SimulatedBox(replace(SUITE, launch_s=120.0, trends_per_h=((-0.6, 0.0),)), 0, "1/0/0")
    for _ in range(2):
        windows = logs(falling.take(Proposal(ONE, 600.0, 2)))

        assert windows == pytest.approx([-0.6 * 420 / 3600, -0.6 * 1020 / 3600])


def test_outliers_are_as_many_and_as_large_as_the_suite_says() -> None:
    n = 4000
    rare = box(SuiteNoise(outlier_ratio=0.1, outlier_loss=0.3))
    values = [rare.take(Proposal(ONE, 600.0))[0].value for _ in range(n)]
    lost = [value for value in values if value < 999.0]

    assert lost == pytest.approx([700.0] * len(lost))
    assert len(lost) == pytest.approx(0.1 * n, abs=4 * sqrt(n * 0.1 * 0.9))


def test_windows_of_a_launch_are_correlated_as_the_suite_says() -> None:
    n = 2000
    bound = box(SuiteNoise(window_sd=0.05, within_launch_ar1_per_600s=0.8))
    launches = [logs(bound.take(Proposal(ONE, 600.0, 3))) for _ in range(n)]
    sds = [sqrt(variance([launch[index] for launch in launches])) for index in range(3)]
    products = [one * other for one, other, _ in launches]

    assert sds == [near(0.05, n)] * 3
    assert fmean(products) / 0.05**2 == pytest.approx(0.8, abs=4 / sqrt(n))


def test_a_host_is_slow_for_as_large_a_share_of_the_time_as_its_spells_last() -> None:
    n = 4000
    noise = SuiteNoise(spell_every_s=10_800.0, spell_length_s=1800.0, spell_loss=0.2)
    host = box(noise, launch_s=0.0)
    values = [host.take(Proposal(ONE, 60.0))[0].value for _ in range(n)]
    slow = [value for value in values if value < 999.0]

    assert slow == pytest.approx([800.0] * len(slow))
    assert len(slow) / n == pytest.approx(1800 / 10_800, rel=0.15)
    longest = max(len(run) for run in "".join("x" if value < 999 else " " for value in values).split())
    assert longest in (29, 30, 31)
