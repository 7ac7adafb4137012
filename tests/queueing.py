"""What queueing theory says exactly: the oracle of the network's tests and of the simulation's."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Chain(NamedTuple):
    """Means of one process whose GIL holder shares the cores with the children."""

    throughput_per_s: float
    load: float
    n_in_line: float


def exact_chain(threads: int, cores: float, gil_s: float, child_s: float, away_s: float) -> Chain:
    """All times exponential: the stationary distribution of the chain of (at the GIL, with a child)."""
    states = [(i, j) for i in range(threads + 1) for j in range(threads + 1 - i)]
    index = {state: k for k, state in enumerate(states)}
    rates = np.zeros((len(states), len(states)))
    done, load, in_line = (np.zeros(len(states)) for _ in range(3))
    for (i, j), k in index.items():
        n = (i > 0) + j
        speed = min(1.0, cores / n) if n else 0.0
        done[k], load[k], in_line[k] = j * speed / child_s, n, max(0, i - 1)
        if i:
            rates[k, index[i - 1, j + 1]] = speed / gil_s
        if j:
            rates[k, index[i, j - 1]] = j * speed / child_s
        if i + j < threads:
            rates[k, index[i + 1, j]] = (threads - i - j) / away_s
    rates -= np.diag(rates.sum(axis=1))
    equations = np.vstack([rates.T, np.ones(len(states))])
    share = np.linalg.lstsq(equations, np.r_[np.zeros(len(states)), 1.0], rcond=None)[0]
    return Chain(float(share @ done), float(share @ load), float(share @ in_line))


def product_form(customers: int, cores: int, cpu_s: float, away_s: float) -> tuple[float, float]:
    """Throughput and mean runnable tasks of customers that think and share cores; any distribution."""
    weight = [1.0]
    for n in range(1, customers + 1):
        weight.append(weight[-1] * (customers - n + 1) * cpu_s / away_s / min(n, cores))
    share = np.array(weight) / sum(weight)
    n_runnable = np.arange(customers + 1)
    return float((share * np.minimum(n_runnable, cores)).sum() / cpu_s), float((share * n_runnable).sum())
