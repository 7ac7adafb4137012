"""What is seen of a running layout, and the window that is made of it.

Times named ``at_s`` are monotonic seconds; totals only grow; rates, resets and gaps are worked out here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tuner.core.domain.clocks import ClockTotals
from tuner.core.domain.computing import Computing
from tuner.core.domain.layout import Layout
from tuner.core.domain.requests import Requests


@dataclass(frozen=True, slots=True)
class Reading:
    """What a probe counted since the launch began, over all processes and threads."""

    at_s: float  #: when it was read
    n_done_total: int  #: items finished well
    n_failed_total: int  #: items finished badly; they are not in n_done_total
    python_cpu_ns_total: int | None = None  #: CPU of the worker's own threads, where the probe knows
    child_cpu_ns_total: int | None = None  #: CPU of the children the items spawned
    waiting_ns_total: int | None = None  #: time items spent waiting (fetch, save)
    n_slots: int | None = None  #: threads that count items, where the probe knows
    #: what counted items and never reached the probe; it voids a window, and is not stored
    n_lost_total: int = field(default=0, metadata={"stored": False})
    #: lines that came to the probe and should have counted items, but cannot be read; likewise
    n_unreadable_total: int = field(default=0, metadata={"stored": False})
    #: why there is no count, or an old one; empty: nothing is wrong; likewise
    problem: str = field(default="", compare=False, metadata={"stored": False})


@dataclass(frozen=True, slots=True)
class Sample:
    """One second of a window."""

    at_s: float
    n_done_total: int
    n_failed_total: int
    load1: float
    load5: float
    load15: float
    n_active: int | None  #: tasks of the box running or uninterruptible, without our own; None: not seen


@dataclass(frozen=True, slots=True)
class Usage(ClockTotals):
    """What the box and the process tree had used by now: taken at the edges and every few seconds.

    CPU totals are seconds and cover children already reaped. ``None`` marks what this kernel does not tell.
    The clocks are `ClockTotals`.
    """

    at_s: float
    wall_s: float  #: seconds since 1970, for labels and to see the clock jump
    service_cpu_s_total: float  #: workers and all their descendants
    tuner_cpu_s_total: float  #: tuner, supervisord, guardian, feeder
    backend_cpu_s_total: float  #: the backends the config names (Redis, a database)
    box_cpu_s_total: float  #: everything the box ran, steal not included
    steal_s_total: float  #: what the hypervisor gave to others
    n_context_switches_total: int  #: of the whole box
    pss_bytes: int | None  #: proportional set size of workers and descendants; None also: not taken this time
    n_processes: int  #: worker processes alive
    n_threads: int  #: threads of these
    cpu_pressure_s_total: float | None  #: PSI: time at least one task waited for a core
    memory_pressure_s_total: float | None
    io_pressure_s_total: float | None
    #: threads of the worker process that has the most; None: not seen. It is not stored
    n_threads_most: int | None = field(default=None, metadata={"stored": False})
    #: threads that compute beside the layout's, since the look before; None: not judged. It is not stored
    computing: Computing | None = field(default=None, metadata={"stored": False})

    @property
    def foreign_cpu_s_total(self) -> float:
        """CPU that neither the service nor tuner nor a named backend used."""
        known = self.service_cpu_s_total + self.tuner_cpu_s_total + self.backend_cpu_s_total
        return self.box_cpu_s_total - known


@dataclass(frozen=True, slots=True)
class VoidReason:
    """Why a window does not count."""

    slug: str  #: worker-died, wrong-layout, source-dry, ...; docs/messages.md explains each
    detail: str  #: what was seen, with the figures


@dataclass(frozen=True, slots=True)
class Window:
    """One stretch of steady state of one launch."""

    layout: Layout
    index: int  #: 0, 1, ... within its launch
    attempt: int  #: 1, 2, ...: a void window is taken again
    started_wall_s: float
    length_s: float
    n_done: int
    n_failed: int
    samples: tuple[Sample, ...]  #: one a second, the edges included
    usage: tuple[Usage, ...]  #: at least the two edges
    readings: tuple[Reading, Reading]  #: of the probe, at the two edges
    void: tuple[VoidReason, ...] = ()  #: empty: the window counts
    requests: Requests | None = None  #: that ended in it; None: the feeder sends none, or does not look

    @property
    def throughput_per_s(self) -> float:
        """Items finished well, per second."""
        return self.n_done / self.length_s
