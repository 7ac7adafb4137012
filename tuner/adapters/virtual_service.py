"""What is true of a service on a virtual box, and how windows scatter around it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tuner.adapters.virtual_clock import STOP_S
from tuner.core.layout import Layout
from tuner.core.records import StudyRecord


@dataclass(frozen=True, slots=True)
class VirtualService:
    """What is true of a service on this box, noise apart."""

    items_per_s: Mapping[Layout, float]  #: throughput, settled
    n_active: Mapping[Layout, float] = field(default_factory=dict)  #: default: as many threads as find a core
    cpu_s_per_item: float = 0.1
    pss_bytes_per_process: int = 60_000_000
    start_s: float = 0.5  #: until RUNNING
    settle_s: float = 8.0  #: throughput rises for so long after RUNNING
    stop_s: float = STOP_S


@dataclass(frozen=True, slots=True)
class Noise:
    """Standard deviations of log throughput."""

    window_sd: float = 0.05  #: each window
    launch_sd: float = 0.015  #: drawn once per launch, shared by its windows
    drift_sd: float = 0.0  #: of the box, alike for every layout: a stationary AR(1) over the launches
    drift_ar1: float = 0.95  #: correlation from one launch to the next
    sample_sd: float = 0.1  #: each second


def virtual_study(service: VirtualService, **asked: Any) -> StudyRecord:
    """A study of all layouts of *service*; *asked* are the fields of StudyRecord that shall differ."""
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
        "config": "{}",
    }
    return StudyRecord(**{**usual, **asked})
