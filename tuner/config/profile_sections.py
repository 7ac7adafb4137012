"""The keys of a profile, and the error messages of their values."""

from __future__ import annotations

import re
from decimal import Decimal
from itertools import pairwise
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from tuner.config.fields import (
    Duration,
    Layouts,
    LongerThanZero,
    Name,
    Section,
    Word,
    as_value_error,
    nearest,
)
from tuner.core.errors import ConfigError
from tuner.core.model.profile import FAILURES
from tuner.core.text.figures import parse_size

#: key of a profile's demands -> field of `Demands` that is seconds per item
DEMANDS = {
    "gil": "gil_s",
    "python": "python_s",
    "child": "child_s",
    "asleep": "asleep_s",
    "blocked": "blocked_s",
    "spawn": "spawn_s",
}
_PERCENT = re.compile(r"(\d*\.?\d+)\s*(%?)", re.ASCII)
_BYTES = re.compile(r"(\d+(?:\.\d+)?)\s*B", re.ASCII)


def _share(value: Any) -> Any:
    """Parse ``5%`` or ``0.05`` exactly, as a decimal number."""
    if not isinstance(value, str):
        return value
    match = _PERCENT.fullmatch(value.strip())
    if match is None:
        raise ValueError(f"should be a share, as 5% or 0.05 (got {value!r})")
    return float(Decimal(match[1]) / (100 if match[2] else 1))


def _bytes(value: Any) -> Any:
    """Parse a size such as ``60MB``, ``1.5GiB`` or ``0B``; return bytes."""
    if not isinstance(value, str):
        return value
    if match := _BYTES.fullmatch(value.strip()):
        return float(match[1])
    try:
        return parse_size(value)
    except ConfigError as error:
        raise as_value_error(error) from error


def _failure(name: str) -> str:
    if name not in FAILURES:
        raise ValueError(f"{name} is none of {', '.join(FAILURES)}{nearest(name, FAILURES)}")
    return name


def _demand(name: str) -> str:
    if name not in DEMANDS:
        raise ValueError(f"{name} is none of {', '.join(DEMANDS)}{nearest(name, list(DEMANDS))}")
    return name


Share = Annotated[float, BeforeValidator(_share), Field(ge=0, allow_inf_nan=False)]
UpToOne = Annotated[Share, Field(le=1)]
BelowOne = Annotated[Share, Field(lt=1)]
Scatter = Annotated[Share, Field(le=10)]  # standard deviation of logarithms; much larger values overflow
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Cores = Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]
Bytes = Annotated[float, BeforeValidator(_bytes), Field(ge=0, allow_inf_nan=False)]


class DemandSection(Section):
    """See `Demands`."""

    gil: Duration = 0.0
    python: Duration = 0.0
    child: Duration = 0.0
    asleep: Duration = 0.0
    blocked: Duration = 0.0
    spawn: Duration = 0.0
    others: Duration = 0.0
    gil_visits: Annotated[int, Field(ge=1)] = 2
    spread: UpToOne = 0.5

    @model_validator(mode="after")
    def _check_any_demand(self) -> Self:
        if not any(getattr(self, name) for name in DEMANDS):
            raise ValueError(f"an item has no demand: one of {', '.join(DEMANDS)} should be above 0")
        return self


class MachineSection(Section):
    """See `Machine`."""

    cores: Cores
    physical_cores: Cores | None = None
    threads_per_core: Annotated[Cores, Field(ge=1)] | None = None
    smt_gain: Share = 0.3
    foreign_cores: Annotated[Amount, Field(le=1e6)] = 0.0
    busy_cores: Amount | None = None
    gil: bool = True
    switch_interval: LongerThanZero = 0.005
    handover: Duration = 5e-6
    wake: Duration = 0.00027

    @model_validator(mode="after")
    def _check_physical_cores(self) -> Self:
        if self.physical_cores is not None and self.physical_cores > self.cores:
            raise ValueError(f"physical_cores ({self.physical_cores:g}) are more than cores ({self.cores:g})")
        return self


class TermSection(Section):
    """See `Terms`."""

    process_cores: Amount = 0.0
    cpu_per_process: Share = 0.0
    blocked_per_process: Share = 0.0
    threaded_asleep: Duration = 0.0
    convoy: Share = 0.0


class NoiseSection(Section):
    """See `ProfileNoise`."""

    window: Scatter = 0.02
    launch: Scatter = 0.01
    drift: Scatter = 0.0
    drift_ar1: UpToOne = 0.95
    second: Share | None = None  # large for services with few items per hour
    model: Scatter | None = None
    host: Scatter | None = None
    host_lasts: LongerThanZero | None = None


class MemorySection(Section):
    """See `ProfileMemory`."""

    process: Bytes | None = None
    thread: Bytes | None = None
    child: Bytes | None = None
    shared: Bytes | None = None


class LaunchSection(Section):
    """How a launch begins and ends."""

    start: Duration = 1.0
    settle: Duration = 20.0
    stop: Duration = 0.5


class AgingSection(Section):
    """See `ProfileAging`."""

    loss: BelowOne = 0.0
    growth: Bytes | None = None
    settles: LongerThanZero | None = None
    layouts: Layouts | None = None


class IntervalSection(Section):
    """See `Estimate`."""

    mean: Duration | None = None
    low: Duration | None = None
    high: Duration | None = None

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        given = [
            (name, value) for name in ("low", "mean", "high") if (value := getattr(self, name)) is not None
        ]
        for (lower, less), (upper, more) in pairwise(given):
            if less > more:
                raise ValueError(f"{lower} ({less:g}s) should not be above {upper} ({more:g}s)")
        return self


class ProfileFile(Section):
    """All of a profile's file."""

    name: Name
    source: Word = ""
    simulated: Name | None = None
    measured: Layouts | None = None
    demands: DemandSection
    machine: MachineSection
    terms: TermSection = TermSection()
    noise: NoiseSection = NoiseSection()
    memory: MemorySection = MemorySection()
    launch: LaunchSection = LaunchSection()
    aging: AgingSection = AgingSection()
    failures: dict[Annotated[str, AfterValidator(_failure)], UpToOne] = Field(default_factory=dict)
    intervals: dict[Annotated[str, AfterValidator(_demand)], IntervalSection] = Field(default_factory=dict)

    @field_validator("terms", "noise", "memory", "launch", "aging", "failures", "intervals", mode="before")
    @classmethod
    def _empty_if_commented_out(cls, value: Any) -> Any:
        """Replace a section whose keys are all commented out by an empty one."""
        return {} if value is None else value
