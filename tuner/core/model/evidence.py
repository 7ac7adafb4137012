"""What a study's windows show of each layout, added up: the measured half of a diagnosis."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import fsum

from tuner.core.layout import Layout
from tuner.core.limit_text import render_amount
from tuner.core.limits import Verdict
from tuner.core.model.clocks import Clocks, clocks_of
from tuner.core.records import WARMING_BLOCK, StudyRecord, WindowRecord

NO_WINDOWS = "No window of this file counts, so it cannot tell what binds the layouts."
NO_CLOCKS = (
    "What binds the layouts is not known: no window of this file tells the CPU of workers from that of their"
    " children. It was measured by an older tuner; a new study will tell."
)
_SHORT_OF_MEMORY = "memory-pressure"  #: why a window is void, see `tuner.core.validity`


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was seen of a layout: sums over its windows. None: these clocks were not read."""

    layout: Layout
    length_s: float  #: above 0
    n_done: int  #: items that finished well
    n_items: int  #: all that finished: bad ones cost CPU as well; above 0
    own_cpu_s: float  #: CPU of the worker processes themselves
    child_cpu_s: float  #: CPU of the children that items started
    others_cpu_s: float = 0.0  #: CPU of everybody else on the cores, what a hypervisor took included
    backend_cpu_s: float = 0.0  #: of the others: the backends that the config names
    run_delay_s: float | None = None  #: workers' threads that wanted a core and had none, thread-seconds
    blocked_s: float | None = None  #: workers' threads in uninterruptible waits, thread-seconds
    memory: str | None = None  #: why memory binds, in words; None: it does not
    clocks: tuple[Clocks, ...] = field(default=(), repr=False)  #: the windows themselves

    def __post_init__(self) -> None:
        if self.length_s <= 0 or self.n_items <= 0:
            raise ValueError(f"{self.layout}: {self.n_items} items in {self.length_s} s say nothing")

    @property
    def throughput_per_s(self) -> float:
        """Items that finished, per second, bad ones included."""
        return self.n_items / self.length_s

    @property
    def done_per_s(self) -> float:
        """Items that finished well, per second."""
        return self.n_done / self.length_s

    @property
    def others_cores(self) -> float:
        """Cores that others used."""
        return max(0.0, self.others_cpu_s / self.length_s)


def evidence_of(
    study: StudyRecord, windows: Iterable[WindowRecord], verdicts: Mapping[Layout, Verdict | None]
) -> list[Evidence]:
    """What the windows with CPU clocks show, by layout in the study's order; empty when none has any.

    Windows that count are taken; of a layout that has none, those that were void for memory pressure alone.
    *verdicts* say which limits a layout keeps.

    A study on fewer cores than the box has keeps its service on these: others are then charged only with what
    does not fit on the rest.
    """
    good: dict[Layout, list[WindowRecord]] = defaultdict(list)
    short: dict[Layout, list[WindowRecord]] = defaultdict(list)
    for window in windows:
        if window.block == WARMING_BLOCK:
            continue
        if not window.void:
            good[window.layout].append(window)
        elif all(reason.slug == _SHORT_OF_MEMORY for reason in window.void):
            short[window.layout].append(window)
    found = []
    for layout in dict.fromkeys((*study.layouts, *good, *short)):
        memory = _memory(verdicts.get(layout), len(short[layout]), len(good[layout]))
        one = _added(layout, good[layout] or short[layout], study, memory)
        if one is not None:
            found.append(one)
    return found


def why_unknown(windows: Iterable[WindowRecord]) -> str:
    """Why there is no evidence of any layout, a sentence."""
    counts = any(not window.void and window.block != WARMING_BLOCK for window in windows)
    return NO_CLOCKS if counts else NO_WINDOWS


def _added(
    layout: Layout, windows: Iterable[WindowRecord], study: StudyRecord, memory: str | None
) -> Evidence | None:
    read = [(window, one) for window in windows if (one := _clocks(window)) is not None]
    clocks = tuple(one for _, one in read)
    n_items = sum(one.n_done + one.n_failed for one in clocks)
    if not n_items:
        return None
    spare = max(0.0, study.box_cores - study.cores)
    return Evidence(
        layout=layout,
        length_s=fsum(one.length_s for one in clocks),
        n_done=sum(one.n_done for one in clocks),
        n_items=n_items,
        own_cpu_s=fsum(one.worker_cpu_s or 0.0 for one in clocks),
        child_cpu_s=fsum(one.child_cpu_s or 0.0 for one in clocks),
        others_cpu_s=fsum(max(0.0, one.foreign_cores - spare) * one.length_s for one in clocks),
        backend_cpu_s=fsum(window.backend_cpu_s for window, _ in read),
        run_delay_s=_sum_or_none([one.run_delay_s for one in clocks]),
        blocked_s=_sum_or_none([one.blocked_s for one in clocks]),
        memory=memory,
        clocks=clocks,
    )


def _clocks(window: WindowRecord) -> Clocks | None:
    """None: nobody told the CPU of the workers from that of their children."""
    if window.worker_cpu_s is None and window.probe_python_cpu_s is None:  # most windows of an old file
        return None
    clocks = clocks_of(window)
    return None if clocks.source == "service" else clocks


def _sum_or_none(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fsum(known) if len(known) == len(values) else None


def _memory(verdict: Verdict | None, n_short: int, n_good: int) -> str | None:
    for finding in () if verdict is None else verdict.findings:
        if finding.limit.name == "memory_bytes" and finding.state == "beyond" and finding.level is not None:
            used, limit = (render_amount("memory_bytes", x) for x in (finding.level, finding.limit.at_most))
            return f"its memory is {used}, and the limit is {limit}"
    if n_short:
        return f"tasks waited for memory in {n_short} of its {n_short + n_good} windows"
    return None
