"""The guide: what it says after windows, when it is heard, and that it never signs an answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import exp, log
from random import Random
from typing import Any

import numpy as np
import pytest

from tuner.core.domain.layout import Layout, divisors_grid
from tuner.core.domain.strategy import Answer, Goal, Observed, Proposal
from tuner.core.model.demand import Array, Demands
from tuner.core.model.ensemble import EXPECTED, Surfaces
from tuner.core.model.machine import Machine
from tuner.core.model.network import predict
from tuner.core.search.guide import FIRST_FIT, Guide, may_guide
from tuner.core.search.posterior import (
    LENGTH_REF_S,
    LEVEL,
    USUAL_DF,
    USUAL_SIGMA,
    Posterior,
    similarity,
    smooth_posterior,
)
from tuner.core.search.racing import Race
from tuner.core.search.suite import Suite, SuiteNoise

from ..arrays import farthest

CORES = 12
LAYOUTS = tuple(divisors_grid(CORES))
SERVICE = Demands(gil_s=0.3, child_s=1.0, asleep_s=0.8)
GOAL = Goal(LAYOUTS, kind="calibrated", cores=CORES)


def network_surface(own_sd: float = 0.0, seed: int = 1) -> list[float]:
    """What the network gives, with a deviation of each layout of its own."""
    random = Random(seed)
    rates = predict(SERVICE, Machine(CORES), LAYOUTS).throughput_per_s
    return [600 * float(rate) * exp(own_sd * random.gauss()) for rate in rates]


def unlike_any_network(seed: int = 1) -> list[float]:
    """Best at both ends of the grid, worst in its middle, by half."""
    middle = [log(one.processes / one.threads) for one in LAYOUTS]
    return [
        1000 * (0.5 + 0.5 * min(1.0, abs(x) / 3)) * (1 + 0.1 * (one.total_threads <= 12))
        for x, one in zip(middle, LAYOUTS, strict=True)
    ]


def suite(surface: Sequence[float], sd: float = 0.03) -> Suite:
    return Suite("test", LAYOUTS, (tuple(surface),), SuiteNoise(window_sd=sd), cores=CORES)


def windows(n: int, seed: int = 1, sd: float = 0.03) -> list[tuple[int, float, float, float]]:
    """Layout, logarithm, time and length of windows of the network's surface, all layouts in turn."""
    random, truth = Random(seed), np.log(network_surface(0.02))
    order = list(range(len(LAYOUTS)))
    random.shuffle(order)
    return [
        (k, truth[k] + sd * random.gauss(), 700.0 * i, random.choice([300.0, 600.0]))
        for i, k in enumerate((order * 9)[:n])
    ]


def led(race: Race, box_suite: Suite, n_blocks: int = 200) -> list[tuple[list[Proposal], Answer]]:
    box = box_suite.box(0, "luck")
    blocks: list[tuple[list[Proposal], Answer]] = []
    while len(blocks) < n_blocks and (proposals := list(race.propose())):
        race.learn([window for proposal in proposals for window in box.take(proposal)])
        blocks.append((proposals, race.answer()))
    return blocks


# ------------------------------------------------------------------ what it says


def by_hand(
    surfaces: Array,
    seen: Sequence[tuple[int, float, float, float]],
    kernel: Array,
    share: float,
    ratio: float,
    tau_s: float,
) -> tuple[Array, Array, float, float]:
    """Mean, covariance, scale and evidence of one filter: each set conditioned on its own, then mixed."""
    layout, y, at_s, length_s = (np.array(column) for column in zip(*seen, strict=True))
    n, k = len(y), kernel.shape[0]
    state = np.zeros((k + 1, k + 1))
    state[:k, :k], state[k, k] = kernel, ratio**2
    drift = ratio**2 * np.exp(-np.abs(at_s[:, None] - at_s) / tau_s)
    of_windows = kernel[np.ix_(layout, layout)] + drift + np.diag(1 - share + share * LENGTH_REF_S / length_s)
    across = np.vstack([kernel[:, layout], ratio**2 * np.exp(-np.abs(at_s - at_s[-1]) / tau_s)])
    gain = across @ np.linalg.inv(of_windows)
    df = USUAL_DF + n - 1
    means, squares, logs = [], [], []
    for surface in surfaces:
        relative = surface - surface[layout[0]]
        off = (y - y[0]) - relative[layout]
        means.append(np.append(relative, 0.0) + gain @ off)
        first = off[0] ** 2 / of_windows[0, 0]
        squares.append(USUAL_DF * USUAL_SIGMA**2 + off @ np.linalg.inv(of_windows) @ off - first)
        logs.append(-df / 2 * log(squares[-1]))
    weight = np.exp(np.array(logs) - max(logs))
    weight /= weight.sum()
    mean = weight @ np.array(means)
    scale = float(weight @ np.array(squares))
    spread = sum(w * np.outer(m - mean, m - mean) for w, m in zip(weight, means, strict=True))
    log_det = np.linalg.slogdet(of_windows)[1] - log(of_windows[0, 0])
    evidence = -0.5 * log_det + log(sum(exp(one) for one in logs) / len(surfaces))
    return mean, state - gain @ across.T + spread * df / scale, scale, float(evidence)


def test_mean_and_covariance_of_two_sets_are_those_worked_out_by_hand() -> None:
    layouts = LAYOUTS[:5]
    guide = Guide(layouts, CORES, lengths_vary=True, n_sets=2)
    bank = smooth_posterior(layouts, lengths_vary=True)
    seen = [one for one in windows(40) if one[0] < 5][:5]
    for window in seen:
        guide.observe(bank, *window)
    surfaces = Surfaces(layouts, CORES).of(EXPECTED.spread(2))
    filters = guide.filters()
    best = int(
        np.argmax(filters.log_prior - 0.5 * filters.log_det - 0.5 * (USUAL_DF + 4) * np.log(filters.squares))
    )

    for one in {0, best, len(filters.share) - 1}:
        kernels = [
            LEVEL + h**2 * similarity(layouts, 2.0) + own**2 * np.eye(5)
            for h in (0.5, 3.0)
            for own in (1.0, 2.0, 4.0, 8.0)
        ]
        noise = float(filters.share[one]), float(filters.ratio[one]), float(filters.tau_s[one])
        candidates = [by_hand(surfaces, seen, kernel, *noise) for kernel in kernels]
        evidence = -0.5 * filters.log_det[one] - (USUAL_DF + 4) / 2 * log(filters.squares[one])
        mean, covariance, scale, result = min(candidates, key=lambda of: abs(of[3] - evidence))
        assert evidence == pytest.approx(result, abs=1e-4)
        assert filters.squares[one] == pytest.approx(scale, rel=1e-5)
        assert filters.mean[one] == pytest.approx(mean, abs=1e-6)
        assert filters.covariance[one] == pytest.approx(covariance, rel=1e-4, abs=1e-4)


def fitted(seen: Sequence[tuple[int, float, float, float]]) -> Guide:
    """A guide of one set that has seen these windows, was not yet asked, and keeps every filter."""
    guide = Guide(LAYOUTS, CORES, lengths_vary=True, n_sets=1, last_fit=0, filter_kept=1e-300)
    bank = smooth_posterior(LAYOUTS, lengths_vary=True)
    for window in seen:
        guide.observe(bank, *window)
    return guide


def test_a_fit_says_what_the_bank_gets_by_going_on_from_an_earlier_fit() -> None:
    """With one set nothing is summed up: both are exact."""
    seen = windows(FIRST_FIT)
    bank = smooth_posterior(LAYOUTS, lengths_vary=True)
    for window in seen[:-1]:
        bank.observe(*window)
    bank.take(fitted(seen[:-1]).filters())
    bank.observe(*seen[-1])
    on, direct = smooth_posterior(LAYOUTS, lengths_vary=True), fitted(seen).filters()
    for window in seen:
        on.observe(*window)
    on.take(direct)

    assert bank.guided.sum() == on.guided.sum() > 100
    assert farthest(bank.mean, on.mean, abs=1e-6) <= 1
    assert farthest(bank.covariance, on.covariance, rel=1e-4, abs=1e-4) <= 1
    assert farthest(bank.weight, on.weight, rel=1e-4, abs=1e-12) <= 1
    for guided in (True, False):
        assert bank.log_evidence(guided=guided) == pytest.approx(on.log_evidence(guided=guided), abs=1e-4)


def test_sets_drawn_near_the_windows_weigh_what_they_should() -> None:
    """The ensemble stays one of the prior: its evidence is that of a prior drawn more finely."""
    seen = windows(9, sd=0.01)

    def after(n_sets: int, n_near: int) -> tuple[float, Array]:
        guide = Guide(LAYOUTS, CORES, lengths_vary=False, n_sets=n_sets, n_near=n_near)
        bank = smooth_posterior(LAYOUTS, lengths_vary=False)
        for window in seen:
            guide.observe(bank, *window)
        bank.take(guide.filters())  # the second and third fits have sets near those of the fit before
        own, weight = bank.guided, bank.weight[bank.guided] / bank.weight[bank.guided].sum()
        return bank.log_evidence(guided=True) - bank.log_evidence(guided=False), weight @ bank.mean[own, :-1]

    fine, fine_means = after(30_000, 1)
    near, near_means = after(2048, 256)

    assert near == pytest.approx(fine, abs=0.25)
    assert near_means == pytest.approx(fine_means, abs=0.02)


# ------------------------------------------------------------------ when it is heard


def heard(surface: Sequence[float], n: int = 30, seed: int = 1) -> tuple[Guide, Posterior]:
    """After windows of all layouts in turn."""
    guide, bank = Guide(LAYOUTS, CORES, lengths_vary=False), smooth_posterior(LAYOUTS, lengths_vary=False)
    random = Random(seed)
    order = random.sample(range(len(LAYOUTS)), len(LAYOUTS))
    for number, k in enumerate((order * n)[:n]):
        guide.observe(bank, k, log(surface[k]) + 0.03 * random.gauss(), 720.0 * number, 600.0)
    return guide, bank


@pytest.mark.parametrize("seed", range(3))
def test_a_model_that_is_right_has_nearly_all_the_weight_and_foretells_well(seed: int) -> None:
    guide, bank = heard(network_surface(0.02, seed), seed=seed)
    found = guide.guidance

    assert bank.weight[bank.guided].sum() > 0.9
    assert bank.weight.sum() == pytest.approx(1.0)
    assert found.used
    assert found.n_held_out == len(LAYOUTS) - FIRST_FIT
    assert found.error_ratio is not None
    assert found.error_ratio < 0.08


@pytest.mark.parametrize("seed", range(3))
def test_a_model_that_is_wrong_is_switched_off_for_good_and_its_filters_are_gone(seed: int) -> None:
    guide, bank = heard(unlike_any_network(), seed=seed)
    found = guide.guidance

    assert not found.used
    assert not bank.guided.any()
    assert bank.weight.sum() == pytest.approx(1.0)
    assert found.error_ratio is not None
    assert found.error_without_ratio is not None
    assert found.error_ratio > found.error_without_ratio
    n_held_out = found.n_held_out
    guide.observe(bank, 0, 7.0, 1e6, 600.0)
    assert not bank.guided.any()
    assert guide.guidance.n_held_out == n_held_out


def test_without_the_guides_filters_the_bank_is_as_if_there_had_been_none() -> None:
    _, bank = heard(unlike_any_network(), n=12)
    alone, random = smooth_posterior(LAYOUTS, lengths_vary=False), Random(1)
    order = random.sample(range(len(LAYOUTS)), len(LAYOUTS))
    for number, k in enumerate((order * 2)[:12]):
        value = log(unlike_any_network()[k]) + 0.03 * random.gauss()
        alone.observe(k, value, 720.0 * number, 600.0)
    bank.take(None)

    assert bank.means() == pytest.approx(alone.means(), abs=1e-9)


def test_windows_of_a_layout_with_much_noise_hardly_move_the_guide() -> None:
    seen = windows(24)
    noisy, others = seen[3][0], [one for one in seen if one[0] != seen[3][0]]
    wrong = [(k, value - (0.1 if k == noisy else 0.0), at_s, length_s) for k, value, at_s, length_s in seen]

    def guided(of: Sequence[tuple[int, float, float, float]], noise: float) -> Posterior:
        guide, bank = Guide(LAYOUTS, CORES, lengths_vary=False), smooth_posterior(LAYOUTS, lengths_vary=False)
        again = smooth_posterior(LAYOUTS, lengths_vary=False)
        again.noise_scale[noisy] = noise
        for one in of:
            guide.observe(bank, *one)
            again.observe(*one)
        guide.rescale(again)
        assert again.guided.any()
        return again

    def of_guide(bank: Posterior) -> Array:
        found: Array = bank.weight[bank.guided] @ bank.mean[bank.guided] / bank.weight[bank.guided].sum()
        return found

    without = of_guide(guided(others, 1.0))
    assert of_guide(guided(wrong, 1e6)) == pytest.approx(without, abs=0.015)
    assert np.abs(of_guide(guided(wrong, 1.0)) - without).max() > 0.04


def test_a_race_that_finds_a_noisy_layout_keeps_its_guide() -> None:
    race, random, truth = Race(GOAL, 1), Random(1), np.log(network_surface(0.02))
    for number in range(16 * len(LAYOUTS)):
        k = number % len(LAYOUTS)
        value = exp(truth[k] + (0.15 if k == 3 else 0.02) * random.gauss())
        race.learn([Observed(LAYOUTS[k], value, number, 700.0 * number, 700.0 * number + 60, 600.0)])

    bank = race._bank()
    noisy = bank.noise_scale != 1
    assert noisy.tolist() == [k == 3 for k in range(len(LAYOUTS))]
    assert bank.guided.any()


def test_filters_of_a_guide_start_with_the_noise_that_each_layout_has_shown() -> None:
    guide, bank = Guide(LAYOUTS, CORES, lengths_vary=False), smooth_posterior(LAYOUTS, lengths_vary=False)
    for one in windows(40):
        guide.observe(bank, *one)

    variance = bank.own_squares.sum(axis=1) / bank.own_df.sum()
    assert variance[bank.guided] == pytest.approx(variance[~bank.guided].mean(), rel=0.5)


def test_a_window_of_a_layout_seen_before_is_no_test_of_the_guide() -> None:
    guide, bank = Guide(LAYOUTS, CORES, lengths_vary=False), smooth_posterior(LAYOUTS, lengths_vary=False)
    truth = np.log(network_surface())
    for number in range(30):
        k = number % 5
        guide.observe(bank, k, truth[k] + 0.01 * (-1) ** number, 720.0 * number, 600.0)

    assert guide.guidance.n_held_out == 0
    assert guide.guidance.error_ratio is None


# ------------------------------------------------------------------ in a race


@pytest.mark.parametrize(
    ("change", "may"),
    [
        ({}, True),
        ({"kind": "strict"}, False),
        ({"cores": None}, False),
        ({"guided": False}, False),
        ({"layouts": LAYOUTS[:12]}, True),
        ({"layouts": LAYOUTS[:11]}, False),
        ({"layouts": (*LAYOUTS, replace(LAYOUTS[0], variant="b"))}, False),
        ({"layouts": tuple(Layout(p, t) for p in range(1, 21) for t in range(1, 21))}, False),
        ({"layouts": (*LAYOUTS, Layout(40, 40))}, False),
    ],
)
def test_a_guide_is_for_calibrated_races_over_layouts_that_the_network_can_tell_apart(
    change: dict[str, Any], may: bool
) -> None:
    assert may_guide(replace(GOAL, **change)) == may


@pytest.mark.parametrize("surface", [network_surface(0.03), unlike_any_network()])
def test_no_layout_is_named_without_windows_of_its_own(surface: list[float]) -> None:
    race, launched = Race(replace(GOAL, within=0.05), 3), dict[Layout, int]()
    blocks = led(race, suite(surface))
    for proposals, answer in blocks:
        for one in proposals:
            launched[one.layout] = launched.get(one.layout, 0) + 1
        assert answer.layout in launched
        assert set(answer.ties) <= set(launched)
        assert not answer.reached or launched[answer.layout] >= 2
        assert answer.guidance is not None

    assert blocks[-1][1].reached


def test_a_wrong_model_is_left_and_the_race_continues_to_its_answer() -> None:
    surface = unlike_any_network()
    blocks = led(Race(replace(GOAL, within=0.05), 2), suite(surface))
    last = blocks[-1][1]

    assert last.reached
    assert last.guidance is not None
    assert not last.guidance.used
    assert last.layout is not None
    assert surface[LAYOUTS.index(last.layout)] >= 0.95 * max(surface)


def test_without_a_guide_a_race_is_what_it_is_where_nobody_knows_the_cores() -> None:
    source = suite(network_surface(0.03))
    plain = led(Race(replace(GOAL, guided=False), 1), source)
    unknown = led(Race(replace(GOAL, cores=None), 1), source)

    assert repr(plain) == repr(unknown)
    assert plain[-1][1].guidance is None


def test_strict_is_never_guided() -> None:
    blocks = led(Race(replace(GOAL, kind="strict"), 1), suite(network_surface()), n_blocks=3)

    assert all(answer.guidance is None for _, answer in blocks)


def test_the_same_seed_and_windows_give_the_same_proposals_and_answers() -> None:
    source = suite(network_surface(0.03))
    one, two = (led(Race(GOAL, 5), source) for _ in range(2))

    assert len(one) > 5
    assert repr(one) == repr(two)


@pytest.mark.parametrize("n_blocks", [1, 2, 5, 12])
def test_a_guided_race_shown_the_windows_of_another_continues_as_that_one(n_blocks: int) -> None:
    source, seen = suite(network_surface(0.03)), []
    first, box = Race(GOAL, 5), source.box(0, "luck")
    for _ in range(n_blocks):
        seen.append([window for proposal in first.propose() for window in box.take(proposal)])
        first.learn(seen[-1])
        first.expected_rest()  # looking ahead tells the guide nothing
    resumed = Race(GOAL, 5)
    for of_block in seen:
        resumed.learn(of_block)

    assert repr(resumed.answer()) == repr(first.answer())
    assert repr(resumed.estimates()) == repr(first.estimates())
    assert repr(list(resumed.propose())) == repr(list(first.propose()))


def test_layouts_that_cannot_run_are_no_matter_to_the_guide() -> None:
    race, box = Race(replace(GOAL, within=0.05), 4), suite(network_surface(0.02)).box(0, "")
    first = list(race.propose())
    broken = first[0].layout
    race.learn([window for one in first[1:] for window in box.take(one)], [broken])
    while proposals := race.propose():
        assert broken not in {one.layout for one in proposals}
        race.learn([window for one in proposals for window in box.take(one)])

    assert race.answer().reached
    assert race.answer().layout != broken
