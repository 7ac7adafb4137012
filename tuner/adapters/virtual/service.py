"""True values of a simulated service, and the noise of its windows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import expm1
from typing import Any, Protocol

from tuner.adapters.clock import STOP_S
from tuner.core.domain.layout import Layout
from tuner.core.domain.records import StudyRecord
from tuner.core.domain.stored_config import StoredConfig


@dataclass(frozen=True, slots=True)
class Truth:
    """True values of a layout on a simulated host in steady state, without noise. Tasks are means over
    time.
    """

    items_per_s: float
    n_active: float  #: tasks that run, wait for a core or are uninterruptible
    n_active_swing: float = 0.0  #: largest deviation of a sample from it
    worker_cores: float = 0.0  #: CPU use of the workers' own threads
    child_cores: float = 0.0  #: CPU use of their children
    n_delayed: float = 0.0  #: workers' threads that wait for a core
    n_blocked: float = 0.0  #: workers' threads in uninterruptible waits
    n_spawning: float = 0.0  #: blocked threads that are starting a child
    n_gil_waiting: float | None = None  #: workers' threads that wait for the GIL; None: not sampled
    n_children_delayed: float = 0.0  #: children that wait for a core
    n_in_items: float = 0.0  #: workers' threads that wait within an item, for example for a child
    pss_bytes: float = 60e6
    threads: int | None = None  #: threads of each worker process; None: as in the layout
    #: standard deviation of log throughput in one second; None: that of the host
    second_sd: float | None = None
    trend_per_h: float = 0.0  #: change of log throughput per hour after the start
    leak_bytes_per_s: float = 0.0  #: growth of memory after the start
    ages_s: float | None = None  #: time constant with which trend and growth end; None: never

    def aged_s(self, since_s: float) -> float:
        """Return how many seconds of trend and growth have passed *since_s* after the start, at most the
        time constant.
        """
        return since_s if self.ages_s is None else -self.ages_s * expm1(-since_s / self.ages_s)


class Service(Protocol):
    """A service that runs on a simulated host."""

    @property
    def n_layouts(self) -> int:
        """Number of layouts of the study: drift continues from block to block."""

    @property
    def start_s(self) -> float:
        """Seconds from the launch until RUNNING."""

    @property
    def settle_s(self) -> float:
        """Seconds after RUNNING in which throughput rises."""

    @property
    def stop_s(self) -> float:
        """Seconds until a layout has stopped."""

    def truth(self, layout: Layout, cores: int) -> Truth:
        """Return the true values of *layout* on a host with *cores* cores."""


@dataclass(frozen=True, slots=True)
class VirtualService:
    """A service with given throughputs."""

    items_per_s: Mapping[Layout, float]  #: throughput in steady state
    #: default: number of threads, but at most the number of cores
    n_active: Mapping[Layout, float] = field(default_factory=dict)
    cpu_s_per_item: float = 0.1
    pss_bytes_per_process: int = 60_000_000
    start_s: float = 0.5  #: time until RUNNING
    settle_s: float = 8.0  #: time after RUNNING for which throughput rises
    stop_s: float = STOP_S
    #: threads of each process regardless of the layout; None: as in the layout
    fixed_threads: int | None = None
    #: change of log throughput per hour after the start; default: 0
    trend_per_h: Mapping[Layout, float] = field(default_factory=dict)
    #: growth of memory after the start; default: 0
    leak_bytes_per_s: Mapping[Layout, float] = field(default_factory=dict)

    @property
    def n_layouts(self) -> int:  # noqa: D102  # documented in Service, as is the other
        return len(self.items_per_s)

    def truth(self, layout: Layout, cores: int) -> Truth:  # noqa: D102
        items_per_s = self.items_per_s[layout]
        return Truth(
            items_per_s=items_per_s,
            n_active=self.n_active.get(layout, float(min(layout.total_threads, cores))),
            worker_cores=items_per_s * self.cpu_s_per_item,
            pss_bytes=layout.processes * self.pss_bytes_per_process,
            threads=self.fixed_threads,
            trend_per_h=self.trend_per_h.get(layout, 0.0),
            leak_bytes_per_s=self.leak_bytes_per_s.get(layout, 0.0),
        )


@dataclass(frozen=True, slots=True)
class Noise:
    """Standard deviations of log throughput."""

    window_sd: float = 0.05  #: of each window
    launch_sd: float = 0.015  #: drawn once per launch, shared by its windows
    drift_sd: float = 0.0  #: of the host, equal for all layouts: a stationary AR(1) over the launches
    drift_ar1: float = 0.95  #: correlation from one launch to the next
    sample_sd: float = 0.1  #: of each second
    host_sd: float = 0.0  #: of the host's speed from second to second, equal for all started layouts
    host_lasts_s: float = 60.0  #: correlation time of the host's speed


def virtual_study(service: VirtualService, **asked: Any) -> StudyRecord:
    """Return a study of all layouts of *service*; *asked* are fields of StudyRecord to override."""
    usual: dict[str, Any] = {
        "service": "virtual",
        "strategy": "all",
        "layouts": tuple(service.items_per_s),
        "cores": 24,
        "box_cores": 24.0,
        "window_s": 600.0,
        "warmup_s": None,
        "n_blocks": 3,
        "windows_per_launch": 1,
        "seed": 1,
        "budget_s": None,
        "created_wall_s": 1_000_000_000.0,
        "config": StoredConfig("{}"),
    }
    return StudyRecord(**{**usual, **asked})
