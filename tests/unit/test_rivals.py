"""Who leads, who may still be better, whose window tells most: against formulas worked out by hand."""

from __future__ import annotations

from math import erfc, log, sqrt
from random import Random

import numpy as np
import pytest

from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Kind
from tuner.core.search.challengers import Challenge, _upper_tail, choose_spread, standing
from tuner.core.search.posterior import Array, Posterior, flat_posterior, smooth_posterior
from tuner.core.stats.quantiles import student_t_tail

MARGIN = -log(0.98)


def plain(n_layouts: int, values: list[tuple[int, float]]) -> Posterior:
    """One flat filter without drift: least squares; windows are (layout, logarithm) in time order."""
    one = np.zeros(1)
    prior = 1e6 * np.eye(n_layouts)[None]
    posterior = Posterior(prior, one, one.copy(), one + 1000.0, one.copy(), skips_first=True)
    for number, (layout, value) in enumerate(values):
        posterior.observe(layout, value, 700.0 * number, 600.0)
    return posterior


def stands(
    posterior: Posterior, kind: Kind = "strict", out: tuple[int, ...] = (), margin: float = MARGIN
) -> Challenge:
    found = standing(posterior, margin, [k in out for k in range(posterior.n_layouts)], kind)
    assert found is not None
    return found


# Two windows each, 0.04 apart within a layout: the squares are 4 x 0.02**2, so with 2 degrees of freedom
# sigma2 is 8e-4, and so is the variance of the gap (sigma2 / 2 + sigma2 / 2). The gap is 0.05.
TWO = [(0, 7.02), (1, 6.97), (0, 6.98), (1, 6.93)]
GAP, VARIANCE, DF = 0.05, 8e-4, 2


def test_the_upper_tail_is_that_of_a_normal() -> None:
    z = np.linspace(-9, 9, 721)
    expected = np.array([0.5 * erfc(x / sqrt(2)) for x in z])

    assert _upper_tail(z) == pytest.approx(expected, rel=1.5e-7)
    assert _upper_tail(np.array([37.0]))[0] == pytest.approx(0.5 * erfc(37 / sqrt(2)), rel=1.5e-7)


def test_the_leader_is_the_one_with_the_highest_mean_and_the_gap_is_that_of_the_means() -> None:
    found = stands(plain(2, TWO))

    assert found.leader == 0
    assert found.n_left == 2
    assert found.gap[0, 1] == pytest.approx(GAP, rel=1e-5)
    assert found.variance[0, 1] == pytest.approx(VARIANCE, rel=1e-5)


def test_the_strict_doubt_of_two_layouts_is_their_likelihood_ratio() -> None:
    """Of "better by the margin" to the best fit, sigma integrated out: a Student t to the power of df."""
    above = GAP + MARGIN

    assert stands(plain(2, TWO)).doubt == pytest.approx((1 + above**2 / VARIANCE / DF) ** (-DF / 2), rel=1e-5)


def test_the_calibrated_doubt_of_two_layouts_is_the_tail_of_a_student_t() -> None:
    values = [(n % 2, 7.0 - 0.02 * (n % 2) + 0.03 * (-1) ** (n // 2)) for n in range(16)]
    found = stands(plain(2, values), "calibrated")
    variance = 16 * 0.03**2 / 14 * (1 / 8 + 1 / 8)

    assert found.leader == 0
    assert found.doubt == pytest.approx(student_t_tail((0.02 + MARGIN) / sqrt(variance), 14), rel=5e-3)


def test_a_rival_predicted_better_by_more_than_the_margin_has_more_than_half_of_the_doubt() -> None:
    """A calibrated race may claim only what it saw twice."""
    posterior = plain(2, [(0, 7.0), (1, 7.2), (0, 7.02)])
    found = stands(posterior, "calibrated")

    assert found.leader == 0
    assert found.gap[0, 1] == pytest.approx(-0.19, rel=1e-4)
    assert 0.5 < found.doubt < 1.0
    # deviate of Wallace's approximation at one degree of freedom is good to some 3 %
    expected = 1 - student_t_tail((0.19 - MARGIN) / sqrt(1.5 * 2e-4), 1)
    assert found.doubt == pytest.approx(expected, abs=0.03)


def test_a_rival_that_seems_better_by_more_than_the_margin_has_its_whole_share() -> None:
    posterior = plain(2, [(0, 7.0), (1, 7.5), (0, 7.02), (1, 7.51)])

    assert stands(posterior).leader == 1
    assert stands(posterior, margin=-0.6).doubt == 1.0


def test_strict_shares_of_the_doubt_add_up() -> None:
    values = [(k, 7.0 - 0.05 * k + s) for s in (0.01, -0.01) for k in range(4)]
    found = stands(plain(4, values))
    squares, df = 8 * 0.01**2, 4
    variance = squares / df
    expected = [(1 + (0.05 * k + MARGIN) ** 2 / variance / df) ** (-df / 2) for k in (1, 2, 3)]

    assert found.doubt == pytest.approx(sum(expected), rel=1e-4)  # the prior is not quite flat


def test_calibrated_shares_of_the_doubt_are_those_of_rivals_that_know_nothing_of_each_other() -> None:
    values = [(k, 7.0 - 0.03 * k + s) for s in (0.03, -0.03, 0.03, -0.03) for k in range(3)]
    posterior = plain(3, values)
    each = [stands(posterior, "calibrated", out=(k,)).doubt for k in (1, 2)]

    assert stands(posterior, "calibrated").doubt == pytest.approx(1 - (1 - each[0]) * (1 - each[1]), rel=1e-9)


@pytest.mark.parametrize("kind", ["strict", "calibrated"])
def test_a_layout_out_of_the_race_neither_leads_nor_has_a_share(kind: Kind) -> None:
    values = [(k, 7.0 - 0.01 * k + s) for s in (0.01, -0.01) for k in range(3)]
    posterior = plain(3, values)
    found = stands(posterior, kind, out=(0,))

    assert found.leader == 1
    assert found.n_left == 2
    assert list(found.in_race) == [0, 1, 1]
    assert found.urgency[0] <= 0
    assert 0 not in found.ties(1e-9)
    assert found.to_repeat(0.0) == 1
    assert found.to_measure(600.0) in (1, 2)
    alone = plain(3, [one for one in values if one[0]])
    assert alone.df + 1 == posterior.df  # the noise of who is out is noise all the same
    assert stands(posterior, kind, out=(0, 2)).doubt == 0.0


@pytest.mark.parametrize("kind", ["strict", "calibrated"])
def test_nobody_leads_when_all_that_was_seen_is_out(kind: Kind) -> None:
    posterior = plain(3, TWO)

    assert standing(posterior, MARGIN, [True, True, False], kind) is None
    assert standing(plain(3, []), MARGIN, [False] * 3, kind) is None


def test_a_layout_never_seen_does_not_lead_and_is_in_doubt() -> None:
    found = stands(plain(3, TWO))

    assert found.leader == 0
    assert found.doubt > 0.9  # of the unseen one alone
    assert found.to_measure(600.0) == 2
    assert 2 not in found.ties(1e-9)


def test_what_is_claimed_by_a_calibrated_race_was_seen_often_enough() -> None:
    once = plain(2, [(0, 7.0), (1, 6.9), (1, 6.91)])

    assert stands(once, "strict").leader == 0
    assert stands(once, "calibrated").leader == 1


def test_a_calibrated_race_is_in_full_doubt_before_anything_was_seen_often_enough() -> None:
    once = plain(2, [(0, 7.0), (1, 6.9)])
    found = stands(once, "calibrated")

    assert found.leader == 0
    assert found.doubt == 1.0


def test_a_calibrated_race_leads_with_the_least_doubt_not_with_the_highest_mean() -> None:
    # the first is a trifle ahead, but was seen twice only
    values = [(0, 7.0021), (0, 6.9981), *[(1, 7.0 + s) for s in (0.03, -0.03) * 12]]
    values += [(2, 6.98 + s) for s in (0.03, -0.03) * 12]
    posterior = plain(3, values)

    assert stands(posterior, "strict").leader == 0
    assert stands(posterior, "calibrated").leader == 1


# ------------------------------------------------------------------ ties


def test_ties_are_those_whose_being_as_good_is_not_ruled_out_best_first() -> None:
    values = [
        (k, level + s) for s in (0.02, -0.02, 0.02, -0.02) for k, level in enumerate((6.98, 7.0, 6.0, 6.99))
    ]
    found = stands(plain(4, values))

    assert found.leader == 1
    assert found.ties(0.05) == [3, 0]


def test_a_rival_is_a_tie_up_to_its_equal_share_of_the_doubt() -> None:
    values = [(k, 7.0 - 0.05 * k + s) for s in (0.02, -0.02, 0.02, -0.02) for k in range(3)]
    posterior = plain(3, values)
    posterior.has_own_noise = False  # otherwise a layout of four launches may be noisier than the others
    found = stands(posterior)
    df, variance = 9, 12 * 0.02**2 / 9 * 2 / 4
    share = (1 + 0.05**2 / variance / df) ** (-df / 2)  # the margin apart: it is about being as good

    assert found.ties(3 * 2 * share * 0.999) == [1]
    assert found.ties(3 * 2 * share * 1.001) == []


def test_layouts_exactly_alike_are_ties_at_any_doubt() -> None:
    values = [(k, 7.0 + s) for s in (0.02, -0.02, 0.02, -0.02) for k in range(3)]
    found = stands(plain(3, values))

    assert sorted([found.leader, *found.ties(0.999)]) == [0, 1, 2]
    assert found.leader not in found.ties(0.0)


# ------------------------------------------------------------------ what to measure


def test_the_best_is_repeated_until_the_next_is_worth_as_much() -> None:
    posterior = plain(3, [(0, 7.0), (1, 6.97), (2, 6.5)])

    assert stands(posterior).to_repeat(0.02) == 0
    posterior.observe(0, 7.0, 3000.0, 600.0)
    assert stands(posterior).to_repeat(0.02) == 0  # 6.98
    posterior.observe(0, 7.0, 4000.0, 600.0)
    assert stands(posterior).to_repeat(0.02) == 1  # 6.96
    posterior.observe(1, 6.97, 5000.0, 600.0)
    assert stands(posterior).to_repeat(0.02) == 0  # 6.96 and 6.95


@pytest.mark.parametrize(("n_leader", "n_rival", "measured"), [(2, 3, 0), (3, 3, 1), (4, 3, 1)])
def test_strict_measures_the_leader_only_if_it_was_measured_less_than_its_rival(
    n_leader: int, n_rival: int, measured: int
) -> None:
    values = [(0, 7.0 + 0.01 * (-1) ** n) for n in range(n_leader)]
    values += [(1, 6.97 + 0.01 * (-1) ** n) for n in range(n_rival)]

    assert stands(plain(2, values)).to_measure(600.0) == measured


def test_the_urgent_rival_is_the_one_not_ruled_out_that_was_seen_least() -> None:
    values = [(0, 7.0 + s) for s in (0.02, -0.02) * 6]
    values += [(1, 6.985 + s) for s in (0.02, -0.02) * 5]
    values += [(2, 6.97 + s) for s in (0.02, -0.02)]
    values += [(3, 6.0 + s) for s in (0.02, -0.02)]
    found = stands(plain(4, values))

    assert found.urgency[0] < 0
    assert found.urgency[2] > found.urgency[1] > found.urgency[3]
    assert found.to_measure(600.0) == 2


def test_of_rivals_equally_likely_better_the_one_seen_less_is_more_urgent() -> None:
    values = [(0, 7.0 + s) for s in (0.02, -0.02) * 8]
    values += [(k, 7.0 - MARGIN + s) for k, n in ((1, 6), (2, 1)) for s in (0.02, -0.02) * n]
    found = stands(plain(3, values), margin=-MARGIN)  # just as far below as is asked for: the best fit itself

    assert found.urgency[1] == pytest.approx(1 / 12, rel=1e-3)
    assert found.urgency[2] == pytest.approx(1 / 2, rel=1e-3)


def told(posterior: Posterior, layout: int, other: int, length_s: float) -> float:
    """By how much a window of *layout* would lessen the variance of its gap to *other*, by trying it."""
    lessened = 0.0
    for n, weight in enumerate(posterior.weight):
        cov, share = posterior.covariance[n], posterior.share[n]
        noise = 1 - share + share * 600.0 / length_s
        # as if the drift were known: the window sees the layout's own level
        row = cov[layout]
        after = cov - np.outer(row, row) / (cov[layout, layout] + noise)
        lessened += weight * (gap_variance(cov, layout, other) - gap_variance(after, layout, other))
    return lessened


def gap_variance(cov: Array, i: int, j: int) -> float:
    return float(cov[i, i] + cov[j, j] - 2 * cov[i, j])


@pytest.mark.parametrize("n_leader", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("length_s", [30.0, 600.0])
def test_calibrated_measures_whose_window_lessens_the_variance_of_the_gap_more(
    n_leader: int, length_s: float
) -> None:
    layouts = [Layout(8, 2), Layout(8, 3), Layout(1, 48)]
    posterior = smooth_posterior(layouts, lengths_vary=True)
    values = [(0, 7.0), (1, 6.98), (0, 7.02), (1, 6.97), (1, 6.96)] + [(0, 7.01)] * n_leader
    for number, (layout, value) in enumerate(values):
        posterior.observe(layout, value, 700.0 * number, 600.0)
    found = stands(posterior, "calibrated")
    rival = int(np.argmax(found.urgency))
    gains = {
        k: told(posterior, k, other, length_s) for k, other in ((found.leader, rival), (rival, found.leader))
    }

    assert found.to_measure(length_s) == max(gains, key=lambda k: gains[k])


# ------------------------------------------------------------------ the first block of a calibrated race

GRID = [Layout(p, t) for p in (1, 2, 3, 4, 6, 8, 12, 24) for t in (1, 2, 4, 6, 8)]


@pytest.mark.parametrize("n", [1, 6, 40, 100])
def test_layouts_spread_out_are_distinct_and_as_many_as_asked_or_all(n: int) -> None:
    chosen = choose_spread(smooth_posterior(GRID, lengths_vary=False), n, Random(1))

    assert len(chosen) == len(set(chosen)) == min(n, len(GRID))
    assert set(chosen) <= set(range(len(GRID)))


def test_what_was_chosen_is_not_chosen_again_though_more_is_left_to_know_of_it() -> None:
    one = np.zeros(1)
    prior = np.diag([100.0, 0.01, 0.02])[None]
    posterior = Posterior(prior, one, one.copy(), one + 1000.0, one.copy(), skips_first=False)

    assert choose_spread(posterior, 3, Random(1)) == [0, 2, 1]


def test_layouts_spread_out_depend_on_the_seed_only() -> None:
    posterior = smooth_posterior(GRID, lengths_vary=False)
    before = posterior.covariance.copy()
    chosen = [tuple(choose_spread(posterior, 6, Random(seed))) for seed in range(20)]

    assert (posterior.covariance == before).all()
    assert chosen == [
        tuple(choose_spread(smooth_posterior(GRID, lengths_vary=False), 6, Random(seed)))
        for seed in range(20)
    ]
    assert len(set(chosen)) > 1


def test_layouts_spread_out_tell_more_of_all_others_than_six_at_random() -> None:
    posterior = smooth_posterior(GRID, lengths_vary=False)
    cov = posterior.covariance[:, :-1, :-1].mean(axis=0)

    def left(chosen: list[int]) -> float:
        seen = cov[np.ix_(chosen, chosen)] + np.eye(len(chosen))
        return float(np.trace(cov - cov[:, chosen] @ np.linalg.solve(seen, cov[chosen])))

    at_random = [left(Random(seed).sample(range(len(GRID)), 6)) for seed in range(200)]
    spread = [left(choose_spread(posterior, 6, Random(seed))) for seed in range(20)]
    assert max(spread) < sorted(at_random)[100]


def test_the_weights_of_the_filters_weigh_their_doubts() -> None:
    posterior = flat_posterior(2, lengths_vary=True)
    for number, (layout, value) in enumerate(TWO):
        posterior.observe(layout, value, 700.0 * number, 30.0 + 200.0 * number)
    found = stands(posterior)
    gap, variance = posterior.gaps(0)
    of_each = [
        (1 + (g + MARGIN) ** 2 / v / 2) ** -1.0 for g, v in zip(gap[:, 1], variance[:, 1], strict=True)
    ]

    assert len(set(np.round(of_each, 6))) > 3
    assert found.doubt == pytest.approx(float(posterior.weight @ np.array(of_each)), rel=1e-9)
