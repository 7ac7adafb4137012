"""The analytic network: the throughput of every layout of a grid, in milliseconds.

Aggregation in two levels (Norton's theorem for queueing networks). For every number k of items that are
with a child or in Python without the GIL (beyond a dozen: for some k, with interpolation), the rest is
spread over the processes, and each process is solved exactly as a machine repairman: its threads wait in line
for one GIL, all else is thinking. Computing takes longer if other tasks compute at the same time: k and the
GIL holders of the other processes. The rate at which all processes pass items on at each k, and the speed of
k tasks there, give a birth-death chain over k; its stationary distribution weighs all figures. A thread that
is alone in its process never waits in line: all its computing counts in k. This is exact for such processes
with any distribution of times (except for interpolation), and for one process with exponential times except
for the interaction of a changing k with a filled line; bench/model/analytic.py has the errors in all other
cases. The number of GIL visits per item, the distribution of times and the cost of a hand-over have little
influence and are left to the simulation.

Source: Chandy, Herzog & Woo, Parametric analysis of queuing networks (1975), for the aggregation; Reiser &
Lavenberg, Mean-value analysis (1980), for the recursion; Lazowska et al., Quantitative system performance
(1984), chapters 8 and 15.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields

import numpy as np
from numpy.typing import NDArray

from tuner.core.domain.layout import Layout
from tuner.core.model.demand import NO_TERMS, Array, Demands, LayoutDemands, Terms, layout_demands
from tuner.core.model.machine import Machine
from tuner.core.model.nodes import Indices, nodes_of

_MOST_ROUNDS = 60  #: most rounds of the fixed point between processes; four or five are usual
_SETTLED = 1e-9  #: change of a share of time at which the fixed point is reached
_STEEPEST = 0.9  #: largest slope that is used; with a larger one, steps are usually too long
_FEW = 0.7  #: share of unfinished nodes below which only these are continued
_MOST_CELLS = 500_000  #: layouts times the largest number of threads that are solved at once: about 100 MB
_LEAST_S = 1e-9  #: least time in a division
_LEAST_HELD_S = 1e-12  #: least time for which the GIL is held in a division
_LEAST_TASKS = 1e-300  #: least number of tasks in a division, above subnormal numbers, which have few bits
_DIGITS = 12  #: digits to which times must agree, relative to the largest, to be solved once
_LEAST_CORES = 0.1  #: least number of cores left for items, as in `Machine`

#: Parameters of the load from threads that wait for the GIL, found by bench/model/convoy.py
#: (docs/method/model.md).
_SPAWN_RELEASES = 15  #: releases of the GIL while a child is started and awaited, as by subprocess.Popen
_LEAST_CHILD_S = 0.001  #: least CPU time of a child; an item with less starts a child only sometimes
_OTHER_RELEASES = 2  #: other releases of the GIL per item
#: time for which a thread woken by a release waits for a core, in units of `Machine.wake_s`
_HANDED_WAKES = 6.4


@dataclass(frozen=True, slots=True)
class Prediction:
    """Steady state of layouts: arrays over layouts. Tasks are means over time."""

    throughput_per_s: Array  #: items per second
    load: Array  #: tasks that run, wait for a core or are uninterruptible: the steady value of load1
    cpu_cores: Array  #: work of workers and children, in full-speed cores
    busy_cores: Array  #: busy cores in the kernel's CPU accounting, which counts slow second threads fully
    core_utilization_ratio: Array  #: share of the host's speed in use, 0 to 1
    #: share of time in which the GIL of a process is held, 0 to 1; 0 without GIL
    gil_utilization_ratio: Array
    n_gil_waiting: Array  #: threads that wait for the GIL, in all processes
    n_core_waiting: Array  #: tasks that wait for a core, or for the rest of a shared one
    n_asleep: Array  #: threads in interruptible waits
    n_blocked: Array  #: threads in uninterruptible waits
    residence_s: Array  #: seconds from the beginning of an item to its end


def predict(
    demands: Demands, machine: Machine, layouts: Sequence[Layout], terms: Terms = NO_TERMS
) -> Prediction:
    """Predict the steady state of *layouts* that always have items."""
    of = layout_demands(demands, terms, [one.processes for one in layouts], [one.threads for one in layouts])
    return solve(of, machine)


@dataclass(slots=True)
class Equilibrium:
    """Solution for some layouts, kept as the starting point for similar demands."""

    layouts: tuple[bytes, bytes] = (b"", b"")
    held: Array = field(default_factory=lambda: np.zeros(0))  #: array over nodes

    def of(self, p: Array, t: Array, n_nodes: int) -> Array:
        """Return the starting point for layouts of *p* processes of *t* threads."""
        return self.held if self.layouts == (p.tobytes(), t.tobytes()) else np.zeros(n_nodes)

    def keep(self, p: Array, t: Array, held: Array) -> None:
        """Store the solution *held* of layouts of *p* processes of *t* threads."""
        self.layouts, self.held = (p.tobytes(), t.tobytes()), held


def solve(
    of: LayoutDemands, machine: Machine, smt_gain_ratio: Array | None = None, near: Equilibrium | None = None
) -> Prediction:
    """Solve the network for demands that are given layout by layout.

    Args:
        of: the demands of each layout.
        machine: the host.
        smt_gain_ratio: gain by a second thread on a core, for each layout; None: that of *machine*.
        near: solution for similar demands to start from; the new solution is stored in it.
    """
    n = of.processes * of.threads
    if len(n) * (n.max() + 1) <= _MOST_CELLS or len(n) == 1:
        return _solve(of, machine, smt_gain_ratio, near or Equilibrium())
    order = np.argsort(n, kind="stable")  # similar sizes together: each part is as wide as its largest layout
    parts = [
        _solve(
            _of_some(of, some),
            machine,
            None if smt_gain_ratio is None else smt_gain_ratio[some],
            Equilibrium(),
        )
        for some in np.split(order, _cuts(n[order] + 1))
    ]
    back = np.argsort(order, kind="stable")
    return Prediction(
        *(np.concatenate([getattr(part, one.name) for part in parts])[back] for one in fields(Prediction))
    )


def _cuts(widths: Array) -> list[int]:
    """Return where to cut a list of layouts: parts of at most _MOST_CELLS cells, or of one layout."""
    cuts, first = [], 0
    for n, width in enumerate(widths):
        if n > first and (n + 1 - first) * width > _MOST_CELLS:
            cuts.append(n)
            first = n
    return cuts


def _of_some(of: LayoutDemands, some: Indices) -> LayoutDemands:
    return LayoutDemands(*(getattr(of, one.name)[some] for one in fields(LayoutDemands)))


def _solve(
    of: LayoutDemands, machine: Machine, smt_gain_ratio: Array | None, near: Equilibrium
) -> Prediction:
    has_line = machine.has_gil & (of.threads > 1)  # a single thread has no contention for its GIL
    held_alone_s = of.gil_s * has_line
    order, back = _unlike(of, held_alone_s, None if machine.physical_cores is None else smt_gain_ratio)
    p, t = of.processes[order], of.threads[order]
    gil_s = np.maximum(_LEAST_HELD_S, held_alone_s[order])
    free_s = (of.cpu_s[order] - gil_s) + _LEAST_S
    away_s = of.waiting_s[order] + _LEAST_S
    used = of.process_cores[order]
    gain = None if smt_gain_ratio is None else smt_gain_ratio[order]
    nodes = nodes_of(p, t)
    row = nodes.row

    # from here on arrays over nodes
    meet = _Meeting(
        nodes.k,
        nodes.busy,
        nodes.busy_variance,
        nodes.spread,
        n_processes=p[row],
        gil_s=gil_s[row],
        away_s=away_s[row],
        cores=machine.cores_left(used[row]),
        gain=None if gain is None else gain[row],
    )
    held, each_s = _at_rest(machine, meet, near.of(p, t, len(row)))
    near.keep(p, t, held)
    throughput = held / each_s
    holders = meet.n_processes * held
    n_items = meet.n_processes * t[row] - meet.k  # items in none of the states that k counts
    n_in_line = np.maximum(0.0, n_items - meet.n_processes * throughput * meet.away_s - holders)
    free_speed = _speeds(machine, meet, holders)[1]

    # and from here on over layouts and every k
    every = nodes.every
    births, free_speed, holders, in_line = (
        nodes.between(one) for one in (meet.n_processes * throughput, free_speed, holders, n_in_line)
    )
    deaths = every[:, 1:] * free_speed[:, 1:] / free_s[:, None]
    weight = _chain(births, deaths, p * t)
    done_per_s = (weight[:, 1:] * deaths).sum(axis=1)
    n_gil_waiting = np.maximum(0.0, (weight * in_line).sum(axis=1))
    n_computing = (weight * (every + holders)).sum(axis=1)
    n_holders = (weight * holders).sum(axis=1)
    cores = np.maximum(_LEAST_CORES, machine.free_cores - used)[:, None]
    n_on_cores = (weight * np.minimum(every + holders, cores)).sum(axis=1)

    full = machine.total_speed(np.full(len(back), np.inf), of.process_cores, smt_gain_ratio)
    on_cores, n_gil_waiting = n_on_cores[back], n_gil_waiting[back] * (held_alone_s > 0)
    gil_share = of.gil_s * machine.has_gil / np.maximum(of.cpu_s, _LEAST_S)
    n_holding = np.where(held_alone_s > 0, n_holders[back], n_computing[back] * gil_share)
    per_s = np.minimum(done_per_s[back], full / np.maximum(of.cpu_s, _LEAST_S))
    n_threads = of.processes * of.threads
    runnable = np.maximum(n_threads - n_gil_waiting - per_s * of.waiting_s, per_s * of.cpu_s)
    n_waking = waking(machine, of, n_gil_waiting, per_s, on_cores / cores[back, 0])
    n_blocked = per_s * (of.blocked_s + of.spawn_s)
    busy = per_s * of.cpu_s
    return Prediction(
        throughput_per_s=per_s,
        load=runnable + n_waking + n_blocked + per_s * of.others_s + of.process_cores,
        cpu_cores=busy + of.process_cores,
        busy_cores=(busy if machine.physical_cores is None else np.maximum(busy, on_cores))
        + of.process_cores,
        core_utilization_ratio=np.minimum(1.0, busy / full),
        gil_utilization_ratio=np.minimum(1.0, n_holding / of.processes),
        n_gil_waiting=n_gil_waiting,
        n_core_waiting=np.maximum(0.0, runnable - busy),
        n_asleep=per_s * of.asleep_s,
        n_blocked=n_blocked,
        residence_s=n_threads / per_s,
    )


def _unlike(of: LayoutDemands, gil_s: Array, smt_gain_ratio: Array | None) -> tuple[Indices, Indices]:
    """Return the first of each group of layouts with the same solution, and the group of each layout.

    Finite differences repeat layouts: to the network, only the sum of an item's waits matters.
    """
    gain = np.zeros_like(gil_s) if smt_gain_ratio is None else smt_gain_ratio
    asked = np.stack([of.processes, of.threads, gil_s, of.cpu_s, of.waiting_s, of.process_cores, gain])
    asked[2:] = np.round(asked[2:] / np.maximum(asked[2:].max(axis=1, keepdims=True), _LEAST_S), _DIGITS)
    unlike, place = np.unique(asked, axis=1, return_inverse=True)
    place = place.reshape(-1)  # only numpy 2.0.0 returns another shape
    first = np.zeros(unlike.shape[1], dtype=int)
    first[place[::-1]] = np.arange(len(place))[::-1]
    return first, place


@dataclass(frozen=True, slots=True)
class _Meeting:
    """Contention at some nodes: arrays over these nodes. The first four are those of `Nodes`."""

    k: Array
    busy: Array
    busy_variance: Array
    spread: Sequence[Array]
    n_processes: Array
    gil_s: Array  #: time for which an item holds the GIL, if it has a core for itself
    away_s: Array  #: time for which an item waits elsewhere
    cores: Array  #: remaining cores
    gain: Array | None

    def some(self, those: NDArray[np.bool_]) -> _Meeting:
        """Return the part for *those* nodes."""
        spread = [share[those[: len(share)]] for share in self.spread]
        return _Meeting(
            self.k[those],
            self.busy[those],
            self.busy_variance[those],
            [share for share in spread if len(share)],
            self.n_processes[those],
            self.gil_s[those],
            self.away_s[those],
            self.cores[those],
            None if self.gain is None else self.gain[those],
        )


def _at_rest(machine: Machine, meet: _Meeting, assumed: Array) -> tuple[Array, Array]:
    """Return the share of time that the GIL of one process is held, and the seconds that an item holds it.

    The more GILs are held, the slower the cores are for each holder, and the longer it holds its GIL: the
    result must equal the *assumed* share. Nodes that have converged are not computed again.
    """
    held, each_s = np.zeros_like(meet.k), np.zeros_like(meet.k)
    earlier = None
    left = np.arange(len(meet.k))
    for _ in range(_MOST_ROUNDS):
        speed = _speeds(machine, meet, meet.n_processes * assumed)[0]
        each_s[left] = own_s = meet.gil_s / speed
        held[left] = found = _gil_held_share(own_s, meet.away_s, meet.spread)
        moves = np.abs(found - assumed) > _SETTLED
        n_moving = int(moves.sum())
        if not n_moving:
            break
        assumed, earlier = _nearer(assumed, found, earlier), (assumed, found)
        if n_moving < _FEW * len(left):
            meet, left, assumed = meet.some(moves), left[moves], assumed[moves]
            earlier = earlier[0][moves], earlier[1][moves]
    return held, each_s


def _gil_held_share(held_s: Array, away_s: Array, spread: Sequence[Array]) -> Array:
    """Return the share of time that the GIL of one process is held, averaged over its number of items.

    A machine repairman by mean-value analysis: with j items it is held for U(j) = j / (j + z (1 - U(j-1))) of
    the time, where z is the time away over the time held. All other figures follow by Little's law.
    """
    ratio = away_s / held_s
    held, here, left = np.zeros_like(held_s), np.zeros_like(held_s), np.empty_like(held_s)
    last = len(held)
    for j, share in enumerate(spread, start=1):
        some = len(share)
        if some != last:
            last, ratio, here, left = some, ratio[:some], here[:some], left[:some]
        np.subtract(1, here, out=left)
        left *= ratio
        left += j
        np.divide(j, left, out=here)
        np.multiply(here, share, out=left)
        held[:some] += left
    return np.minimum(held, 1.0)


def _nearer(assumed: Array, found: Array, earlier: tuple[Array, Array] | None) -> Array:
    """Return the next assumption by the secant method, from *found* at *assumed* and *earlier* values."""
    if earlier is None:
        return found
    moved = assumed - earlier[0]
    slope = np.divide(found - earlier[1], moved, out=np.zeros_like(found), where=moved != 0)
    slope = np.clip(slope, 0.0, _STEEPEST)  # if more are held, they are slower, so held for longer
    nearer: Array = np.clip(assumed + (found - assumed) / (1 - slope), 0.0, 1.0)
    return nearer


def _speeds(machine: Machine, meet: _Meeting, holders: Array) -> tuple[Array, Array]:
    """Return the mean speed of a GIL holder, and that of a task without the GIL while *k* of these run.

    The number of holders has the mean *holders*, and a variance that follows from that of processes with
    items (*busy*); two points represent it. Together the tasks never exceed the speed of the cores.
    """
    k, busy, busy_variance = meet.k, meet.busy, meet.busy_variance
    share = np.minimum(1.0, holders / np.maximum(busy, 1e-9))
    variance = busy * share * (1 - share) + share**2 * busy_variance
    most = np.maximum(busy, holders)
    sd = np.minimum(np.sqrt(variance), np.minimum(holders, np.maximum(most - holders, 0.0)))
    some = np.stack([holders - sd, holders + sd])
    tasks = np.maximum(k + some, 1.0)
    each = machine.speed_on(meet.cores, tasks, meet.gain) / tasks
    of_holders, of_free = (some * each).sum(axis=0) / 2, each.sum(axis=0) / 2
    if (holders > _LEAST_TASKS).all():
        return of_holders / holders, of_free
    alone = machine.speed_on(meet.cores, k + 1, meet.gain) / (k + 1)  # of the first one
    return np.where(holders > _LEAST_TASKS, of_holders / np.maximum(holders, _LEAST_TASKS), alone), of_free


def _chain(births: Array, deaths: Array, n: Array) -> Array:
    """Return the stationary distribution of a birth-death chain from 0 to *n*."""
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
    """Return the number of tasks that are runnable although they wait for the GIL.

    A thread in line waits with a time limit, the switch interval, and wakes up each time it has passed. A
    thread that releases the GIL, as in every system call that may wait, wakes one thread of the line, even if
    it wants the GIL back at once. A thread that wakes up waits for a core before it finds the GIL taken, and
    counts in the load meanwhile: the more cores are busy, the longer.

    Args:
        machine: the host.
        of: demands of items, layout by layout; all other arguments are arrays over layouts, too.
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
    # Measurements: a single waiting thread gets a core at once; only the threads behind it queue.
    crowd = np.maximum(0.0, in_line - 1) / np.maximum(in_line, 1.0)
    releases = _OTHER_RELEASES + _SPAWN_RELEASES * np.minimum(1.0, of.child_s / _LEAST_CHILD_S)
    timed = n_gil_waiting * per_waiter_s
    handed = per_s * releases * crowd * _HANDED_WAKES * cores_busy
    found: Array = np.minimum(n_gil_waiting, (timed + handed) * machine.wake_s * cores_busy)
    return found
