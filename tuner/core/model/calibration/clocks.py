"""Clocks of the items in windows: CPU of all workers, waits, other processes.

Each figure has its source: the kernel's clocks (study files since version 3), the clocks of the probe, or,
as a last resort, the CPU of the service as a whole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil, fsum, log
from statistics import fmean
from typing import Literal, NamedTuple

from tuner.core.domain.layout import Layout
from tuner.core.domain.records import WARMING_BLOCK, StudyRecord, WindowRecord
from tuner.core.domain.service import shape_of
from tuner.core.domain.window import Sample
from tuner.core.windows.launch_sums import TOLD, LaunchTally, Sums, add_sums, window_of_sums

Source = Literal["kernel", "probe", "service"]

_APART_RATIO = 1.2  #: ratio of the probe's CPU to the workers', above which other processes do the work
#: the kernel counts user and system time of each process in ticks of 10 ms, the probe in microseconds
_TICKS_S = 0.02
_BIN_ITEMS = 10  #: fewest items counted in a bin, so that the items cut off at its ends hardly matter
_LEAST_BINS = 10
_LENGTH = TOLD.index("length_s")
#: Part of the variance between neighbouring bins that is due to their ends: 3/2 of (1 - cv^4) / 6, for small
#: cv. The variance of a renewal count is cv^2 x mean + (1 - cv^4) / 6 for gamma times; the second term occurs
#: again, halved and negative, as the covariance of neighbours. Source: Cox, Renewal theory (1962), section
#: 4.5.
_OF_BIN_ENDS = 0.25


@dataclass(frozen=True, slots=True)
class Scatter:
    """Number, mean and squares of the log throughputs of one layout's launches."""

    n: int
    mean: float
    squares: float  #: sum of squared differences from the mean


# Not frozen, although never changed, for the same reason as `WindowRecord`: there may be 100 000.
@dataclass(slots=True, unsafe_hash=True)
class Clocks:
    """Clocks of one window, or of several launches. Seconds are sums over all processes; None: not known."""

    layout: Layout
    launch_id: int
    length_s: float
    n_done: int
    n_failed: int
    service_cpu_s: float  #: CPU time of workers, children and all their descendants
    worker_cpu_s: float | None = None  #: CPU time of the workers' own threads
    child_cpu_s: float | None = None  #: CPU time of the service's other processes
    run_delay_s: float | None = None  #: thread-seconds in which threads that work on items waited for a core
    blocked_s: float | None = None  #: thread-seconds of workers in state D
    spawning_s: float | None = None  #: part of blocked_s in which the workers were starting a child
    child_blocked_s: float | None = None  #: seconds of children in state D
    #: thread-seconds in which threads that work on items waited for the GIL
    gil_waiting_s: float | None = None
    #: part of gil_waiting_s in which they were awake and waited for a core; run_delay_s includes it
    gil_waking_s: float | None = None
    item_cpu_s: float | None = None  #: part of worker_cpu_s used by threads that work on items
    master_cpu_s: float | None = None  #: part of child_cpu_s used by programs that only start the workers
    #: thread-seconds in which such programs, and workers' other threads, waited for a core
    beside_delay_s: float | None = None
    running_s: float | None = None  #: thread-seconds of workers in state R
    child_running_s: float | None = None
    backend_cpu_s: float = (
        0.0  #: CPU time of the backends named in the config; an item waits for it, as for a child's
    )
    foreign_cores: float = 0.0  #: cores used by other processes, tuner, interrupts and the hypervisor
    tuner_cores: float = 0.0  #: part of foreign_cores used by tuner and its load generator
    interrupt_cores: float = 0.0  #: part of foreign_cores used by interrupts that are charged to no process
    strangers_cores: float = (
        0.0  #: cores used by other processes anywhere on the host, which are active tasks too
    )
    n_active: float | None = None  #: mean number of active tasks
    n_active_looks: float | None = None  #: number of samples of the active tasks; None: one per second
    pss_bytes: float | None = None
    source: Source = "kernel"  #: source of worker_cpu_s and child_cpu_s; service: neither is known
    #: variance of counts of items over their mean, without the part due to the ends of bins
    count_dispersion: float | None = None
    block: int = 0
    n_windows: int = 1
    #: throughputs of several launches; None: the clocks are of one launch, or of a window of it
    launches: Scatter | None = None

    @property
    def throughput_per_s(self) -> float:
        """Return the items that finished well, per second."""
        return self.n_done / self.length_s

    @property
    def busy_cores(self) -> float:
        """Return the cores that workers, children and backends kept busy."""
        return (self.service_cpu_s + self.backend_cpu_s) / self.length_s


class Spare(NamedTuple):
    """Cores of the host that the service of a study cannot use, but other processes can."""

    by_cores: float = 0.0  #: because of ``--cores``; tuner and its load generator can use them too
    by_quota: float = 0.0  #: because of a container's CPU quota, which limits tuner, but not interrupts


NO_SPARE = Spare()


def spare_cores_of(study: StudyRecord) -> Spare:
    """Return the spare cores of *study*. In a container, only its own CPUs are measured."""
    whole = study.provenance.usable_physical_cores or 0.0
    by_cores = study.box_cores - study.cores if study.is_held else 0.0
    return Spare(by_cores, max(0.0, whole - study.box_cores) if study.provenance.in_container else 0.0)


def clocks_of(window: WindowRecord, samples: Sequence[Sample] = (), *, spare: Spare = NO_SPARE) -> Clocks:
    """Return the clocks of *window*; ``count_dispersion`` is None without its *samples* (one a second).

    The kernel's clocks are preferred. They are not used if the probe counted more CPU of items than the
    workers used: then supervisord started a shell or a master, whose children work on the items.

    The CPU of other processes is known for the whole host only. If it has *spare* cores, only the CPU beyond
    these is charged to the service's cores: the same share of other processes and of backends, as their cores
    are not known. An item waits asleep for the rest of its backend's CPU. CPUs outside an affinity are
    measured, and are used by other processes and backends only. The time of interrupts is known for the CPUs
    that tuner may use, so it is charged like that of tuner, but not to a quota that has room.
    """
    worker_s, child_s = window.worker_cpu_s, window.child_cpu_s
    source: Source = "kernel"
    told_s, of_children_s = window.probe_python_cpu_s or 0.0, window.probe_child_cpu_s or 0.0
    unseen_s = 0.01 * window.service_cpu_s + _TICKS_S * window.layout.processes
    is_kernels = worker_s is not None and told_s <= _APART_RATIO * worker_s + unseen_s
    if not is_kernels and (told_s or of_children_s):
        child_s, source = of_children_s, "probe"
        worker_s = max(told_s, window.service_cpu_s - of_children_s)
    elif worker_s is None:
        source = "service"
    strangers_s, interrupts_s = window.foreign_cpu_s, max(0.0, window.interrupt_s or 0.0)
    beyond_quota_s = spare.by_quota * window.length_s
    strangers_there_s = min(max(0.0, strangers_s), beyond_quota_s)
    strangers_s -= strangers_there_s
    interrupts_s -= min(interrupts_s, beyond_quota_s - strangers_there_s)
    backend_s = max(0.0, window.backend_cpu_s)
    anywhere_s, elsewhere_s = max(0.0, strangers_s) + backend_s, max(0.0, window.elsewhere_cpu_s or 0.0)
    inside_ratio = max(0.0, 1 - elsewhere_s / anywhere_s) if anywhere_s else 1.0
    strangers_s, backend_s = min(strangers_s, inside_ratio * strangers_s), inside_ratio * backend_s
    others_s = max(0.0, strangers_s + window.tuner_cpu_s + interrupts_s + window.steal_s)
    beside_s = others_s + backend_s
    charged_ratio = max(0.0, 1 - spare.by_cores * window.length_s / beside_s) if beside_s else 1.0
    active = window.n_active_mean
    return Clocks(
        layout=window.layout,
        launch_id=window.launch_id,
        length_s=window.length_s,
        n_done=window.n_done,
        n_failed=window.n_failed,
        service_cpu_s=window.service_cpu_s,
        worker_cpu_s=worker_s,
        child_cpu_s=child_s,
        run_delay_s=window.run_delay_s if source == "kernel" else None,
        blocked_s=window.blocked_s if source == "kernel" else None,
        spawning_s=window.spawning_s if source == "kernel" else None,
        child_blocked_s=window.child_blocked_s if source == "kernel" else None,
        gil_waiting_s=window.gil_waiting_s if source == "kernel" else None,
        gil_waking_s=window.gil_waking_s if source == "kernel" else None,
        item_cpu_s=window.item_cpu_s if source == "kernel" else None,
        master_cpu_s=window.master_cpu_s if source == "kernel" else None,
        beside_delay_s=window.beside_delay_s if source == "kernel" else None,
        running_s=window.running_s if source == "kernel" else None,
        child_running_s=window.child_running_s if source == "kernel" else None,
        backend_cpu_s=charged_ratio * backend_s,
        foreign_cores=charged_ratio * others_s / window.length_s,
        tuner_cores=charged_ratio * min(max(0.0, window.tuner_cpu_s), others_s) / window.length_s,
        interrupt_cores=charged_ratio * min(interrupts_s, others_s) / window.length_s,
        # under a quota, in a container, tasks of other processes are not counted
        strangers_cores=0.0 if spare.by_quota else max(0.0, window.foreign_cpu_s / window.length_s),
        n_active=window.n_active_from_load1 if active is None else active,
        pss_bytes=window.pss_bytes,
        source=source,
        count_dispersion=count_dispersion(samples),
        block=window.block,
    )


def clocks_of_counted(
    windows: Iterable[WindowRecord],
    samples: Callable[[WindowRecord], Sequence[Sample]] = lambda _: (),
    *,
    spare: Spare = NO_SPARE,
) -> tuple[Clocks, ...]:
    """Return the clocks of the valid *windows* that always had work: not those at a fixed rate."""
    return tuple(
        clocks_of(window, samples(window), spare=spare)
        for window in windows
        if not window.void and window.block != WARMING_BLOCK and window.n_done and not window.is_at_a_rate
    )


def clocks_of_layouts(
    sums: Sums,
    samples: Callable[[WindowRecord], Sequence[Sample]] = lambda _: (),
    *,
    spare: Spare = NO_SPARE,
    pooled: Collection[str] = (),
) -> tuple[Clocks, ...]:
    """Return the clocks of each layout's launches together, for launches with items and work all the time.

    Some are read window by window, as in `clocks_of_counted`, which leaves out those without an item: 1x1, to
    estimate the scatter of windows in a launch; launches with fewer clocks than other launches of their
    layout, or with windows of different kinds; and all if there are *spare* cores, because the CPU of other
    processes on these differs by window. For *pooled* variants 2x4 means 8 processes.
    """
    together: dict[Layout, list[LaunchTally]] = defaultdict(list)
    apart = []
    for launch in sums.launches:
        if launch.n_at_a_rate == launch.n_windows:
            continue
        if any(spare) or launch.layout.total_threads == 1 or not _is_of_one_kind(launch):
            apart.append(launch)
        elif launch.n_done:
            together[launch.layout].append(launch)
    found = []
    for launches in together.values():
        most = max(map(_kind_of, launches), key=lambda kind: (sum(kind), kind))
        found.append([one for one in launches if _kind_of(one) == most])
        apart += [one for one in launches if _kind_of(one) != most]
    windows = sums.windows_of({one.launch for one in apart}) if apart else ()
    if pooled:
        windows = [replace(window, layout=shape_of(window.layout, pooled)) for window in windows]
    return (
        *(_clocks_of_launches(shape_of(own[0].layout, pooled), own) for own in found),
        *clocks_of_counted(windows, samples, spare=spare),
    )


def _is_of_one_kind(launch: LaunchTally) -> bool:
    """Return whether all its windows have the same clocks (workers' CPU, tasks, memory), none at a rate."""
    return (
        launch.sums is not None
        and launch.sums[_LENGTH] == launch.length_s
        and not launch.n_at_a_rate
        and launch.active_s in (0.0, launch.length_s)
        and (launch.active_s > 0 or launch.from_load1_s in (0.0, launch.length_s))
        and launch.n_pss in (0, launch.n_windows)
    )


def _kind_of(launch: LaunchTally) -> tuple[bool, ...]:
    """Return which clocks a launch has whose windows are of one kind."""
    clocks = (one is not None for one in launch.sums or ())
    return (*clocks, launch.active_s > 0, launch.active_s > 0 or launch.from_load1_s > 0, launch.n_pss > 0)


def _clocks_of_launches(layout: Layout, launches: Sequence[LaunchTally]) -> Clocks:
    """Return the clocks of launches of one kind."""
    sums = add_sums(one.sums for one in launches if one.sums is not None)
    clocks = clocks_of(window_of_sums(layout, sums, launches))
    clocks.n_windows = sum(one.n_windows for one in launches)
    clocks.launches = scatter_of([log(one.n_done / one.length_s) for one in launches])
    return clocks


def scatter_of(logs: Sequence[float]) -> Scatter:
    """Return number, mean and sum of squares of *logs*, one or more."""
    mean = fsum(logs) / len(logs)
    return Scatter(len(logs), mean, fsum((one - mean) ** 2 for one in logs))


def bin_s(throughput_per_s: float) -> int:
    """Return the length of a bin of counts in seconds."""
    return ceil(_BIN_ITEMS / throughput_per_s)


def count_dispersion(samples: Sequence[Sample]) -> float | None:
    """Return the variance over the mean of item counts in bins of 10 items on average or more.

    It is None with fewer than 10 bins, or if all items came after the last of them.

    For a process that finishes one item after the other it tends to the squared coefficient of variation of
    the time per item. The variance is taken between neighbours, so that slow drift is not part of it.
    """
    n_done = samples[-1].n_done_total - samples[0].n_done_total if samples else 0
    if n_done <= 0:
        return None
    width = bin_s(n_done / (samples[-1].at_s - samples[0].at_s))
    totals = [sample.n_done_total for sample in samples[::width]]
    counts = [after - before for before, after in pairwise(totals)]
    if len(counts) < _LEAST_BINS or not any(counts):
        return None
    variance = fmean((after - before) ** 2 for before, after in pairwise(counts)) / 2
    return max(0.0, variance - _OF_BIN_ENDS) / fmean(counts)
