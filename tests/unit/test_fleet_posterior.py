"""The bank of several boxes against an oracle: the covariance matrix of all windows at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log, sqrt
from random import Random

import numpy as np
import pytest

from tuner.core.domain.layout import Layout
from tuner.core.search.fleet_posterior import FleetPosterior
from tuner.core.search.posterior import (
    DIFFUSE,
    LENGTH_REF_S,
    Array,
    Posterior,
    flat_posterior,
    smooth_posterior,
)

CLOSE = 1e-5
GRID = [Layout(4, 2), Layout(2, 4), Layout(8, 1), Layout(1, 8)]


@dataclass(frozen=True)
class Seen:
    """One window."""

    layout: int
    box: str
    value: float
    at_s: float
    length_s: float


def some_windows(
    n: int, seed: int, *, n_layouts: int = 4, n_boxes: int = 3, apart: float = 0.05, noise: float = 0.05
) -> list[Seen]:
    """Layouts and boxes in random order, each box on a clock of its own."""
    random = Random(seed)
    levels = [6.0 + random.gauss(0, 0.2) for _ in range(n_layouts)]
    boxes = {f"box-{n}": random.gauss(0, 0.3) for n in range(1, n_boxes + 1)}
    own = {(k, box): random.gauss(0, apart) for k in range(n_layouts) for box in boxes}
    at_s = {box: random.uniform(0, 3000) for box in boxes}
    windows = []
    for _ in range(n):
        layout, box = random.randrange(n_layouts), random.choice(list(boxes))
        length_s = random.choice([60.0, 300.0, 600.0])
        at_s[box] += 45.0 + length_s + random.uniform(0, 500)
        value = levels[layout] + boxes[box] + own[layout, box] + random.gauss(0, noise)
        windows.append(Seen(layout, box, value, at_s[box], length_s))
    return windows


def fed(bank: FleetPosterior, windows: Sequence[Seen]) -> FleetPosterior:
    for one in windows:
        bank.observe(one.layout, one.value, one.at_s, one.length_s, one.box)
    return bank


def flat(n_layouts: int = 4) -> FleetPosterior:
    return FleetPosterior(flat_posterior(n_layouts, lengths_vary=True))


def smooth() -> FleetPosterior:
    return FleetPosterior(smooth_posterior(GRID, lengths_vary=False))


class Oracle:
    """One filter's posterior, from all windows at once.

    Unknown: the layouts, all boxes but the first; where layouts are alike, all boxes, which are as well.
    """

    def __init__(self, fresh: FleetPosterior, row: int, windows: Sequence[Seen]) -> None:
        prior, share, apart = fresh.covariance[row], fresh.share[row], fresh.apart[row]
        ratio, tau_s = fresh.ratio[row], fresh.tau_s[row]
        boxes = list(dict.fromkeys(one.box for one in windows))
        k, n = len(prior), len(windows)
        y = np.array([one.value - windows[0].value for one in windows])
        at_s = np.array([one.at_s for one in windows])
        layout, box = np.array([one.layout for one in windows]), np.array([one.box for one in windows])
        same_box = box[:, None] == box
        rest = ratio**2 * np.exp(-np.abs(at_s[:, None] - at_s) / tau_s) * same_box
        rest += apart**2 * (same_box & (layout[:, None] == layout))
        rest += np.diag([1 - share + share * LENGTH_REF_S / one.length_s for one in windows])
        design = np.zeros((n, k + len(boxes)))
        design[range(n), layout] = 1.0
        design[range(n), [k + boxes.index(one) for one in box]] = 1.0
        is_flat = fresh._skips_first
        # of what nothing is known a window may tell the level alone; then it does not count
        self.rank_grows = _rank_grows(design) if is_flat else np.arange(n) == 0
        if is_flat:
            design = np.delete(design, k, axis=1)
        whole = np.diag(np.full(design.shape[1], DIFFUSE if is_flat else fresh.level_sd[row] ** 2))
        whole[:k, :k] = prior
        weighed = np.linalg.solve(rest, design)
        self.cov = np.linalg.inv(np.linalg.inv(whole) + design.T @ weighed)
        self.mean = self.cov @ weighed.T @ y
        factor = np.linalg.cholesky(design @ whole @ design.T + rest)
        surprises = np.linalg.solve(factor, y)
        counts = ~self.rank_grows
        self.df = fresh.df + counts.sum()
        squares = fresh._squares[row] + (surprises[counts] ** 2).sum()
        self.sigma2 = squares / max(self.df, 1)
        self.evidence = -np.log(np.diag(factor)[counts]).sum() - self.df / 2 * np.log(max(squares, 1e-300))
        self.boxes, self.k = boxes, k

    def contrast(self, weights: Array) -> tuple[float, float]:
        return float(weights @ self.mean), float(weights @ self.cov @ weights * self.sigma2)

    def of_layout(self, layout: int, *, on_average: bool) -> Array:
        weights = np.zeros(len(self.mean))
        weights[layout] = 1.0
        if on_average:
            weights[self.k :] = 1 / len(self.boxes)
        return weights

    def of_box(self, box: str) -> Array:
        weights = np.zeros(len(self.mean))
        weights[self.k :] = -1 / len(self.boxes)
        if box != self.boxes[0]:
            weights[self.k + self.boxes.index(box) - 1] += 1.0
        return weights


def _rank_grows(design: Array) -> Array:
    """Per window: whether it tells of a level that nothing was known of."""
    ranks = [0, *(int(np.linalg.matrix_rank(design[: n + 1])) for n in range(len(design)))]
    return np.diff(ranks) > 0


def weights_of(found: Sequence[Oracle], log_prior: Array) -> Array:
    log_weight = np.array([one.evidence for one in found]) + log_prior
    weight: Array = np.exp(log_weight - log_weight.max())
    return weight / weight.sum()


def rows_of(bank: FleetPosterior, fresh: FleetPosterior) -> list[int]:
    """Which of the fresh filters are left."""

    def of(one: FleetPosterior) -> list[tuple[float, ...]]:
        priors = [float(row) for row in one.log_prior]
        return list(zip(one.share, one.ratio, one.tau_s, one.apart, priors, strict=True))

    return [of(fresh).index(one) for one in of(bank)]


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("n", [1, 3, 9, 14, 60])
def test_each_filter_knows_what_all_windows_of_all_boxes_at_once_tell(n: int, seed: int) -> None:
    windows, fresh = some_windows(n, seed), flat()
    bank = fed(flat(), windows)
    found = [Oracle(fresh, row, windows) for row in rows_of(bank, fresh)]

    assert bank.df == found[0].df
    if bank.df:
        assert bank.sigma2 == pytest.approx(np.array([one.sigma2 for one in found]), rel=CLOSE)
    seen = {one.layout for one in windows}
    for i in seen:
        gap, variance = bank.gaps(i)
        for j in seen - {i}:
            expected = [
                one.contrast(one.of_layout(i, on_average=False) - one.of_layout(j, on_average=False))
                for one in found
            ]
            assert gap[:, j] == pytest.approx(np.array([mean for mean, _ in expected]), rel=CLOSE, abs=1e-6)
            assert variance[:, j] == pytest.approx(np.array([var for _, var in expected]), rel=1e-4, abs=1e-9)
    whole = weights_of(found, bank.log_prior)
    assert bank.weight == pytest.approx(whole, rel=1e-3, abs=1e-9)


def test_where_layouts_are_alike_it_knows_that_as_well() -> None:
    windows, fresh = some_windows(40, 4), smooth()
    bank = fed(smooth(), windows)
    rows = rows_of_priors(bank, windows)
    found = [Oracle(fresh, row, windows) for row in rows]

    assert bank.df == found[0].df == 1.5 + 40 - 1
    assert bank.sigma2 == pytest.approx(np.array([one.sigma2 for one in found]), rel=1e-4)
    assert bank.weight == pytest.approx(weights_of(found, fresh.log_prior[rows]), rel=1e-3, abs=1e-9)


def rows_of_priors(bank: FleetPosterior, windows: Sequence[Seen]) -> list[int]:
    """Which filters are left, where noises alone do not tell: by leading the numbers of rows along."""
    marked = smooth()
    numbers = np.arange(len(marked.share), dtype=float)
    marked.log_prior = marked.log_prior + 1e-9 * numbers
    fed(marked, windows)
    assert len(marked.share) == len(bank.share)
    return [round(float(one)) for one in (marked.log_prior - bank.log_prior) / 1e-9]


def test_a_layout_s_level_is_that_of_boxes_on_average_and_a_box_s_relative_to_it() -> None:
    windows, fresh = some_windows(30, 5), flat()
    bank = fed(flat(), windows)
    found = [Oracle(fresh, row, windows) for row in rows_of(bank, fresh)]
    weight = bank.weight

    def mixed(each: list[tuple[float, float]]) -> tuple[float, float]:
        mean = float(sum(w * m for w, (m, _) in zip(weight, each, strict=True)))
        variance = sum(w * (v + (m - mean) ** 2) for w, (m, v) in zip(weight, each, strict=True))
        return mean, float(variance) ** 0.5

    for layout in range(4):
        mean, sd = mixed([one.contrast(one.of_layout(layout, on_average=True)) for one in found])
        assert bank.level(layout) == pytest.approx((windows[0].value + mean, sd), rel=1e-4)
    levels = bank.box_levels(0.95)
    for box in ("box-1", "box-2", "box-3"):
        mean, sd = mixed([one.contrast(one.of_box(box)) for one in found])
        one = levels[box]
        assert one.mean == pytest.approx(exp(mean), rel=1e-4)
        assert one.low is not None
        assert one.high is not None
        assert log(one.high / one.low) / (2 * sd) == pytest.approx(1.96, rel=0.1)  # Student's t, df 25


def test_with_one_box_it_knows_what_the_bank_of_one_box_does() -> None:
    windows = some_windows(11, 6, n_boxes=1)
    plain = flat_posterior(4, lengths_vary=True)
    for one in windows:
        plain.observe(one.layout, one.value, one.at_s, one.length_s)
    bank = fed(flat(), windows)
    alike = bank.apart == 0

    assert (bank.df, bank.n_replicates, list(bank.n_of)) == (plain.df, plain.n_replicates, list(plain.n_of))
    for layout in range(4):
        for ours, theirs in zip(bank.gaps(layout), plain.gaps(layout), strict=True):
            assert ours[alike] == pytest.approx(theirs, rel=CLOSE, abs=1e-8)


def test_the_first_window_of_a_box_says_nothing_of_layouts_nor_of_the_noise() -> None:
    windows = some_windows(12, 7, n_boxes=2)
    bank = fed(flat(), windows)
    before = (bank.df, bank.n_replicates, bank.means(), bank.gaps(0))
    bank.observe(2, 9.9, windows[-1].at_s, 600.0, "box-9")

    assert (bank.df, bank.n_replicates) == before[:2]
    assert bank.means() == pytest.approx(before[2], abs=1e-4)
    for now, then in zip(bank.gaps(0), before[3], strict=True):
        assert now == pytest.approx(then, rel=1e-3, abs=1e-4)


def test_which_box_was_first_does_not_matter() -> None:
    windows = some_windows(13, 8)
    other = sorted(windows, key=lambda one: (one.box != "box-3", one.at_s))
    bank, turned = fed(flat(), windows), fed(flat(), other)

    assert bank.df == turned.df
    for ours, theirs in zip(bank.gaps(1), turned.gaps(1), strict=True):
        assert ours == pytest.approx(theirs, rel=1e-3, abs=1e-5)


# ------------------------------------------------------------------ what boxes do


def test_a_box_that_is_slower_is_seen_with_an_interval() -> None:
    random = Random(9)
    bank = flat()
    for number in range(64):
        layout, box = number // 4 % 4, f"box-{number % 4 + 1}"
        value = 6 + 0.1 * layout + (log(0.88) if box == "box-3" else 0.0) + random.gauss(0, 0.02)
        bank.observe(layout, value, 720.0 * (number // 4), 600.0, box)
    levels = bank.box_levels(0.95)
    slow = levels["box-3"]

    assert slow.mean == pytest.approx(0.88**0.75, abs=0.02)  # the mean of boxes is lower for it
    assert slow.high is not None
    assert slow.high < 1
    assert all(one.low is not None and one.low > 1 for box, one in levels.items() if box != "box-3")
    assert apart_sd(bank) == pytest.approx(0.0, abs=0.02)


def test_what_layouts_have_apart_on_boxes_is_reported_from_noise() -> None:
    def after(apart: float) -> FleetPosterior:
        random, bank = Random(10), flat()
        own = {(layout, box): random.gauss(0, apart) for layout in range(4) for box in range(6)}
        for number in range(120):
            layout, box = number // 6 % 4, number % 6
            value = 6 + own[layout, box] + random.gauss(0, 0.02)
            bank.observe(layout, value, 720.0 * (number // 6), 600.0, f"box-{box}")
        return bank

    apart, alike = after(0.08), after(0.0)

    assert apart.weight[apart.apart == 0].sum() < 1e-6
    assert apart_sd(apart) == pytest.approx(0.08, rel=0.5)
    assert alike.weight[alike.apart == 0].sum() > 0.5
    assert apart_sd(alike) == pytest.approx(0.0, abs=0.01)


def apart_sd(bank: FleetPosterior) -> float:
    """What layouts differ by from box to box beside the boxes' levels, of log throughput."""
    return sqrt(float(bank.weight @ (bank.apart**2 * bank.sigma2)))


def test_what_boxes_differ_by_is_left_however_often_they_measure() -> None:
    random, bank = Random(11), flat(2)
    own = {(layout, box): random.gauss(0, 0.1) for layout in range(2) for box in range(2)}
    for number in range(200):
        layout, box = number // 2 % 2, number % 2
        value = 6 + own[layout, box] + random.gauss(0, 0.01)
        bank.observe(layout, value, 720.0 * (number // 2), 600.0, f"box-{box}")

    assert bank.left_by_boxes(0, 1, 2) > 0.9
    assert bank.left_by_boxes(0, 1, 20) < 0.2


# ------------------------------------------------------------------ windows under way


def test_what_is_imagined_changes_variances_as_the_window_will_and_no_mean() -> None:
    windows = some_windows(10, 12)
    bank = fed(flat(), windows)
    ahead = bank.thinned(len(bank.share))
    at_s = windows[-1].at_s + 900
    means, result = ahead.mean.copy(), bank.expected_information(1, "box-2", 300.0, at_s, between=(0, 1))
    before = gap_variance(ahead)
    ahead.imagine(1, "box-2", 300.0, at_s)
    after = gap_variance(ahead)
    n_of = list(bank.n_of)
    bank.observe(1, 6.3, at_s, 300.0, "box-2")

    assert ahead.mean == pytest.approx(means)
    assert len(ahead.share) == len(bank.share)
    assert ahead.covariance == pytest.approx(bank.covariance, rel=1e-6, abs=1e-6)
    assert list(ahead.n_of) == list(bank.n_of)
    assert sum(ahead.n_of) == sum(n_of) + 1
    assert result == pytest.approx(float(ahead.weight @ (before - after)), rel=1e-6)


def gap_variance(bank: FleetPosterior) -> Array:
    cov = bank.covariance
    found: Array = cov[:, 0, 0] + cov[:, 1, 1] - 2 * cov[:, 0, 1]
    return found


def test_a_window_tells_most_on_a_box_that_has_measured_what_it_is_compared_with() -> None:
    bank = flat(3)
    for number, layout in enumerate([0, 1, 0, 1, 0, 1]):
        bank.observe(layout, 6 + 0.01 * number, 700.0 * number, 600.0, "box-1")
    for number in range(2):
        bank.observe(2, 6.0, 700.0 * number, 600.0, "box-2")
    at_s = 5000.0
    tells = {
        box: bank.expected_information(1, box, 600.0, at_s, between=(0, 1))
        for box in ("box-1", "box-2", "box-9")
    }

    assert tells["box-1"] > 10 * tells["box-2"]
    assert tells["box-9"] < 1e-2 * tells["box-1"]


def test_a_copy_that_imagines_leaves_the_bank_as_it_was() -> None:
    windows = some_windows(20, 13)
    bank = fed(flat(), windows)
    before = [bank.covariance.copy(), bank.mean.copy(), list(bank.n_of), bank.weight.copy()]
    ahead: Posterior = bank.thinned(3)
    assert isinstance(ahead, FleetPosterior)
    ahead.imagine(0, "box-1", 600.0, 1e5)
    ahead.observe(0, 6.0, 1e5, 600.0, "box-9")

    assert (bank.covariance == before[0]).all()
    assert (bank.mean == before[1]).all()
    assert list(bank.n_of) == before[2]
    assert (bank.weight == before[3]).all()
    assert set(bank.box_levels(0.9)) == {"box-1", "box-2", "box-3"}
