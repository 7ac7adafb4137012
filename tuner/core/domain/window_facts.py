"""The facts of a window that are no clocks: `tuner.core.domain.records.WindowRecord` has both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tuner.core.domain.layout import Layout

if TYPE_CHECKING:
    from tuner.core.domain.window import VoidReason


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
