"""The settled load: the load average of a layout that runs for a long time, without that of the previous one.

Limits and fronts apply to it. It is estimated from load1 or from counts of the active tasks. Both are
samples, and a few samples may all find a busy host idle. So its lower bound is the CPU time that was used per
second: a task that uses a core is an active task.
"""

from __future__ import annotations

from tuner.core.domain.fleet import is_fleet
from tuner.core.domain.records import StudyRecord
from tuner.core.domain.window import WindowFacts

#: Least length of a window whose load is computed from load1, if tasks were also counted. The kernel counts
#: every 5 s, and counts of L active tasks vary by about sqrt(L): in 5 minutes, their mean has an error of
#: 13 % at a load of 1 (in 20 s 50 %), as large as the bias of tuner's counts may be. tuner counts once per
#: second, so its means have less than half of this error.
LEAST_FROM_LOAD1_S = 300.0


def estimate_load(window: WindowFacts) -> float:
    """Return the estimate without its lower bound.

    A window for which load1 is used has `n_active_from_load1`. Windows of older files have it from 16 s on,
    and keep it: their counts were taken at regular moments, which may always find the same part of an item.
    """
    if window.n_active_from_load1 is not None:
        return window.n_active_from_load1
    return window.load1_mean if window.n_active_mean is None else window.n_active_mean


def least_load(service_cpu_s: float, others_cpu_s: float, length_s: float, *, is_of_host: bool) -> float:
    """Return the lower bound.

    Args:
        service_cpu_s: CPU time of the service.
        others_cpu_s: CPU time of all other processes: backends, tuner and foreign processes.
        length_s: time in which it was used.
        is_of_host: the load is that of all tasks of the host; False: it may be that of the service alone.
    """
    return (service_cpu_s + max(0.0, others_cpu_s) * is_of_host) / length_s


def is_load_of_host(study: StudyRecord) -> bool:
    """Return whether the loads of *study* are known to count all tasks of the host: not in a container.

    The hosts of a fleet may be containers, too.
    """
    return study.provenance.load_of is None and not is_fleet(study)


def settled_load(window: WindowFacts, *, is_of_host: bool) -> float:
    """Return the settled load of one window; *is_of_host* as in `least_load`."""
    others_cpu_s = window.backend_cpu_s + window.tuner_cpu_s + window.foreign_cpu_s
    least = least_load(window.service_cpu_s, others_cpu_s, window.length_s, is_of_host=is_of_host)
    return max(estimate_load(window), least)
