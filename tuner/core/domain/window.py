"""Samples of a running layout, the windows made from them, and load averages.

Times named ``at_s`` are monotonic seconds; totals only grow; rates, resets and gaps are worked out here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from math import exp, sqrt
from statistics import fmean, variance
from typing import Any, NamedTuple

from tuner.core.domain.layout import Computing, Layout
from tuner.core.domain.requests import Requests
from tuner.core.stats.interval import Estimate
from tuner.core.stats.quantiles import student_t_quantile

# The clocks of a launch. Each is declared once here as a figure of a window, and once as the total from which
# it grows.

# The facts of a window that are not clocks: `tuner.core.domain.records.WindowRecord` has both.


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
    #: mean number of active tasks, computed from load1; None: the window is too short for it, see
    #: `tuner.core.domain.settled_load`
    n_active_from_load1: float | None = None


SINCE = "since"  #: key in a field's metadata: the first version of the study file that has its column


def _clock(since: int, **facts: Any) -> Any:
    """Declare a clock that is None until it is known; *since* as in `SINCE`, *facts* as in `Clock`."""
    return field(default=None, metadata={SINCE: since, **facts})


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockTotals:
    """The totals of the clocks at one moment, in seconds since the launch began. None: not measured here.

    Times in a state come from samples, and each sample stands for the time until the next. Workers' threads
    are sampled every second, children (their main threads) when these totals are read.
    """

    #: CPU time of the worker processes' threads, including ended threads
    worker_cpu_s_total: float | None = _clock(3)
    #: CPU time of the service's other processes: children and their descendants, reaped or not
    child_cpu_s_total: float | None = _clock(3)
    #: thread-seconds in which threads that work on items waited for a core
    run_delay_s_total: float | None = _clock(3)
    #: thread-seconds of workers' threads in state R: running, or waiting for a core
    running_s_total: float | None = _clock(3)
    #: thread-seconds of workers' threads in state D: uninterruptible
    blocked_s_total: float | None = _clock(3)
    #: part of blocked_s_total in which workers' threads were starting a child; None also: not observable
    spawning_s_total: float | None = _clock(4)
    child_running_s_total: float | None = _clock(3)  #: seconds of children and their descendants in state R
    child_blocked_s_total: float | None = _clock(3)  #: seconds of children and their descendants in state D
    #: thread-seconds in which threads that work on items waited for the GIL, from several samples per second
    gil_waiting_s_total: float | None = _clock(5)
    #: part of gil_waiting_s_total in which the threads were awake and waited for a core
    gil_waking_s_total: float | None = _clock(5)
    #: part of worker_cpu_s_total used by threads that work on items
    item_cpu_s_total: float | None = _clock(12)
    #: part of child_cpu_s_total used by programs that only start the workers
    master_cpu_s_total: float | None = _clock(12)
    #: thread-seconds in which such programs, and workers' threads that do not work on items, waited for a
    #: core
    beside_delay_s_total: float | None = _clock(12)
    #: CPU time of one unit of fixed work per second, which shows the speed of the host
    fixed_work_cpu_s_total: float | None = _clock(15)
    #: time of interrupts on the measured CPUs that the kernel charges to no process; 0: it charges all
    interrupt_s_total: float | None = _clock(18)
    #: CPU time used on CPUs on which tuner and the service may not run, and which share no physical core with
    #: theirs; None: there are none, or it is not measured
    elsewhere_cpu_s_total: float | None = _clock(18)


@dataclass(slots=True)
class WindowClocks(WindowFacts):
    """The growth of each clock in a window. None: not measured here, or the study file is older.

    The order is that of the columns of a stored window, so a new clock must be last.
    """

    worker_cpu_s: float | None = _clock(3)  #: CPU time of the workers' own threads
    child_cpu_s: float | None = _clock(3)  #: CPU time of the service's other processes
    #: thread-seconds in which threads that work on items waited for a core
    run_delay_s: float | None = _clock(3)
    #: thread-seconds of workers' threads in state R, from samples one second apart
    running_s: float | None = _clock(3, is_summed=False)
    blocked_s: float | None = _clock(3)  #: thread-seconds of workers' threads in state D
    child_running_s: float | None = _clock(3)  #: seconds of children in state R, from samples 4 to 6 s apart
    child_blocked_s: float | None = _clock(3)
    # Figures that the items counted themselves, if the service reports them to its probe.
    #: CPU time of the threads that work on items
    probe_python_cpu_s: float | None = _clock(3, of_reading="python_cpu_ns_total")
    #: CPU time of the children that items started
    probe_child_cpu_s: float | None = _clock(3, of_reading="child_cpu_ns_total")
    #: part of blocked_s in which workers' threads were starting a child; None also: not observable
    spawning_s: float | None = _clock(4, summed_after="blocked_s")
    #: thread-seconds in which threads that work on items waited for the GIL; None also: not Python
    gil_waiting_s: float | None = _clock(5)
    #: part of gil_waiting_s in which the threads were awake and waited for a core
    gil_waking_s: float | None = _clock(5)
    item_cpu_s: float | None = _clock(12)  #: part of worker_cpu_s used by threads that work on items
    #: part of child_cpu_s used by programs that only start the workers
    master_cpu_s: float | None = _clock(12)
    #: thread-seconds in which such programs, and workers' other threads, waited for a core
    beside_delay_s: float | None = _clock(12)
    #: CPU time of one unit of fixed work, times the length of the window in seconds; smaller on a faster host
    fixed_work_cpu_s: float | None = _clock(15, is_summed=False)
    interrupt_s: float | None = _clock(18)  #: time of interrupts that the kernel charges to no process
    #: CPU time of other processes and backends on CPUs on which tuner and the service may not run
    elsewhere_cpu_s: float | None = _clock(18)


class Clock(NamedTuple):
    """One clock, as its field in `WindowClocks` declares it."""

    name: str  #: name of the field, and of the columns in the tables of windows and of sums
    since: int  #: see `SINCE`
    is_summed: bool = True  #: whether the sums of a launch include it
    #: clock that it follows in the sums; None: the preceding clock of this class
    summed_after: str | None = None
    #: field of `Reading`, in nanoseconds, of which it is the growth; None: a field of `ClockTotals`
    of_reading: str | None = None

    @property
    def total(self) -> str:
        """The field of `ClockTotals` from which it grows, and the column in the table of usage."""
        return f"{self.name}_total"


def _summed_names() -> tuple[str, ...]:
    names: list[str] = []
    for clock in CLOCKS:
        if clock.is_summed:
            after = clock.summed_after
            names.insert(len(names) if after is None else names.index(after) + 1, clock.name)
    return tuple(names)


#: all clocks, in the order of the columns of a window
CLOCKS = tuple(Clock(one.name, **one.metadata) for one in fields(WindowClocks) if SINCE in one.metadata)
#: names of the clocks that are summed over the windows of a launch, in the order of the sums
SUMMED_CLOCKS = _summed_names()


@dataclass(frozen=True, slots=True)
class Reading:
    """The counts of a probe since the launch began, over all processes and threads."""

    at_s: float  #: time of the reading
    n_done_total: int  #: items that succeeded
    n_failed_total: int  #: items that failed; n_done_total does not include them
    #: CPU time of the workers' own threads; None: the probe does not report it
    python_cpu_ns_total: int | None = None
    child_cpu_ns_total: int | None = None  #: CPU time of the children that items started
    waiting_ns_total: int | None = None  #: time that items spent waiting (fetch, save)
    n_slots: int | None = None  #: threads that count items; None: the probe does not report it
    #: counts that never reached the probe, which makes the window invalid; not stored
    n_lost_total: int = field(default=0, metadata={"stored": False})
    #: lines that should have counted items but cannot be parsed; not stored
    n_unreadable_total: int = field(default=0, metadata={"stored": False})
    #: reason why the count is missing or old; empty: there is no problem; not stored
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
    #: tasks of the host that run or are uninterruptible, without the one that counts them (tuner's others,
    #: such as its load generator, are included); None: not measured
    n_active: int | None

    def with_counts(self, reading: Reading) -> Sample:
        """Return this sample with the time and the counts of *reading*."""
        return replace(
            self,
            at_s=reading.at_s,
            n_done_total=reading.n_done_total,
            n_failed_total=reading.n_failed_total,
        )


@dataclass(frozen=True, slots=True)
class Usage(ClockTotals):
    """Resource use of the host and the process tree so far: read at window edges and every few seconds.

    CPU totals are seconds and include children already reaped. ``None``: this kernel does not report it.
    The clocks are `ClockTotals`.
    """

    at_s: float
    wall_s: float  #: seconds since 1970, for labels and to detect jumps of the clock
    service_cpu_s_total: float  #: workers and all their descendants
    tuner_cpu_s_total: float  #: tuner, supervisord, guardian, feeder
    backend_cpu_s_total: float  #: backends named in the config (Redis, a database)
    box_cpu_s_total: float  #: all processes of the host, without steal time
    steal_s_total: float  #: time that the hypervisor gave to other guests
    n_context_switches_total: int  #: context switches of the whole host
    #: proportional set size of workers and descendants; None also: not measured this time
    pss_bytes: int | None
    n_processes: int  #: running worker processes
    n_threads: int  #: threads of the worker processes
    cpu_pressure_s_total: float | None  #: PSI: time in which at least one task waited for a core
    memory_pressure_s_total: float | None
    io_pressure_s_total: float | None
    #: threads of the worker process that has the most; None: not observed; not stored
    n_threads_most: int | None = field(default=None, metadata={"stored": False})
    #: computing threads in addition to the layout's, since the previous usage; None: not judged; not stored
    computing: Computing | None = field(default=None, metadata={"stored": False})

    @property
    def foreign_cpu_s_total(self) -> float:
        """CPU used by neither the service nor tuner nor a named backend."""
        known = self.service_cpu_s_total + self.tuner_cpu_s_total + self.backend_cpu_s_total
        return self.box_cpu_s_total - known


@dataclass(frozen=True, slots=True)
class VoidReason:
    """The reason why a window is invalid."""

    slug: str  #: worker-died, wrong-layout, source-dry, ...; docs/messages.md explains each
    detail: str  #: explanation with the figures


@dataclass(frozen=True, slots=True)
class Window:
    """One stretch of steady state of one launch."""

    layout: Layout
    index: int  #: position within its launch: 0, 1, ...
    attempt: int  #: 1, 2, ...: an invalid window is measured again
    started_wall_s: float
    length_s: float
    n_done: int
    n_failed: int
    samples: tuple[Sample, ...]  #: one per second, including both edges
    usage: tuple[Usage, ...]  #: at least those of the two edges
    readings: tuple[Reading, Reading]  #: readings of the probe at the two edges
    void: tuple[VoidReason, ...] = ()  #: reasons why the window is invalid; empty: it is valid
    #: requests that ended in it; None: the feeder sends no requests, or does not count them
    requests: Requests | None = None
    in_slices: bool = False  #: whether other layouts took turns with its own; not stored

    @property
    def throughput_per_s(self) -> float:
        """Items finished well, per second."""
        return self.n_done / self.length_s


# The number of active tasks, computed from the load average.


STEP_S = 5.004  #: the kernel's interval: 5 s and one jiffy at 250 Hz; 5.01 at 100 Hz, 5.001 at 1000 Hz
DECAY = 1884 / 2048
#: largest distance from the middle of a step; samples one second apart show the ends of steps to 0.5 s
SAFE_S = 1.9
_PRINT_ERROR = 0.01 / sqrt(12)  #: standard deviation of rounding to two decimals
_LOAD_EVERY_S = 5.0  #: the kernel's LOAD_FREQ
_LOAD_KEEPS = tuple(exp(-_LOAD_EVERY_S / 60.0 / minutes) for minutes in (1, 5, 15))
_PHASES = 50  #: candidates for the moment of the update, 0.1 s apart


class LoadAverage:
    """The load averages that a kernel would report for tasks that are counted in another way.

    Args:
        now_s: the start time.
        was_idle: the averages begin at 0, as on an idle host; otherwise with the mean of the tasks that are
            counted in the first 5 s. An average that begins at 0 needs minutes to reach the load of a
            launch.
    """

    def __init__(self, now_s: float, *, was_idle: bool = False) -> None:
        self.values = [0.0, 0.0, 0.0]  #: averages of 1, 5 and 15 minutes
        self._next_s = now_s + _LOAD_EVERY_S
        self._was_idle, self._first_s = was_idle, self._next_s
        self._first: list[int] = []  #: numbers of tasks before the kernel's first update

    def advance(self, now_s: float, n_active: int) -> None:
        """Update the averages as often as the kernel would until *now_s*, with *n_active* tasks."""
        if not self._was_idle and (now_s < self._first_s or not self._first):
            self._first.append(n_active)
            self.values = [fmean(self._first)] * len(self.values)
        while self._next_s <= now_s:
            self._next_s += _LOAD_EVERY_S
            self.values = [
                keeps * value + (1 - keeps) * n_active
                for keeps, value in zip(_LOAD_KEEPS, self.values, strict=True)
            ]


def mean_active_from_load1(samples: Sequence[Sample]) -> Estimate:
    """Estimate the mean number of active tasks of a window from load1 of its samples, with a 95 % interval.

    The interval covers the rounding (two decimals at both ends) and the kernel's sampling every 5 s. It
    assumes that the kernel's samples are independent: if the number changes more slowly, the interval is too
    narrow.

    Args:
        samples: one a second, in time order.

    Returns:
        No interval if the samples hold only one update of the kernel, no mean if they hold none (under 10
        s).
    """
    looks = active_at_looks(samples)
    n = len(looks)
    if n == 0:
        return Estimate(None)
    mean = max(0.0, fmean(looks))  # rounding may make it slightly negative
    if n == 1:
        return Estimate(mean)
    of_one_look = _PRINT_ERROR * sqrt(1 + DECAY**2) / (1 - DECAY)
    of_the_ends = _PRINT_ERROR * sqrt(2) / (1 - DECAY) / n
    scatter = sqrt(max(0.0, variance(looks) - of_one_look**2) / n)
    margin = student_t_quantile(0.975, n - 1) * sqrt(scatter**2 + of_the_ends**2)
    return Estimate(mean, max(0.0, mean - margin), mean + margin)


def active_at_looks(samples: Sequence[Sample]) -> list[float]:
    """Return the active tasks at each update of the kernel in *samples*; each with an error of 0.05 to 0.12.

    The first and last update count if there is a sample on both sides of them.
    """
    if len(samples) < 2:
        return []
    levels = _levels(samples)
    return [
        (after - DECAY * before) / (1 - DECAY)
        for (step, before), (next_step, after) in pairwise(sorted(levels.items()))
        if next_step == step + 1
    ]


def _levels(samples: Sequence[Sample]) -> dict[int, float]:
    """Return load1 between updates, by number of the update; read near the middle, where it is certain."""
    phase_s = _phase_s(samples)
    best: dict[int, tuple[float, float]] = {}
    for sample in samples:
        step, since_s = divmod(sample.at_s - phase_s, STEP_S)
        off_middle = abs(since_s - STEP_S / 2)
        number = int(step)
        if off_middle < SAFE_S and (number not in best or off_middle < best[number][0]):
            best[number] = (off_middle, sample.load1)
    return {number: load1 for number, (_, load1) in best.items()}


def _phase_s(samples: Sequence[Sample]) -> float:
    """Return the moment of the kernel's update within each step, which explains most changes of load1.

    Between two different samples lies an update. All good candidates are neighbours; the middle one is
    returned.
    """
    changes = [
        (earlier.at_s, later.at_s) for earlier, later in pairwise(samples) if earlier.load1 != later.load1
    ]
    candidates = [STEP_S * number / _PHASES for number in range(_PHASES)]
    scores = [
        sum((begin - phase_s) // STEP_S != (end - phase_s) // STEP_S for begin, end in changes)
        for phase_s in candidates
    ]
    best = max(scores)
    worst = scores.index(min(scores))  # start here, so that the best candidates are consecutive
    turned = [(worst + number) % _PHASES for number in range(_PHASES)]
    good = [number for number in turned if scores[number] == best]
    return candidates[good[len(good) // 2]]
