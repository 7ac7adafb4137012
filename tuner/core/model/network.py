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

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import lgamma

import numpy as np

from tuner.core.layout import Layout
from tuner.core.model.demand import NO_TERMS, Array, Demands, LayoutDemands, Terms, layout_demands
from tuner.core.model.machine import Machine

_NODES = 29  #: values of k at which processes are solved; between them by interpolation
_FIRST = 12  #: every k up to here, where the chain changes most from one to the next
_ROUNDS = 5  #: of the fixed point between processes; errors after 4 are below 1e-4
_LEAST_S = 1e-9  #: a time that can be divided by
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


def solve(of: LayoutDemands, machine: Machine) -> Prediction:
    """The same for demands that are known layout by layout."""
    # most threads first: the recursion drops those that are done
    order = np.argsort(-of.threads, kind="stable")
    p, t = of.processes[order], of.threads[order]
    gil_s = of.gil_s[order] if machine.has_gil else np.zeros(len(order))
    free_s = (of.cpu_s[order] - gil_s) + _LEAST_S
    away_s = of.waiting_s[order] + _LEAST_S
    used = of.process_cores[order][:, None]
    n = p * t
    k = _nodes(n)
    spread, busy, busy_variance = _spread(p, t, k)

    held = np.zeros_like(k)  # probability that the GIL of one process is held
    for _ in range(_ROUNDS):
        held_speed, free_speed = _speeds(machine, k, p[:, None] * held, busy, busy_variance, used)
        throughput, held, present = _process(gil_s[:, None] / held_speed, away_s, spread)
    holders = p[:, None] * held
    _, free_speed = _speeds(machine, k, holders, busy, busy_variance, used)

    every = np.arange(n.max() + 1)[None, :]
    births, free_speed, holders, in_line = (
        _between(one, n, k, every)
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
    full = machine.total_speed(np.full(len(back), np.inf), of.process_cores)
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


def _between(values: Array, n: Array, nodes: Array, every: Array) -> Array:
    """*values* at the nodes, taken to every k: linear between nodes; beyond *n* they stand still."""
    count = nodes.shape[1]
    at = np.minimum(every, n[:, None])
    steps = (at - _FIRST) * max(count - 1 - _FIRST, 1) / np.maximum(n[:, None] - _FIRST, 1)
    low = np.where((n[:, None] < count) | (at <= _FIRST), at, _FIRST + np.floor(steps))
    low = np.clip(low, 0, max(count - 2, 0)).astype(int)
    high = np.minimum(low + 1, count - 1)
    left, right = np.take_along_axis(nodes, low, 1), np.take_along_axis(nodes, high, 1)
    share = (at - left) / np.maximum(right - left, 1.0)
    found: Array = (1 - share) * np.take_along_axis(values, low, 1) + share * np.take_along_axis(
        values, high, 1
    )
    return np.maximum(found, 0.0)


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
        a, b = np.maximum(of, 0).astype(int), np.clip(r, 0, np.maximum(of, 0)).astype(int)
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


def _process(held_s: Array, away_s: Array, spread: list[Array]) -> tuple[Array, Array, Array]:
    """One process, averaged over how many items it has: throughput, share of time held, items at the GIL."""
    queue = np.zeros_like(held_s)
    throughput, held, present = np.zeros_like(held_s), np.zeros_like(held_s), np.zeros_like(held_s)
    for j, share in enumerate(spread, start=1):
        rows = len(share)
        there_s = held_s[:rows] * (1 + queue[:rows])
        per_s = j / (away_s[:rows, None] + there_s)
        queue[:rows] = per_s * there_s
        throughput[:rows] += share * per_s
        held[:rows] += share * per_s * held_s[:rows]
        present[:rows] += share * queue[:rows]
    return throughput, np.minimum(held, 1.0), present


def _speeds(
    machine: Machine, k: Array, holders: Array, busy: Array, busy_variance: Array, used: Array
) -> tuple[Array, Array]:
    """Mean speed of a GIL holder and of a task without it, while *k* of these run.

    The number of holders has the mean *holders* and the variance that follows from that of processes that
    have items (*busy*); two points stand for it. Together they never do more than the cores give.
    """
    share = np.minimum(1.0, holders / np.maximum(busy, 1e-9))
    variance = busy * share * (1 - share) + share**2 * busy_variance
    most = np.maximum(busy, holders)
    sd = np.minimum(np.sqrt(variance), np.minimum(holders, np.maximum(most - holders, 0.0)))
    of_holders, of_free = np.zeros_like(k), np.zeros_like(k)
    for some in (holders - sd, holders + sd):
        tasks = np.maximum(k + some, 1.0)
        each = machine.total_speed(tasks, used) / tasks
        of_holders += some * each / 2
        of_free += each / 2
    alone = machine.total_speed(k + 1, used) / (k + 1)
    return np.where(holders > 0, of_holders / np.maximum(holders, 1e-300), alone), of_free


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
