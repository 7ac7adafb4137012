"""A race does not rule a layout out because its noise is larger than that of the others."""

from __future__ import annotations

from itertools import product
from math import exp, log, log1p, sqrt
from random import Random

import numpy as np
import pytest

from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Goal, Kind, Observed
from tuner.core.planning.replay import ReplayJob, replay
from tuner.core.search.agreement import agreement_of
from tuner.core.search.by_time import Launch
from tuner.core.search.challengers import Challenge, DrawnWorld, standing
from tuner.core.search.heat_race import HeatRace
from tuner.core.search.posterior import Posterior, flat_posterior, smooth_posterior
from tuner.core.search.suite import Suite, SuiteNoise
from tuner.core.search.unequal_noise import (
    FEW_DF,
    LEVELS,
    RARE_SD,
    SCALES,
    limits,
    noise_scales,
    own_scales,
    rescale,
)

STRICT = LEVELS["strict"]
LEVEL = STRICT.of_many
HEATS = ((0, 1, 2), (1, 2), (2, 0, 1), (0, 1))  #: layouts of each
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


def in_rounds(sds: tuple[float, ...], rounds: int, seed: int = 1) -> list[Launch]:
    """Rounds of all layouts, each with the noise of *sds*; the layouts differ by 5 %."""
    random = Random(seed)
    return [
        Launch(k, 7.0 - 0.05 * k + random.gauss(0, sd), 700.0 * (turn * len(sds) + k), 600.0)
        for turn in range(rounds)
        for k, sd in enumerate(sds)
    ]


def bank_of(launches: list[Launch]) -> Posterior:
    bank = plain([], 3)
    for one in launches:
        bank.observe(*one)
    return bank


@pytest.mark.parametrize("noisy", [0, 1, 2])
def test_the_filters_take_over_a_noise_that_is_clearly_larger(noisy: int) -> None:
    sds = tuple(0.1 if k == noisy else 0.02 for k in range(3))
    launches = in_rounds(sds, 30)
    pooled = bank_of(launches)
    found = rescale(pooled, lambda: plain([], 3), launches)

    quiet = [k for k in range(3) if k != noisy]
    assert found.noise_scale[quiet].tolist() == [1.0, 1.0]
    assert found.noise_scale[noisy] == pytest.approx(25, rel=0.5)
    assert found.sigma2[0] ** 0.5 == pytest.approx(0.02, rel=0.2)
    gap, variance = found.gaps(quiet[0])
    assert variance[0, quiet[1]] ** 0.5 == pytest.approx(0.02 * sqrt(2 / 30), rel=0.2)
    assert variance[0, noisy] ** 0.5 == pytest.approx(sqrt((0.1**2 + 0.02**2) / 30), rel=0.3)
    assert pooled.gaps(quiet[0])[1][0, quiet[1]] > 4 * variance[0, quiet[1]]
    assert gap[0, quiet[1]] == pytest.approx(pooled.gaps(quiet[0])[0][0, quiet[1]])


def noisy_last() -> Posterior:
    launches = in_rounds((0.02, 0.02, 0.1), 30)
    return rescale(bank_of(launches), lambda: plain([], 3), launches)


@pytest.mark.parametrize(("layout", "sd"), [(0, 0.02), (1, 0.02), (2, 0.1)])
def test_a_simulated_window_has_the_noise_of_its_layout(layout: int, sd: float) -> None:
    world = DrawnWorld(noisy_last(), [0, 1, 2], np.random.default_rng(1))

    assert np.std([world.window(layout, 1e5, 600.0) for _ in range(400)]) == pytest.approx(sd, rel=0.35)


def test_slices_and_a_window_alone_of_a_noisy_layout_may_differ_by_its_noise() -> None:
    layouts = (Layout(1, 4), Layout(4, 1))
    widths = []
    for other in (1, 2):
        expected = agreement_of(noisy_last(), (0, other), layouts, (1.0, 1.0), 600.0).expected
        assert expected.low is not None
        assert expected.high is not None
        widths.append(log(expected.high / expected.low))

    assert widths[0] == pytest.approx(2 * 2.9 * 0.02 * sqrt(2), rel=0.2)
    assert widths[1] == pytest.approx(2 * 2.9 * sqrt(0.02**2 + 0.1**2), rel=0.25)


def test_equal_noise_changes_no_filter() -> None:
    changed = 0
    for seed in range(100):
        launches = in_rounds((0.02, 0.02, 0.02), 12, seed)
        bank = bank_of(launches)
        changed += rescale(bank, lambda: plain([], 3), launches) is not bank
    assert changed <= 2  # bench/robustness.py has none in 200 races of 24 layouts


def test_a_few_launches_show_no_noise_of_their_own() -> None:
    launches = in_rounds((0.02, 0.02, 0.1), int(FEW_DF))  # one degree of freedom less than needed
    bank = bank_of(launches)

    assert noise_scales(bank).tolist() == [1.0, 1.0, 1.0]
    assert rescale(bank, lambda: plain([], 3), launches) is bank


def test_launches_that_are_exactly_equal_have_no_scale() -> None:
    assert noise_scales(bank_of(in_rounds((0.0, 0.0, 0.0), 12))).tolist() == [1.0, 1.0, 1.0]
    assert noise_scales(plain([], 3)).tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("kind", ["strict", "calibrated"])
def test_the_level_is_lower_once_a_noise_is_clearly_different(kind: Kind) -> None:
    equal, unequal = bank_of(in_rounds((0.02,) * 3, 30)), bank_of(in_rounds((0.02,) * 3, 30))
    unequal.noise_scale = np.array([1.0, 1.0, 25.0])

    assert (limits(unequal, kind) < limits(equal, kind)).all()


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


def test_a_calibrated_race_rules_a_layout_out_at_a_larger_likelihood() -> None:
    likely, less_likely = (with_two_launches(*launches) for launches in ((6.98, 6.78), (6.92, 6.78)))

    assert [stands(one).to_check() for one in (likely, less_likely)] == [2, 2]
    assert [stands(one, "calibrated").to_check() for one in (likely, less_likely)] == [2, None]


def test_a_calibrated_race_calls_no_layout_slower_that_a_strict_one_would_not() -> None:
    posterior = with_two_launches(6.92, 6.78)

    assert stands(posterior, "calibrated").to_check() is None
    assert [stands(posterior, kind).ties(LEVEL) for kind in ("strict", "calibrated")] == [[2], [2]]


def test_a_calibrated_race_does_not_test_the_noise_of_a_layout_without_a_launch() -> None:
    layouts = (Layout(4, 6), Layout(6, 4), Layout(8, 3))
    posterior = smooth_posterior(layouts, lengths_vary=False)
    for number, shift in enumerate(QUIET):
        posterior.observe(0, 7.0 + shift, 700.0 * number, 600.0)

    assert stands(posterior, "calibrated").unchecked() == []


def test_the_first_launch_of_a_layout_shows_no_noise_of_its_own() -> None:
    layouts = (Layout(4, 6), Layout(6, 4), Layout(8, 3))
    posterior = smooth_posterior(layouts, lengths_vary=False)
    for number, (layout, value) in enumerate([(0, 7.0), (1, 6.2), (0, 7.1), (2, 6.8), (1, 6.3)]):
        posterior.observe(layout, value, 700.0 * number, 600.0)

    assert posterior.own_df.tolist() == [1.0, 1.0, 0.0]
    assert (posterior.own_squares[:, 2] == 0).all()


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

    assert ratio == pytest.approx(likelihood(0.12 + MARGIN) / likelihood(0.0), rel=1e-3)
    assert limits(posterior, "strict")[2] == pytest.approx(LEVEL * 2 / STRICT.n_many)
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


def in_heats(values: list[tuple[float, ...]], order: int = 1, host_sd: float = 3.0) -> Posterior:
    """One filter that saw `HEATS`, as many as *values*, each in this or the reverse *order*."""
    one = np.ones(1)
    prior = 1e6 * np.eye(3)[None]
    posterior = Posterior(prior, 0 * one, host_sd * one, one.copy(), 0 * one, skips_first=True)
    posterior.in_heats = True
    for number, (layouts, of_heat) in enumerate(zip(HEATS, values, strict=False)):
        for layout, value in list(zip(layouts, of_heat, strict=True))[::order]:
            posterior.observe(layout, value, 3000.0 * number, 600.0)
    return posterior


def test_a_launch_of_a_heat_is_compared_with_all_others_in_whatever_order_they_ran() -> None:
    values = [(7.0, 6.9, 6.8), (6.95, 6.7), (6.81, 7.05, 6.9), (7.02, 6.97)]
    found = in_heats(values)
    # what the launches of the last heat were foretold with, given all heats before
    before = in_heats(values[:-1])
    rows = np.array([[1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 0.0, 1.0]])
    known = before.covariance[0].copy()
    known[3, :], known[:, 3], known[3, 3] = 0.0, 0.0, 9.0
    precision = np.linalg.inv(rows @ known @ rows.T + np.eye(2))
    pull = precision @ (np.array(values[-1]) - before.centre - before.mean[0, :2])
    last = pull**2 / np.diag(precision)

    assert found.own_squares - before.own_squares == pytest.approx(np.array([[*last / 2, 0.0]]))
    # first heat: nothing is known of any layout; second: 1 of 2 launches counts for noise; third: 2 of 3
    assert found.own_df == pytest.approx([2 / 3 + 1 / 2, 1 / 2 + 2 / 3 + 1 / 2, 1 / 2 + 2 / 3])
    assert in_heats(values, -1).own_squares == pytest.approx(found.own_squares, rel=1e-4)


def test_noise_of_the_host_is_no_noise_of_a_layout() -> None:
    quiet = [(7.0, 6.9, 6.8), (6.9, 6.8), (6.8, 7.0, 6.9), (7.0, 6.9)]
    shaken = [tuple(x + shift for x in of) for of, shift in zip(quiet, (0.0, 2.0, -1.0, 3.0), strict=True)]

    assert in_heats(shaken, host_sd=300.0).own_squares == pytest.approx(0.0, abs=1e-3)
    assert in_heats(shaken, host_sd=0.1).own_squares.min() > 0.1


def heat(number: int, of: dict[Layout, float]) -> list[Observed]:
    """The windows of a heat that began at 3000 s times *number*."""
    began_s = 3000.0 * number
    return [
        Observed(layout, exp(value), 10 * number + n, began_s, began_s + 120, 600.0, turns_s=began_s)
        for n, (layout, value) in enumerate(of.items())
    ]


def learnt(kind: Kind, values: tuple[float, float]) -> tuple[HeatRace, list[Layout]]:
    """A race by heats: quiet ones of 4x6 and 8x3, and two with *values* of 2x12 as well, which is behind."""
    leader, quiet, third = layouts = [Layout(4, 6), Layout(8, 3), Layout(2, 12)]
    race = HeatRace(Goal(tuple(layouts), 0.02, 0.95, kind), 1, 4)
    for number, shift in enumerate(QUIET * 2):
        of = {leader: 7.0 + shift, quiet: 6.8 - shift}
        race.learn(heat(number, of | ({third: values[number]} if number < 2 else {})))
    return race, layouts


def test_a_strict_race_by_heats_launches_a_noisy_challenger_with_the_leader_alone() -> None:
    race, (leader, _, third) = learnt("strict", (6.98, 6.78))
    proposals = race.propose()

    assert not race.answer().reached
    assert [(one.layout, one.heat) for one in proposals] == [(leader, 0), (third, 0)]
    assert third in race.answer().ties


def test_a_strict_race_by_heats_ends_if_the_challenger_is_quiet() -> None:
    assert is_decided("strict", (6.8, 6.8))


def test_a_calibrated_race_by_heats_launches_a_noisy_challenger_again() -> None:
    assert not is_decided("calibrated", (6.98, 6.78))
    assert is_decided("calibrated", (6.8, 6.8))


def is_decided(kind: Kind, values: tuple[float, float]) -> bool:
    """Whether only the windows alone are left."""
    return {one.heat for one in learnt(kind, values)[0].propose()} == {None}
