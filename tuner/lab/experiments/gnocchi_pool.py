"""Model of a gnocchi batch: its time in a loop and in a pool, and the wait from which a pool pays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, log
from typing import Any

from tuner.core.model.pools import PoolCosts, PoolRun, run_waiting_pool
from tuner.lab.experiments.experiment import At, Spread

N_SERIES = 8
_LEAST_S, _MOST_S = 1e-7, 1e-1  #: smallest and largest cost of the pool in the fit, in seconds

Store = tuple[str, float]  #: target, and additional delay of its replies in microseconds
Measured = Mapping[At, Mapping[str, Spread]]


@dataclass(frozen=True, slots=True)
class Operation:
    """Time in seconds that one thread needs for a series: with the GIL, and without."""

    busy_s: float
    wait_s: float

    @property
    def batch_s(self) -> float:
        """Time in seconds of all series, one after another."""
        return N_SERIES * (self.busy_s + self.wait_s)


def operations_of(runs: Measured) -> dict[Store, Operation]:
    """Return the operation at each store, from its row of one thread."""
    return {
        store_of(at): Operation(1e-6 * values["busy_us"].median, 1e-6 * values["wait_us"].median)
        for at, values in runs.items()
        if n_threads_of(at) == 1
    }


def pool_costs(runs: Measured) -> PoolCosts | None:
    """Return the costs of a pool and of each thread in it, as the best fit to a few rows of *runs*.

    None: no pool ran on a store that also ran with one thread.
    """
    import numpy as np
    from scipy.optimize import least_squares

    operations = operations_of(runs)
    rows = [
        (operations[store_of(at)], n_threads_of(at), runs[at]["batch_ms"].median) for at in pool_rows(runs)
    ]
    if not rows:
        return None

    def errors(logs: Any) -> list[float]:
        costs = PoolCosts(float(np.exp(logs[0])), 0.0, float(np.exp(logs[1])))
        return [log(1e3 * run_of(operation, n, costs).total_s / took_ms) for operation, n, took_ms in rows]

    found = [
        least_squares(
            errors,
            np.log(guess),
            bounds=np.log([_LEAST_S, _MOST_S]),
            loss="soft_l1",
            f_scale=0.1,
            diff_step=1e-2,
        )
        for guess in ((1e-3, 3e-5), (1e-4, 1e-4), (1e-5, 5e-4))  # the function has kinks
    ]
    start_s, thread_s = np.exp(min(found, key=lambda one: float(one.cost)).x)
    return PoolCosts(float(start_s), 0.0, float(thread_s))


def break_even_wait_s(n_threads: int, costs: PoolCosts) -> float:
    """Return the wait of each operation from which a pool of *n_threads* threads pays, in seconds.

    A loop waits N_SERIES times, a pool as often as its busiest thread; and the pool has to be created.
    """
    n_saved = N_SERIES - ceil(N_SERIES / n_threads)
    return (costs.start_s + min(n_threads, N_SERIES) * costs.thread_s) / n_saved


def store_of(at: At) -> Store:
    """Return the store of a point's series."""
    return str(at[0]), float(at[1])


def n_threads_of(at: At) -> int:
    """Return the number of threads of a point."""
    return int(at[2])


def numbers_of_pools(runs: Measured) -> list[int]:
    """Return the numbers of threads that ran in a pool."""
    return sorted({n_threads_of(at) for at in runs} - {1})


def pool_rows(runs: Measured) -> list[At]:
    """Return the rows to which the pool's costs are fitted."""
    operations = operations_of(runs)
    numbers: dict[Store, list[int]] = {}  # of stores that also have a row of one thread
    for at in runs:
        if store_of(at) in operations and n_threads_of(at) > 1:
            numbers.setdefault(store_of(at), []).append(n_threads_of(at))
    if not numbers:
        return []
    ends = [pick(numbers, key=lambda one: operations[one].wait_s) for pick in (min, max)]
    picked = [(*store, float(pick(numbers[store]))) for store in ends for pick in (min, max)]
    return list(dict.fromkeys(picked))


def run_of(operation: Operation, n_threads: int, costs: PoolCosts | None) -> PoolRun:
    """Return the modelled batch: a loop, or a queue for the GIL; *costs* None is for loops only."""
    if n_threads == 1 or costs is None:
        return PoolRun(operation.batch_s, 1, N_SERIES * operation.busy_s)
    costs = PoolCosts(costs.start_s, operation.busy_s, costs.thread_s)
    return run_waiting_pool(N_SERIES, operation.wait_s, n_threads, costs)
