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


# What looks at tasks tell that no clock does: the start of children, and who else is active for an item.


_LOOKS_PER_S = 1.0
_LEAST_LOOKS = 5.0  #: that found a thread in D: fewer say nothing
_PLENTY = 100.0  #: of these: the part is known within a tenth, and larger layouts are not asked
_STREAM = 1  #: of random numbers, so that draws of everything else do not depend on what is known here
#: What may be expected of others' time before looking: items of four mixes with a child each had 4 to 6 ms
#: of it, so that twice as much is no surprise.
_EXPECTED_OTHERS_S = 0.01
_STRANGERS_WAIT = 0.5  #: what strangers may wait for a core meanwhile, of what they compute


@dataclass(frozen=True, slots=True)
class Spawning:
    """Looks that found a task of the service in state D."""

    n_starting: float  #: it was starting a child
    n_other: float  #: it was not

    @property
    def ratio(self) -> float:
        """The part of the uninterruptible waiting that is the start of children, most likely."""
        return self.n_starting / (self.n_starting + self.n_other)

    def drawn(self, n: int, seed: int) -> Array:
        """So many draws of the part."""
        random = np.random.default_rng((seed, _STREAM))
        found: Array = random.beta(self.n_starting + 0.5, self.n_other + 0.5, n)
        return found


@dataclass(frozen=True, slots=True)
class Looks:
    """What looks said of an item."""

    spawning: Spawning | None = (
        None  #: the part of uninterruptible waiting that starts children; None: not known
    )
    others_s: float = 0.0  #: see `Demands.others_s`

    @property
    def spawning_ratio(self) -> float:
        """The part of the uninterruptible waiting that is the start of children; 0 where it is not known."""
        return 0.0 if self.spawning is None else self.spawning.ratio


def estimate_looks(windows: Sequence[Clocks]) -> Looks:
    """What *windows*, of any layouts, say by the looks that were taken in them."""
    return Looks(estimate_spawning(windows), estimate_others_s(windows))


def estimate_spawning(windows: Iterable[Clocks]) -> Spawning | None:
    """What *windows*, of any layouts, say of the start of children.

    Layouts are asked in the order of their threads, until enough was seen. None: nobody could tell (an
    older study, workers of another user), or hardly a look found a thread in D. What starting children
    takes is then a part of the uninterruptible waiting that nobody knows.
    """
    return spawning_of({layout: looks_in_d(of_layout) for layout, of_layout in by_layout(windows).items()})


def looks_in_d(windows: Iterable[Clocks]) -> tuple[float, float]:
    """Looks of *windows* that found a task in D: starting a child, and not."""
    looks = [_in_d(one) for one in windows]
    return fsum(starting for starting, _ in looks), fsum(other for _, other in looks)


def spawning_of(in_d: Mapping[Layout, tuple[float, float]]) -> Spawning | None:
    """`estimate_spawning` of windows that are counted already: `looks_in_d` of each layout."""
    n_starting = n_other = 0.0
    for layout in sorted(in_d, key=lambda one: (one.total_threads, one.threads)):
        starting, other = in_d[layout]
        n_starting += starting
        n_other += other
        if n_starting + n_other >= _PLENTY:
            break
    return Spawning(n_starting, n_other) if n_starting + n_other >= _LEAST_LOOKS else None


def estimate_others_s(windows: Iterable[Clocks]) -> float:
    """Seconds per item in which tasks of others are active for it, by those of *windows* that are of 1x1.

    What was active beside the item's own computing, its waiting for a core or uninterruptibly, and strangers.
    Looks are few: what they say is drawn to nothing, the more the less sure it is (the mean of a normal
    distribution after looking, where it was around 0 before). Counts scatter like Poisson's at most, and
    strangers that wait for a core may be taken for it. 0 where nobody looked, or not at 1x1: larger layouts
    have lines for cores and the GIL that make as many tasks active.
    """
    alone = [one for one in windows if one.layout.total_threads == 1 and one.n_active is not None]
    if not alone:
        return 0.0
    item = per_item(alone)
    if item.n_active is None:  # of a launch that is not of one kind
        return 0.0
    n_active = item.n_active
    # where the kernel keeps no account of a wait, who waits so is taken for another
    own_s = item.own_s + item.children_s
    own_s += sum(one for one in (item.delay_s, item.beside_delay_s, item.blocked_s) if one is not None)
    strangers = fsum(one.strangers_cores * one.length_s for one in alone) / item.length_s
    others = n_active - strangers - own_s * item.throughput_per_s
    n_looks = fsum(one.n_active_looks or _LOOKS_PER_S * one.length_s for one in alone)
    sd = hypot(sqrt(n_active / n_looks), _STRANGERS_WAIT * strangers)
    expected = _EXPECTED_OTHERS_S * item.throughput_per_s
    return max(0.0, others / item.throughput_per_s * expected**2 / (expected**2 + sd**2))


def _in_d(window: Clocks) -> tuple[float, float]:
    """Looks that found a task in D: starting a child, and not; none where nobody told."""
    if window.spawning_s is None or window.blocked_s is None:
        return 0.0, 0.0
    starting_s = min(window.spawning_s, window.blocked_s)
    other_s = window.blocked_s - starting_s + (window.child_blocked_s or 0.0)
    return _LOOKS_PER_S * starting_s, _LOOKS_PER_S * other_s
