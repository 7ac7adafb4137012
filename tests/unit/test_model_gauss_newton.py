"""Least squares between bounds, by steps from nearby: as good as a slower way, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from scipy.optimize import lsq_linear

from tuner.core.domain.layout import Layout
from tuner.core.model.calibration import joint_fit
from tuner.core.model.calibration.gauss_newton import bounded_step, least_squares_near
from tuner.core.model.calibration.joint_fit import Problem
from tuner.core.model.calibration.left_out import gains_of_terms, nearly_without
from tuner.core.model.calibration.per_item import by_layout
from tuner.core.model.demand import Array, Demands, Terms
from tuner.core.model.machine import Machine

from .synthetic_clocks import BOX, GRID, Noise, layouts, study_of

ITEMS = {
    "python": Demands(0.034, child_s=0.009, asleep_s=0.017),
    "native": Demands(0.012, 0.03, asleep_s=0.025),
    "blocked": Demands(0.015, child_s=0.012, asleep_s=0.02, blocked_s=0.05),
    "children": Demands(0.002, child_s=0.2, asleep_s=0.001),
    "asleep": Demands(0.001, asleep_s=0.5),
}
FEW = layouts("1x1", "1x4", "4x1", "2x4")
WITHOUT_1X1 = layouts("1x2", "2x2", "4x4", "8x1")
Look = Callable[[Array], tuple[Array, Array]]


@pytest.mark.parametrize("item", ITEMS.values(), ids=ITEMS)
@pytest.mark.parametrize("measured", [FEW, GRID, WITHOUT_1X1], ids=["few", "grid", "without 1x1"])
@pytest.mark.parametrize("terms", [(), ("convoy_ratio",), ("process_cores", "threaded_asleep_s")])
@pytest.mark.parametrize("box", [BOX, Machine(8, physical_cores=4, smt_gain_ratio=0.3)], ids=["box", "smt"])
def test_a_fit_is_no_worse_than_scipys_from_the_same_place(
    monkeypatch: pytest.MonkeyPatch,
    item: Demands,
    measured: Sequence[Layout],
    terms: Sequence[str],
    box: Machine,
) -> None:
    windows = study_of(item, measured, terms=Terms(convoy_ratio=0.1), noise=Noise(misfit=0.02), seed=7)
    problem = Problem(by_layout(windows), box, 0.02)
    found = problem.fit(list(problem.items), terms)
    monkeypatch.setattr(joint_fit, "least_squares_near", lambda *_: None)
    slower = problem.fit(list(problem.items), terms)

    assert found.cost <= slower.cost + 0.01  # a seventh of a standard deviation, where the model has a kink


def test_nearly_all_fits_settle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the test above would compare scipy with itself."""
    settled = []

    def noted(look: Look, at: Array, most: Array) -> Array | None:
        found = least_squares_near(look, at, most)
        settled.append(found is not None)
        return found

    monkeypatch.setattr(joint_fit, "least_squares_near", noted)
    for item in ITEMS.values():
        for measured in (FEW, GRID, WITHOUT_1X1):
            windows = study_of(item, measured, noise=Noise(misfit=0.02), seed=7)
            problem = Problem(by_layout(windows), BOX, 0.02)
            problem.fit(list(problem.items))

    assert sum(settled) >= len(settled) - 1


@pytest.mark.parametrize("item", ITEMS.values(), ids=ITEMS)
def test_a_fit_that_begins_nearby_comes_to_where_one_from_afar_does(item: Demands) -> None:
    windows = study_of(item, GRID, terms=Terms(convoy_ratio=0.1), noise=Noise(misfit=0.02), seed=9)
    problem = Problem(by_layout(windows), BOX, 0.02)
    base = problem.fit(list(problem.items))
    gain = gains_of_terms(problem, ["convoy_ratio"], base)["convoy_ratio"]
    near = [problem.fit(list(problem.items), ("convoy_ratio",), gain.near)]
    afar = [problem.fit(list(problem.items), ("convoy_ratio",))]
    for fold in ([GRID[1]], [GRID[3], GRID[-1]], [Layout(1, 1)]):
        seen = problem.without(fold)
        near.append(seen.fit(list(seen.items), (), nearly_without(problem, fold, base)))
        afar.append(seen.fit(list(seen.items)))

    assert [one.cost for one in near] == pytest.approx([one.cost for one in afar], abs=0.01)


def line(x: Array, y: Array) -> Look:
    jacobian = -np.stack([np.ones_like(x), x], axis=1)
    return lambda at: (y - at[0] - at[1] * x, jacobian)


def test_what_is_linear_takes_one_step() -> None:
    x = np.arange(5.0)
    looks: list[Array] = []
    look = line(x, 2 + 3 * x + np.array([0.1, -0.1, 0.0, -0.1, 0.1]))

    def counted(at: Array) -> tuple[Array, Array]:
        looks.append(at)
        return look(at)

    found = least_squares_near(counted, np.zeros(2), np.full(2, np.inf))
    assert found == pytest.approx([2.0, 3.0])
    assert len(looks) == 2


def test_a_bound_is_kept_and_lain_on() -> None:
    x = np.arange(5.0)

    assert least_squares_near(line(x, 2 + 3 * x), np.zeros(2), np.array([np.inf, 1.0]))[1] == 1.0  # type: ignore[index]
    assert least_squares_near(line(x, 2 - 3 * x), np.ones(2), np.full(2, np.inf))[1] == 0.0  # type: ignore[index]


def test_a_step_that_is_too_long_is_halved() -> None:
    """From 3 the tangent of atan leads far beyond 0 and up again."""

    def look(at: Array) -> tuple[Array, Array]:
        return np.arctan(at - 5), (1 / (1 + (at - 5) ** 2))[:, None]

    found = least_squares_near(look, np.array([8.0]), np.array([np.inf]))
    assert found == pytest.approx([5.0], abs=1e-6)


def test_what_does_not_settle_is_left_to_something_slower() -> None:
    """The slopes point the wrong way: every step makes it worse."""

    def look(at: Array) -> tuple[Array, Array]:
        return at - 5.0, -np.ones((1, 1))

    assert least_squares_near(look, np.array([1.0]), np.array([np.inf])) is None


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_no_number_is_left_to_something_slower(value: float) -> None:
    begin, most = np.array([1.0]), np.array([np.inf])

    assert least_squares_near(lambda _: (np.array([value]), np.ones((1, 1))), begin, most) is None
    assert least_squares_near(lambda _: (np.ones(1), np.array([[value]])), begin, most) is None

    def later(at: Array) -> tuple[Array, Array]:
        return at - 5, np.array([[1.0 if at[0] == begin[0] else value]])

    assert least_squares_near(later, begin, most) is None


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("alike", [1.0, 0.1], ids=["columns of any kind", "columns that are nearly alike"])
def test_a_step_stays_within_the_bounds_and_is_the_best_of_these(seed: int, alike: float) -> None:
    random = np.random.default_rng(seed)
    jacobian, off = random.normal(size=(12, 6)), random.normal(size=12)
    jacobian[:, 0] = alike * jacobian[:, 0] + (1 - alike) * (jacobian[:, 1] + jacobian[:, 2])
    at, most = random.uniform(0, 1, 6), np.array([np.inf, 1.0, 1.0, np.inf, 1.0, np.inf])
    step = bounded_step(jacobian, off, at, most)
    best = lsq_linear(jacobian, -off, bounds=(-at, most - at), tol=1e-12)

    assert (at + step >= -1e-12).all()
    assert (at + step <= most + 1e-12).all()
    assert float(((off + jacobian @ step) ** 2).sum()) <= 2 * float(best.cost) * (1 + 1e-6)
