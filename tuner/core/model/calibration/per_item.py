"""Clocks per item of a layout or a launch, and figures from samples of tasks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum, hypot, log, sqrt

import numpy as np

from tuner.core.domain.layout import Layout
from tuner.core.model.calibration.clocks import Clocks, Scatter, Source, scatter_of
from tuner.core.model.demand import Array


@dataclass(frozen=True, slots=True)
class PerItem:
    """Seconds per well finished item, including those of failed items; None: not known."""

    layout: Layout
    n_windows: int
    length_s: float
    n_done: int
    service_s: float  #: CPU of workers, children and all below
    worker_s: float | None  #: CPU of the workers' own threads
    item_s: float | None  #: CPU of the threads that work on items, a part of that
    child_s: float | None  #: CPU of children
    backend_s: float  #: CPU of the backends named in the config
    delay_s: float | None  #: time in which threads that work on items waited for a core
    beside_delay_s: float | None  #: time in which masters and other threads of the workers waited for a core
    blocked_s: float | None  #: time of workers and children in state D
    foreign_cores: float
    strangers_cores: float  #: part of them that other processes than tuner used, if their tasks are counted
    n_active: float | None
    source: Source

    @property
    def throughput_per_s(self) -> float:
        """Return the items that finished well, per second."""
        return self.n_done / self.length_s

    @property
    def residence_s(self) -> float:
        """Return the seconds from an item's begin to its end, if there is always a next item."""
        return self.layout.total_threads * self.length_s / self.n_done

    @property
    def own_s(self) -> float:
        """Return the CPU of the workers' own threads; of the whole service if not separated."""
        return self.service_s if self.worker_s is None else self.worker_s

    @property
    def n_strangers_waiting(self) -> float:
        """Return about how many tasks of other processes wait for a core.

        For each second of CPU, they are assumed to wait as long as the items' threads. This is an upper limit
        if these threads also wait for each other.
        """
        if self.delay_s is None or not self.own_s:
            return 0.0
        return self.strangers_cores * self.delay_s / self.own_s

    @property
    def children_s(self) -> float:
        """Return the CPU that the item waits for: of children (0 if not separated) and of backends."""
        return (self.child_s or 0.0) + self.backend_s


def per_item(windows: Sequence[Clocks]) -> PerItem:
    """Add up *windows*, one or more of the same layout. A clock that one of them lacks is None."""
    n_done, length_s = sum(one.n_done for one in windows), fsum(one.length_s for one in windows)
    blocked_s = _total(windows, lambda one: one.blocked_s)
    of_children_s = _total(windows, lambda one: one.child_blocked_s)
    active = _total(windows, lambda one: None if one.n_active is None else one.n_active * one.length_s)

    def each(total_s: float | None) -> float | None:
        return None if total_s is None else total_s / n_done

    return PerItem(
        layout=windows[0].layout,
        n_windows=sum(one.n_windows for one in windows),
        length_s=length_s,
        n_done=n_done,
        service_s=fsum(one.service_cpu_s for one in windows) / n_done,
        worker_s=each(_total(windows, lambda one: one.worker_cpu_s)),
        item_s=each(_total(windows, lambda one: one.item_cpu_s)),
        child_s=each(_total(windows, lambda one: one.child_cpu_s)),
        backend_s=fsum(one.backend_cpu_s for one in windows) / n_done,
        delay_s=each(_total(windows, lambda one: one.run_delay_s)),
        beside_delay_s=each(_total(windows, lambda one: one.beside_delay_s)),
        blocked_s=each(None if blocked_s is None else blocked_s + (of_children_s or 0.0)),
        foreign_cores=fsum(one.foreign_cores * one.length_s for one in windows) / length_s,
        strangers_cores=fsum(one.strangers_cores * one.length_s for one in windows) / length_s,
        n_active=None if active is None else active / length_s,
        source=max((one.source for one in windows), key=("kernel", "probe", "service").index),
    )


def by_launch(windows: Iterable[Clocks]) -> list[list[Clocks]]:
    """Group the windows by launch."""
    return _group(windows, lambda one: one.launch_id)


def by_layout(windows: Iterable[Clocks]) -> dict[Layout, list[Clocks]]:
    """Group the windows by layout, with layouts in their order."""
    groups = _group(windows, lambda one: one.layout)
    return {group[0].layout: group for group in sorted(groups, key=lambda group: group[0].layout)}


def log_throughputs(windows: Sequence[Clocks]) -> Scatter:
    """Return the scatter of the launches of one layout: each counts once, for any number of windows."""
    several = [one.launches for one in windows if one.launches is not None]
    one_by_one = by_launch(one for one in windows if one.launches is None)
    if one_by_one:
        several.append(scatter_of([log_throughput(launch) for launch in one_by_one]))
    n = sum(one.n for one in several)
    mean = fsum(one.n * one.mean for one in several) / n
    return Scatter(n, mean, fsum(one.squares + one.n * (one.mean - mean) ** 2 for one in several))


def log_throughput(launch: Sequence[Clocks]) -> float:
    """Return the logarithm of the throughput of one launch, over all its windows."""
    return log(sum(one.n_done for one in launch) / fsum(one.length_s for one in launch))


def _total(windows: Iterable[Clocks], of: Callable[[Clocks], float | None]) -> float | None:
    values = [of(one) for one in windows]
    known = [value for value in values if value is not None]
    return fsum(known) if len(known) == len(values) else None


def _group(windows: Iterable[Clocks], key: Callable[[Clocks], Hashable]) -> list[list[Clocks]]:
    groups: dict[Hashable, list[Clocks]] = defaultdict(list)
    for window in windows:
        groups[key(window)].append(window)
    return list(groups.values())


# Figures that come from samples of tasks, not from clocks: children's start, and tasks active for an item.


_LOOKS_PER_S = 1.0
_LEAST_LOOKS = 5.0  #: fewest samples with a thread in D; fewer give no information
#: number of samples that determine the share within a tenth, so that larger layouts are not used
_PLENTY = 100.0
_STREAM = 1  #: separate stream of random numbers, so that this uncertainty does not change the other draws
#: Prior of the time of other tasks: items of four mixes with a child each had 4 to 6 ms of it, so twice as
#: much is no surprise.
_EXPECTED_OTHERS_S = 0.01
#: least error of the time in which other processes wait for a core, as a share of their CPU time
_STRANGERS_WAIT = 0.5


@dataclass(frozen=True, slots=True)
class Spawning:
    """Samples that found a task of the service in state D."""

    n_starting: float  #: number of samples in which it was starting a child
    n_other: float  #: number of samples in which it was not

    @property
    def ratio(self) -> float:
        """Return the most likely part of the uninterruptible waiting that is the start of children."""
        return self.n_starting / (self.n_starting + self.n_other)

    def drawn(self, n: int, seed: int) -> Array:
        """Return *n* draws of that part."""
        random = np.random.default_rng((seed, _STREAM))
        found: Array = random.beta(self.n_starting + 0.5, self.n_other + 0.5, n)
        return found


@dataclass(frozen=True, slots=True)
class Looks:
    """Results of sampling the state of tasks."""

    spawning: Spawning | None = (
        None  #: share of uninterruptible waiting in which a child starts; None: unknown
    )
    others_s: float = 0.0  #: see `Demands.others_s`

    @property
    def spawning_ratio(self) -> float:
        """Return the part of uninterruptible waiting that is the start of children; 0 if not known."""
        return 0.0 if self.spawning is None else self.spawning.ratio


def estimate_looks(windows: Sequence[Clocks]) -> Looks:
    """Estimate the results of the samples in *windows*, of any layouts."""
    return Looks(estimate_spawning(windows), estimate_others_s(windows))


def estimate_spawning(windows: Iterable[Clocks]) -> Spawning | None:
    """Estimate the part of children's start from *windows*, of any layouts.

    Layouts are used in the order of their threads, until there are enough samples. Return None if it was not
    measured (an older study, workers of another user), or if few samples found a thread in D. The start of
    children is then an unknown part of the uninterruptible waiting.
    """
    return spawning_of({layout: looks_in_d(of_layout) for layout, of_layout in by_layout(windows).items()})


def looks_in_d(windows: Iterable[Clocks]) -> tuple[float, float]:
    """Return the samples of *windows* that found a task in D: starting a child, and not."""
    looks = [_in_d(one) for one in windows]
    return fsum(starting for starting, _ in looks), fsum(other for _, other in looks)


def spawning_of(in_d: Mapping[Layout, tuple[float, float]]) -> Spawning | None:
    """Return `estimate_spawning` for the counts of `looks_in_d` of each layout."""
    n_starting = n_other = 0.0
    for layout in sorted(in_d, key=lambda one: (one.total_threads, one.threads)):
        starting, other = in_d[layout]
        n_starting += starting
        n_other += other
        if n_starting + n_other >= _PLENTY:
            break
    return Spawning(n_starting, n_other) if n_starting + n_other >= _LEAST_LOOKS else None


def estimate_others_s(windows: Iterable[Clocks]) -> float:
    """Estimate the seconds per item in which other tasks are active for it, from *windows* of 1x1.

    These are the active tasks less the item's computing, its waiting for a core or uninterruptibly, and other
    processes. For each second of CPU, other processes wait for a core about as long as the item does. Samples
    are few, so the estimate is shrunk towards 0 by its uncertainty (posterior mean of a normal distribution
    with a prior around 0). Counts scatter at most like Poisson's, and the wait of other processes is
    uncertain. It is 0 without samples at 1x1: in larger layouts the lines for cores and the GIL make as many
    tasks active.
    """
    alone = [one for one in windows if one.layout.total_threads == 1 and one.n_active is not None]
    if not alone:
        return 0.0
    item = per_item(alone)
    if item.n_active is None:  # a launch with windows of different kinds
        return 0.0
    n_active = item.n_active
    # if the kernel does not count a kind of wait, a thread in it is counted as another task
    own_s = item.own_s + item.children_s
    own_s += sum(one for one in (item.delay_s, item.beside_delay_s, item.blocked_s) if one is not None)
    n_strangers = item.strangers_cores + item.n_strangers_waiting
    others = n_active - n_strangers - own_s * item.throughput_per_s
    n_looks = fsum(one.n_active_looks or _LOOKS_PER_S * one.length_s for one in alone)
    of_strangers = max(_STRANGERS_WAIT * item.strangers_cores, item.n_strangers_waiting)
    sd = hypot(sqrt(n_active / n_looks), of_strangers)
    expected = _EXPECTED_OTHERS_S * item.throughput_per_s
    return max(0.0, others / item.throughput_per_s * expected**2 / (expected**2 + sd**2))


def _in_d(window: Clocks) -> tuple[float, float]:
    """Return the samples that found a task in D: starting a child, and not; 0 if not measured."""
    if window.spawning_s is None or window.blocked_s is None:
        return 0.0, 0.0
    starting_s = min(window.spawning_s, window.blocked_s)
    other_s = window.blocked_s - starting_s + (window.child_blocked_s or 0.0)
    return _LOOKS_PER_S * starting_s, _LOOKS_PER_S * other_s
