"""The demands of one item on the host, and how they change with processes and threads.

An item's path: Python with the GIL, a wait asleep, Python that starts a child, the child's start (the parent
waits uninterruptibly, without the GIL), the child itself, Python with the GIL, an uninterruptible wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: fields of `Demands` that are times
SECONDS = ("gil_s", "python_s", "child_s", "asleep_s", "blocked_s", "spawn_s")


@dataclass(frozen=True, slots=True)
class Demands:
    """Seconds per item, means over items. Each is 0 or more, and together they are above 0."""

    gil_s: float  #: CPU time of the worker's own threads with the GIL
    python_s: float = 0.0  #: CPU time of the worker's own threads without the GIL, in C code that releases it
    child_s: float = 0.0  #: CPU time of the children that items start
    asleep_s: float = 0.0  #: interruptible waiting: sockets, locks, sleeps, and a child that waits itself
    blocked_s: float = 0.0  #: uninterruptible waiting (state D, in the load average): disks, NFS
    #: time from fork until the child runs its program, without CPU time; the parent is in state D. The
    #: measured value includes the child's waiting for a core, which is negligible on an idle host.
    spawn_s: float = 0.0
    #: time in which tasks outside the service are active because of the item: kernel threads that finish the
    #: work of its child, after all computing tasks. It is part of the load average, but neither CPU time nor
    #: part of the item's own time.
    others_s: float = 0.0
    n_gil_visits: int = 2  #: number of times an item acquires the GIL, at least 1
    cv_ratio: float = 0.5  #: standard deviation of each of these times over its mean, 0 to 1

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if not 0 <= value < float("inf"):
                raise ValueError(f"{one.name} should be 0 or more, got {value!r}")
        if self.total_s <= 0:
            raise ValueError("an item has no demand")
        if self.n_gil_visits < 1 or self.cv_ratio > 1:
            raise ValueError("n_gil_visits should be 1 or more, and cv_ratio at most 1")

    @property
    def cpu_s(self) -> float:
        """Return the CPU time of an item in seconds."""
        return self.gil_s + self.python_s + self.child_s

    @property
    def waiting_s(self) -> float:
        """Return the seconds that an item waits for anything but a core or the GIL."""
        return self.asleep_s + self.blocked_s + self.spawn_s

    @property
    def total_s(self) -> float:
        """Return the residence time in seconds of an item without contention: of 1x1 on an idle host."""
        return self.cpu_s + self.waiting_s

    def scaled(self, **factors: float) -> Demands:
        """Return a copy with some fields (``gil_s=1.2``) multiplied."""
        return replace(self, **{name: getattr(self, name) * by for name, by in factors.items()})


_LEAST_RATIO = 1e-3  #: least total of a draw, as a share of the most likely total


def with_some_demand(drawn: Mapping[str, float], middle: Demands) -> Demands:
    """Return *middle* with the *drawn* values of some fields in seconds, but never an item without demand.

    A draw near 0 gets a thousandth of the middle's total, in the demand that is largest in *middle*.
    """
    left = {**{name: getattr(middle, name) for name in SECONDS}, **drawn}
    least = _LEAST_RATIO * middle.total_s
    if sum(left.values()) < least:
        left[max(SECONDS, key=lambda name: float(getattr(middle, name)))] = least
    return replace(middle, **left)


@dataclass(frozen=True, slots=True)
class Terms:
    """Growth of the demands of an item with the layout. All are 0 unless the data need them."""

    process_cores: float = 0.0  #: "a": cores that each process uses regardless of items
    #: "mP": growth of every CPU demand, as a share, per process beyond one
    cpu_per_process_ratio: float = 0.0
    blocked_per_process_ratio: float = 0.0  #: "mD": growth of blocked_s, as a share, per process beyond one
    threaded_asleep_s: float = 0.0  #: "q": increase of asleep_s in processes with several threads
    convoy_ratio: float = 0.0  #: "omega": growth of gil_s, as a share, times 1 - 1/T: hand-overs, cold caches


NO_TERMS = Terms()


@dataclass(frozen=True, slots=True)
class LayoutDemands:
    """Demands of several layouts, with terms applied: arrays over layouts, seconds per item."""

    processes: Array
    threads: Array
    gil_s: Array
    python_s: Array
    child_s: Array
    asleep_s: Array
    blocked_s: Array
    spawn_s: Array
    others_s: Array
    process_cores: Array  #: cores that the processes of a layout use in addition to their items

    @property
    def cpu_s(self) -> Array:
        """Return the CPU time of an item in seconds, per layout."""
        return self.gil_s + self.python_s + self.child_s

    @property
    def waiting_s(self) -> Array:
        """Return the seconds that an item waits for anything but a core or the GIL, per layout."""
        return self.asleep_s + self.blocked_s + self.spawn_s


def layout_demands(demands: Demands, terms: Terms, processes: Any, threads: Any) -> LayoutDemands:
    """Apply *terms* to *demands* for layouts with *processes* and *threads*, sequences of equal length."""
    sets = {one.name: np.array([getattr(demands, one.name)]) for one in fields(Demands)}
    more = {one.name: np.array([getattr(terms, one.name)]) for one in fields(Terms)}
    return stacked_demands(sets, more, processes, threads)


def stacked_demands(
    demands: Mapping[str, Array], terms: Mapping[str, Array], processes: Any, threads: Any
) -> LayoutDemands:
    """Apply terms to many sets of demands: sets one after the other, all layouts within each.

    Args:
        demands: by the names of `Demands`, (sets,) each.
        terms: by the names of `Terms`, (sets,) each; a missing one is 0.
        processes, threads: of the layouts.
    """
    p, t = np.asarray(processes, dtype=float), np.asarray(threads, dtype=float)
    nothing = np.zeros(1)
    own = {name: demands[name][:, None] for name in (*SECONDS, "others_s")}
    more = {one.name: terms.get(one.name, nothing)[:, None] for one in fields(Terms)}
    more_cpu = 1 + more["cpu_per_process_ratio"] * (p - 1)
    found = {
        "processes": p,
        "threads": t,
        "gil_s": own["gil_s"] * more_cpu * (1 + more["convoy_ratio"] * (1 - 1 / t)),
        "python_s": own["python_s"] * more_cpu,
        "child_s": own["child_s"] * more_cpu,
        "asleep_s": own["asleep_s"] + np.where(t > 1, more["threaded_asleep_s"], 0.0),
        "blocked_s": own["blocked_s"] * (1 + more["blocked_per_process_ratio"] * (p - 1)),
        "spawn_s": own["spawn_s"],
        "others_s": own["others_s"],
        "process_cores": more["process_cores"] * p,
    }
    shape = len(own["gil_s"]), len(p)
    return LayoutDemands(**{name: np.broadcast_to(one, shape).reshape(-1) for name, one in found.items()})
