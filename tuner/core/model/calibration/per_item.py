"""Clocks per item: what windows of one layout (or of one launch of it) add up to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from math import fsum, log

from tuner.core.domain.layout import Layout
from tuner.core.model.calibration.clocks import Clocks, Scatter, Source, scatter_of


@dataclass(frozen=True, slots=True)
class PerItem:
    """Seconds per item finished well, what failed items took included; None: nobody told."""

    layout: Layout
    n_windows: int
    length_s: float
    n_done: int
    service_s: float  #: CPU of workers, children and all below
    worker_s: float | None  #: CPU of the workers' own threads
    item_s: float | None  #: CPU of the threads that work on items, a part of that
    child_s: float | None  #: CPU of children
    backend_s: float  #: CPU of the backends that the config names
    delay_s: float | None  #: waiting of threads that work on items for a core
    beside_delay_s: float | None  #: the same of masters and other threads of the workers
    blocked_s: float | None  #: workers and children in state D
    foreign_cores: float
    n_active: float | None
    source: Source

    @property
    def throughput_per_s(self) -> float:
        """Items finished well, per second."""
        return self.n_done / self.length_s

    @property
    def residence_s(self) -> float:
        """From an item's begin to its end, where there always is another one to do."""
        return self.layout.total_threads * self.length_s / self.n_done

    @property
    def own_s(self) -> float:
        """CPU of the workers' own threads; of the whole service where nobody told them apart."""
        return self.service_s if self.worker_s is None else self.worker_s

    @property
    def children_s(self) -> float:
        """CPU that the item waits for: of children (0 where nobody told them apart) and of backends."""
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
        n_active=None if active is None else active / length_s,
        source=max((one.source for one in windows), key=("kernel", "probe", "service").index),
    )


def by_launch(windows: Iterable[Clocks]) -> list[list[Clocks]]:
    """The windows of each launch together."""
    return _group(windows, lambda one: one.launch_id)


def by_layout(windows: Iterable[Clocks]) -> dict[Layout, list[Clocks]]:
    """The windows of each layout together, layouts in their order."""
    groups = _group(windows, lambda one: one.layout)
    return {group[0].layout: group for group in sorted(groups, key=lambda group: group[0].layout)}


def log_throughputs(windows: Sequence[Clocks]) -> Scatter:
    """Of the launches of one layout: each counts once, however many windows it has."""
    several = [one.launches for one in windows if one.launches is not None]
    one_by_one = by_launch(one for one in windows if one.launches is None)
    if one_by_one:
        several.append(scatter_of([log_throughput(launch) for launch in one_by_one]))
    n = sum(one.n for one in several)
    mean = fsum(one.n * one.mean for one in several) / n
    return Scatter(n, mean, fsum(one.squares + one.n * (one.mean - mean) ** 2 for one in several))


def log_throughput(launch: Sequence[Clocks]) -> float:
    """Of the windows of one launch together: the logarithm of what `per_item` says."""
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
