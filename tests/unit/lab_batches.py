"""Batches of the published experiments as the model runs them: each takes milliseconds, and is run once."""

from __future__ import annotations

from functools import cache

from tuner.core.model.pools import PoolCosts, PoolRun, run_waiting_pool
from tuner.lab.experiments.nornir import N_TASKS


@cache
def batch_of(wait_s: float, n_workers: int, costs: PoolCosts) -> PoolRun:
    """The batch of nornir's and of Gornir's experiment on a pool with these costs."""
    return run_waiting_pool(N_TASKS, wait_s, n_workers, costs)
