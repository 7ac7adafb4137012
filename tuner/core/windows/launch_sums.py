"""From windows to launches: sums over the windows of each launch."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from operator import add, attrgetter
from typing import Any

from tuner.core.domain.layout import Layout
from tuner.core.domain.records import WARMING_BLOCK, LaunchRecord, StudyRecord, WindowRecord
from tuner.core.domain.requests import Requests
from tuner.core.domain.settled_load import estimate_load, is_load_of_host, least_load
from tuner.core.domain.window import SUMMED_CLOCKS
from tuner.core.text.figures import list_names, percent, pluralize

#: values summed over the windows that separate the CPU of workers from that of their children
TOLD = (
    *("n_done", "n_failed", "length_s"),
    *("service_cpu_s", "tuner_cpu_s", "backend_cpu_s", "foreign_cpu_s", "steal_s"),
    *SUMMED_CLOCKS,
)
told_by = attrgetter(*TOLD)  #: gets these values of one window
_means_of = attrgetter("length_s", "active", "active_s", "from_load1", "from_load1_s", "pss_bytes", "n_pss")
_NOTHING: dict[str, Any] = {
    **dict.fromkeys(("load1_mean", "load1_max"), 0.0),
    **dict.fromkeys(("n_active_mean", "pss_bytes")),
    "void": (),
}  #: values of a window that stands for several
_SHORT_OF_MEMORY = "memory-pressure"  #: reason for an invalid window, see `tuner.core.windows.validity`


@dataclass(slots=True)
class LaunchTally:
    """Sums over the valid windows of one launch."""

    layout: Layout
    block: tuple[str, int]  #: host and number; two hosts have no block in common
    launch: int = 0  #: id of the launch
    n_windows: int = 0
    length_s: float = 0.0
    n_done: int = 0
    rates: float = 0.0  #: sum over windows of items per second
    squares: float = 0.0  #: sum over windows of the squares of items per second
    load: float = 0.0  #: load x seconds
    load_max: float = 0.0
    active: float = 0.0  #: active tasks x seconds
    active_s: float = 0.0
    from_load1: float = 0.0  #: active tasks from load1, x seconds
    from_load1_s: float = 0.0
    cpu_s: float = 0.0  #: CPU time of the service
    backend_cpu_s: float = 0.0
    pss_bytes: float = 0.0  #: sum over windows
    n_pss: int = 0
    pss_max: float = 0.0
    limited_load: float = 0.0  #: `estimate_load` x seconds
    requests: Requests | None = None  #: requests of all windows; None: unknown
    n_at_a_rate: int = 0  #: number of windows with requests at a rate, in which threads also wait for work
    #: sums of TOLD over the windows not at a rate that have them; None: no window has them (None in place of
    #: one sum: a window lacks this clock)
    sums: tuple[float | None, ...] | None = None
    n_failed: int = 0
    foreign_cpu_s: float = 0.0  #: CPU time of other processes
    steal_s: float = 0.0  #: time that the hypervisor gave to other guests
    tuner_cpu_s: float = 0.0  #: CPU time of tuner, with its load generator
    interrupt_s: float = 0.0  #: time of interrupts that the kernel charges to no process
    heat: int | None = None  #: number of the group in its block with which it took turns; None: it ran alone
    is_load_of_host: bool = False  #: whether its load counts all tasks of the host; False also: not known

    @property
    def group(self) -> tuple[str, int, int | None]:
        """Return the host, block and group of the launches that shared a state of the host."""
        return (*self.block, self.heat)

    @property
    def mean_load(self) -> float:
        """Return the settled load in tasks, see `tuner.core.domain.settled_load`."""
        others_cpu_s = self.backend_cpu_s + self.tuner_cpu_s + self.foreign_cpu_s
        least = least_load(self.cpu_s, others_cpu_s, self.length_s, is_of_host=self.is_load_of_host)
        return max(self.limited_load / self.length_s, least)

    @property
    def most_memory_bytes(self) -> float | None:
        """Return the largest memory of any window; None if it was not measured."""
        return self.pss_max if self.n_pss else None

    @property
    def usage(self) -> dict[str, float]:
        """Return the usage that limits apply to: the mean load, the most memory, the p95 of all requests."""
        usage = {"load": self.mean_load}
        if (most_bytes := self.most_memory_bytes) is not None:
            usage["memory_bytes"] = most_bytes
        p95_s = None if self.requests is None else self.requests.latency_s(0.95)
        if p95_s is not None:
            usage["p95_s"] = p95_s
        return usage


@dataclass(slots=True)
class LaunchVoid:
    """The invalid windows of one launch, and the reasons."""

    layout: Layout
    box: str
    launch: int  #: id of the launch
    n_windows: int = 0
    n_short: int = 0  #: number of windows not at a rate that are invalid only for memory pressure
    reasons: Counter[str] = field(default_factory=Counter)  #: number of windows by slug


@dataclass(slots=True)
class VoidTally:
    """The invalid windows of one layout, and the reasons."""

    total_windows: int = 0
    reasons: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums over the windows of a study, without the windows that warm the cache."""

    launches: Sequence[LaunchTally]  #: launches with valid windows, in the order of their ids
    void: Sequence[LaunchVoid]  #: launches with invalid windows, in the order of their ids
    #: returns the windows of launches, by their ids
    windows_of: Callable[[Collection[int]], Sequence[WindowRecord]]

    def on(self, boxes: Collection[str]) -> Sums:
        """Return the sums of the launches on *boxes* (host names)."""
        return Sums(
            [one for one in self.launches if one.block[0] in boxes],
            [one for one in self.void if one.box in boxes],
            self.windows_of,
        )

    def of(self, launches: Collection[int]) -> Sums:
        """Return the sums of *launches*, given by their ids."""
        return Sums(
            [one for one in self.launches if one.launch in launches],
            [one for one in self.void if one.launch in launches],
            self.windows_of,
        )

    def with_heats(self, launches: Iterable[tuple[int, LaunchRecord]]) -> Sums:
        """Return the sums with the group of each of *launches* that took turns; see `LaunchTally.heat`."""
        heat_of = {number: launch.heat for number, launch in launches}
        for one in self.launches:
            one.heat = heat_of.get(one.launch)
        return self

    def with_load_of(self, study: StudyRecord) -> Sums:
        """Return the sums with the kind of load of *study*; see `LaunchTally.is_load_of_host`."""
        is_of_host = is_load_of_host(study)
        for one in self.launches:
            one.is_load_of_host = is_of_host
        return self

    def void_of_layouts(self) -> defaultdict[Layout, VoidTally]:
        """Return the invalid windows of each layout."""
        found: defaultdict[Layout, VoidTally] = defaultdict(VoidTally)
        for one in self.void:
            own = found[one.layout]
            own.total_windows += one.n_windows
            own.reasons.update(one.reasons)
        return found


def tally(windows: Iterable[WindowRecord]) -> Sums:
    """Add up *windows*, launch by launch; those that warm the cache are left out."""
    windows = list(windows)
    tallies: dict[int, LaunchTally] = {}
    void: dict[int, LaunchVoid] = {}
    windows_by_launch: dict[int, list[WindowRecord]] = {}
    for window in windows:  # up to 100 000, so each attribute is read once
        if window.block == WARMING_BLOCK:
            continue
        requests = window.requests
        is_at_a_rate = requests is not None and requests.rate_per_s is not None
        if window.void:
            _add_void(void, window, is_at_a_rate=is_at_a_rate)
            continue
        launch = tallies.get(window.launch_id)
        if launch is None:
            launch = tallies[window.launch_id] = LaunchTally(
                window.layout, (window.box, window.block), window.launch_id
            )
        length_s = window.length_s
        n_done = window.n_done
        rate = n_done / length_s
        launch.n_windows += 1
        launch.length_s += length_s
        launch.n_done += n_done
        launch.n_failed += window.n_failed
        launch.rates += rate
        launch.squares += rate * rate
        launch.load += window.load1_mean * length_s
        load_max = window.load1_max
        if load_max > launch.load_max:
            launch.load_max = load_max
        n_active = window.n_active_mean
        if n_active is not None:
            launch.active += n_active * length_s
            launch.active_s += length_s
        from_load1 = window.n_active_from_load1
        if from_load1 is not None:
            launch.from_load1 += from_load1 * length_s
            launch.from_load1_s += length_s
        launch.limited_load += estimate_load(window) * length_s
        launch.cpu_s += window.service_cpu_s
        launch.backend_cpu_s += window.backend_cpu_s
        launch.foreign_cpu_s += window.foreign_cpu_s
        launch.steal_s += window.steal_s
        launch.tuner_cpu_s += window.tuner_cpu_s
        launch.interrupt_s += window.interrupt_s or 0.0
        pss_bytes = window.pss_bytes
        if pss_bytes is not None:
            launch.pss_bytes += pss_bytes
            launch.n_pss += 1
            if pss_bytes > launch.pss_max:
                launch.pss_max = pss_bytes
        if requests is not None:
            launch.requests = requests if launch.requests is None else launch.requests.merged(requests)
        if is_at_a_rate:
            launch.n_at_a_rate += 1
        elif separates_workers(window):
            windows_by_launch.setdefault(window.launch_id, []).append(window)
    for launch_id, own in windows_by_launch.items():
        tallies[launch_id].sums = add_sums(map(told_by, own))
    return Sums(
        [tallies[launch_id] for launch_id in sorted(tallies)],
        [void[launch_id] for launch_id in sorted(void)],
        partial(_of_launches, windows),
    )


def _of_launches(windows: Sequence[WindowRecord], launches: Collection[int]) -> list[WindowRecord]:
    asked = frozenset(launches)
    return [window for window in windows if window.launch_id in asked]


def _add_void(void: dict[int, LaunchVoid], window: WindowRecord, *, is_at_a_rate: bool) -> None:
    own = void.get(window.launch_id)
    if own is None:
        own = void[window.launch_id] = LaunchVoid(window.layout, window.box, window.launch_id)
    own.n_windows += 1
    own.reasons.update({reason.slug for reason in window.void})
    own.n_short += is_short_of_memory(window) and not is_at_a_rate


def is_short_of_memory(window: WindowRecord) -> bool:
    """Return whether the window is invalid for memory pressure alone."""
    return {reason.slug for reason in window.void} == {_SHORT_OF_MEMORY}


def separates_workers(window: WindowRecord) -> bool:
    """Return whether the CPU of the workers was measured apart from that of their children."""
    return window.worker_cpu_s is not None or window.probe_python_cpu_s is not None


def add_sums(rows: Iterable[Sequence[float | None]]) -> tuple[float | None, ...]:
    """Return the sum of each column of TOLD over one or more *rows*; None if a row lacks the value.

    Values are added one after the other, because the rounding of `sum` differs since Python 3.12.
    """
    columns = zip(*rows, strict=True)
    return tuple(None if None in column else reduce(add, column) for column in columns)


def window_of_sums(
    layout: Layout, reported: Sequence[float | None], launches: Sequence[LaunchTally] = ()
) -> WindowRecord:
    """Return one long window with the sums *reported*; tasks and memory are averages over *launches*."""
    sums: dict[str, Any] = dict(zip(TOLD, reported, strict=True))
    window = WindowRecord(0, 0, layout, "", 0, 1, 0.0, **_NOTHING, **sums)
    if not launches:
        return window
    window.launch_id, window.block = launches[0].launch, launches[0].block[1]
    length_s, active, active_s, from_load1, from_load1_s, pss_bytes, n_pss = (
        reduce(add, column) for column in zip(*map(_means_of, launches), strict=True)
    )
    if active_s == length_s:  # known for all windows, or left unknown
        window.n_active_mean = active / active_s
    if from_load1_s == length_s:
        window.n_active_from_load1 = from_load1 / from_load1_s
    if n_pss:
        window.pss_bytes = pss_bytes / n_pss
    return window


def why_not_ranked(own: Sequence[LaunchTally], void: VoidTally, error: str | None) -> str | None:
    """Return why a layout cannot be ranked, or None if it can; *error* is that of its failed launches."""
    if own:
        n_idle = sum(not launch.n_done for launch in own)
        if not n_idle:
            return None
        return f"finished no item in {n_idle} of {pluralize(len(own), 'launch')}"
    if void.total_windows:
        slugs = ", ".join(
            f"{slug} {n}" for slug, n in sorted(void.reasons.items(), key=lambda one: (-one[1], one[0]))
        )
        return f"no valid window, {void.total_windows} invalid: {slugs}"
    return f"no launch gave a window: {error}" if error else "no window was measured"


# Failed items, which a ranking does not count.

FEW_RATIO = 0.01  #: smaller shares of failed items are not reported, as for `requests-failed`
_MOST_NAMED = 3  #: most layouts named in a sentence


def describe_failures(launches: Sequence[LaunchTally]) -> tuple[str, ...]:
    """Return a sentence with the share of failed items; nothing if few or no failures were counted."""
    sums: dict[Layout, tuple[int, int]] = {}
    for one in launches:
        n_done, n_failed = sums.get(one.layout, (0, 0))
        sums[one.layout] = n_done + one.n_done, n_failed + one.n_failed
    ratios = {
        layout: n_failed / (n_done + n_failed) for layout, (n_done, n_failed) in sums.items() if n_failed
    }
    many = {layout: ratio for layout, ratio in ratios.items() if ratio >= FEW_RATIO}
    if not many:
        return ()
    if len(many) > _MOST_NAMED:
        least, most = percent(min(many.values())), percent(max(many.values()))
        where = f"{least} to {most} of them in {pluralize(len(many), 'layout')}"
    else:
        where = list_names(
            [f"{percent(ratio)} of them in {layout}" for layout, ratio in sorted(many.items())]
        )
    return (f"Items that failed, or are to be tried again, are not in the throughput: {where}.",)
