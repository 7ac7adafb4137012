"""The clocks of a launch: each is declared here once, as a figure of a window and as the total it grows from.

A clock adds up seconds over all processes of its kind. To add one, write its two fields here, fill the total
in where the host is sampled (`tuner/adapters/proc/procfs.py`), and give it its columns (schema.sql and a new
upgrade_to_N.sql). Windows, the study file and the sums of launches take their clocks from `CLOCKS`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, NamedTuple

from tuner.core.domain.layout import Layout

if TYPE_CHECKING:
    from tuner.core.domain.window import VoidReason

# The facts of a window that are no clocks: `tuner.core.domain.records.WindowRecord` has both.


@dataclass(slots=True)
class WindowFacts:
    """A window without its samples and clocks."""

    launch_id: int
    block: int
    layout: Layout
    box: str
    index: int
    attempt: int
    started_wall_s: float
    length_s: float
    n_done: int
    n_failed: int
    load1_mean: float
    load1_max: float
    n_active_mean: float | None
    service_cpu_s: float
    tuner_cpu_s: float
    backend_cpu_s: float
    foreign_cpu_s: float
    steal_s: float
    pss_bytes: float | None
    void: tuple[VoidReason, ...]
    #: load1 turned back into what it averages; None: the window is too short for it
    n_active_from_load1: float | None = None


SINCE = "since"  #: of a field's metadata: the version of the study file that has its column first


def _clock(since: int, **facts: Any) -> Any:
    """Declare a clock that is None until it is known; *since* as in `SINCE`, *facts* as in `Clock`."""
    return field(default=None, metadata={SINCE: since, **facts})


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockTotals:
    """The totals of the clocks at one moment, in seconds since the launch began. None: not measured here.

    Times in a state come from looks, and each look stands until the next. Workers' threads are looked at
    every second, children (their main threads) whenever these totals are taken.
    """

    worker_cpu_s_total: float | None = _clock(3)  #: the worker processes' own threads, ended ones included
    child_cpu_s_total: float | None = _clock(3)  #: all else of the service: children and below, reaped or not
    #: thread-seconds that threads which work on items waited for a core
    run_delay_s_total: float | None = _clock(3)
    running_s_total: float | None = _clock(3)  #: workers' threads in R: running, or waiting for a core
    blocked_s_total: float | None = _clock(3)  #: workers' threads in D: uninterruptible
    #: the part of blocked_s_total in which workers' threads were starting a child; None also: not to be seen
    spawning_s_total: float | None = _clock(4)
    child_running_s_total: float | None = _clock(3)  #: children and below in R
    child_blocked_s_total: float | None = _clock(3)  #: children and below in D
    #: threads that work on items in line for the GIL, from some looks a second
    gil_waiting_s_total: float | None = _clock(5)
    #: the part of it in which they were awake, waiting for a core
    gil_waking_s_total: float | None = _clock(5)
    #: the part of worker_cpu_s_total of threads that work on items
    item_cpu_s_total: float | None = _clock(12)
    #: the part of child_cpu_s_total of programs that only start the workers
    master_cpu_s_total: float | None = _clock(12)
    #: thread-seconds that such programs, and workers' threads that do not work on items, waited for a core
    beside_delay_s_total: float | None = _clock(12)


@dataclass(slots=True)
class WindowClocks(WindowFacts):
    """The growth of each clock in a window. None: not measured here, or the study file is older.

    The order is that of the columns as a window is read, so a new clock stands last.
    """

    worker_cpu_s: float | None = _clock(3)  #: CPU of the workers' own threads
    child_cpu_s: float | None = _clock(3)  #: CPU of all the service ran beside these
    #: thread-seconds that threads which work on items waited for a core
    run_delay_s: float | None = _clock(3)
    #: thread-seconds of workers in R, from looks a second apart
    running_s: float | None = _clock(3, is_summed=False)
    blocked_s: float | None = _clock(3)  #: ... in D
    child_running_s: float | None = _clock(3)  #: the same of children, from looks 5 s apart
    child_blocked_s: float | None = _clock(3)
    # What the items counted themselves, where the service tells its probe.
    #: CPU of the threads that work on items
    probe_python_cpu_s: float | None = _clock(3, of_reading="python_cpu_ns_total")
    #: CPU of the children that items started
    probe_child_cpu_s: float | None = _clock(3, of_reading="child_cpu_ns_total")
    #: the part of blocked_s in which workers' threads were starting a child; None also: not to be seen
    spawning_s: float | None = _clock(4, summed_after="blocked_s")
    gil_waiting_s: float | None = _clock(5)  #: the same as run_delay_s for the GIL; None also: no Python
    gil_waking_s: float | None = _clock(5)  #: of these, awake to ask for it: waiting for a core
    item_cpu_s: float | None = _clock(12)  #: the part of worker_cpu_s of threads that work on items
    #: the part of child_cpu_s of programs that only start the workers
    master_cpu_s: float | None = _clock(12)
    #: thread-seconds that all these, beside the items, waited for a core
    beside_delay_s: float | None = _clock(12)


class Clock(NamedTuple):
    """One clock, as its field in `WindowClocks` declares it."""

    name: str  #: of that field, and of the columns in the tables of windows and of sums
    since: int  #: see `SINCE`
    is_summed: bool = True  #: whether the windows of a launch are added up
    summed_after: str | None = None  #: the clock that it follows in the sums; None: the one before it here
    #: the field of `Reading` that it grows from, in nanoseconds; None: it grows from one of `ClockTotals`
    of_reading: str | None = None

    @property
    def total(self) -> str:
        """The field of `ClockTotals` that it grows from, and the column in the table of usage."""
        return f"{self.name}_total"


def _summed() -> tuple[str, ...]:
    names: list[str] = []
    for clock in CLOCKS:
        if clock.is_summed:
            after = clock.summed_after
            names.insert(len(names) if after is None else names.index(after) + 1, clock.name)
    return tuple(names)


#: every clock, in the order in which a window is read
CLOCKS = tuple(Clock(one.name, **one.metadata) for one in fields(WindowClocks) if SINCE in one.metadata)
#: the names of those that are added up over the windows of a launch, in the order of its sums
SUMMED_CLOCKS = _summed()
