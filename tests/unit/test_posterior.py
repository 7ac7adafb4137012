"""The bank of filters against an oracle: the covariance matrix of all windows at once, and least squares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

import numpy as np
import pytest

from tuner.core.domain.layout import Layout
from tuner.core.search.posterior import (
    LENGTH_REF_S,
    Array,
    Filters,
    Posterior,
    flat_posterior,
    smooth_posterior,
)

pytestmark = pytest.mark.pythons

CLOSE = 1e-6


@dataclass(frozen=True)
class Seen:
    """One window."""

    layout: int
    value: float
    at_s: float
    length_s: float


def some_windows(
    n: int, n_layouts: int, seed: int, *, drift: float = 0.03, noise: float = 0.05
) -> list[Seen]:
    """Layouts in random order after a first round, lengths from 20 s to 900 s, now and then a night's gap."""
    random = Random(seed)
    levels = [6.0 + random.gauss(0, 0.2) for _ in range(n_layouts)]
    order = list(range(n_layouts)) + [random.randrange(n_layouts) for _ in range(n)]
    windows, at_s, ou, before_s = [], 0.0, drift * random.gauss(), 0.0
    for number, layout in enumerate(order[:n]):
        length_s = random.choice([20.0, 60.0, 300.0, 600.0, 900.0])
        at_s += 45.0 + length_s + (40000.0 if number % 17 == 11 else 0.0)
        keeps = np.exp(-(at_s - before_s) / 5000.0)
        ou = keeps * ou + drift * (1 - keeps**2) ** 0.5 * random.gauss()
        before_s = at_s
        value = levels[layout] + ou + noise * (0.5 + 0.5 * 600 / length_s) ** 0.5 * random.gauss()
        windows.append(Seen(layout, value, at_s, length_s))
    return windows


def fed(posterior: Posterior, windows: Sequence[Seen]) -> Posterior:
    for window in windows:
        posterior.observe(window.layout, window.value, window.at_s, window.length_s)
    return posterior


class Oracle:
    """One filter's posterior, from all windows at once."""

    def __init__(
        self,
        prior: Array,
        share: float,
        ratio: float,
        tau_s: float,
        windows: Sequence[Seen],
        *,
        skips_first: bool = True,
        prior_df: float = 0.0,
        prior_sigma: float = 0.0,
    ) -> None:
        n, layouts = len(windows), [window.layout for window in windows]
        y = np.array([window.value for window in windows])
        at_s = np.array([window.at_s for window in windows])
        length_s = np.array([window.length_s for window in windows])
        centred = y - y[0]
        of_layout = np.zeros((n, len(prior)))
        of_layout[range(n), layouts] = 1.0
        rest = ratio**2 * np.exp(-np.abs(at_s[:, None] - at_s) / tau_s)
        rest += np.diag(1 - share + share * LENGTH_REF_S / length_s)
        # What is known of the layouts: the precision of the prior and that of generalised least squares
        weighed = np.linalg.solve(rest, of_layout)
        self.cov = np.linalg.inv(np.linalg.inv(prior) + of_layout.T @ weighed)
        self.mean = self.cov @ weighed.T @ centred
        # What each window said beyond those before it: the rows of the Cholesky factor
        factor = np.linalg.cholesky(of_layout @ prior @ of_layout.T + rest)
        surprises = np.linalg.solve(factor, centred)
        counts = [
            layouts.index(k) != number if skips_first else number > 0 for number, k in enumerate(layouts)
        ]
        self.df = prior_df + sum(counts)
        squares = prior_df * prior_sigma**2 + (surprises[counts] ** 2).sum()
        self.sigma2 = squares / self.df
        self.evidence = -np.log(np.diag(factor)[counts]).sum() - self.df / 2 * np.log(squares)

    def gap(self, i: int, j: int) -> tuple[float, float]:
        variance = self.cov[i, i] + self.cov[j, j] - 2 * self.cov[i, j]
        return self.mean[i] - self.mean[j], variance * self.sigma2


def oracles(fresh: Posterior, windows: Sequence[Seen], *, skips_first: bool = True) -> list[Oracle]:
    """One per filter of *fresh*, which has seen nothing yet and has no prior of sigma."""
    k = fresh.n_layouts
    return [
        Oracle(prior[:k, :k].copy(), share, ratio, tau_s, windows, skips_first=skips_first)
        for prior, share, ratio, tau_s in zip(
            fresh.covariance, fresh.share, fresh.ratio, fresh.tau_s, strict=True
        )
    ]


def weights(found: Sequence[Oracle], log_prior: Array) -> Array:
    log_weight = np.array([one.evidence for one in found]) + log_prior
    weight: Array = np.exp(log_weight - log_weight.max())
    return weight / weight.sum()


def assert_agrees(posterior: Posterior, found: Sequence[Oracle], weight: Array) -> None:
    """*posterior*, whose filters are those of *found* one by one, knows what they know."""
    n = posterior.n_layouts
    assert posterior.df == found[0].df
    assert posterior.sigma2 == pytest.approx(np.array([one.sigma2 for one in found]), rel=CLOSE)
    assert posterior.weight == pytest.approx(weight, rel=CLOSE, abs=1e-12)
    for i in range(n):
        gap, variance = posterior.gaps(i)
        for j in range(n):
            if i != j:
                expected = np.array([one.gap(i, j) for one in found])
                assert gap[:, j] == pytest.approx(expected[:, 0], rel=CLOSE, abs=1e-8)
                assert variance[:, j] == pytest.approx(expected[:, 1], rel=CLOSE)
    means = np.array([one.mean for one in found])
    assert posterior.means() == pytest.approx(weight @ means, rel=CLOSE, abs=1e-8)


def one_filter(
    n_layouts: int, *, share: float, ratio: float, tau_s: float, variance: float = 50.0
) -> Posterior:
    prior = variance * (np.eye(n_layouts) + 0.6)[None]
    return Posterior(
        prior,
        np.array([share]),
        np.array([ratio]),
        np.array([tau_s]),
        np.zeros(1),
        skips_first=False,
        prior_df=0.0,
    )


def flat(n_layouts: int = 4) -> Posterior:
    return flat_posterior(n_layouts, lengths_vary=True)


@pytest.mark.parametrize("n", [2, 5, 40])
@pytest.mark.parametrize(
    ("share", "ratio", "tau_s"),
    [(0.0, 0.0, 1000.0), (0.6, 0.0, 1000.0), (0.0, 1.5, 3000.0), (0.4, 0.7, 9000.0)],
)
def test_one_filter_knows_what_all_windows_at_once_tell(
    n: int, share: float, ratio: float, tau_s: float
) -> None:
    windows = some_windows(n, 5, seed=n)
    fresh = one_filter(5, share=share, ratio=ratio, tau_s=tau_s)
    found = oracles(fresh, windows, skips_first=False)

    assert_agrees(fed(fresh, windows), found, np.ones(1))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_filters_are_weighed_by_how_well_they_predicted_the_windows(seed: int) -> None:
    windows = some_windows(11, 4, seed)  # 7 that count: none is dropped yet
    found = oracles(flat(), windows)

    posterior = fed(flat(), windows)

    assert len(posterior.weight) == len(found)
    assert_agrees(posterior, found, weights(found, flat().log_prior))


@pytest.mark.parametrize("seed", [1, 2])
def test_filters_that_predicted_far_worse_are_dropped_and_the_rest_share_the_weight(seed: int) -> None:
    windows = some_windows(120, 4, seed, drift=0.2, noise=0.02)
    fresh, posterior = flat(), fed(flat(), windows)
    found = oracles(fresh, windows)

    whole = weights(found, fresh.log_prior)
    of_filter = list(zip(fresh.share, fresh.ratio, fresh.tau_s, strict=True))
    kept = [
        of_filter.index(one) for one in zip(posterior.share, posterior.ratio, posterior.tau_s, strict=True)
    ]
    dropped = sorted(set(range(len(found))) - set(kept))
    assert dropped
    assert whole[dropped].max() < 1e-4
    assert_agrees(posterior, [found[n] for n in kept], whole[kept] / whole[kept].sum())


def test_after_three_hundred_windows_it_still_agrees_and_after_a_thousand_variances_are_positive() -> None:
    windows = some_windows(1000, 4, seed=5)
    fresh, posterior = flat(), fed(flat(), windows[:300])
    of_filter = list(zip(fresh.share, fresh.ratio, fresh.tau_s, strict=True))
    found = oracles(fresh, windows[:300])
    kept = [
        of_filter.index(one) for one in zip(posterior.share, posterior.ratio, posterior.tau_s, strict=True)
    ]
    whole = weights(found, fresh.log_prior)

    assert_agrees(posterior, [found[n] for n in kept], whole[kept] / whole[kept].sum())

    fed(posterior, windows[300:])

    for covariance in posterior.covariance:
        assert np.allclose(covariance, covariance.T, rtol=1e-6, atol=1e-9)
        assert np.linalg.eigvalsh(covariance[:-1, :-1]).min() > 0
    assert np.isfinite(posterior.weight).all()
    assert posterior.weight.sum() == pytest.approx(1.0)
    for layout in range(4):
        assert (posterior.gaps(layout)[1] > 1e-9).all()  # far above where they are cut off


@pytest.mark.parametrize("filter_", range(0, 24, 5))
def test_a_flat_prior_is_generalised_least_squares_with_restricted_likelihood(filter_: int) -> None:
    """Without any prior: Patterson & Thompson (1971)."""
    windows, fresh = some_windows(11, 3, seed=9), flat(3)
    share, ratio, tau_s = fresh.share[filter_], fresh.ratio[filter_], fresh.tau_s[filter_]
    y = np.array([window.value for window in windows])
    x = np.array([[window.layout == k for k in range(3)] for window in windows], dtype=float)
    at_s = np.array([window.at_s for window in windows])
    v = ratio**2 * np.exp(-np.abs(at_s[:, None] - at_s) / tau_s)
    v += np.diag([1 - share + share * 600 / window.length_s for window in windows])
    cov = np.linalg.inv(x.T @ np.linalg.solve(v, x))
    mean = cov @ x.T @ np.linalg.solve(v, y)
    residual = y - x @ mean
    sigma2 = residual @ np.linalg.solve(v, residual) / (len(windows) - 3)

    posterior = fed(fresh, windows)
    gap, variance = posterior.gaps(0)

    assert posterior.df == len(windows) - 3
    assert posterior.sigma2[filter_] == pytest.approx(sigma2, rel=1e-4)
    assert gap[filter_, 1:] == pytest.approx(mean[0] - mean[1:], rel=1e-4, abs=1e-6)
    expected = [sigma2 * (cov[0, 0] + cov[j, j] - 2 * cov[0, j]) for j in (1, 2)]
    assert variance[filter_, 1:] == pytest.approx(np.array(expected), rel=1e-4)


def test_the_restricted_likelihood_tells_the_flat_filters_apart() -> None:
    windows, fresh = some_windows(11, 3, seed=9), flat(3)
    y = np.array([window.value for window in windows])
    x = np.array([[window.layout == k for k in range(3)] for window in windows], dtype=float)
    at_s = np.array([window.at_s for window in windows])
    log_likelihood = []
    for share, ratio, tau_s in zip(fresh.share, fresh.ratio, fresh.tau_s, strict=True):
        v = ratio**2 * np.exp(-np.abs(at_s[:, None] - at_s) / tau_s)
        v += np.diag([1 - share + share * 600 / window.length_s for window in windows])
        information = x.T @ np.linalg.solve(v, x)
        residual = y - x @ np.linalg.solve(information, x.T @ np.linalg.solve(v, y))
        squares = residual @ np.linalg.solve(v, residual)
        log_det = np.linalg.slogdet(v)[1] + np.linalg.slogdet(information)[1]
        log_likelihood.append(-0.5 * log_det - (len(windows) - 3) / 2 * np.log(squares))
    log_weight = np.array(log_likelihood) + fresh.log_prior
    expected = np.exp(log_weight - log_weight.max())

    posterior = fed(fresh, windows)

    assert posterior.weight == pytest.approx(expected / expected.sum(), rel=1e-4)


def test_the_first_window_of_a_layout_says_nothing_of_the_noise_when_nothing_was_known_of_it() -> None:
    posterior = flat(3)
    prior_weight = posterior.weight.copy()
    for layout, value in enumerate([6.0, 7.5, 3.0]):
        posterior.observe(layout, value, 100.0 * layout, 600.0)

    assert posterior.df == 0
    assert posterior.n_replicates == 0
    assert posterior.weight == pytest.approx(prior_weight)

    posterior.observe(1, 7.6, 400.0, 600.0)

    assert posterior.df == 1
    assert posterior.n_replicates == 1
    assert list(posterior.n_of) == [1, 2, 1]


def test_where_layouts_are_expected_to_be_alike_only_the_very_first_window_says_nothing() -> None:
    layouts = [Layout(4, 2), Layout(2, 4), Layout(8, 1)]
    posterior = smooth_posterior(layouts, lengths_vary=False)
    posterior.observe(0, 6.0, 0.0, 600.0)

    assert posterior.df == 1.5
    assert posterior.sigma2 == pytest.approx(np.full(len(posterior.weight), 0.03**2))

    posterior.observe(1, 6.1, 700.0, 600.0)

    assert posterior.df == 2.5
    assert posterior.n_replicates == 0


def test_a_prior_of_sigma_counts_as_so_many_windows() -> None:
    layouts = [Layout(4, 2), Layout(2, 4), Layout(8, 1), Layout(1, 8)]
    windows = some_windows(6, 4, seed=4)  # 7 that count with the prior's 1.5: no filter is dropped yet
    fresh = smooth_posterior(layouts, lengths_vary=True)
    found = [
        Oracle(
            prior[:4, :4].copy(),
            *of_filter,
            windows,
            skips_first=False,
            prior_df=1.5,
            prior_sigma=0.03,
        )
        for prior, *of_filter in zip(fresh.covariance, fresh.share, fresh.ratio, fresh.tau_s, strict=True)
    ]
    whole = weights(found, fresh.log_prior)
    posterior = fed(fresh, windows)

    assert_agrees(posterior, found, whole)


def test_a_layout_alike_is_predicted_better_than_one_that_is_not() -> None:
    layouts = [Layout(8, 2), Layout(8, 3), Layout(1, 48)]
    posterior = smooth_posterior(layouts, lengths_vary=False)
    posterior.observe(0, 6.0, 0.0, 600.0)
    posterior.observe(0, 6.01, 700.0, 600.0)
    _, variance = posterior.gaps(0)

    assert (variance[:, 1] < variance[:, 2]).all()


def test_the_level_has_the_spread_within_filters_and_between_them() -> None:
    windows = some_windows(11, 4, seed=3, drift=0.3)
    found = oracles(flat(), windows)
    weight = weights(found, flat().log_prior)
    posterior = fed(flat(), windows)

    for layout in range(4):
        mean, sd = posterior.level(layout)
        of_each = np.array([one.mean[layout] for one in found])
        variance = np.array([one.cov[layout, layout] * one.sigma2 for one in found])
        middle = float(weight @ of_each)
        assert mean == pytest.approx(windows[0].value + middle, rel=CLOSE)
        assert sd == pytest.approx(float(weight @ (variance + (of_each - middle) ** 2)) ** 0.5, rel=CLOSE)


def test_windows_alike_to_the_last_bit_leave_no_variance_of_zero() -> None:
    posterior = flat(2)
    for number in range(20):
        posterior.observe(number % 2, 6.0, 700.0 * number, 600.0)

    gap, variance = posterior.gaps(0)
    assert (variance > 0).all()
    assert gap == pytest.approx(np.zeros_like(gap))
    assert np.isfinite(posterior.weight).all()


# ------------------------------------------------------------------ filters of a guide


def filters_like(bank: Posterior, rows: Sequence[int]) -> Filters:
    """Some of the bank's own filters, as a guide would give them."""
    log_prior = bank.log_prior[rows]
    return Filters(
        covariance=bank.covariance[rows].copy(),
        mean=bank.mean[rows].copy(),
        share=bank.share[rows].copy(),
        ratio=bank.ratio[rows].copy(),
        tau_s=bank.tau_s[rows].copy(),
        log_prior=log_prior - np.log(np.exp(log_prior).sum()),  # add up to 1
        log_det=bank._log_det[rows].copy(),
        squares=bank._squares[rows].copy(),
        level_sd=np.zeros(len(rows)),
    )


SPREAD_GRID = [Layout(p, t) for p in (1, 2, 4) for t in (1, 2, 4)]


def test_filters_of_a_guide_weigh_beforehand_as_much_as_all_others() -> None:
    bank = smooth_posterior(SPREAD_GRID, lengths_vary=False)
    bank.take(filters_like(bank, [0, 3, 5]))

    assert bank.guided.sum() == 3
    assert bank.weight[bank.guided].sum() == pytest.approx(0.5)
    assert bank.log_evidence(guided=True) == pytest.approx(bank.log_evidence(guided=False))


def test_taken_filters_take_the_place_of_those_taken_before_and_none_leaves_the_banks_own() -> None:
    windows = some_windows(6, len(SPREAD_GRID), 3)
    bank = fed(smooth_posterior(SPREAD_GRID, lengths_vary=False), windows)
    before = bank.weight.copy()
    bank.take(filters_like(bank, [0, 1]))
    bank.take(filters_like(bank, [2, 3, 4]))

    assert bank.guided.sum() == 3
    bank.take(None)
    assert not bank.guided.any()
    assert bank.weight == pytest.approx(before)


def test_a_guides_filters_continue_as_the_banks_own_do() -> None:
    windows = some_windows(14, len(SPREAD_GRID), 4)
    bank = fed(smooth_posterior(SPREAD_GRID, lengths_vary=False), windows[:6])
    alone = fed(smooth_posterior(SPREAD_GRID, lengths_vary=False), windows)
    bank.take(filters_like(bank, list(range(len(bank.share)))))
    fed(bank, windows[6:])

    assert bank.means() == pytest.approx(alone.means(), abs=1e-9)
    assert bank.weight[bank.guided].sum() == pytest.approx(0.5, rel=1e-3)


def test_the_banks_best_own_filters_stay_however_much_better_the_guides_are() -> None:
    windows = some_windows(30, len(SPREAD_GRID), 5)
    bank = fed(smooth_posterior(SPREAD_GRID, lengths_vary=False), windows[:6])
    much_better = filters_like(bank, [0, 1])
    bank.take(replace(much_better, log_det=much_better.log_det - 200.0))
    fed(bank, windows[6:])

    assert bank.weight[bank.guided].sum() == pytest.approx(1.0)
    assert (~bank.guided).sum() > 0
    bank.take(None)
    assert bank.weight.sum() == pytest.approx(1.0)


def test_the_last_surprise_is_what_a_window_was_above_what_was_expected_of_it() -> None:
    bank = fed(smooth_posterior(SPREAD_GRID, lengths_vary=False), some_windows(8, len(SPREAD_GRID), 6))
    bank.take(filters_like(bank, [0]))
    expected = bank.mean[bank.guided][0, 2] + bank.mean[bank.guided][0, -1]
    bank.observe(2, (bank._centre or 0.0) + expected + 0.25, bank.at_s, 600.0)

    assert bank.last_surprise(guided=True) == pytest.approx(0.25)
    assert bank.last_surprise(guided=False) != pytest.approx(0.25)
