"""A service for the model: its demands, its host, and the noise of its windows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from tuner.core.domain.layout import Layout
from tuner.core.model.demand import NO_TERMS, Demands, Terms
from tuner.core.model.machine import Machine
from tuner.core.stats.interval import Estimate

Failure = Literal[
    "dies-at-start",  # a worker ends before all are RUNNING: the launch is lost
    "dies-warming",  # a worker ends during warm-up: the launch is lost
    "late-threads",  # the threads of a launch come late
    "dies",  # a worker ends during a window: window and launch are lost
    "wrong-threads",  # the threads of a process differ from the layout: window and launch are lost
    "foreign-cpu",  # other processes use the host: the window is lost
    "dry",  # the source runs dry: the window is lost
    "clock-jump",  # the clock is set: the window is lost
]
FAILURES: tuple[Failure, ...] = get_args(Failure)
USUAL_PROCESS_BYTES = 60e6  #: memory of a worker with its first thread on a simulated host, if unknown


@dataclass(frozen=True, slots=True)
class ProfileNoise:
    """Standard deviations of log throughput."""

    window_sd: float = 0.02  #: noise of each window of any length
    launch_sd: float = 0.01  #: noise between launches, shared by the windows of a launch
    drift_sd: float = 0.0  #: drift of the host over hours, equal for all layouts
    drift_ar1: float = 0.95  #: correlation of the drift between consecutive launches, 0 to 1
    #: noise of one second; None: that of random ends of items of such different sizes
    second_sd: float | None = None
    model_sd: float | None = None  #: deviation of layouts from the model; None: unknown
    host_sd: float = 0.0  #: noise of the host's speed between seconds, equal for all started layouts
    host_lasts_s: float = 60.0  #: correlation time of host_sd, seconds

    def __post_init__(self) -> None:
        optional = (self.second_sd or 0.0, self.model_sd or 0.0)
        spreads = (self.window_sd, self.launch_sd, self.drift_sd, self.host_sd, *optional)
        if not all(0 <= sd < float("inf") for sd in spreads):
            raise ValueError("standard deviations should be 0 or more")
        if not 0 < self.host_lasts_s < float("inf"):
            raise ValueError(f"host_lasts_s should be above 0, got {self.host_lasts_s!r}")
        if not 0 <= self.drift_ar1 <= 1:
            raise ValueError(f"drift_ar1 should be from 0 to 1, got {self.drift_ar1!r}")


@dataclass(frozen=True, slots=True)
class ProfileMemory:
    """Proportional set size, bytes; None: not known."""

    process_bytes: float | None = None  #: memory of a worker process with its first thread
    thread_bytes: float | None = None  #: memory of each further thread
    child_bytes: float | None = None  #: memory of a child while it runs
    shared_bytes: float | None = None  #: memory of a main process, and of pages that all processes share

    def __post_init__(self) -> None:
        parts = (self.process_bytes, self.thread_bytes, self.child_bytes, self.shared_bytes)
        if not all(0 <= (one or 0.0) < float("inf") for one in parts):
            raise ValueError("memory should be 0 or more bytes")

    def of(self, layout: Layout, n_children: float) -> float:
        """Return the bytes of a simulated *layout* while *n_children* run on average.

        If the size of a process is not known, it is USUAL_PROCESS_BYTES; other unknown parts are 0.
        """
        more_threads = layout.processes * (layout.threads - 1)
        process_bytes = USUAL_PROCESS_BYTES if self.process_bytes is None else self.process_bytes
        return (
            layout.processes * process_bytes
            + more_threads * (self.thread_bytes or 0.0)
            + n_children * (self.child_bytes or 0.0)
            + (self.shared_bytes or 0.0)
        )


@dataclass(frozen=True, slots=True)
class ProfileAging:
    """Change of a simulated launch over its duration."""

    loss_per_h: float = 0.0  #: loss of throughput per hour, as a share
    growth_bytes_per_h: float = 0.0  #: growth of memory per hour
    settles_s: float | None = None  #: time constant with which loss and growth end; None: they do not end
    layouts: tuple[Layout, ...] = ()  #: layouts to which it applies; empty: all

    def __post_init__(self) -> None:
        if not 0 <= self.loss_per_h < 1 or not 0 <= self.growth_bytes_per_h < float("inf"):
            raise ValueError("loss_per_h should be from 0 to 1, and growth_bytes_per_h 0 or more")
        if self.settles_s is not None and not 0 < self.settles_s < float("inf"):
            raise ValueError(f"settles_s should be above 0, got {self.settles_s!r}")


@dataclass(frozen=True, slots=True)
class Profile:
    """All parameters for the prediction or simulation of a service."""

    name: str
    demands: Demands
    machine: Machine  #: machine on which the demands were measured
    terms: Terms = NO_TERMS
    noise: ProfileNoise = ProfileNoise()
    memory: ProfileMemory = ProfileMemory()
    source: str = ""  #: source of the figures, in a sentence
    simulated: str = ""  #: profile whose simulation gave the figures; empty: they are not simulated
    measured: tuple[Layout, ...] = ()  #: layouts on which the figures are based; empty: unknown
    busy_cores: float | None = None  #: largest mean number of cores that a layout kept busy; None: unknown
    #: intervals of the demands, by the name of the field
    intervals: Mapping[str, Estimate] = field(default_factory=dict)
    start_s: float = 1.0  #: seconds until every process is RUNNING
    settle_s: float = 20.0  #: seconds after that during which throughput rises
    stop_s: float = 0.5
    #: probability of each kind; of launches for the first three kinds, otherwise of windows
    failures: Mapping[Failure, float] = field(default_factory=dict)
    aging: ProfileAging | None = None  #: None: launches do not change while they run

    def __post_init__(self) -> None:
        if not 0 <= (self.busy_cores or 0.0) < float("inf"):
            raise ValueError(f"busy_cores should be 0 or more, got {self.busy_cores!r}")
        if not all(0 <= one < float("inf") for one in (self.start_s, self.settle_s, self.stop_s)):
            raise ValueError("start_s, settle_s and stop_s should be 0 or more")
        for kind, probability in self.failures.items():
            if kind not in FAILURES:
                raise ValueError(f"{kind!r} is none of {', '.join(FAILURES)}")
            if not 0 <= probability <= 1:
                raise ValueError(f"{kind} should have a probability from 0 to 1, got {probability!r}")

    def machine_of(self, cores: int) -> Machine:
        """Return a host of this kind with *cores* cores, without other processes.

        If the cores of the profile are full cores of a host with SMT, further ones are second threads, unless
        the host needs more physical cores for them.
        """
        if cores == self.machine.cores:
            return replace(self.machine, foreign_cores=0.0)
        physical = self.machine.physical_cores
        if physical is not None:
            physical = min(float(cores), physical * cores / self.machine.cores)
        elif self.machine.threads_per_core > 1 and cores > self.machine.cores:
            physical = max(self.machine.cores, cores / self.machine.threads_per_core)
        return replace(self.machine, cores=float(cores), physical_cores=physical, foreign_cores=0.0)
