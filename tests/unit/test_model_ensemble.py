"""The surfaces that the network could give: against the network itself."""

from __future__ import annotations

from math import log

import numpy as np
import pytest

from tuner.core.domain.layout import Layout, divisors_grid
from tuner.core.model.demand import Demands, LayoutDemands
from tuner.core.model.ensemble import EXPECTED, N_PARAMETERS, Normal, Surfaces
from tuner.core.model.machine import Machine
from tuner.core.model.network import predict, solve

LAYOUTS = tuple(divisors_grid(8))
CORES = 8.0
NOTHING = -30.0  #: the logarithm of a loss that is none


@pytest.fixture(scope="module")
def surfaces() -> Surfaces:
    return Surfaces(LAYOUTS, CORES)


@pytest.mark.parametrize(("gil", "waiting"), [(0.1, 0.3), (0.5, 1.0), (1.0, 0.05), (3.0, 8.0)])
def test_without_losses_a_surface_is_the_networks(surfaces: Surfaces, gil: float, waiting: float) -> None:
    set_ = np.array([[log(gil), log(waiting), NOTHING, NOTHING, 30.0]])
    (found,) = surfaces.of(set_)
    demands = Demands(gil_s=gil, child_s=1.0, asleep_s=waiting)
    expected = np.log(predict(demands, Machine(CORES), LAYOUTS).throughput_per_s)

    assert found == pytest.approx(expected, abs=0.04)
    assert np.abs(found - expected).mean() < 0.01


def test_losses_grow_with_processes_and_with_threads_and_smt_takes_half_the_cores(surfaces: Surfaces) -> None:
    losses = np.array([[log(0.5), log(1.0), log(0.03), log(0.01), -30.0]])
    p, t = surfaces.processes, surfaces.threads
    more = 1 + 0.03 * (p - 1)
    of = LayoutDemands(
        processes=p,
        threads=t,
        gil_s=0.5 * more * (1 + 0.01 * (t - 1)),
        python_s=0 * p,
        child_s=more,
        asleep_s=1.0 + 0 * p,
        blocked_s=0 * p,
        spawn_s=0 * p,
        others_s=0 * p,
        process_cores=0 * p,
    )
    expected = np.log(solve(of, Machine(CORES, CORES / 2, smt_gain_ratio=0.0)).throughput_per_s)

    assert surfaces.of(losses)[0] == pytest.approx(expected, abs=0.04)


def test_sets_beyond_the_grid_stand_at_its_edge(surfaces: Surfaces) -> None:
    far = np.array([[0.0, 40.0, NOTHING, NOTHING, 0.0], [0.0, 50.0, NOTHING, NOTHING, 0.0]])
    one, other = surfaces.of(far)

    assert np.isfinite(one).all()
    assert one == pytest.approx(other)


def test_sets_that_stand_for_a_normal_have_its_mean_and_covariance_and_are_the_same_each_time() -> None:
    root = np.tril(np.linspace(0.2, 1.0, N_PARAMETERS**2).reshape(N_PARAMETERS, N_PARAMETERS))
    normal = Normal(np.arange(N_PARAMETERS, dtype=np.float64) - 2.0, (root @ root.T).astype(np.float64))
    sets = normal.spread(4000)

    assert sets.mean(axis=0) == pytest.approx(normal.mean, abs=0.02)
    assert np.cov(sets.T) == pytest.approx(normal.covariance, rel=0.05, abs=0.03)
    assert (sets == normal.spread(4000)).all()


def test_the_density_of_a_normal_is_the_formulas() -> None:
    normal = Normal(np.array([1.0, -1.0]), np.array([[2.0, 0.5], [0.5, 1.0]]))
    sets = np.array([[1.0, -1.0], [2.0, 0.0], [-1.0, 3.0]])
    inverse, det = np.linalg.inv(normal.covariance), np.linalg.det(normal.covariance)
    expected = [-0.5 * (x - normal.mean) @ inverse @ (x - normal.mean) - 0.5 * log(det) for x in sets]

    assert normal.log_density(sets) == pytest.approx(expected)


def test_the_order_of_layouts_is_the_callers() -> None:
    some = (Layout(4, 2), Layout(1, 1), Layout(2, 8))
    sets = EXPECTED.spread(5)

    assert Surfaces(some, 4).of(sets)[:, ::-1] == pytest.approx(Surfaces(some[::-1], 4).of(sets))
