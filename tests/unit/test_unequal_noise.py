"""A strict race does not rule a layout out because its noise is larger than that of the others."""

from __future__ import annotations

from itertools import product
from math import exp, log, log1p, sqrt

import numpy as np
import pytest

from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Kind
from tuner.core.planning.replay import ReplayJob, replay
from tuner.core.search.challengers import Challenge, standing
from tuner.core.search.posterior import Posterior, flat_posterior
from tuner.core.search.suite import Suite, SuiteNoise
from tuner.core.search.unequal_noise import LEVEL, MANY, RARE_SD, SCALES, own_scales

MARGIN = -log(0.98)
QUIET = (0.01, -0.01) * 6  #: what launches of the leader and of a quiet challenger differ by


def plain(launches: list[tuple[int, float]], n_layouts: int = 3) -> Posterior:
    """One flat filter without drift; launches are (layout, logarithm) in time order."""
    one = np.zeros(1)
    prior = 1e6 * np.eye(n_layouts)[None]
    posterior = Posterior(prior, one, one.copy(), one + 1000.0, one.copy(), skips_first=True)
    for number, (layout, value) in enumerate(launches):
        posterior.observe(layout, value, 700.0 * number, 600.0)
    return posterior


def stands(posterior: Posterior, kind: Kind = "strict", out: tuple[int, ...] = ()) -> Challenge:
    found = standing(posterior, MARGIN, [k in out for k in range(posterior.n_layouts)], kind)
    assert found is not None
    return found


def with_two_launches(one: float, other: float) -> Posterior:
    """A leader at 7.0, a challenger far behind it, both quiet; and two launches of a third layout."""
    quiet = [(k, level + s) for s in QUIET for k, level in ((0, 7.0), (1, 6.8))]
    return plain([*quiet, (2, one), (2, other)])


def test_two_equal_launches_far_behind_need_no_third() -> None:
    assert stands(with_two_launches(6.8, 6.8)).to_check() is None


def test_two_launches_that_differ_do_not_rule_a_layout_out() -> None:
    posterior = with_two_launches(6.98, 6.78)
    found = stands(posterior)

    assert found.leader == 0
    assert found.doubt < LEVEL  # by the pooled noise
    assert found.to_check() == 2
    assert 2 in found.ties(LEVEL)
    assert 1 not in found.ties(LEVEL)
    assert stands(posterior, out=(2,)).to_check() is None


def test_only_a_strict_race_expects_noise_that_differs() -> None:
    found = stands(with_two_launches(6.98, 6.78), "calibrated")

    assert found.to_check() is None
    assert found.ties(LEVEL) == []


def test_a_noisy_leader_is_launched_again_before_a_quiet_challenger() -> None:
    quiet = [(k, level + s) for s in QUIET for k, level in ((1, 7.0), (2, 6.8))]
    found = stands(plain([*quiet, (0, 7.25), (0, 7.05)]))

    assert found.leader == 0
    assert found.to_check() == 0


def test_the_likelihood_is_the_sum_over_the_scales_of_both_layouts() -> None:
    posterior = with_two_launches(6.98, 6.78)
    found = stands(posterior)
    sigma2, df = float(posterior.sigma2[0]), posterior.df
    n, squares = (12, 2), (12 * 0.01**2, 0.1**2 * 2)  # of the leader, of the third layout

    def likelihood(above: float) -> float:
        total = 0.0
        for one, other in product(SCALES, repeat=2):
            p, q = (1 / (1 + (scale**2 * sigma2 / RARE_SD**2) ** 2) for scale in (one, other))
            variance = sigma2 * (one**2 / n[0] + other**2 / n[1])
            own = one ** -(n[0] - 1) * exp(-squares[0] / (2 * one**2 * sigma2))
            own *= other ** -(n[1] - 1) * exp(-squares[1] / (2 * other**2 * sigma2))
            total += p * q * own * exp(-df / 2 * log1p(above**2 / variance / df)) / sqrt(variance)
        return total

    scales = own_scales(posterior, 0)
    ratio = scales.likelihood(posterior, found.gap + MARGIN, found.variance)[2]

    limit = LEVEL * 2 / MANY
    assert ratio == pytest.approx(likelihood(0.12 + MARGIN) / likelihood(0.0) / limit, rel=1e-3)
    assert scales.shares().sum(axis=(2, 3)) == pytest.approx(1.0)


def test_the_squares_of_all_layouts_add_up_to_those_of_the_scale() -> None:
    posterior = flat_posterior(3, lengths_vary=True)
    for number in range(30):
        posterior.observe(number % 3, 7.0 + 0.01 * (number * 7 % 11), 700.0 * number, 60.0 + 20 * number)
    ahead = posterior.thinned(2)
    ahead.observe(0, 7.5, 30_000.0, 600.0)

    for one in (posterior, ahead):
        assert one.own_squares.sum(axis=1) == pytest.approx(one.sigma2 * one.df)
        assert one.own_df.sum() == one.df
    assert posterior.df == 27


def test_the_interval_of_a_layout_that_may_be_noisy_includes_the_leader() -> None:
    found = stands(with_two_launches(6.98, 6.78)).of_best(LEVEL, 0.02, 0.95)
    ends = {k: one.ratio for k, one in found.items()}

    assert ends[1].high is not None
    assert ends[1].high < 1
    assert ends[2].high is not None
    assert ends[2].high >= 1


def test_a_race_names_the_best_layout_though_its_noise_is_five_times_that_of_the_others() -> None:
    layouts = tuple(Layout(24 // threads, threads) for threads in (1, 2, 3, 4, 6, 8))
    truth, factors = (1000.0, 960.0, 960.0, 800.0, 800.0, 800.0), (5.0, *[1.0] * 5)
    noise = SuiteNoise(window_sd=0.02)
    source = Suite("noisy", layouts, (truth,), noise, 0.02, 0.95, 120.0, 600.0, noise_factors=(factors,))
    done = [replay(ReplayJob(source, "race"), 0, repeat) for repeat in range(16)]

    assert sum(one.right for one in done) >= 15
