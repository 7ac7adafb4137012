"""Possible throughputs of a set of layouts by the network, for many demands.

A *set* of parameters is five numbers, the logarithms of ratios (the last one a logit); throughput is known
up to a factor, so CPU without the GIL counts as 1:

0. CPU with the GIL, 1. waiting, both in units of CPU without the GIL;
2. growth of all CPU with each process beyond one, as a share;
3. growth of CPU with the GIL with each thread beyond one, as a share (hand-overs, cold caches);
4. gain by the second half of the cores: 0 for SMT siblings that add nothing, 1 for separate cores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from tuner.core.domain.layout import Layout
from tuner.core.model.demand import Array, LayoutDemands
from tuner.core.model.machine import Machine
from tuner.core.model.network import solve

N_PARAMETERS = 5

#: Ratios of demands at which the network is solved. Cubic interpolation between them is usually within 1 %.
_GRID = np.linspace(-5.0, 4.0, 11)
_GAINS = (0.0, 1.0)
_AT_ONCE = 2000  #: layouts solved in one call; more do not fit into a cache


@dataclass(frozen=True)
class Normal:
    """A normal distribution of parameters."""

    mean: Array
    covariance: Array

    def log_density(self, sets: Array) -> Array:
        """Return the log density of each of *sets*, (sets, parameters), up to a common constant."""
        root = np.linalg.cholesky(self.covariance)
        away = np.linalg.solve(root, (sets - self.mean).T)
        found: Array = -0.5 * (away**2).sum(axis=0) - np.log(np.diag(root)).sum()
        return found

    def spread(self, n: int) -> Array:
        """Return *n* representative sets, (n, parameters); each call returns the same ones."""
        found: Array = self.mean + _even_normals(n, len(self.mean)) @ np.linalg.cholesky(self.covariance).T
        return found


#: Prior of a service: demands equal within a factor of twenty, losses per process of 0.05 % to 20 % and per
#: thread of 0.01 % to 5 %, and any gain by SMT.
EXPECTED = Normal(np.array([-1.5, -0.5, -4.5, -6.0, 0.0]), np.diag([1.5**2] * N_PARAMETERS))


@lru_cache(maxsize=4)
def _even_normals(n: int, dimensions: int) -> Array:
    """Return standard normals that fill their space evenly, (n, dimensions), by an additive recurrence.

    Source: Roberts, The unreasonable effectiveness of quasirandom sequences (2018).
    """
    root = 2.0
    for _ in range(60):
        root = (1 + root) ** (1 / (dimensions + 1))
    steps = (1 / root) ** np.arange(1, dimensions + 1)
    even = (0.5 + np.arange(1, n + 1)[:, None] * steps) % 1.0
    inside = np.clip(even, 1e-9, 1 - 1e-9).tolist()
    return np.array([[NormalDist().inv_cdf(x) for x in row] for row in inside])


class Surfaces:
    """Solutions of the network for some layouts of a host, on a grid of demands."""

    def __init__(self, layouts: Sequence[Layout], cores: float) -> None:
        self.processes = np.array([one.processes for one in layouts], dtype=float)
        self.threads = np.array([one.threads for one in layouts], dtype=float)
        self._solved = np.array([self._on_grid(cores, gain) for gain in _GAINS])

    def of(self, sets: Array) -> Array:
        """Return the logarithm of the throughput of each set, up to one constant per set: (sets, layouts)."""
        gil, waiting, per_process, per_thread, gain = (sets[:, [n]] for n in range(N_PARAMETERS))
        more = np.log1p(np.exp(per_process) * (self.processes - 1))
        held = gil + more + np.log1p(np.exp(per_thread) * (self.threads - 1))
        cpu = np.logaddexp(held, more)
        i, of_i = _cubic(held - more)
        j, of_j = _cubic(waiting - cpu)
        layout = np.arange(len(self.processes))
        found = np.zeros((len(_GAINS), *cpu.shape))
        for a, b in product(range(4), range(4)):
            found += of_i[a] * of_j[b] * self._solved[:, layout, i[a], j[b]]
        share = 1 / (1 + np.exp(-gain))
        logs: Array = (1 - share) * found[0] + share * found[1] - cpu
        return logs

    def _on_grid(self, cores: float, gain: float) -> Array:
        """Return the logarithm of items/s if an item uses 1 s of CPU: (layouts, GIL ratio, waiting)."""
        machine = Machine(cores, cores / 2, smt_gain_ratio=gain)
        k = len(self.processes)
        ratio, waiting = (one.ravel() for one in np.meshgrid(_GRID, _GRID, indexing="ij"))
        found = []
        step = max(1, _AT_ONCE // k)
        for first in range(0, len(ratio), step):
            some = slice(first, first + step)
            n = len(ratio[some])
            held, nothing = np.repeat(1 / (1 + np.exp(-ratio[some])), k), np.zeros(n * k)
            of = LayoutDemands(
                processes=np.tile(self.processes, n),
                threads=np.tile(self.threads, n),
                gil_s=held,
                python_s=nothing,
                child_s=1 - held,
                asleep_s=np.repeat(np.exp(waiting[some]), k),
                blocked_s=nothing,
                spawn_s=nothing,
                others_s=nothing,
                process_cores=nothing,
            )
            found.append(np.log(solve(of, machine).throughput_per_s))
        on_grid = np.concatenate(found).reshape(len(_GRID), len(_GRID), k)
        return np.moveaxis(on_grid, 2, 0).copy()


def _cubic(x: Array) -> tuple[list[NDArray[np.int64]], list[Array]]:
    """Return the four neighbours of each of *x* on the grid, and their weights (Catmull-Rom)."""
    last = len(_GRID) - 1
    at = np.clip((x - _GRID[0]) / (_GRID[1] - _GRID[0]), 0, last - 1e-9)
    low = at.astype(np.int64)
    f = at - low
    weights = [
        0.5 * (-f + 2 * f**2 - f**3),
        1 - 2.5 * f**2 + 1.5 * f**3,
        0.5 * (f + 4 * f**2 - 3 * f**3),
        0.5 * (f**3 - f**2),
    ]
    return [np.clip(low + step, 0, last) for step in (-1, 0, 1, 2)], weights
