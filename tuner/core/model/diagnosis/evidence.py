"""What a study's windows show of each layout, added up: the measured half of a diagnosis."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import fsum
from operator import attrgetter

from tuner.core.figures import counted
from tuner.core.layout import Layout
from tuner.core.limit_text import render_amount
from tuner.core.limits import Verdict
from tuner.core.masters import has_master
from tuner.core.model.calibration.clocks import clocks_of, spare_cores_of
from tuner.core.pooled import pooled_variants
from tuner.core.records import WARMING_BLOCK, StudyRecord, WindowRecord

NO_WINDOWS = "No window of this file counts, so it cannot tell what binds the layouts."
NO_CLOCKS = (
    "What binds the layouts is not known: no window of this file tells the CPU of workers from that of their"
    " children. It was measured by an older tuner; a new study will tell."
)
AT_A_RATE = (
    "What binds the layouts is not known: requests came at a rate, and threads wait for them, too. A study"
    " in a closed loop (without a rate) will tell."
)
_SHORT_OF_MEMORY = "memory-pressure"  #: why a window is void, see `tuner.core.validity`
_SUMS = (
    *("length_s", "service_cpu_s", "tuner_cpu_s", "backend_cpu_s", "foreign_cpu_s", "steal_s"),
    *("worker_cpu_s", "child_cpu_s", "run_delay_s", "blocked_s", "spawning_s"),
    *("probe_python_cpu_s", "probe_child_cpu_s", "gil_waiting_s", "gil_waking_s"),
)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was seen of a layout: sums over its windows. None: these clocks were not read."""

    layout: Layout
    length_s: float  #: above 0
    n_done: int  #: items that finished well
    n_items: int  #: all that finished, bad ones included; above 0
    own_cpu_s: float  #: CPU of the worker processes themselves
    child_cpu_s: float  #: CPU of the children that items started
    others_cpu_s: float = 0.0  #: CPU of strangers on the cores, what a hypervisor took included
    backend_cpu_s: float = 0.0  #: CPU of the backends that the config names on the cores: items wait for it
    backend_elsewhere_s: float = 0.0  #: CPU of these backends on cores that the service may not use
    run_delay_s: float | None = None  #: workers' threads that wanted a core and had none, thread-seconds
    blocked_s: float | None = None  #: workers' threads in uninterruptible waits, thread-seconds
    gil_waiting_s: float | None = None  #: workers' threads in line for the GIL, thread-seconds
    gil_waking_s: float | None = None  #: of these, that wanted a core to ask for it: in run_delay_s, too
    memory: str | None = None  #: why memory binds, in words; None: it does not
    spare_cores: float = 0.0  #: cores that the service may not use
    windows: tuple[WindowRecord, ...] = field(default=(), repr=False)  #: these windows
    has_master: bool = False  #: child_cpu_s is also that of a master that starts the workers
    is_pooled: bool = False  #: the layout's threads are processes of a pool, each with a GIL of its own

    def __post_init__(self) -> None:
        if self.length_s <= 0 or self.n_items <= 0:
            raise ValueError(f"{self.layout}: {self.n_items} items in {self.length_s} s say nothing")

    @property
    def shape(self) -> Layout:
        """How many processes, and threads in each that share its GIL."""
        return self.layout.as_processes if self.is_pooled else self.layout

    @property
    def done_per_s(self) -> float:
        """Items that finished well, per second."""
        return self.n_done / self.length_s

    @property
    def others_cores(self) -> float:
        """Cores that strangers used."""
        return max(0.0, self.others_cpu_s / self.length_s)

    @property
    def items_cpu_s(self) -> float:
        """CPU of all that works on items: workers, children, backends."""
        return self.own_cpu_s + self.child_cpu_s + self.backend_cpu_s

    @property
    def awaited_cpu_s(self) -> float:
        """CPU that the workers' threads wait for: of children and of backends."""
        return self.child_cpu_s + self.backend_cpu_s


def evidence_of(
    study: StudyRecord, windows: Iterable[WindowRecord], verdicts: Mapping[Layout, Verdict | None]
) -> list[Evidence]:
    """What the windows with CPU clocks show, by layout in the study's order; empty when none has any.

    Windows that count are taken, where there was always work; of a layout that has none, those that were void
    for memory pressure alone.
    *verdicts* say which limits a layout keeps.
    """
    good: dict[Layout, list[WindowRecord]] = defaultdict(list)
    short: dict[Layout, list[WindowRecord]] = defaultdict(list)
    for window in windows:
        if window.block == WARMING_BLOCK or window.is_at_a_rate:
            continue
        if not window.void:
            good[window.layout].append(window)
        elif all(reason.slug == _SHORT_OF_MEMORY for reason in window.void):
            short[window.layout].append(window)
    found = []
    pooled = pooled_variants(study.config)
    for layout in dict.fromkeys((*study.layouts, *good, *short)):
        memory = _memory(verdicts.get(layout), len(short[layout]), len(good[layout]))
        one = _added(layout, good[layout] or short[layout], study, memory)
        if one is not None:
            one = replace(one, has_master=has_master(study.config, layout))
            found.append(_as_pool(one) if layout.variant in pooled else one)
    return found


def _as_pool(one: Evidence) -> Evidence:
    """*one*, and its windows as the model takes them."""
    windows = tuple(replace(window, layout=window.layout.as_processes) for window in one.windows)
    return replace(one, windows=windows, is_pooled=True)


def why_unknown(windows: Iterable[WindowRecord]) -> str:
    """Why there is no evidence of any layout, a sentence."""
    counted = [window for window in windows if not window.void and window.block != WARMING_BLOCK]
    if not counted:
        return NO_WINDOWS
    return AT_A_RATE if all(window.is_at_a_rate for window in counted) else NO_CLOCKS


def _added(
    layout: Layout, windows: Iterable[WindowRecord], study: StudyRecord, memory: str | None
) -> Evidence | None:
    read = [window for window in windows if _is_told(window)]
    if not any(window.n_done or window.n_failed for window in read):
        return None
    spare_cores = spare_cores_of(study)
    # once, not for each of 100 000 windows: that would take seconds
    summed = _summed(read)
    clocks = clocks_of(summed, spare_cores=spare_cores)
    if clocks.source == "service":
        return None
    return Evidence(
        layout=layout,
        length_s=clocks.length_s,
        n_done=clocks.n_done,
        n_items=clocks.n_done + clocks.n_failed,
        own_cpu_s=clocks.worker_cpu_s or 0.0,
        child_cpu_s=clocks.child_cpu_s or 0.0,
        others_cpu_s=clocks.foreign_cores * clocks.length_s,
        backend_cpu_s=clocks.backend_cpu_s,
        backend_elsewhere_s=max(0.0, summed.backend_cpu_s - clocks.backend_cpu_s),
        run_delay_s=clocks.run_delay_s,
        blocked_s=clocks.blocked_s,
        gil_waiting_s=clocks.gil_waiting_s,
        gil_waking_s=clocks.gil_waking_s,
        memory=memory,
        spare_cores=spare_cores,
        windows=tuple(read),
    )


def _is_told(window: WindowRecord) -> bool:
    """Whether anybody told the CPU of the workers from that of their children."""
    return window.worker_cpu_s is not None or window.probe_python_cpu_s is not None


def _summed(windows: Sequence[WindowRecord]) -> WindowRecord:
    """One long window; a clock that one of them lacks is None."""
    columns = zip(*map(attrgetter(*_SUMS), windows), strict=True)  # one look at a window, not one per clock
    sums: dict[str, float | None] = {
        name: None if None in values else fsum(values) for name, values in zip(_SUMS, columns, strict=True)
    }
    counts = {name: sum(map(attrgetter(name), windows)) for name in ("n_done", "n_failed")}
    return replace(windows[0], void=(), **counts, **sums)  # type: ignore[arg-type]


def _memory(verdict: Verdict | None, n_short: int, n_good: int) -> str | None:
    for finding in () if verdict is None else verdict.findings:
        if finding.limit.name == "memory_bytes" and finding.state == "beyond" and finding.level is not None:
            used, limit = (render_amount("memory_bytes", x) for x in (finding.level, finding.limit.at_most))
            return f"its memory is {used}, and the limit is {limit}"
    if n_short:
        return f"tasks waited for memory in {n_short} of its {counted(n_short + n_good, 'window')}"
    return None
