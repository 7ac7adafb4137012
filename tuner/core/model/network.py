"""The analytic network: what every layout of a grid gives, in milliseconds.

Two networks that are each solved exactly, tied by what each needs of the other until both agree:

- **cores**: all P x T threads share the cores (processor sharing at `Machine.total_speed`), and else think:
  their waits and the time they stand in line for a GIL. Gives the stretch of CPU time by rivals for cores.
- **GIL**: the T threads of one process line up for it (machine repairman), stretched CPU, all else is
  thinking. Gives the time in line.

Source: Lazowska et al., Quantitative system performance (1984), chapters 6 and 15 for the decomposition;
Reiser & Lavenberg, Mean-value analysis (1980), for the recursion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tuner.core.layout import Layout
from tuner.core.model.demand import NO_TERMS, Array, Demands, LayoutDemands, Terms, layout_demands
from tuner.core.model.machine import Machine

_ROUNDS = 60
_CLOSE_ENOUGH = 1e-5  #: relative change of throughput
_LEAST_S = 1e-9  #: a think time that can be divided by


@dataclass(frozen=True, slots=True)
class Prediction:
    """What layouts give in steady state: arrays over layouts. Tasks are means over time."""

    throughput_per_s: Array  #: items per second
    load: Array  #: tasks running, waiting for a core, or uninterruptible: what load1 settles at
    cpu_cores: Array  #: CPU of workers and children, in cores
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
    n = of.processes * of.threads
    gil_s = of.gil_s if machine.has_gil else np.zeros_like(of.gil_s)
    cpu_s = np.maximum(of.cpu_s, _LEAST_S)
    in_line_s = np.zeros_like(n)
    throughput = np.zeros_like(n)
    for _ in range(_ROUNDS):
        n_runnable, throughput_now = _cores(n, cpu_s, of.waiting_s + in_line_s, machine, of.process_cores)
        stretch = n_runnable / (throughput_now * cpu_s)
        elsewhere_s = of.waiting_s + (cpu_s - gil_s) * stretch
        now_s = _gil(of.threads, gil_s * stretch, elsewhere_s)
        in_line_s = 0.5 * (in_line_s + now_s)
        close = np.abs(throughput_now - throughput) <= _CLOSE_ENOUGH * throughput_now
        throughput = throughput_now
        if close.all():
            break
    n_gil_waiting = throughput * in_line_s
    n_busy = throughput * cpu_s
    n_blocked = throughput * (of.blocked_s + of.spawn_s)
    n_core_waiting = n_runnable - n_busy
    full = machine.total_speed(n_runnable * 0 + np.inf, of.process_cores)
    return Prediction(
        throughput_per_s=throughput,
        load=n_runnable + n_blocked + of.process_cores,
        cpu_cores=n_busy + of.process_cores,
        core_utilization_ratio=np.minimum(1.0, n_busy / full),
        gil_utilization_ratio=np.minimum(1.0, throughput / of.processes * gil_s * stretch),
        n_gil_waiting=n_gil_waiting,
        n_core_waiting=n_core_waiting,
        n_asleep=throughput * of.asleep_s,
        n_blocked=n_blocked,
        residence_s=n / throughput,
    )


def _cores(
    n: Array, cpu_s: Array, elsewhere_s: Array, machine: Machine, used_cores: Array
) -> tuple[Array, Array]:
    """Mean runnable tasks and throughput of *n* threads that think for *elsewhere_s* and compute *cpu_s*."""
    k = np.arange(1, int(n.max()) + 1, dtype=float)
    speed = machine.total_speed(k[None, :], used_cores[:, None])
    left = np.maximum(n[:, None] - k + 1, 0.0)
    with np.errstate(divide="ignore"):
        steps = np.log(left) + np.log((cpu_s / np.maximum(elsewhere_s, _LEAST_S))[:, None]) - np.log(speed)
    logs = np.concatenate([np.zeros((len(n), 1)), np.cumsum(steps, axis=1)], axis=1)
    weight = np.exp(logs - logs.max(axis=1, keepdims=True))
    weight /= weight.sum(axis=1, keepdims=True)
    throughput = (weight[:, 1:] * speed).sum(axis=1) / cpu_s
    return weight[:, 1:] @ k, throughput


def _gil(threads: Array, held_s: Array, elsewhere_s: Array) -> Array:
    """The time in line per item where *threads* share a lock each holds for *held_s*."""
    queue = np.zeros_like(threads)
    residence_s = held_s.copy()
    for n in range(1, int(threads.max()) + 1):
        more = n <= threads
        residence_s = np.where(more, held_s * (1 + queue), residence_s)
        queue = np.where(more, n * residence_s / (elsewhere_s + residence_s), queue)
    return residence_s - held_s
