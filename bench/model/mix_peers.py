"""Predictors: the network, the simulation, the bounds of queueing theory, the Universal Scalability Law.

The network, the simulation and the bounds use only the windows of 1x1. The scalability laws use all windows
of half of the layouts, because they need several layouts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np
from mix_points import Measured, Point
from numpy.typing import NDArray

from tuner.core.domain.layout import Layout
from tuner.core.model.demand import NO_TERMS, Demands, Terms
from tuner.core.model.machine import Machine
from tuner.core.model.network import predict

Array = NDArray[np.float64]
N_ITEMS, N_WARM_ITEMS = 100_000, 5_000  #: of a simulation: its own error is then a fraction of 1 %


@dataclass(frozen=True)
class Predicted:
    """Prediction of a model for a layout; None: it predicts nothing."""

    throughput_per_s: float
    load: float | None = None
    gil_utilization_ratio: float | None = None


def on_box(machine: Machine, one: Measured) -> Machine:
    """Return *machine* without the cores that other processes used while a layout was measured."""
    return replace(machine, foreign_cores=one.others_cores)


def by_network(
    demands: Demands, machine: Machine, measured: Mapping[Layout, Measured], terms: Terms = NO_TERMS
) -> dict[Layout, Predicted]:
    """The analytic network."""
    found = {}
    for layout, one in measured.items():
        result = predict(demands, on_box(machine, one), [layout], terms)
        found[layout] = Predicted(
            float(result.throughput_per_s[0]), float(result.load[0]), float(result.gil_utilization_ratio[0])
        )
    return found


def by_simulation(
    demands: Demands, machine: Machine, measured: Mapping[Layout, Measured], seed: int = 1
) -> dict[Layout, Predicted]:
    """The same network, event by event.

    Raises:
        ConfigError: the program is not built.
    """
    from tuner.adapters.virtual.simulator import simulate_all
    from tuner.core.model.simulation.scenario import scenario_of

    scenarios = [
        scenario_of(
            demands, on_box(machine, one), layout, seed=seed, n_items=N_ITEMS, n_warm_items=N_WARM_ITEMS
        )
        for layout, one in measured.items()
    ]
    return {
        layout: Predicted(result.throughput_per_s, result.load, result.gil_utilization_ratio)
        for layout, result in zip(measured, simulate_all(scenarios), strict=True)
    }


def by_bounds(
    demands: Demands, machine: Machine, measured: Mapping[Layout, Measured]
) -> dict[Layout, Predicted]:
    """Return min(N/R, C/cpu, P/g): no waits, or one station is always busy (Lazowska et al., chapter 5)."""
    found = {}
    for layout, one in measured.items():
        bounds = [layout.total_threads / demands.total_s]
        if demands.cpu_s:
            bounds.append(on_box(machine, one).free_cores / demands.cpu_s)
        if demands.gil_s and machine.has_gil:
            bounds.append(layout.processes / demands.gil_s)
        found[layout] = Predicted(min(bounds))
    return found


def half_of(layouts: Sequence[Layout]) -> list[Layout]:
    """Return every other layout from few workers to many, and 1x1: the input of the scalability laws."""
    return sorted(layouts, key=lambda one: (one.total_threads, one.processes))[::2]


def usl(n: Array, base: float, contention: float, coherency: float) -> Array:
    """The law: throughput of *n* workers. Source: Gunther, Guerrilla capacity planning (2007)."""
    return base * n / (1 + contention * (n - 1) + coherency * n * (n - 1))


def usl_2d(
    layouts: tuple[Array, Array], base: float, of_p: float, of_p2: float, of_t: float, of_t2: float
) -> Array:
    """The law for processes times the law for the threads of one, of (processes, threads)."""
    processes, threads = layouts
    return base * usl(processes, 1.0, of_p, of_p2) * usl(threads, 1.0, of_t, of_t2)


def by_usl(points: Sequence[Point], layouts: Sequence[Layout]) -> dict[Layout, Predicted]:
    """Fitted to *points*, in the number of workers.

    Raises:
        ValueError: points of less than 3 numbers of workers.
    """
    n = np.asarray([point.layout.total_threads for point in points], dtype=float)
    if len(set(n)) < 3:
        raise ValueError("three numbers of workers are needed for a law of three parameters")
    fitted = _fitted(usl, n, points, 3)
    wanted = np.asarray([layout.total_threads for layout in layouts], dtype=float)
    return _told(layouts, usl(wanted, *fitted))


def by_usl_2d(points: Sequence[Point], layouts: Sequence[Layout]) -> dict[Layout, Predicted]:
    """Fitted to *points*, in processes and threads.

    Raises:
        ValueError: points of less than 5 layouts.
    """
    if len({point.layout for point in points}) < 5:
        raise ValueError("five layouts are needed for a law of five parameters")
    fitted = _fitted(usl_2d, _both([point.layout for point in points]), points, 5)
    return _told(layouts, usl_2d(_both(layouts), *fitted))


def _fitted(law: object, x: object, points: Sequence[Point], n_parameters: int) -> Array:
    from scipy.optimize import curve_fit

    y = np.asarray([point.throughput_per_s for point in points])
    one_worker = fmean(point.throughput_per_s / point.layout.total_threads for point in points)
    start = [one_worker] + [0.1, 0.01] * ((n_parameters - 1) // 2)
    # sigma: errors count as ratios, as they are told
    fitted: Array = curve_fit(law, x, y, p0=start, sigma=y, bounds=(0, np.inf), max_nfev=20_000)[0]
    return fitted


def _both(layouts: Sequence[Layout]) -> tuple[Array, Array]:
    processes = np.asarray([layout.processes for layout in layouts], dtype=float)
    return processes, np.asarray([layout.threads for layout in layouts], dtype=float)


def _told(layouts: Sequence[Layout], throughput: Array) -> dict[Layout, Predicted]:
    return {layout: Predicted(float(value)) for layout, value in zip(layouts, throughput, strict=True)}
