"""A service as the model knows it: what it asks for, on which box, and how its windows scatter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tuner.core.interval import Estimate
from tuner.core.model.demand import NO_TERMS, Demands, Terms
from tuner.core.model.machine import Machine


@dataclass(frozen=True, slots=True)
class ProfileNoise:
    """Standard deviations of log throughput."""

    window_sd: float = 0.02  #: of a ten-minute window
    launch_sd: float = 0.01  #: from one launch to the next, shared by its windows
    drift_sd: float = 0.0  #: of the box over hours
    drift_ar1: float = 0.95  #: correlation of the drift from one launch to the next


@dataclass(frozen=True, slots=True)
class ProfileMemory:
    """Proportional set size, bytes."""

    process_bytes: float = 60e6  #: of a worker process with its first thread
    thread_bytes: float = 0.0  #: of each thread more
    child_bytes: float = 0.0  #: of a child while it runs


@dataclass(frozen=True, slots=True)
class Profile:
    """All that predicting a service, or simulating it, takes."""

    name: str
    demands: Demands
    machine: Machine  #: where the demands were measured
    terms: Terms = NO_TERMS
    noise: ProfileNoise = ProfileNoise()
    memory: ProfileMemory = ProfileMemory()
    source: str = ""  #: where the figures come from, in a sentence
    intervals: Mapping[str, Estimate] = field(default_factory=dict)  #: of fields of demands, by name
    start_s: float = 1.0  #: until every process is RUNNING
    settle_s: float = 20.0  #: throughput rises for so long after that
    stop_s: float = 0.5
    failures: Mapping[str, float] = field(
        default_factory=dict
    )  #: kind of `virtual_box.Trouble` -> probability
