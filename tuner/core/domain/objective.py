"""What is to be large: items per second, or items per second of CPU."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Literal

from tuner.core.domain.records import WindowRecord
from tuner.core.errors import ConfigError

Objective = Literal["throughput", "throughput-per-cpu"]
OBJECTIVES: tuple[Objective, ...] = ("throughput", "throughput-per-cpu")


def value_of(window: WindowRecord, objective: str) -> float:
    """What a strategy is to make large: items/s, or items per CPU second of the service and its backends.

    A backend that the config names runs for the service, and some layouts make it work harder than others;
    tuner's own CPU never counts.

    Returns:
        0 when there is nothing to compare: no item was finished, or no CPU was seen to be used.

    Raises:
        ValueError: there is no such objective.
    """
    return value_from(
        window.n_done, window.length_s, window.service_cpu_s + window.backend_cpu_s, objective=objective
    )


def value_from(n_done: int, length_s: float, cpu_s: float, *, objective: str) -> float:
    """The same of several windows added up."""
    if objective == "throughput":
        return n_done / length_s
    if objective == "throughput-per-cpu":
        return n_done / cpu_s if cpu_s > 0 else 0.0
    raise ValueError(f"no such objective: {objective!r}")


def parse_objective(text: str) -> Objective:
    """Read the name of an objective.

    Raises:
        ConfigError: there is none of that name.
    """
    name = text.strip().lower()
    if name in OBJECTIVES:
        return name
    near = get_close_matches(name, OBJECTIVES, n=1)
    hint = f"Did you mean {near[0]}?" if near else f"There are {' and '.join(OBJECTIVES)}."
    raise ConfigError(f"no such objective: {text!r}", hint=hint)
