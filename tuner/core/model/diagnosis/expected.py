"""Predictions of the network for measured layouts: queueing and sleeping threads, gain of more threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tuner.core.model.demand import NO_TERMS, Array, Demands, LayoutDemands, layout_demands
from tuner.core.model.diagnosis.evidence import Evidence
from tuner.core.model.machine import Machine
from tuner.core.model.network import Prediction, solve


@dataclass(frozen=True, slots=True)
class Expected:
    """Modelled figures of one layout; tasks and threads are means over time."""

    n_core_waiting: float
    n_gil_waiting: float
    #: including the threads that wait for a backend to compute, for as long as a single item does, and those
    #: that sleep while masters and other threads of the workers compute, for as long as with a single item
    n_asleep: float
    n_blocked: float  #: including the threads that wait for a child to start
    gain_ratio: float  #: throughput with twice the threads (or processes) over the present one


def predict_measured(seen: Sequence[Evidence], machine: Machine, demands: Demands) -> list[Expected]:
    """Predict each layout with its measured CPU per item, on the cores that other processes left.

    Waits follow by Little's law from the calibrated waits and the measured throughput.
    """
    as_it_is = measured_demands(seen, demands)
    now = solve(as_it_is, as_counted(machine))
    per_s = np.array([one.done_per_s for one in seen])
    alone = min(seen, key=lambda one: (one.shape.total_threads, one.shape.threads))
    backend_s = alone.backend_cpu_s / alone.n_done  # beyond it, items wait for each other at the backend
    # in the demands it replaces sleep: it uses cores and the GIL, but the item's thread does not compute
    beside_s = alone.beside_cpu_s / alone.n_done
    of_backends = np.array(
        [min(one.backend_cpu_s / one.length_s, one.done_per_s * backend_s) for one in seen]
    )
    return [
        Expected(*(float(value) for value in values))
        for values in zip(
            now.n_core_waiting,
            now.n_gil_waiting,
            per_s * (as_it_is.asleep_s + beside_s) + of_backends,
            per_s * (as_it_is.blocked_s + as_it_is.spawn_s),
            _gain_ratios(seen, machine, demands, now),
            strict=True,
        )
    ]


def _gain_ratios(seen: Sequence[Evidence], machine: Machine, demands: Demands, now: Prediction) -> Array:
    """Return throughput with twice the threads over that now; *now* is solved for the counted CPU."""
    quiet = replace(machine, foreign_cores=0.0)
    if machine.physical_cores is None:
        work = np.ones(len(seen))
    else:  # twice the threads may use the second threads of cores when these do not yet
        work = np.array([work_ratio(one, machine) for one in seen])
        now = solve(_times(measured_demands(seen, demands), work), quiet)
    then = solve(_times(measured_demands(seen, demands, times=2), work), quiet)
    ratios: Array = then.throughput_per_s / now.throughput_per_s
    return ratios


def gil_ratio_of(demands: Demands) -> float:
    """Return the share of a worker's own CPU that needs the GIL; 1 if a worker uses no CPU."""
    own_s = demands.gil_s + demands.python_s
    return demands.gil_s / own_s if own_s else 1.0


def as_counted(machine: Machine) -> Machine:
    """Return *machine* for CPU as the kernel counted it, without other processes.

    On the second thread of a core an item takes longer, and the kernel counts all of that: its CPU includes
    the slow-down, and a machine with second threads would apply it twice.
    """
    return replace(machine, foreign_cores=0.0, physical_cores=None)


def work_ratio(seen: Evidence, machine: Machine) -> float:
    """Return the CPU of *seen* if every thread had a physical core, over the counted CPU; at most 1."""
    busy = min(machine.cores, seen.items_cpu_s / seen.length_s + seen.others_cores)
    if not busy:
        return 1.0
    return float(replace(machine, foreign_cores=0.0).total_speed(np.array(busy))) / busy


def measured_demands(seen: Sequence[Evidence], demands: Demands, *, times: int = 1) -> LayoutDemands:
    """Return each layout's CPU per well finished item, and other processes; waits are as calibrated.

    *times* multiplies the threads, each with the same demands; of a layout that has only processes, these.
    """
    has_only_processes = [not one.shape.has_threads and one.shape.threads == 1 for one in seen]
    waits = layout_demands(
        demands,
        NO_TERMS,
        [
            one.shape.processes * (times if only else 1)
            for one, only in zip(seen, has_only_processes, strict=True)
        ],
        [
            one.shape.threads * (1 if only else times)
            for one, only in zip(seen, has_only_processes, strict=True)
        ],
    )
    own_s = np.array([one.own_cpu_s / one.n_done for one in seen])
    gil_ratio = gil_ratio_of(demands)
    return replace(
        waits,
        gil_s=gil_ratio * own_s,
        python_s=(1 - gil_ratio) * own_s,
        child_s=np.array([one.awaited_cpu_s / one.n_done for one in seen]),
        process_cores=np.array([one.others_cores for one in seen]),
    )


def _times(of: LayoutDemands, by: Array) -> LayoutDemands:
    """Return *of* with all CPU of items multiplied."""
    return replace(of, gil_s=of.gil_s * by, python_s=of.python_s * by, child_s=of.child_s * by)
