"""What binds a layout: the GIL, the cores, waiting, a backend, memory.

The station with the highest utilization bounds throughput: no more than 1 / utilization of what passes now
can ever pass (utilization law). So, by the CPU clocks of a layout's windows:

- A station that is busy for `BUSY` of the time or more binds.
- One whose utilization is `NEAR` of that or more binds as well: relieving the first alone brings 5 % at most.
- Where none is so busy, more threads would help: the layout waits. It waits for something that items share (a
  backend) where its threads spend more of their time on that than on anything else: in uninterruptible waits
  (disks, NFS), or longer in waits than an item alone.
- Others on the box give way to a service that wants more. Where they use more of full cores than the service
  does, the cores bind only if its threads wait for them for 1 - `BUSY` of their time or more.
- Memory binds where a limit keeps the layout out, or where tasks waited for memory.

Own CPU of a worker counts as time with its GIL, less what a calibration knows to be without: an upper end
where C code lets go of it.

Source: Denning & Buzen, The operational analysis of queueing network models (1978).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from tuner.core.layout import Layout
from tuner.core.model.demand import NO_TERMS, Demands, LayoutDemands, Terms, layout_demands
from tuner.core.model.diagnosis.evidence import Evidence
from tuner.core.model.machine import Machine
from tuner.core.model.network import solve

What = Literal["gil", "cores", "waiting", "backend", "memory"]
Station = Literal["gil", "cores"]
Share = Literal["python", "child", "core_line", "gil_line", "asleep", "blocked", "contended", "elsewhere"]
Source = Literal["measured", "modelled"]

BUSY = 0.8  #: a station that is busy for so much of the time binds: more threads would bring 25 % at most
NEAR = 0.95  #: so does one whose utilization is this share of the highest, or more
NO_GAIN = 1.05  #: a ratio of throughputs below it is no gain
_FEW = 0.01  #: children that use less than that of their parents' CPU are none


@dataclass(frozen=True, slots=True)
class Figure:
    """A number, and whether it was seen or follows from the model."""

    value: float
    source: Source


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What binds a layout, and by which figures."""

    layout: Layout
    what: tuple[What, ...]  #: what binds, the most first; never empty
    utilization: Mapping[
        Station, Figure
    ]  #: 0 to 1, of a process's GIL on average; no "gil" where there is none
    shares: Mapping[Share, Figure]  #: what the threads spend their time on; add up to 1
    gain_ratio: float | None  #: throughput with twice the threads over this, modelled; None: not known
    cores: float  #: what the layout ran on
    others_cores: float  #: of these, what others used
    backend_cores: float  #: of these, the backends that the config names
    memory: str | None = None  #: why memory binds, in words

    def n_threads(self, share: Share) -> Figure | None:
        """How many of the layout's threads that is at a time, on average; None: not known."""
        found = self.shares.get(share)
        return None if found is None else Figure(found.value * self.layout.total_threads, found.source)


@dataclass(frozen=True, slots=True)
class Expected:
    """What the model has for one layout; tasks and threads are means over time."""

    n_core_waiting: float
    n_gil_waiting: float
    n_asleep: float
    n_blocked: float  #: those that wait for a child to start included
    n_starting: float  #: of these, those that wait for a child to start
    gain_ratio: float  #: throughput with twice the threads over that with these


def diagnose(
    seen: Sequence[Evidence], machine: Machine, demands: Demands | None, terms: Terms = NO_TERMS
) -> list[Diagnosis]:
    """What binds each of the layouts *seen*, one each, in their order.

    Args:
        seen: one per layout.
        machine: what they ran on; its foreign_cores are not used, as windows tell them.
        demands: for what cannot be seen from outside: how long items wait, and how much of a worker's CPU
            needs the GIL; CPU per item is each layout's own. None: threads in line for the GIL cannot be
            told from threads asleep.
        terms: of the same calibration.
    """
    if demands is None:
        return [diagnose_one(one, machine, None) for one in seen]
    gil_ratio = gil_ratio_of(demands)
    expected = _expected(seen, machine, demands, terms)
    return [diagnose_one(one, machine, model, gil_ratio) for one, model in zip(seen, expected, strict=True)]


def diagnose_one(
    seen: Evidence, machine: Machine, expected: Expected | None, gil_ratio: float = 1.0
) -> Diagnosis:
    """What binds one layout; *gil_ratio* is the share of its workers' own CPU that needs the GIL."""
    utilization = _utilization(seen, machine, gil_ratio)
    levels = {station: figure.value for station, figure in utilization.items()}
    shares = _shares(seen, machine, expected, levels)
    amounts = {name: figure.value for name, figure in shares.items()}
    starting = 0.0 if expected is None else expected.n_starting / seen.layout.total_threads
    gain_ratio = None if expected is None else expected.gain_ratio
    own_cpu_s = seen.own_cpu_s + seen.child_cpu_s
    if levels["cores"] >= BUSY and seen.others_cpu_s > own_cpu_s:
        gain_ratio = None  # what others would leave to more threads is not known
        if amounts.get("core_line", 0.0) < 1 - BUSY:
            levels["cores"] = own_cpu_s / (seen.length_s * machine.cores)
    what = bound_by(
        levels, amounts, starting=starting, gain_ratio=gain_ratio, short_of_memory=seen.memory is not None
    )
    return Diagnosis(
        layout=seen.layout,
        what=what,
        utilization=utilization,
        shares=shares,
        gain_ratio=gain_ratio,
        cores=machine.cores,
        others_cores=seen.others_cores,
        backend_cores=seen.backend_cpu_s / seen.length_s,
        memory=seen.memory,
    )


def bound_by(
    utilization: Mapping[Station, float],
    shares: Mapping[Share, float],
    *,
    starting: float = 0.0,
    gain_ratio: float | None = None,
    short_of_memory: bool = False,
) -> tuple[What, ...]:
    """The rule: what binds, the most first; never empty.

    Args:
        utilization: of the stations there are, 0 to 1.
        shares: of the threads' time.
        starting: the part of the share ``blocked`` that is the start of children, which is no backend's.
        gain_ratio: throughput with twice the threads over that with these; None: not known, taken for a gain.
        short_of_memory: a limit keeps it out, or tasks waited for memory.
    """
    if short_of_memory:
        return ("memory",)
    stations: list[Station] = sorted(utilization, key=lambda station: -utilization[station])
    highest = utilization[stations[0]]
    if highest >= BUSY or (gain_ratio is not None and gain_ratio < NO_GAIN):
        return tuple(station for station in stations if utilization[station] >= NEAR * highest)
    of_backend = max(0.0, shares.get("blocked", 0.0) - starting) + shares.get("contended", 0.0)
    of_own = {name: share for name, share in shares.items() if name not in ("blocked", "contended")}
    most = max(_at_once(of_own), of_backend)
    kinds: list[tuple[float, What]] = [(_at_once(of_own), "waiting"), (of_backend, "backend")]
    return tuple(what for amount, what in sorted(kinds, reverse=True) if amount >= NEAR * most)


def _at_once(shares: Mapping[Share, float]) -> float:
    """The largest of: computing, standing in line, an item's own waits."""
    groups: tuple[tuple[Share, ...], ...] = (
        ("python", "child"),
        ("core_line", "gil_line"),
        ("asleep", "elsewhere"),
    )
    return max(sum(shares.get(name, 0.0) for name in group) for group in groups)


def gil_ratio_of(demands: Demands) -> float:
    """The share of a worker's own CPU that needs the GIL; 1 where it has none to share."""
    own_s = demands.gil_s + demands.python_s
    return demands.gil_s / own_s if own_s else 1.0


def _utilization(seen: Evidence, machine: Machine, gil_ratio: float) -> dict[Station, Figure]:
    used_s = seen.own_cpu_s + seen.child_cpu_s + max(0.0, seen.others_cpu_s)
    found: dict[Station, Figure] = {
        "cores": Figure(min(1.0, used_s / (seen.length_s * machine.cores)), "measured")
    }
    if machine.has_gil:
        per_process = seen.own_cpu_s / (seen.length_s * seen.layout.processes)
        found["gil"] = Figure(min(1.0, gil_ratio * per_process), "measured" if gil_ratio == 1 else "modelled")
    return found


def _shares(
    seen: Evidence,
    machine: Machine,
    expected: Expected | None,
    utilization: Mapping[Station, float],
) -> dict[Share, Figure]:
    """What threads spend their time on: what clocks say as it is, the rest as the model divides it."""
    n, thread_s = seen.layout.total_threads, seen.length_s * seen.layout.total_threads
    measured: dict[Share, float] = {"python": seen.own_cpu_s / thread_s, "child": seen.child_cpu_s / thread_s}
    if (
        seen.run_delay_s is not None and seen.child_cpu_s <= _FEW * seen.own_cpu_s
    ):  # else children wait as well
        measured["core_line"] = seen.run_delay_s / thread_s
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
    if machine.has_gil and seen.layout.threads > 1:
        modelled["gil_line"] = expected.n_gil_waiting / n
    if "core_line" not in measured:
        modelled["core_line"] = expected.n_core_waiting / n
    if "blocked" not in measured:
        modelled["blocked"] = expected.n_blocked / n
    known = sum(modelled.values())
    if known > rest:
        modelled = {name: share * rest / known for name, share in modelled.items()}
    else:  # those who wait longer than the model has it wait for the busiest station, or for what it has not
        where = _longest_line(utilization, modelled)
        modelled[where] = modelled.get(where, 0.0) + rest - known
    return {**shares, **{name: Figure(share, "modelled") for name, share in modelled.items()}}


def _longest_line(utilization: Mapping[Station, float], modelled: Mapping[Share, float]) -> Share:
    lines: dict[Station, Share] = {"gil": "gil_line", "cores": "core_line"}
    busy = [
        station for station in lines if utilization.get(station, 0.0) >= BUSY and lines[station] in modelled
    ]
    return lines[max(busy, key=lambda station: utilization[station])] if busy else "contended"


def _expected(seen: Sequence[Evidence], machine: Machine, demands: Demands, terms: Terms) -> list[Expected]:
    """The network, with the CPU per item that each layout showed and what others left it.

    Waits are by Little's law: as long as calibrated, as many items as were seen.
    """
    as_it_is = _measured_demands(seen, demands, terms, times=1)
    with_twice = _measured_demands(seen, demands, terms, times=2)
    quiet = replace(machine, foreign_cores=0.0)
    now, then = solve(as_it_is, quiet), solve(with_twice, quiet)
    per_s = np.array([one.throughput_per_s for one in seen])
    starting = per_s * as_it_is.spawn_s
    return [
        Expected(*(float(value) for value in values))
        for values in zip(
            now.n_core_waiting,
            now.n_gil_waiting,
            per_s * as_it_is.asleep_s,
            per_s * as_it_is.blocked_s + starting,
            starting,
            then.throughput_per_s / now.throughput_per_s,
            strict=True,
        )
    ]


def _measured_demands(
    seen: Sequence[Evidence], demands: Demands, terms: Terms, *, times: int
) -> LayoutDemands:
    """Each layout's own CPU per item and strangers, waits as calibrated; *times* as many threads."""
    waits = layout_demands(
        demands, terms, [one.layout.processes for one in seen], [one.layout.threads * times for one in seen]
    )
    own_s = np.array([one.own_cpu_s / one.n_items for one in seen])
    gil_ratio = gil_ratio_of(demands)
    return replace(
        waits,
        gil_s=gil_ratio * own_s,
        python_s=(1 - gil_ratio) * own_s,
        child_s=np.array([one.child_cpu_s / one.n_items for one in seen]),
        process_cores=np.array([one.others_cores for one in seen]),
    )
