"""The analytic network: what every layout of a grid gives, in milliseconds.

Aggregation in two levels (Norton's theorem for queueing networks). For every number k of items that are
with a child or in Python without the GIL (beyond a dozen: for some k, the others lie between), the rest is
spread over the processes, and each process is solved exactly as a machine repairman: its threads line up for
one GIL, all else is thinking. Computing is stretched by those who compute at the same time: k and the GIL
holders of the other processes. What the processes together hand on at each k, and how fast k tasks are done
there, makes a birth-death chain over k; its stationary distribution weighs all figures. Exact for one process
with exponential times but for the interplay of a changing k with a filled line; bench/model/analytic.py has
the errors of all else. How often an item takes the GIL, how its times scatter and what a hand-over costs make
little difference and are left to the simulation.

Source: Chandy, Herzog & Woo, Parametric analysis of queuing networks (1975), for the aggregation; Reiser &
Lavenberg, Mean-value analysis (1980), for the recursion; Lazowska et al., Quantitative system performance
(1984), chapters 8 and 15.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from math import ceil, lgamma

import numpy as np
from numpy.typing import NDArray

from tuner.core.layout import Layout
from tuner.core.model.demand import NO_TERMS, Array, Demands, LayoutDemands, Terms, layout_demands
from tuner.core.model.machine import Machine

_NODES = 29  #: values of k at which processes are solved; between them by interpolation
_FIRST = 12  #: every k up to here, where the chain changes most from one to the next
_ROUNDS = 5  #: of the fixed point between processes; errors after 4 are below 1e-4
_MOST_CELLS = 500_000  #: layouts times the most threads of any, at once: some 100 MB
_LARGEST_KEPT = 50_000  #: threads of all layouts together: of more, what they say by themselves is not kept
_LEAST_S = 1e-9  #: a time that can be divided by
_LEAST_TASKS = 1e-300  #: so is a number of tasks above it: below are numbers of a few bits
_LEAST_CORES = 0.1  #: what strangers leave, as `Machine` has it

#: What threads in line for the GIL add to the load, as bench/model/convoy.py found it (docs/model.md).
_SPAWN_RELEASES = 15  #: how often starting and awaiting a child lets go of the GIL, subprocess.Popen's way
_LEAST_CHILD_S = 0.001  #: CPU of any child: less of it per item is a child every so many items
_OTHER_RELEASES = 2  #: how often an item does besides
_HANDED_WAKES = 6.4  #: in `Machine.wake_s`: how long one waits for a core who was woken by a release


@dataclass(frozen=True, slots=True)
class Prediction:
    """What layouts give in steady state: arrays over layouts. Tasks are means over time."""

    throughput_per_s: Array  #: items per second
    load: Array  #: tasks running, waiting for a core, or uninterruptible: what load1 settles at
    cpu_cores: Array  #: work of workers and children, in cores of full speed
    busy_cores: Array  #: cores they keep busy, as the kernel counts CPU time: slow second threads count whole
    core_utilization_ratio: Array  #: share of the box's speed in use, 0 to 1
    gil_utilization_ratio: Array  #: share of time the GIL of a process is held, 0 to 1; 0 without GIL
    n_gil_waiting: Array  #: threads in line for the GIL, of all processes together
    n_core_waiting: Array  #: tasks that want a core and have none (or a share of one), together
    n_asleep: Array  #: threads in interruptible waits, together
    n_blocked: Array  #: threads in uninterruptible waits, together
    residence_s: Array  #: from an item's begin to its end


def predict(
    demands: Demands, machine: Machine, layouts: Sequence[Layout], terms: Terms = NO_TERMS
) -> Prediction:
    """What *layouts* give in steady state, always with items to do."""
    of = layout_demands(demands, terms, [one.processes for one in layouts], [one.threads for one in layouts])
    return solve(of, machine)


def solve(of: LayoutDemands, machine: Machine, smt_gain_ratio: Array | None = None) -> Prediction:
    """The same for demands that are known layout by layout.

    *smt_gain_ratio* is what a second thread on a core adds, for each of them; None: what *machine* has.
    """
    n = of.processes * of.threads
    if len(n) * (n.max() + 1) <= _MOST_CELLS or len(n) == 1:
        return _solve(of, machine, smt_gain_ratio)
    order = np.argsort(n, kind="stable")  # alike together: each part is as wide as its largest layout
    parts = [
        _solve(_of_some(of, some), machine, None if smt_gain_ratio is None else smt_gain_ratio[some])
        for some in np.array_split(order, ceil(n.sum() / _MOST_CELLS))
    ]
    back = np.argsort(order, kind="stable")
    return Prediction(
        *(np.concatenate([getattr(part, one.name) for part in parts])[back] for one in fields(Prediction))
    )


def _of_some(of: LayoutDemands, some: NDArray[np.int64]) -> LayoutDemands:
    return LayoutDemands(*(getattr(of, one.name)[some] for one in fields(LayoutDemands)))


def _solve(of: LayoutDemands, machine: Machine, smt_gain_ratio: Array | None) -> Prediction:
    # most threads first: the recursion drops those that are done
    order = np.argsort(-of.threads, kind="stable")
    p, t = of.processes[order], of.threads[order]
    gil_s = of.gil_s[order] if machine.has_gil else np.zeros(len(order))
    free_s = (of.cpu_s[order] - gil_s) + _LEAST_S
    away_s = of.waiting_s[order] + _LEAST_S
    used = of.process_cores[order][:, None]
    gain = None if smt_gain_ratio is None else smt_gain_ratio[order][:, None]
    n = p * t
    shape = _shape(p.tobytes(), t.tobytes()) if n.sum() <= _LARGEST_KEPT else _shape_of(p, t)
    k, spread = shape.k, shape.spread

    alone = machine.total_speed(k + 1, used, gain) / (k + 1)

    def held_s(held: Array) -> Array:
        return gil_s[:, None] / _speeds(machine, shape, p[:, None] * held, alone, used, gain)[0]

    held = np.zeros_like(k)  # probability that the GIL of one process is held
    for _ in range(_ROUNDS - 1):
        held = _held(held_s(held), away_s, spread)
    throughput, held, present = _process(held_s(held), away_s, spread)
    holders = p[:, None] * held
    _, free_speed = _speeds(machine, shape, holders, alone, used, gain)

    every = shape.every
    births, free_speed, holders, in_line = (
        shape.between(one)
        for one in (p[:, None] * throughput, free_speed, holders, p[:, None] * present - holders)
    )
    deaths = every[:, 1:] * free_speed[:, 1:] / free_s[:, None]
    weight = _chain(births, deaths, n)
    done_per_s = (weight[:, 1:] * deaths).sum(axis=1)
    n_gil_waiting = np.maximum(0.0, (weight * in_line).sum(axis=1))
    n_holders = (weight * holders).sum(axis=1)
    cores = np.maximum(_LEAST_CORES, machine.free_cores - used)
    n_on_cores = (weight * np.minimum(every + holders, cores)).sum(axis=1)

    back = np.argsort(order, kind="stable")
    full = machine.total_speed(np.full(len(back), np.inf), of.process_cores, smt_gain_ratio)
    on_cores = n_on_cores[back]
    per_s = np.minimum(done_per_s[back], full / np.maximum(of.cpu_s, _LEAST_S))
    n_threads = of.processes * of.threads
    runnable = np.maximum(n_threads - n_gil_waiting[back] - per_s * of.waiting_s, per_s * of.cpu_s)
    n_waking = waking(machine, of, n_gil_waiting[back], per_s, on_cores / cores[back, 0])
    n_blocked = per_s * (of.blocked_s + of.spawn_s)
    busy = per_s * of.cpu_s
    return Prediction(
        throughput_per_s=per_s,
        load=runnable + n_waking + n_blocked + per_s * of.others_s + of.process_cores,
        cpu_cores=busy + of.process_cores,
        busy_cores=(busy if machine.physical_cores is None else np.maximum(busy, on_cores))
        + of.process_cores,
        core_utilization_ratio=np.minimum(1.0, busy / full),
        gil_utilization_ratio=np.minimum(1.0, n_holders[back] / of.processes),
        n_gil_waiting=n_gil_waiting[back],
        n_core_waiting=np.maximum(0.0, runnable - busy),
        n_asleep=per_s * of.asleep_s,
        n_blocked=n_blocked,
        residence_s=n_threads / per_s,
    )


def _nodes(n: Array) -> Array:
    """Values of k, (layouts, nodes): every one up to *n* where there are few, else the first and a spread."""
    count = int(min(_NODES, n.max() + 1))
    index = np.arange(count)[None, :]
    far = _FIRST + np.round((index - _FIRST) * (n[:, None] - _FIRST) / max(count - 1 - _FIRST, 1))
    return np.where((n[:, None] < count) | (index <= _FIRST), np.minimum(index, n[:, None]), far)


@dataclass(frozen=True, slots=True)
class _Shape:
    """What a list of layouts says by itself, whatever items ask for; the most threads come first."""

    k: Array  #: nodes, (layouts, nodes)
    spread: tuple[Array, ...]  #: see `_spread`; so the next two
    busy: Array
    busy_variance: Array
    every: Array  #: every k up to the most there is, (1, n + 1)
    low: Array  #: the node at or below every k, (layouts, n + 1), as an index into all values of k
    high: Array  #: and the one above
    share: Array  #: how far k lies from the one to the other, 0 to 1

    def between(self, values: Array) -> Array:
        """*values* at the nodes, taken to every k: linear between nodes; beyond *n* they stand still."""
        flat = values.ravel()
        found: Array = (1 - self.share) * flat[self.low] + self.share * flat[self.high]
        return np.maximum(found, 0.0)


@lru_cache(maxsize=8)
def _shape(processes: bytes, threads: bytes) -> _Shape:
    """A fit asks for the same layouts again and again: a part of what it would cost to work that out anew."""
    return _shape_of(np.frombuffer(processes), np.frombuffer(threads))


def _shape_of(p: Array, t: Array) -> _Shape:
    n = p * t
    k = _nodes(n)
    # A fit asks for each layout several times at once, with a demand changed: one of them is worked out.
    unlike, place = np.unique(np.stack([-t, p]), axis=1, return_inverse=True)
    first = np.zeros(unlike.shape[1], dtype=int)
    place = place.reshape(-1)  # numpy 2.0.0 alone gives it another shape
    first[place] = np.arange(len(p))
    spread, busy, busy_variance = _spread(p[first], t[first], k[first])
    spread = [share[place[t >= j]] for j, share in enumerate(spread, start=1)]
    every, count = np.arange(n.max() + 1)[None, :], k.shape[1]
    at = np.minimum(every, n[:, None])
    steps = (at - _FIRST) * max(count - 1 - _FIRST, 1) / np.maximum(n[:, None] - _FIRST, 1)
    low = np.where((n[:, None] < count) | (at <= _FIRST), at, _FIRST + np.floor(steps))
    low = np.clip(low, 0, max(count - 2, 0)).astype(int)
    high = np.minimum(low + 1, count - 1)
    left, right = np.take_along_axis(k, low, 1), np.take_along_axis(k, high, 1)
    share = (at - left) / np.maximum(right - left, 1.0)
    rows = count * np.arange(len(n))[:, None]
    return _Shape(k, tuple(spread), busy[place], busy_variance[place], every, rows + low, rows + high, share)


@lru_cache(maxsize=4)
def _log_factorials(n: int) -> Array:
    return np.array([lgamma(k + 1) for k in range(n + 1)])


def _spread(p: Array, t: Array, k: Array) -> tuple[list[Array], Array, Array]:
    """How the items that are not with a child fall on the processes, each thread as likely.

    Returns:
        Probability that a process has 1, 2, ... T of them, for the layouts with so many threads; mean and
        variance of the number of processes that have any.
    """
    n = (p * t)[:, None]
    logs = _log_factorials(int(n.max()))

    def choose(of: Array, r: Array) -> Array:
        fits = (r >= 0) & (r <= of)
        a = np.maximum(of, 0).astype(int)
        b = np.minimum(np.maximum(r, 0), a).astype(int)
        return np.where(fits, logs[a] - logs[b] - logs[a - b], -np.inf)

    m = n - k
    ways = choose(n + 0 * m, m)
    found = []
    for j in range(1, int(t.max()) + 1):
        rows = int((t >= j).sum())
        one = choose(t[:rows, None] + 0 * m[:rows], 0 * m[:rows] + j)
        others = choose((n - t[:, None])[:rows] + 0 * m[:rows], m[:rows] - j)
        found.append(np.exp(one + others - ways[:rows]))
    processes, threads = p[:, None], t[:, None]
    none = np.exp(choose(n - threads + 0 * m, m) - ways)
    neither = np.exp(choose(n - 2 * threads + 0 * m, m) - ways)
    variance = processes * none * (1 - none) + processes * (processes - 1) * (neither - none**2)
    return found, processes * (1 - none), np.maximum(variance, 0.0)


def _held(held_s: Array, away_s: Array, spread: Sequence[Array]) -> Array:
    """Of what `_process` gives the share of time held alone."""
    held = np.zeros_like(held_s)
    for rows, share, per_s, _ in _repairman(held_s, away_s, spread):
        per_s *= share
        per_s *= held_s[:rows]
        held[:rows] += per_s
    return np.minimum(held, 1.0)


def _process(held_s: Array, away_s: Array, spread: Sequence[Array]) -> tuple[Array, Array, Array]:
    """One process, averaged over how many items it has: throughput, share of time held, items at the GIL."""
    throughput, held, present = np.zeros_like(held_s), np.zeros_like(held_s), np.zeros_like(held_s)
    for rows, share, per_s, queue in _repairman(held_s, away_s, spread):
        per_s *= share
        throughput[:rows] += per_s
        per_s *= held_s[:rows]
        held[:rows] += per_s
        present[:rows] += share * queue
    return throughput, np.minimum(held, 1.0), present


def _repairman(
    held_s: Array, away_s: Array, spread: Sequence[Array]
) -> Iterator[tuple[int, Array, Array, Array]]:
    """The recursion over 1, 2, ... items in a process: for the first so many layouts, which have the threads,
    the probability of that many, what they do per second, and how many of them are at the GIL.

    The last two are written over in the next step; the first of them may be changed.
    """
    queue, per_s = np.zeros_like(held_s), np.empty_like(held_s)
    last, away, there_s = 0, away_s[:, None], np.empty_like(held_s)
    for j, share in enumerate(spread, start=1):
        rows = len(share)
        if rows != last:
            last, own = rows, held_s[:rows]
            queue, per_s, there_s, away = queue[:rows], per_s[:rows], there_s[:rows], away[:rows]
        np.add(queue, 1, out=there_s)
        there_s *= own
        np.add(away, there_s, out=per_s)
        np.divide(j, per_s, out=per_s)
        np.multiply(per_s, there_s, out=queue)
        yield rows, share, per_s, queue


def _speeds(
    machine: Machine, shape: _Shape, holders: Array, alone: Array, used: Array, gain: Array | None
) -> tuple[Array, Array]:
    """Mean speed of a GIL holder and of a task without it, while *k* of these run.

    The number of holders has the mean *holders* and the variance that follows from that of processes that
    have items (*busy*); two points stand for it. Together they never do more than the cores give. *alone* is
    the speed of the first holder.
    """
    k, busy, busy_variance = shape.k, shape.busy, shape.busy_variance
    share = np.minimum(1.0, holders / np.maximum(busy, 1e-9))
    variance = busy * share * (1 - share) + share**2 * busy_variance
    most = np.maximum(busy, holders)
    sd = np.minimum(np.sqrt(variance), np.minimum(holders, np.maximum(most - holders, 0.0)))
    of_holders, of_free = np.zeros_like(k), np.zeros_like(k)
    for some in (holders - sd, holders + sd):
        tasks = np.maximum(k + some, 1.0)
        each = machine.total_speed(tasks, used, gain) / tasks
        of_holders += some * each / 2
        of_free += each / 2
    return np.where(holders > _LEAST_TASKS, of_holders / np.maximum(holders, _LEAST_TASKS), alone), of_free


def _chain(births: Array, deaths: Array, n: Array) -> Array:
    """Stationary distribution of a birth-death chain from 0 to *n*."""
    with np.errstate(divide="ignore"):
        steps = np.log(births[:, :-1]) - np.log(deaths)
    steps[np.arange(1, births.shape[1])[None, :] > n[:, None]] = -np.inf
    logs = np.concatenate([np.zeros((len(n), 1)), np.cumsum(steps, axis=1)], axis=1)
    weight: Array = np.exp(logs - logs.max(axis=1, keepdims=True))
    weight /= weight.sum(axis=1, keepdims=True)
    return weight


def waking(
    machine: Machine, of: LayoutDemands, n_gil_waiting: Array, per_s: Array, cores_busy: Array
) -> Array:
    """Tasks that are runnable though they wait for the GIL.

    A thread in line waits with a time limit, the switch interval, and wakes up each time it has passed. And
    whoever lets go of the GIL, as every system call that may wait does, wakes one of the line, though he may
    want it back at once. Who wakes up waits for a core before he finds the GIL taken, and counts in the load
    meanwhile: the longer, the more of the cores are busy.

    Args:
        machine: the box.
        of: what items ask for, layout by layout; all else is an array over these, too.
        n_gil_waiting: threads in line, of all processes together.
        per_s: items per second.
        cores_busy: share of the cores in use, 0 to 1.
    """
    if not machine.has_gil:
        return np.zeros_like(per_s)
    wait_s = n_gil_waiting / per_s
    with np.errstate(over="ignore", divide="ignore"):
        per_waiter_s = 1 / np.expm1(machine.switch_interval_s / wait_s) / np.maximum(wait_s, _LEAST_S)
    in_line = n_gil_waiting / of.processes
    # One who waits alone was measured to find a core at once: it is those behind him that queue.
    crowd = np.maximum(0.0, in_line - 1) / np.maximum(in_line, 1.0)
    releases = _OTHER_RELEASES + _SPAWN_RELEASES * np.minimum(1.0, of.child_s / _LEAST_CHILD_S)
    timed = n_gil_waiting * per_waiter_s
    handed = per_s * releases * crowd * _HANDED_WAKES * cores_busy
    found: Array = np.minimum(n_gil_waiting, (timed + handed) * machine.wake_s * cores_busy)
    return found
