"""The bottleneck of a layout: the GIL, the cores, waiting, a backend, memory.

The station with the highest utilization bounds throughput: at most 1 / utilization of the present throughput
is possible (utilization law). So, by the CPU clocks of a layout's windows:

- A station that is busy for `BUSY` of the time or more is a bottleneck.
- So is one whose utilization is `NEAR` of that or more: relieving the first alone gains 5 % at most.
- If no station is so busy, more threads would help: the layout waits. It waits for something that items share
  (a backend) if its threads spend more of their time on that than on anything else: in uninterruptible waits
  (disks, NFS), or longer in waits than an item alone.
- Other processes on the host give way to a service that needs more, but interrupts do not. If these processes
  use more of the full cores than the service does, the cores are a bottleneck only if its threads wait for
  them for 1 - `BUSY` of their time or more.
- The backends that the config names work for the items, on the same cores: their CPU fills these as that of
  children does, and meanwhile a thread sleeps.
- The load generator's connections are the bottleneck if no station is busy and they leave the service without
  requests: they spread so unevenly that some threads lack one while other workers have too many, or a process
  works on as many requests as arrive (an event loop) and more clients were not measured to be useless. Such a
  measurement is one of the load, not of the layout.
- Memory is the bottleneck if the layout exceeds a limit, or if tasks waited for memory.

Own CPU of a worker counts as time with its GIL, less the part that a calibration estimates to be without: an
upper bound if C code releases the GIL.

Source: Denning & Buzen, The operational analysis of queueing network models (1978).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tuner.core.defaults import NO_GAIN_RATIO
from tuner.core.domain.layout import Layout
from tuner.core.domain.requests import STARVED_RATIO
from tuner.core.model.demand import Demands
from tuner.core.model.diagnosis.evidence import Evidence, Loaded
from tuner.core.model.diagnosis.expected import Expected, gil_ratio_of, predict_measured
from tuner.core.model.machine import Machine

What = Literal["gil", "cores", "waiting", "backend", "memory", "connections"]
Station = Literal["gil", "cores"]
Share = Literal[
    "python", "child", "master", "core_line", "gil_line", "asleep", "blocked", "contended", "elsewhere"
]
Source = Literal["measured", "modelled"]

BUSY = 0.8  #: least utilization of a bottleneck: more threads would gain 25 % at most
NEAR = 0.95  #: share of the highest utilization, above which another resource is a bottleneck too
_FEW = 0.01  #: smaller shares of CPU or of the threads' time count as none
_LITTLE_TIME = 0.005  #: a modelled part below this share of the time does not make the share a modelled one
_LITTLE = 0.1  #: backends with a smaller share of the workers' CPU contribute little to the waiting for cores


@dataclass(frozen=True, slots=True)
class Figure:
    """A number, and whether it was measured or follows from the model."""

    value: float
    source: Source


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The bottlenecks of a layout, with the figures that show them."""

    layout: Layout
    what: tuple[What, ...]  #: bottlenecks, most important first; never empty
    utilization: Mapping[
        Station, Figure
    ]  #: 0 to 1; for the GIL, the mean over processes; no "gil" without a GIL
    shares: Mapping[Share, Figure]  #: shares of the threads' time by activity, which sum to 1
    #: modelled throughput with twice the threads (or processes, if it has only these) over the present one;
    #: None: unknown
    gain_ratio: float | None
    cores: float  #: number of cores available to the layout
    others_cores: float  #: part of the cores that other processes, tuner, interrupts and backends used
    backend_cores: float  #: part of others_cores used by the backends named in the config
    tuner_cores: float = 0.0  #: part of others_cores used by tuner and its load generator
    interrupt_cores: float = 0.0  #: part of others_cores used by interrupts that are charged to no process
    backend_elsewhere_cores: float = 0.0  #: cores that these backends used outside those of the service
    memory: str | None = None  #: reason why memory is a bottleneck, in words; None: it is not
    load: Loaded | None = None  #: load by the load generator; None: it sends no requests
    shape: Layout | None = None  #: number of processes, and of threads that share a GIL; None: the layout's
    #: cores used by masters and by threads that work on no items, if measured separately
    beside_cores: float = 0.0
    #: the layout with twice the threads (or processes) and its throughput over this one's; None: not measured
    doubled: tuple[Layout, float] | None = None

    def n_threads(self, share: Share) -> Figure | None:
        """Return how many of the layout's threads that share is on average; None if not known."""
        found = self.shares.get(share)
        n = (self.shape or self.layout).total_threads
        return None if found is None else Figure(found.value * n, found.source)


def diagnose(seen: Sequence[Evidence], machine: Machine, demands: Demands | None) -> list[Diagnosis]:
    """Return the bottlenecks of each of the layouts *seen*, in their order.

    Args:
        seen: one per layout.
        machine: the host; its foreign_cores are not used, because windows have them.
        demands: for figures that cannot be measured from outside: how long items wait, and the part of a
            worker's CPU that needs the GIL; CPU per item is that of each layout. None: threads in line for
            the GIL cannot be separated from threads asleep, as in a layout whose items all failed.
    """
    if demands is None:
        return [diagnose_one(one, machine, None) for one in seen]
    gil_ratio = gil_ratio_of(demands)
    reported = [one for one in seen if one.n_done]
    models = zip(reported, predict_measured(reported, machine, demands), strict=True) if reported else ()
    expected = {one.layout: model for one, model in models}
    return [diagnose_one(one, machine, expected.get(one.layout), gil_ratio) for one in seen]


def diagnose_one(
    seen: Evidence, machine: Machine, expected: Expected | None, gil_ratio: float = 1.0
) -> Diagnosis:
    """Return the bottlenecks of one layout; *gil_ratio* is the share of workers' CPU that needs the GIL."""
    utilization = _utilization(seen, machine, gil_ratio)
    levels = {station: figure.value for station, figure in utilization.items()}
    shares = _shares(seen, machine, expected, levels)
    amounts = {name: figure.value for name, figure in shares.items()}
    gain_ratio = None if expected is None else expected.gain_ratio
    if levels["cores"] >= BUSY and seen.others_cpu_s - seen.interrupt_s > seen.items_cpu_s:
        # threads that deal items out, send requests or answer queries may wait for a core, too: waits longer
        # than those of an item alone do not show that items share a resource
        amounts["elsewhere"] = amounts.get("elsewhere", 0.0) + amounts.pop("contended", 0.0)
        gain_ratio = None  # the CPU that other processes would leave to more threads is not known
        line = _whole_line(seen, shares.get("core_line"), is_modelled=expected is not None)
        if line is not None and _makes_way(seen, line, amounts.get("python", 0.0)):
            levels["cores"] = (seen.items_cpu_s + seen.interrupt_s) / (seen.length_s * machine.cores)
    if seen.load is not None and seen.load.takes_many:
        gain_ratio = None  # the model has one request per thread
    what = find_bottlenecks(
        levels,
        amounts,
        gain_ratio=gain_ratio,
        short_of_memory=seen.memory is not None,
        short_of_requests=lacks_requests(seen),
    )
    return Diagnosis(
        layout=seen.layout,
        what=what,
        utilization=utilization,
        shares=shares,
        gain_ratio=gain_ratio,
        cores=machine.cores,
        others_cores=seen.others_cores + seen.backend_cpu_s / seen.length_s,
        backend_cores=seen.backend_cpu_s / seen.length_s,
        tuner_cores=seen.tuner_cpu_s / seen.length_s,
        interrupt_cores=seen.interrupt_s / seen.length_s,
        backend_elsewhere_cores=seen.backend_elsewhere_s / seen.length_s,
        memory=seen.memory,
        shape=seen.shape,
        load=seen.load,
        beside_cores=seen.beside_cpu_s / seen.length_s,
    )


def _makes_way(seen: Evidence, line: float, python: float) -> bool:
    """Return whether other processes fill the cores but hardly slow the items.

    Threads wait for a core for a share of *line* of the time, and run for *python*. A thread has one item,
    which is late by that much. An event loop has many: while it is idle, they wait for something else.
    """
    if seen.load is not None and seen.load.takes_many:
        return python + line < BUSY
    return line < 1 - BUSY


def lacks_requests(seen: Evidence) -> bool:
    """Return whether the clients sent fewer requests than the service could work on, cores aside."""
    if seen.load is None:
        return False
    spread = seen.load.spread
    starved = None if spread is None else spread.starved_ratio(seen.shape.total_threads)
    if starved is not None and starved >= STARVED_RATIO:
        return True
    return seen.load.takes_many and not seen.load.facts.is_enough


def find_bottlenecks(
    utilization: Mapping[Station, float],
    shares: Mapping[Share, float],
    *,
    gain_ratio: float | None = None,
    short_of_memory: bool = False,
    short_of_requests: bool = False,
) -> tuple[What, ...]:
    """Return the bottlenecks, the most important first; never empty.

    Args:
        utilization: of the stations there are, 0 to 1.
        shares: of the threads' time.
        gain_ratio: throughput with twice the threads over that with these; None: not known, taken for a gain.
        short_of_memory: the layout exceeds a memory limit, or tasks waited for memory.
        short_of_requests: see `lacks_requests`; it counts if no station is busy.
    """
    if short_of_memory:
        return ("memory",)
    stations: list[Station] = sorted(utilization, key=lambda station: -utilization[station])
    highest = utilization[stations[0]]
    if short_of_requests and highest < BUSY:
        return ("connections",)
    if highest >= BUSY or (gain_ratio is not None and gain_ratio < NO_GAIN_RATIO):
        return tuple(station for station in stations if utilization[station] >= NEAR * highest)
    of_backend = shares.get("blocked", 0.0) + shares.get("contended", 0.0)
    of_own = {name: share for name, share in shares.items() if name not in ("blocked", "contended")}
    most = max(_at_once(of_own), of_backend)
    kinds: list[tuple[float, What]] = [(_at_once(of_own), "waiting"), (of_backend, "backend")]
    return tuple(what for amount, what in sorted(kinds, reverse=True) if amount >= NEAR * most)


def _at_once(shares: Mapping[Share, float]) -> float:
    """Return the largest share of: computing, waiting in line, an item's own waits."""
    groups: tuple[tuple[Share, ...], ...] = (
        ("python", "child", "master"),
        ("core_line", "gil_line"),
        ("asleep", "elsewhere"),
    )
    return max(sum(shares.get(name, 0.0) for name in group) for group in groups)


def _utilization(seen: Evidence, machine: Machine, gil_ratio: float) -> dict[Station, Figure]:
    used_s = seen.items_cpu_s + max(0.0, seen.others_cpu_s)
    found: dict[Station, Figure] = {
        "cores": Figure(min(1.0, used_s / (seen.length_s * machine.cores)), "measured")
    }
    if machine.has_gil:
        per_process = seen.own_cpu_s / (seen.length_s * seen.shape.processes)
        busy = Figure(min(1.0, gil_ratio * per_process), "measured" if gil_ratio == 1 else "modelled")
        held = _held_at_least(seen)
        found["gil"] = Figure(held, "measured") if held > busy.value else busy
    return found


def _held_at_least(seen: Evidence) -> float:
    """Return a lower bound of the share of time that the GIL of a process is held.

    Threads wait only for a held GIL, and then at most all threads of the process but one: their mean number
    is at most that many times the share. So it covers a GIL held by a thread that sleeps or computes in C,
    which no CPU clock shows.
    """
    n_others = seen.shape.threads - (0 if _has_helpers(seen) else 1)  # a thread without items may hold it
    if seen.gil_waiting_s is None or not n_others:
        return 0.0
    n_waiting = seen.gil_waiting_s / (seen.length_s * seen.shape.processes)
    return min(1.0, n_waiting / n_others)


def _has_helpers(seen: Evidence) -> bool:
    """Return whether the processes have busy threads in addition to those of the items."""
    return seen.helping_cpu_s > _FEW * seen.own_cpu_s


def _has_core_line(seen: Evidence) -> bool:
    """Return whether only the items' threads wait for a core; it is not measured for children and backends.

    If these use only a small part of the threads' time, their wait is negligible, too.
    """
    children_s, hardly_s = seen.of_children_s, _FEW * seen.length_s * seen.shape.total_threads
    if children_s is None or children_s > max(_FEW * seen.own_cpu_s, hardly_s):
        return False
    return seen.run_delay_s is not None and seen.backend_cpu_s <= max(_LITTLE * seen.own_cpu_s, hardly_s)


def _whole_line(seen: Evidence, line: Figure | None, *, is_modelled: bool) -> float | None:
    """Return the share of time in which items wait for a core, children and backends included, or None."""
    if line is None or is_modelled or _has_core_line(seen):
        return None if line is None else line.value
    ratio = _alike_ratio(seen)
    return None if ratio is None else line.value * (1 + ratio)


def _alike_ratio(seen: Evidence) -> float | None:
    """Return the wait for a core of children and backends, over that of items' threads.

    If they compute less than the workers, they are assumed to wait as long for each second of CPU; None if
    they compute more.
    """
    awaited_s = _awaited_s(seen)
    own_s = seen.own_cpu_s if seen.item_cpu_s is None else seen.item_cpu_s
    return awaited_s / own_s if own_s and awaited_s <= seen.own_cpu_s else None


def _awaited_s(seen: Evidence) -> float:
    """Return the CPU seconds of backends and children, a master's included if not separated."""
    children_s = seen.of_children_s
    return (seen.child_cpu_s if children_s is None else children_s) + seen.backend_cpu_s


def _shares(
    seen: Evidence,
    machine: Machine,
    expected: Expected | None,
    utilization: Mapping[Station, float],
) -> dict[Share, Figure]:
    """Return the shares of the threads' time: measured by clocks, the rest divided by the model."""
    n, thread_s = seen.shape.total_threads, seen.length_s * seen.shape.total_threads
    item_s = seen.own_cpu_s if seen.item_cpu_s is None else min(seen.item_cpu_s, seen.own_cpu_s)
    children_s = seen.of_children_s
    measured: dict[Share, float] = {"python": item_s / thread_s}
    if children_s is None:
        measured["master"] = seen.child_cpu_s / thread_s
    else:
        measured["child"] = children_s / thread_s
    if seen.run_delay_s is not None:  # of the items' threads; children and backends may wait in line, too
        measured["core_line"] = max(0.0, seen.run_delay_s - (seen.gil_waking_s or 0.0)) / thread_s
    if seen.gil_waiting_s is not None and machine.has_gil and (seen.shape.threads > 1 or _has_helpers(seen)):
        measured["gil_line"] = seen.gil_waiting_s / thread_s
    if seen.blocked_s is not None:
        measured["blocked"] = seen.blocked_s / thread_s
    total = sum(measured.values())
    if total > 1:  # children that use several cores, clocks that are read a moment apart
        measured = {name: share / total for name, share in measured.items()}
    rest = max(0.0, 1 - total)
    shares = {name: Figure(share, "measured") for name, share in measured.items()}
    if expected is None:
        return {**shares, "elsewhere": Figure(rest, "measured")}
    modelled: dict[Share, float] = {"asleep": expected.n_asleep / n}
    if machine.has_gil and seen.shape.threads > 1 and "gil_line" not in measured:
        modelled["gil_line"] = expected.n_gil_waiting / n
    awaited_s = _awaited_s(seen)
    if "core_line" not in measured:
        modelled["core_line"] = expected.n_core_waiting / n
    elif not _has_core_line(seen):  # the part of children and backends, which is not measured
        ratio = _alike_ratio(seen)
        modelled["core_line"] = (
            expected.n_core_waiting / n * awaited_s / (seen.own_cpu_s + awaited_s)
            if ratio is None
            else measured["core_line"] * ratio
        )
    if "blocked" not in measured:
        modelled["blocked"] = expected.n_blocked / n
    known = sum(modelled.values())
    if known > rest:
        modelled = {name: share * rest / known for name, share in modelled.items()}
    else:  # threads that wait longer than in the model wait for a busy station, or outside the model
        # only the line of the items' threads was measured
        open_lines = modelled.keys() - (
            {"core_line"} if "core_line" in measured and awaited_s <= item_s else ()
        )
        where, left = _longest_line(utilization, open_lines), rest - known
        if where == "contended":  # the thread that deals items out may wait for a core, and the rest for it
            of_line = left * _dealer_waits(seen)
            modelled["core_line"] = modelled.get("core_line", 0.0) + of_line
            left -= of_line
        modelled[where] = modelled.get(where, 0.0) + left
    for name, share in modelled.items():
        is_measured = name in shares and share < _LITTLE_TIME
        value = measured.get(name, 0.0) + share  # all of them: shares add up to 1
        shares[name] = Figure(value, "measured" if is_measured else "modelled")
    return shares


def _dealer_waits(seen: Evidence) -> float:
    """Return the share of its time that a thread which deals items out waits for a core.

    That thread is a process's main thread, for example, or a master. The share is 0 if it has idle time: then
    no item waits for it.
    """
    if seen.beside_delay_s is None or not seen.beside_delay_s:
        return 0.0
    at_it_s = seen.beside_cpu_s + seen.beside_delay_s
    n_dealers = seen.shape.processes if _has_helpers(seen) else seen.layout.processes if seen.is_pooled else 1
    return seen.beside_delay_s / at_it_s if at_it_s >= BUSY * seen.length_s * n_dealers else 0.0


def _longest_line(utilization: Mapping[Station, float], modelled: Collection[Share]) -> Share:
    """Return the line of threads that the model does not explain, at the busiest unmeasured station."""
    lines: dict[Station, Share] = {"gil": "gil_line", "cores": "core_line"}
    busy = [
        station for station in lines if utilization.get(station, 0.0) >= BUSY and lines[station] in modelled
    ]
    return lines[max(busy, key=lambda station: utilization[station])] if busy else "contended"
