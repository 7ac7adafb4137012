"""Parts of the network that depend on layouts only, not on demands.

A node is a layout with a number k of items that are with a child or in Python without the GIL; all other
items are spread over the processes, each thread being equally likely. All nodes of all layouts form one
array, those whose processes can have the most items first, so that the recursion over 1, 2, ... items
continues with a prefix of the array.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import lgamma

import numpy as np
from numpy.typing import NDArray

from tuner.core.model.demand import Array

Indices = NDArray[np.int64]

_NODES = 29  #: most values of k of a layout; the values between are interpolated
_FIRST = 12  #: all values of k up to here are nodes, because the chain changes most there
_LARGEST_KEPT = 50_000  #: threads of all layouts together, above which the nodes are not cached


@dataclass(frozen=True, slots=True)
class Nodes:
    """The nodes of some layouts: arrays over nodes, unless stated otherwise."""

    row: Indices  #: index of the node's layout
    k: Array
    spread: tuple[Array, ...]  #: probability that a process has 1, 2, ... items, for the first nodes only
    busy: Array  #: mean number of processes with any items; busy_variance is its variance
    busy_variance: Array
    every: Array  #: (1, n + 1): all values of k
    low: Indices  #: (layouts, n + 1): for each layout and k, the node at or below k
    high: Indices  #: (layouts, n + 1): the node above
    share: Array  #: position of k between the two nodes, 0 to 1

    def between(self, values: Array) -> Array:
        """Interpolate *values* of the nodes to every k: linear between nodes, constant beyond *n*."""
        found: Array = (1 - self.share) * values[self.low] + self.share * values[self.high]
        return np.maximum(found, 0.0)


def nodes_of(p: Array, t: Array) -> Nodes:
    """Return the nodes of layouts of *p* processes of *t* threads each."""
    if (p * t).sum() > _LARGEST_KEPT:
        return _nodes_of(p, t)
    return _kept_nodes(p.tobytes(), t.tobytes())


@lru_cache(maxsize=8)
def _kept_nodes(processes: bytes, threads: bytes) -> Nodes:
    """Return cached nodes, because a fit needs the same layouts many times."""
    return _nodes_of(np.frombuffer(processes), np.frombuffer(threads))


def _nodes_of(p: Array, t: Array) -> Nodes:
    # A fit solves each layout several times at once, with a demand changed: its nodes are computed once.
    unlike, place = np.unique(np.stack([p, t]), axis=1, return_inverse=True)
    place = place.reshape(-1)  # only numpy 2.0.0 returns another shape
    if unlike.prod(axis=0).sum() > _LARGEST_KEPT:
        one = _one_each(*unlike)
    else:
        one = _kept_one_each(unlike[0].tobytes(), unlike[1].tobytes())
    # each node once for each layout equal to its layout, the copies next to each other
    count = np.bincount(place, minlength=unlike.shape[1])
    alike = np.argsort(place, kind="stable")
    n_before = np.cumsum(count) - count  # in `alike`, by unlike layout
    times = count[one.row]
    first = np.cumsum(times) - times  # of the copies of each node
    copies = np.arange(times.sum()) - np.repeat(first, times)
    number = np.empty(len(place), dtype=np.int64)  # of each layout among the equal ones
    number[alike] = np.arange(len(place)) - np.repeat(n_before, count)
    return Nodes(
        row=alike[np.repeat(n_before[one.row], times) + copies],
        k=np.repeat(one.k, times),
        spread=tuple(np.repeat(share, times[: len(share)]) for share in one.spread),
        busy=np.repeat(one.busy, times),
        busy_variance=np.repeat(one.busy_variance, times),
        every=one.every,
        low=first[one.low[place]] + number[:, None],
        high=first[one.high[place]] + number[:, None],
        share=one.share[place],
    )


@lru_cache(maxsize=8)
def _kept_one_each(processes: bytes, threads: bytes) -> Nodes:
    return _one_each(np.frombuffer(processes), np.frombuffer(threads))


def _one_each(p: Array, t: Array) -> Nodes:
    """Return the nodes of layouts that are all different."""
    n = p * t
    count = np.minimum(_NODES, n + 1).astype(np.int64)
    row = np.repeat(np.arange(len(n)), count)
    start = np.cumsum(count) - count
    index = np.arange(count.sum()) - start[row]
    # Every k up to n if there are few, else the first ones and an even selection.
    far = _FIRST + np.round((index - _FIRST) * (n[row] - _FIRST) / (_NODES - 1 - _FIRST))
    k = np.where((n[row] < _NODES) | (index <= _FIRST), index, far)

    most = np.minimum(t[row], n[row] - k)  # items that a process can have
    order = np.argsort(-most, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    spread, busy, variance = _spread(p[row][order], t[row][order], k[order], most[order])

    every = np.arange(n.max() + 1)[None, :]
    at = np.minimum(every, n[:, None])
    steps = (at - _FIRST) * (_NODES - 1 - _FIRST) / np.maximum(n[:, None] - _FIRST, 1)
    low = np.where((n[:, None] < _NODES) | (at <= _FIRST), at, _FIRST + np.floor(steps))
    low = np.clip(low, 0, np.maximum(count - 2, 0)[:, None]).astype(np.int64)
    high = np.minimum(low + 1, count[:, None] - 1)
    low, high = start[:, None] + low, start[:, None] + high
    share = (at - k[low]) / np.maximum(k[high] - k[low], 1.0)
    return Nodes(row[order], k[order], tuple(spread), busy, variance, every, place[low], place[high], share)


@lru_cache(maxsize=4)
def _log_factorials(n: int) -> Array:
    return np.array([lgamma(k + 1) for k in range(n + 1)])


def _spread(p: Array, t: Array, k: Array, most: Array) -> tuple[list[Array], Array, Array]:
    """Distribute the items that are not with a child over the processes, each thread being equally likely.

    Args:
        p, t, k: of each node.
        most: items that one of its processes can have, largest first.

    Returns:
        Probability that a process has 1, 2, ... of them, for the nodes where that is possible; mean and
        variance of the number of processes with any items.
    """
    n = p * t
    logs = _log_factorials(int(n.max()))

    def choose(of: Array, r: Array) -> Array:
        fits = (r >= 0) & (r <= of)
        a = np.maximum(of, 0).astype(int)
        b = np.minimum(np.maximum(r, 0), a).astype(int)
        return np.where(fits, logs[a] - logs[b] - logs[a - b], -np.inf)

    m = n - k
    ways = choose(n, m)
    found = []
    for j in range(1, int(most[0]) + 1):
        some = int(np.searchsorted(-most, -j, side="right"))
        one, others = choose(t[:some], np.full(some, j)), choose((n - t)[:some], m[:some] - j)
        found.append(np.exp(one + others - ways[:some]))
    none = np.exp(choose(n - t, m) - ways)
    neither = np.exp(choose(n - 2 * t, m) - ways)
    variance = p * none * (1 - none) + p * (p - 1) * (neither - none**2)
    return found, p * (1 - none), np.maximum(variance, 0.0)
