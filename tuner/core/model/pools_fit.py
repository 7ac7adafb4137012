"""The costs of a pool of waiting tasks, from how long some batches took."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from tuner.core.model.pools import PoolCosts, PoolRun, Turn, run_waiting_pool

Array = NDArray[np.float64]

GUESS = PoolCosts(0.3, 60e-6, 100e-6, 2e-3)  #: where every fit begins
MOST = PoolCosts(1.5, 1e-3, 1e-3, 1e-2)  #: bounds of the fits
FREE = ("start_s", "task_s", "thread_s", "wake_s")  #: what is fitted, unless said otherwise
NEAR = 0.03  #: a logarithm of an error up to which it is squared
STEP = 3e-3  #: relative, of differences in place of derivatives
N_STARTS = 7


@dataclass(frozen=True, slots=True)
class WaitingBatch:
    """A batch of tasks that wait, and how long all of it took."""

    n_tasks: int
    wait_s: float  #: of each task
    n_workers: int  #: the most threads
    total_s: float


#: (batch, costs, lot) -> seconds, with *lot* tasks, and as many workers, taken as one
TotalS = Callable[[WaitingBatch, PoolCosts, int], float]


def batch_s(batch: WaitingBatch, costs: PoolCosts, lot: int = 1, turn: Turn = "first come") -> float:
    """How long *batch* takes by `run_waiting_pool`, with *lot* tasks, and as many workers, taken as one."""
    costs = replace(costs, task_s=lot * costs.task_s, thread_s=lot * costs.thread_s)
    n_tasks, n_workers = max(1, batch.n_tasks // lot), max(1, batch.n_workers // lot)
    return run_waiting_pool(n_tasks, batch.wait_s, n_workers, costs, turn).total_s


def fit_pool_costs(
    batches: Sequence[WaitingBatch], total_s: TotalS = batch_s, free: Sequence[str] = FREE
) -> PoolCosts:
    """The costs with which *total_s* comes nearest to *batches*; those that are not *free* are 0.

    Errors are logarithms, squared up to NEAR and absolute beyond: single runs have outliers. Sums have
    kinks, where a wave begins or ends, hence several starts; these with ten tasks as one, ten workers as
    one, for speed, and the best of them goes on exactly. The same batches give the same costs.
    """
    guess = np.array([getattr(GUESS, name) / getattr(MOST, name) for name in free])
    noise = np.random.default_rng(1)
    starts = [guess, *(guess * np.exp(noise.uniform(-1, 1, len(guess))) for _ in range(N_STARTS - 1))]
    lots = [_search(batches, total_s, free, np.clip(start, 0.0, 1.0), lot=10, most=30) for start in starts]
    best = min(lots, key=lambda one: float(one.cost))
    exact = _search(batches, total_s, free, best.x, lot=1, most=6)
    return costs_of(free, exact.x)


def residuals(
    batches: Sequence[WaitingBatch], total_s: TotalS, free: Sequence[str], shares: Array, lot: int = 1
) -> Array:
    """Logarithms of modelled over measured, with the costs that *shares* of MOST are."""
    costs = costs_of(free, shares)
    found: Array = np.log([total_s(batch, costs, lot) / batch.total_s for batch in batches])
    return found


def costs_of(free: Sequence[str], shares: Array) -> PoolCosts:
    """The costs that are *shares* of MOST, 0 to 1."""
    value = {name: float(share) * getattr(MOST, name) for name, share in zip(free, shares, strict=True)}
    return PoolCosts(**{field.name: value.get(field.name, 0.0) for field in fields(PoolCosts)})


def cpu_line(runs: Sequence[PoolRun], cpu_s: Sequence[float]) -> tuple[float, float]:
    """CPU time as so much, and so much per thread that was started (seconds), by least squares."""
    design = np.array([[1.0, run.n_threads] for run in runs])
    found = np.linalg.lstsq(design, np.array(cpu_s))[0]
    return float(found[0]), float(found[1])


def _search(
    batches: Sequence[WaitingBatch], total_s: TotalS, free: Sequence[str], start: Array, lot: int, most: int
) -> Any:
    return least_squares(
        lambda at: residuals(batches, total_s, free, at, lot),
        np.clip(start, 1e-9, 1 - 1e-9),
        bounds=(0, 1),
        loss="soft_l1",
        f_scale=NEAR,
        diff_step=STEP,
        x_scale=np.maximum(start, 0.01),
        ftol=1e-4,
        xtol=1e-4,
        max_nfev=most,
    )
