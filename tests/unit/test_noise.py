"""Noise by its source: known answers by hand, and what its intervals say."""

from __future__ import annotations

from math import log, sqrt
from random import Random

import pytest
from scipy import stats

from tuner.core.stats.interval import Estimate
from tuner.core.stats.variance import MeanSquare, estimate_noise, estimate_sd, estimate_sd_beyond

from .launch_table import TABLE, fitted, launches

pytestmark = pytest.mark.pythons


def bounds(estimate: Estimate | None) -> tuple[float, float, float]:
    assert estimate is not None
    assert estimate.mean is not None
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.low, estimate.mean, estimate.high


def test_windows_of_a_launch_tell_the_noise_between_windows_apart_from_that_between_launches() -> None:
    # Two windows each, 1 % above and below their mean: variance 2 x 0.01^2, half of it in the mean of both.
    seen = launches(TABLE, n_windows=2, window_ss=2 * 0.01**2)
    fit_ = fitted(seen)
    noise = estimate_noise(seen, fit_, 0.95)

    assert bounds(noise.window)[1] == pytest.approx(sqrt(2) * 0.01)
    assert fit_.residual_variance is not None
    assert fit_.residual_variance > 2 * 0.01**2
    assert bounds(noise.launch)[1] == pytest.approx(sqrt(fit_.residual_variance - 0.01**2))


def test_the_interval_of_the_noise_of_windows_is_that_of_chi_square() -> None:
    seen = launches(TABLE, n_windows=2, window_ss=2 * 0.01**2)
    low, sd, high = bounds(estimate_noise(seen, fitted(seen), 0.9).window)

    assert low == pytest.approx(sd * sqrt(6 / stats.chi2.ppf(0.95, 6)))
    assert high == pytest.approx(sd * sqrt(6 / stats.chi2.ppf(0.05, 6)))


def test_launch_noise_is_not_known_from_single_windows() -> None:
    seen = launches(TABLE)
    noise = estimate_noise(seen, fitted(seen), 0.95)

    assert noise.window is None
    assert noise.launch is None
    assert noise.drift is not None
    assert noise.residual is not None


def test_one_block_tells_of_windows_alone() -> None:
    seen = launches({0: (10.0,), 1: (12.0,)}, n_windows=3, window_ss=0.01)
    noise = estimate_noise(seen, fitted(seen), 0.95)

    assert noise.window is not None
    assert (noise.launch, noise.drift, noise.residual) == (None, None, None)


def test_launches_that_differ_less_than_their_windows_explain_have_no_noise_of_their_own() -> None:
    seen = launches({0: (10.0, 10.0), 1: (12.0, 12.0)}, n_windows=3, window_ss=0.1)

    assert bounds(estimate_noise(seen, fitted(seen), 0.95).launch)[:2] == (0.0, 0.0)


def test_the_drift_of_a_single_layout_is_all_that_lies_between_its_blocks() -> None:
    seen = launches({0: TABLE[0]})
    low, sd, high = bounds(estimate_noise(seen, fitted(seen), 0.95).drift)
    logs = [log(value) for value in TABLE[0]]
    variance = sum((value - sum(logs) / 3) ** 2 for value in logs) / 2

    assert sd == pytest.approx(sqrt(variance))
    assert (low, high) == pytest.approx(
        tuple(sqrt(2 * variance / stats.chi2.ppf(p, 2)) for p in (0.975, 0.025))
    )


def test_what_one_mean_square_has_beyond_another_that_vanishes_is_the_one_itself() -> None:
    whole = MeanSquare(0.04, 7)

    assert bounds(estimate_sd_beyond(whole, MeanSquare(0.0, 3), 0.95)) == pytest.approx(
        bounds(estimate_sd(whole, 0.95))
    )


def test_an_interval_leaves_0_where_the_test_of_variances_finds_a_difference() -> None:
    part = MeanSquare(0.05, 9)
    edges = [part.value * stats.f.ppf(p, 6, 9) for p in (0.975, 0.025)]
    (low, _, _), (above, _, _) = (
        bounds(estimate_sd_beyond(MeanSquare(edges[0] * by, 6), part, 0.95)) for by in (0.999, 1.001)
    )
    (_, _, high), (_, _, beyond) = (
        bounds(estimate_sd_beyond(MeanSquare(edges[1] * by, 6), part, 0.95)) for by in (0.999, 1.001)
    )

    assert low == 0 < above
    assert high == 0 < beyond


def test_more_confidence_is_wider_and_a_difference_that_cannot_be_is_0() -> None:
    part = MeanSquare(0.05, 9)
    (low, _, high), (lower, _, higher) = (
        bounds(estimate_sd_beyond(MeanSquare(0.2, 6), part, confidence)) for confidence in (0.9, 0.99)
    )

    assert lower < low
    assert higher > high
    assert bounds(estimate_sd_beyond(MeanSquare(0.0001, 6), part, 0.95)) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("true_part", [0.0, 0.2, 0.5, 0.8, 1.0])
@pytest.mark.parametrize(("df", "part_df"), [(2, 4), (4, 12), (10, 10), (42, 66)])
def test_the_interval_of_a_difference_covers_the_truth_as_often_as_it_says(
    df: int, part_df: int, true_part: float
) -> None:
    """The share *true_part* of the whole's variance is the part's: 1.0 leaves nothing beyond."""
    n, random, n_covered = 1500, Random(f"{df} {part_df} {true_part}"), 0
    truth = sqrt(1 - true_part)
    for _ in range(n):
        whole = MeanSquare(random.gammavariate(df / 2, 2 / df), df)
        part = MeanSquare(true_part * random.gammavariate(part_df / 2, 2 / part_df), part_df)
        low, _, high = bounds(estimate_sd_beyond(whole, part, 0.95))
        n_covered += low <= truth + 1e-9 and truth <= high + 1e-9

    # four standard errors beside the 94.5 % to 97.5 % that these limits are known to keep to
    error = 4 * sqrt(0.05 * 0.95 / n)
    assert 0.945 - error <= n_covered / n <= 0.98 + error
