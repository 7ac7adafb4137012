"""Sums of the windows of each layout: the measured half of a diagnosis."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from tuner.core.domain.layout import Layout
from tuner.core.domain.limits import Verdict
from tuner.core.domain.records import StudyRecord, WindowRecord
from tuner.core.domain.requests import ConnectionSpread
from tuner.core.domain.safety_limits import render_amount
from tuner.core.domain.service import (
    shape_of,
)
from tuner.core.model.calibration.clocks import NO_SPARE, Spare, clocks_of, spare_cores_of
from tuner.core.text.figures import pluralize, render_duration
from tuner.core.windows.launch_sums import (
    LaunchTally,
    LaunchVoid,
    Sums,
    add_sums,
    is_short_of_memory,
    separates_workers,
    tally,
    told_by,
    window_of_sums,
)
from tuner.core.windows.load_facts import LoadFacts, load_facts, sum_spreads

NO_WINDOWS = "This file has no valid window, so the bottlenecks are unknown."
NO_CLOCKS = (
    "The bottlenecks are unknown: no window of this file separates the CPU of workers from that of their"
    " children. An older tuner measured it; a new study has these figures."
)
AT_A_RATE = (
    "The bottlenecks are unknown: requests were sent at a rate, so threads also wait for requests. A study"
    " in a closed loop (without a rate) shows them."
)


@dataclass(frozen=True, slots=True)
class Loaded:
    """Load of a layout by clients in a closed loop."""

    facts: LoadFacts
    spread: ConnectionSpread | None  #: spread of the connections over the workers; None: not observable
    takes_many: bool  #: whether a process works on more requests at a time than its setting of threads


@dataclass(frozen=True, slots=True)
class Evidence:
    """Measurements of a layout: sums over its windows. None: these clocks were not read."""

    layout: Layout
    length_s: float  #: above 0
    n_done: int  #: items that succeeded
    n_items: int  #: all finished items, including failed ones; above 0
    own_cpu_s: float  #: CPU time of the worker processes themselves
    child_cpu_s: float  #: CPU time of the children that items started
    #: CPU time of other processes on the cores, including tuner, interrupts and steal time
    others_cpu_s: float = 0.0
    tuner_cpu_s: float = 0.0  #: part of others_cpu_s used by tuner and its load generator
    interrupt_s: float = 0.0  #: part of others_cpu_s used by interrupts that are charged to no process
    #: CPU time on the cores of the backends named in the config, for which items wait
    backend_cpu_s: float = 0.0
    backend_elsewhere_s: float = 0.0  #: CPU time of these backends on cores that the service may not use
    run_delay_s: float | None = None  #: thread-seconds in which items' threads waited for a core
    blocked_s: float | None = None  #: thread-seconds of workers' threads in uninterruptible waits
    gil_waiting_s: float | None = None  #: thread-seconds in which items' threads waited for the GIL
    #: part of gil_waiting_s in which they waited for a core; run_delay_s includes it
    gil_waking_s: float | None = None
    memory: str | None = None  #: reason why memory is a bottleneck, in words; None: it is not
    spare: Spare = NO_SPARE  #: cores that the service cannot use
    #: returns the windows, one by one; read_launches returns one sum for each launch
    read_windows: Callable[[], Sequence[WindowRecord]] = field(default=tuple, repr=False)
    read_launches: Callable[[], Sequence[WindowRecord]] = field(default=tuple, repr=False)
    has_master: bool = False  #: whether child_cpu_s includes a master that starts the workers
    load: Loaded | None = None  #: load by the load generator; None: it sends no requests
    #: part of own_cpu_s used by threads that work on items; None: not measured separately
    item_cpu_s: float | None = None
    #: part of child_cpu_s used by masters, for which no item's thread waits; None: not measured separately
    master_cpu_s: float | None = None
    #: thread-seconds in which masters, and workers' other threads, waited for a core
    beside_delay_s: float | None = None
    #: number of processes, and of threads in each that share its GIL; None: the layout's
    own_shape: Layout | None = None

    def __post_init__(self) -> None:
        if self.length_s <= 0 or self.n_items <= 0:
            raise ValueError(f"{self.layout}: {self.n_items} items in {self.length_s} s are no evidence")

    @property
    def shape(self) -> Layout:
        """Return how many processes, and threads in each that share its GIL."""
        return self.own_shape or self.layout

    @property
    def is_pooled(self) -> bool:
        """Return whether the layout's threads are processes of a pool, each with a separate GIL."""
        return self.shape.processes != self.layout.processes

    @property
    def done_per_s(self) -> float:
        """Return the items that finished well, per second."""
        return self.n_done / self.length_s

    @property
    def others_cores(self) -> float:
        """Return the cores that other processes used, including tuner and interrupts."""
        return max(0.0, self.others_cpu_s / self.length_s)

    @property
    def items_cpu_s(self) -> float:
        """Return the CPU of all work on items: workers, children, backends."""
        return self.own_cpu_s + self.child_cpu_s + self.backend_cpu_s

    @property
    def of_children_s(self) -> float | None:
        """Return the CPU of the children that items started; None if not separated from that of a master."""
        if self.master_cpu_s is not None:
            return max(0.0, self.child_cpu_s - self.master_cpu_s)
        return None if self.has_master else self.child_cpu_s

    @property
    def helping_cpu_s(self) -> float:
        """Return the CPU of the workers' threads that do not work on items, if separated."""
        return 0.0 if self.item_cpu_s is None else max(0.0, self.own_cpu_s - self.item_cpu_s)

    @property
    def beside_cpu_s(self) -> float:
        """Return the CPU that no item's thread waits for, if separated: of these threads and of masters."""
        return self.helping_cpu_s + (self.master_cpu_s or 0.0)

    @property
    def awaited_cpu_s(self) -> float:
        """Return the CPU that the workers' threads wait for: of children and of backends."""
        return self.child_cpu_s + self.backend_cpu_s


def evidence_of(
    study: StudyRecord, windows: Iterable[WindowRecord] | Sums, verdicts: Mapping[Layout, Verdict | None]
) -> list[Evidence]:
    """Return the evidence of the windows with CPU clocks, by layout in the study's order.

    Valid windows that always had work are used; for a layout without any, those that are invalid for memory
    pressure alone. The list is empty if no window has CPU clocks.
    *windows* are those of the study, or their sums; *verdicts* has the limits that each layout keeps.
    """
    sums = windows if isinstance(windows, Sums) else tally(windows)
    good: dict[Layout, list[LaunchTally]] = defaultdict(list)
    short: dict[Layout, list[LaunchVoid]] = defaultdict(list)
    for launch in sums.launches:
        if launch.n_at_a_rate < launch.n_windows:
            good[launch.layout].append(launch)
    for own in sums.void:
        if own.n_short:
            short[own.layout].append(own)
    found = []
    service = study.config.service
    pooled, loops = service.pooled_variants, service.event_loop_variants - service.one_process_variants
    facts = load_facts(study)
    for layout in dict.fromkeys((*study.layouts, *good, *short)):
        n_good = sum(one.n_windows - one.n_at_a_rate for one in good[layout])
        memory = _memory(verdicts.get(layout), sum(one.n_short for one in short[layout]), n_good)
        one = (
            _of_good(layout, good[layout], sums, study, memory)
            if good[layout]
            else _of_short(layout, short[layout], sums, study, memory)
        )
        if one is not None:
            load = None if facts is None else _load_of(facts, layout, good[layout])
            one = replace(one, has_master=service.has_master(layout), load=load)
            shape = shape_of(layout, pooled, loops)
            found.append(one if shape == layout else _with_shape(one, shape))
    return found


def _load_of(facts: LoadFacts, layout: Layout, launches: Sequence[LaunchTally]) -> Loaded:
    spread = sum_spreads(launches)
    return Loaded(facts, spread, facts.takes_many(layout, spread))


def _with_shape(one: Evidence, shape: Layout) -> Evidence:
    """Give *one* the *shape* that the model takes, and its windows, too."""

    def read(read: Callable[[], Sequence[WindowRecord]]) -> Sequence[WindowRecord]:
        return [replace(window, layout=shape) for window in read()]

    return replace(
        one,
        read_windows=partial(read, one.read_windows),
        read_launches=partial(read, one.read_launches),
        own_shape=shape,
    )


def why_unknown(windows: Iterable[WindowRecord] | Sums) -> str:
    """Return a sentence with the reason why no layout has evidence."""
    launches = (windows if isinstance(windows, Sums) else tally(windows)).launches
    if not launches:
        return NO_WINDOWS
    return AT_A_RATE if all(one.n_at_a_rate == one.n_windows for one in launches) else NO_CLOCKS


def _of_good(
    layout: Layout, launches: Sequence[LaunchTally], sums: Sums, study: StudyRecord, memory: str | None
) -> Evidence | None:
    """Return the evidence of the valid windows of *launches*; None if they have no clock."""
    sums_by_launch = {one.launch: one.sums for one in launches if one.sums is not None}
    if not sums_by_launch:
        return None

    def windows() -> Sequence[WindowRecord]:
        return [one for one in sums.windows_of(sums_by_launch.keys()) if not one.void and _shows(one)]

    def as_windows() -> Sequence[WindowRecord]:
        return [window_of_sums(layout, one.sums, [one]) for one in launches if one.sums is not None]

    return _evidence(layout, add_sums(sums_by_launch.values()), windows, as_windows, study, memory)


def _of_short(
    layout: Layout, void: Sequence[LaunchVoid], sums: Sums, study: StudyRecord, memory: str | None
) -> Evidence | None:
    """Return the evidence of the windows that are invalid for memory pressure alone."""
    launches = {own.launch for own in void}
    windows = [one for one in sums.windows_of(launches) if is_short_of_memory(one) and _shows(one)]
    return (
        _evidence(layout, add_sums(map(told_by, windows)), lambda: windows, lambda: windows, study, memory)
        if windows
        else None
    )


def _shows(window: WindowRecord) -> bool:
    return separates_workers(window) and not window.is_at_a_rate


def _evidence(
    layout: Layout,
    reported: tuple[float | None, ...],
    read_windows: Callable[[], Sequence[WindowRecord]],
    read_launches: Callable[[], Sequence[WindowRecord]],
    study: StudyRecord,
    memory: str | None,
) -> Evidence | None:
    """Return the evidence of a layout with the sums *reported*; None without clocks or finished items."""
    spare = spare_cores_of(study)
    summed = window_of_sums(layout, reported)
    clocks = clocks_of(summed, spare=spare)
    if clocks.source == "service" or not clocks.n_done + clocks.n_failed:
        return None
    return Evidence(
        layout=layout,
        length_s=clocks.length_s,
        n_done=clocks.n_done,
        n_items=clocks.n_done + clocks.n_failed,
        own_cpu_s=clocks.worker_cpu_s or 0.0,
        child_cpu_s=clocks.child_cpu_s or 0.0,
        others_cpu_s=clocks.foreign_cores * clocks.length_s,
        tuner_cpu_s=clocks.tuner_cores * clocks.length_s,
        interrupt_s=clocks.interrupt_cores * clocks.length_s,
        backend_cpu_s=clocks.backend_cpu_s,
        backend_elsewhere_s=max(0.0, summed.backend_cpu_s - clocks.backend_cpu_s),
        run_delay_s=clocks.run_delay_s,
        blocked_s=clocks.blocked_s,
        gil_waiting_s=clocks.gil_waiting_s,
        gil_waking_s=clocks.gil_waking_s,
        item_cpu_s=clocks.item_cpu_s,
        master_cpu_s=clocks.master_cpu_s,
        beside_delay_s=clocks.beside_delay_s,
        memory=memory,
        spare=spare,
        read_windows=read_windows,
        read_launches=read_launches,
    )


def _memory(verdict: Verdict | None, n_short: int, n_good: int) -> str | None:
    for finding in () if verdict is None else verdict.findings:
        if finding.limit.name == "memory_bytes" and finding.state == "beyond" and finding.level is not None:
            used, limit = (render_amount("memory_bytes", x) for x in (finding.level, finding.limit.at_most))
            if (later := finding.later) is not None and later.estimate.mean is not None:
                grown = render_amount("memory_bytes", later.estimate.mean)
                used += f" and grows to {grown} in {render_duration(later.horizon_s)}"
            return f"its memory is {used}, and the limit is {limit}"
    if n_short:
        return f"tasks waited for memory in {n_short} of its {pluralize(n_short + n_good, 'window')}"
    return None
