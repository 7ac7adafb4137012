"""Rules of thumb for sizing a service, computed for its demands.

A rule is a number and its reason; it has a note if it lies beyond the measurements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Literal

import numpy as np

from tuner.core.defaults import TEN_MINUTES_S
from tuner.core.domain.layout import Layout
from tuner.core.model.demand import Demands
from tuner.core.model.machine import Machine
from tuner.core.model.network import predict
from tuner.core.model.prediction.extrapolation import CalibratedRange, core_doublings, reasons
from tuner.core.model.prediction.shapes import Shape
from tuner.core.text.figures import pluralize

Kind = Literal["threads", "processes", "single-threads", "utilization"]

ENOUGH = 0.95  #: share of the largest possible gain that is enough
_STILL_RISES = 1.01  #: factor by which throughput still rises with twice the threads
MOST = 1024  #: most threads of a process, and processes of a host, that are tried
_MOST_IN_ALL = 100_000  #: most threads of a host


@dataclass(frozen=True, slots=True)
class Rule:
    """One number for sizing."""

    kind: Kind
    what: str  #: name of the counted thing
    count: int | None  #: None: more than *most*
    reason: str  #: reason for the number, with the figures
    #: descriptions of the extrapolations beyond the measurements; empty: there are none
    extrapolated: tuple[str, ...]
    cores: float  #: number of cores of the host for which it holds
    most: int = MOST  #: largest number that was tried
    variant: str = ""  #: variant of the service


def resize(machine: Machine, cores: float) -> Machine:
    """Return a host like *machine* with *cores* logical cores, and as many threads on each physical one."""
    physical = machine.physical_cores
    return replace(
        machine, cores=cores, physical_cores=None if physical is None else cores * physical / machine.cores
    )


def large_enough(rules: Mapping[Kind, Rule], shape: Shape) -> str | None:
    """Return the smallest layout of a *shape* that fills the cores; for threads, that fills its process.

    Args:
        rules: of one variant.
        shape: of the layout.

    Returns:
        None: there is none, or it is not known.
    """
    of_shape: dict[Shape, Kind] = {"processes": "single-threads", "threads": "threads", "both": "processes"}
    rule, threads = rules.get(of_shape[shape]), rules.get("threads")
    if rule is None or rule.count is None:
        return None
    if shape == "processes":
        return f"{rule.count}x1" if threads is not None else f"{rule.count}x-"
    if shape == "threads":
        return f"1x{rule.count}"
    return f"{rule.count}x{threads.count}" if threads is not None and threads.count is not None else None


def sizing_rules(demands: Demands, machine: Machine, seen: CalibratedRange) -> list[Rule]:
    """Return how many threads fill a process, and how many processes and threads fill *machine*.

    For a service without a setting of threads, only the processes are returned; for items without CPU demand
    nothing, because they fill no host.

    Args:
        demands: of an item.
        machine: the host to size for.
        seen: the calibrated range of the demands.
    """
    if not demands.cpu_s:
        return []
    box_per_s = float(machine.total_speed(np.array(np.inf))) / demands.cpu_s
    gil_per_s = 1 / demands.gil_s if machine.has_gil and demands.gil_s else np.inf

    def gives(layout: Layout) -> float:
        return float(predict(demands, machine, [layout]).throughput_per_s[0])

    def beyond(layout: Layout) -> tuple[str, ...]:
        one = predict(demands, machine, [layout])
        runnable = float(one.cpu_cores[0] + one.n_core_waiting[0])
        return tuple(reasons(seen, machine, layout, cpu_cores=float(one.cpu_cores[0]), n_runnable=runnable))

    has_threads = any(layout.has_threads for layout in seen.layouts)
    rules = []
    kinds: list[tuple[Kind, int]] = [("single-threads", 1)]
    if has_threads:
        most_per_s = min(gil_per_s, box_per_s)
        *fewer, last = (gives(Layout(1, 2**n)) for n in range(MOST.bit_length()))
        if last <= _STILL_RISES * max(fewer):  # threads that contend for the GIL may reach neither limit
            most_per_s = min(most_per_s, max(fewer))
        threads = _fewest(lambda n: gives(Layout(1, n)) >= ENOUGH * most_per_s, MOST)
        what = "thread that fills one process" if threads == 1 else "threads that fill one process"
        reason = _gil_reason(demands) if gil_per_s <= box_per_s else _cores_reason(demands, machine)
        rules.append(
            Rule("threads", what, threads, reason, beyond(Layout(1, threads or MOST)), machine.cores)
        )
        if threads is not None and threads > 1:
            kinds.insert(0, ("processes", threads))
    for kind, each in kinds:
        most = min(MOST, _MOST_IN_ALL // each)
        processes = _fewest(
            lambda n, each=each: gives(Layout(n, each)) >= ENOUGH * box_per_s,  # type: ignore[misc]
            most,
        )
        of = f" of {pluralize(each, 'thread')}" if has_threads else ""
        outside = beyond(Layout(processes or most, each, has_threads=has_threads))
        noun, verb = ("process", "fills") if processes == 1 else ("processes", "fill")
        what = f"{noun}{of} that {verb} the host"
        reason = _cores_reason(demands, machine)
        rules.append(Rule(kind, what, processes, reason, outside, machine.cores, most))
    rules.append(_by_utilization(demands, machine, seen, "threads" if has_threads else "processes"))
    return rules


def _by_utilization(demands: Demands, machine: Machine, seen: CalibratedRange, of: str) -> Rule:
    more = core_doublings(seen, machine.free_cores) > 0
    outside = (f"more than {pluralize(seen.known_cores, 'core', '.3g')} busy",) if more else ()
    busy_ratio = demands.cpu_s / demands.total_s
    return Rule(
        "utilization",
        f"{of} in all: cores / utilization",
        ceil(machine.free_cores / busy_ratio - 1e-9),
        f"an item alone takes {_time(demands.total_s)}, {100 * busy_ratio:.3g} % of it on a core"
        f" ({_time(demands.cpu_s)}): {machine.free_cores:.3g} / {busy_ratio:.3g}; queues are ignored",
        outside,
        machine.cores,
    )


def _gil_reason(demands: Demands) -> str:
    elsewhere_s = demands.total_s - demands.gil_s
    knee = 1 + elsewhere_s / demands.gil_s
    return (
        f"an item holds the GIL for {_time(demands.gil_s)} and is elsewhere for {_time(elsewhere_s)};"
        f" {_short(knee)} threads (1 + {_short(knee - 1)}) would keep it busy if they never waited for each"
        " other"
    )


def _cores_reason(demands: Demands, machine: Machine) -> str:
    speed = float(machine.total_speed(np.array([np.inf]))[0])
    cores = pluralize(machine.cores, "core", ".3g")
    if _short(speed) != _short(machine.cores):
        cores += f" with the speed of {pluralize(speed, 'full core', '.3g')}"
    most = _short(TEN_MINUTES_S * speed / demands.cpu_s)
    return f"an item needs {_time(demands.cpu_s)} of CPU, so {cores} can finish about {most} items/10 min"


def _fewest(is_enough: Callable[[int], bool], most: int) -> int | None:
    """Return the smallest number from 1 to *most* that is enough, as all above are; None if there is none."""
    high = 1
    while not is_enough(high):
        if high >= most:
            return None
        high = min(2 * high, most)
    low = high // 2  # not enough, or 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def _time(seconds: float) -> str:
    if seconds >= 0.9995:
        return f"{_short(seconds)} s"
    return f"{_short(1000 * seconds)} ms" if seconds >= 1e-3 or not seconds else f"{_short(1e6 * seconds)} us"


def _short(value: float) -> str:
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"
