"""Ideal throughput, bottleneck and time shares of a service of known demands, by arithmetic.

An item computes `python_s` with the GIL, starts a child that computes `child_s`, and waits `wait_s`. Up to
`n` items run at once, in P processes with one GIL each, on C cores. Three laws bound the throughput of any
scheduler (Denning & Buzen 1978, "The Operational Analysis of Queueing Network Models"):
n / (python_s + child_s + wait_s), P / python_s and C / (python_s + child_s). Unless two of these bounds are
nearly equal, a service reaches the lowest one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

#: a station that is so busy binds, and one that is 95 % as busy binds with it: the rule of `tuner explain`
BUSY_RATIO = 0.8
ALIKE_RATIO = 0.95


@dataclass(frozen=True, slots=True)
class Demand:
    """Demands of one item, in seconds."""

    python_s: float = 0.0
    child_s: float = 0.0
    wait_s: float = 0.0

    @property
    def alone_s(self) -> float:
        """How long an item takes that meets no other."""
        return self.python_s + self.child_s + self.wait_s

    @property
    def in_child(self) -> Demand:
        """The same item in a child of the worker process, to which Python is a child's CPU."""
        return Demand(child_s=self.python_s + self.child_s, wait_s=self.wait_s)

    def with_start(self, start: Start) -> Demand:
        """Return the demand with the cost of starting the child, if there is one."""
        if not self.child_s:
            return self
        return replace(self, python_s=self.python_s + start.python_s, child_s=self.child_s + start.child_s)


@dataclass(frozen=True, slots=True)
class Start:
    """CPU seconds that it takes to start a child that does nothing, and to end it."""

    python_s: float  #: in the process that starts it
    child_s: float


@dataclass(frozen=True, slots=True)
class Ideal:
    """Ideal figures of a layout."""

    items_per_s: float
    bottleneck: frozenset[str]  #: of gil, cores, waiting
    shares: dict[str, float]  #: of the time of *n* threads: python, child, asleep, gil_line, core_line
    #: whether it says how many threads wait for the GIL, and how many for a core. Where children fill the
    #: cores it does not: a thread that holds the GIL waits for a core, and others wait for that thread.
    divides_lines: bool = True


def ideal(demand: Demand, n_processes: int, n_items: int, n_cores: int) -> Ideal:
    """The ideal of *n_items* at once in *n_processes* on *n_cores*."""
    bounds = [n_items / demand.alone_s]
    if demand.python_s:
        bounds.append(n_processes / demand.python_s)
    if cpu_s := demand.python_s + demand.child_s:
        bounds.append(n_cores / cpu_s)
    rate = min(bounds)
    busy = {"gil": rate * demand.python_s / n_processes, "cores": rate * cpu_s / n_cores}
    shares = {
        "python": rate * demand.python_s / n_items,
        "child": rate * demand.child_s / n_items,
        "asleep": rate * demand.wait_s / n_items,
    }
    divides = not (demand.python_s and demand.child_s and busy["cores"] >= ALIKE_RATIO)
    return Ideal(rate, _bottleneck(busy), shares | _lines(shares, busy, n_processes, n_items), divides)


def of_event_loop(found: Ideal, demand: Demand, n_processes: int) -> Ideal:
    """*found*, with the shares of the one thread of each process, which has all items of it in hand."""
    python = min(1.0, found.items_per_s * demand.python_s / n_processes)
    rest = "core_line" if "cores" in found.bottleneck else "asleep"
    return replace(found, shares={**dict.fromkeys(found.shares, 0.0), "python": python, rest: 1.0 - python})


def _bottleneck(busy: dict[str, float]) -> frozenset[str]:
    highest = max(busy.values())
    if highest < BUSY_RATIO:
        return frozenset({"waiting"})
    return frozenset(name for name, value in busy.items() if value >= ALIKE_RATIO * highest)


def _lines(
    shares: dict[str, float], busy: dict[str, float], n_processes: int, n_items: int
) -> dict[str, float]:
    """Split the remaining time of threads into waits for the GIL and for a core."""
    left = max(0.0, 1.0 - sum(shares.values()))
    if not shares["python"]:
        return {"gil_line": 0.0, "core_line": left}
    if busy["cores"] < ALIKE_RATIO:
        return {"gil_line": left, "core_line": 0.0}
    # of each process one thread holds the GIL, on a core or in line for one; a process is full of threads
    if shares["child"] or shares["asleep"]:
        return {"gil_line": 0.0, "core_line": left}
    gil_line = 1.0 - n_processes / n_items
    return {"gil_line": gil_line, "core_line": max(0.0, left - gil_line)}


def pairs_in_order(ideals: list[float], measured: list[float], apart_ratio: float = 0.05) -> tuple[int, int]:
    """How many pairs whose ideals differ by *apart_ratio* were measured in that order, of how many."""
    n_right = n_all = 0
    for one in range(len(ideals)):
        for other in range(one):
            low, high = sorted((one, other), key=lambda which: ideals[which])
            if ideals[high] >= ideals[low] * (1.0 + apart_ratio):
                n_all += 1
                n_right += measured[high] > measured[low]
    return n_right, n_all
