"""The records of a study, of each launch and of each window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Literal

from tuner.core.defaults import CONFIDENCE, HORIZON_S, MEMORY_PRESSURE_RATIO, WITHIN
from tuner.core.domain.layout import Layout
from tuner.core.domain.provenance import Provenance
from tuner.core.domain.requests import Requests
from tuner.core.domain.stored_config import StoredConfig
from tuner.core.domain.strategy import Kind
from tuner.core.domain.window import WindowClocks
from tuner.core.errors import ConfigError
from tuner.core.text.figures import pluralize

FIRST_LOOK = 1000  #: in that block, the place of the first launch of a first look; scouts are before it
WARMING_BLOCK = -1  #: the block of the discarded launch that warms the page cache


@dataclass(frozen=True, slots=True)
class StudyRecord:
    """The settings of a study and its host; fixed when the study begins."""

    service: str  #: the name that exports and marks carry
    strategy: str  #: "all"
    layouts: tuple[Layout, ...]
    cores: int  #: the cores the layouts are for
    box_cores: float  #: what the box really offered (affinity, cgroup quota)
    window_s: float  #: the longest, where the strategy chooses
    warmup_s: float | None  #: None: found per launch
    n_blocks: int  #: how often each layout is to be launched
    windows_per_launch: int
    seed: int
    budget_s: float | None
    created_wall_s: float
    config: StoredConfig  #: the settings, secrets left out
    max_attempts: int = 3  #: launches of a cell, and tries of a window, before the cell stays void
    warmup_cap_s: float = 300.0  #: a launch that has not settled by then is measured all the same, and marked
    foreign_limit_cores: float | None = None  #: CPU of strangers that voids a window; None: the usual rule
    memory_pressure_limit_ratio: float = MEMORY_PRESSURE_RATIO  #: share of a window spent waiting for memory
    warms_cache: bool = True  #: begin with a launch that is discarded, so that the page cache is warm for all
    provenance: Provenance = field(default_factory=Provenance)  #: where, with what and why it ran
    within_ratio: float = WITHIN  #: the answer may be worse than the best by this share
    confidence: float = CONFIDENCE  #: of the answer
    kind: Kind = "strict"  #: what the answer promises
    min_window_s: float | None = None  #: the shortest that the strategy may choose; None: window_s
    objective: str = "throughput"  #: what is to be large
    limits: Mapping[str, float] = field(default_factory=dict)  #: what may win: largest value per quantity
    n_resident: int = 1  #: most layouts that are resident at once and take turns; 1: one runs after the other
    schema_version: int = 15

    @property
    def horizon_s(self) -> float:
        """The time after a start, in seconds, for which a layout must keep its memory limit."""
        found = self.config.study.get("horizon")
        return float(found) if isinstance(found, int | float) and found > 0 else HORIZON_S

    @property
    def shortest_window_s(self) -> float:
        """The shortest window that the strategy may choose, in seconds."""
        return self.window_s if self.min_window_s is None else self.min_window_s


# Launches and windows are not frozen, although no code changes one: a frozen instance takes twice as long to
# create, and a file may have 20 000 launches and 100 000 windows.
@dataclass(slots=True, unsafe_hash=True)
class LaunchRecord:
    """One start of one layout."""

    block: int  #: 0, 1, ...; WARMING_BLOCK for the first launch that only warms the page cache
    position: int  #: place in its block, 0, 1, ...
    attempt: int  #: 1, 2, ...: a launch that failed or was spoilt is made again; one cut off keeps its number
    layout: Layout
    box: str  #: the host it ran on
    started_wall_s: float
    running_after_s: float | None  #: from start until supervisord had every process RUNNING
    warmup_s: float | None  #: from RUNNING until the first window began
    settled: bool | None  #: False: it never reached a steady state; None: not judged, or not got so far
    error: str | None = None  #: why the launch failed or was spoilt
    ended_wall_s: float | None = None  #: when it was stopped and gone; None: it runs, or was cut off
    window_s: float | None = None  #: length asked of its windows; None: the study's
    n_windows: int | None = None  #: windows asked of it; None: the study's
    unsettled: str | None = None  #: why it never settled, "slug: what was seen"; None: see settled
    steady_from_s: float | None = None  #: from RUNNING to the beginning of steady state; None: not judged
    trend_ratio_per_h: float | None = None  #: slope of a line after that, in means an hour; None: not judged
    trend_se_ratio_per_h: float | None = None  #: standard error of it
    has_gil: bool | None = None  #: a worker was seen to run with a GIL that is on; None: not seen
    gil_module: str | None = (
        None  #: whose import switched the GIL on in a free-threaded Python; None: not known
    )
    heat: int | None = None  #: of its block, in which it took turns with other launches; None: it ran alone
    #: CPU time of one unit of fixed work before the start, when no layout worked; None: not measured
    idle_fixed_work_cpu_s: float | None = None
    fixed_work_cpu_s: float | None = None  #: the same in its windows that count, on average


@dataclass(slots=True, unsafe_hash=True)
class WindowRecord(WindowClocks):
    """A window without its samples: the input of the ranking, up to 100 000 at a time."""

    #: that ended in it; None: not known
    requests: Requests | None = field(default=None, hash=False)

    @property
    def is_at_a_rate(self) -> bool:
        """Whether requests came at a rate: then threads also wait for work, and the bottleneck is unknown."""
        return self.requests is not None and self.requests.rate_per_s is not None


@dataclass(frozen=True, slots=True)
class BoxRecord:
    """A host of a fleet, from its joining of the study until it left."""

    name: str
    cores: float  #: what it offers (affinity, cgroup quota)
    joined_wall_s: float  #: by the coordinator's clock
    ahead_s: float = 0.0  #: its wall clock, less the coordinator's
    provenance: Provenance = field(default_factory=Provenance)  #: host, kernel, python, version of tuner ...
    left_wall_s: float | None = None  #: None: it did not, as far as is known
    why: str | None = None  #: it left


# Whether a study was simulated, and the sentences that mark its figures.

SIMULATED_HOST = "a simulated box"

_MARK = "simulated-"


def simulated_name(service: str) -> str:
    """Return the name of a simulated study of *service*, which differs from that of a real study."""
    return service if service.startswith(_MARK) else f"{_MARK}{service}"


def is_simulated(study: StudyRecord) -> bool:
    """Return whether a model produced the windows of *study*, so that no service ran."""
    return study.provenance.simulated is not None


def simulation_notes(study: StudyRecord) -> list[str]:
    """Return the sentence that precedes all output of a simulated study; empty for a real study."""
    profile = study.provenance.simulated
    return [] if profile is None else [simulated_sentence(profile, study.box_cores)]


def simulated_sentence(profile: str, cores: float) -> str:
    """Return that sentence for a host with *cores* cores."""
    on = pluralize(cores, "core")
    return f"Simulated: no service ran, a model of {profile} on {on} gave these figures."


def memory_assumed(study: StudyRecord) -> list[str]:
    """Return a sentence on the memory figures that a simulated profile lacks; empty: it has all."""
    if not is_simulated(study):
        return []
    profile = study.config.profile
    if profile is None:  # made elsewhere: its figures are unknown
        return []
    memory: Mapping[str, str | None] = profile.get("memory") or {}
    further = memory.get("thread") is None and any(layout.threads > 1 for layout in study.layouts)
    if memory.get("process") is None:
        beside = ", and none for further threads" if further else ""
        return [f"The profile has no memory figures, so a typical process is assumed{beside}."]
    if further:
        return ["The profile has no memory of further threads, so the memory shown does not include it."]
    return []


# Arguments to type again when a study is resumed or checked.


def resume_arguments(record: StudyRecord, *, again: bool = False) -> tuple[list[str], list[str]]:
    """Return the arguments before ``--resume FILE`` and those after it: the config or the command.

    Both are empty unless the config or command holds secrets, or *again* requires them anyway.
    """
    if not (again or record.config.lacks_secrets):
        return [], []
    if record.provenance.is_command_typed:
        return [], ["--", "COMMAND"]
    config = record.provenance.config_file
    return ["CONFIG" if config is None else config], []


# The value to maximise: items per second, or items per second of CPU.


Objective = Literal["throughput", "throughput-per-cpu"]
OBJECTIVES: tuple[Objective, ...] = ("throughput", "throughput-per-cpu")


def value_of(window: WindowRecord, objective: str) -> float:
    """Return the value to maximise: items/s, or items per CPU second of the service and its backends.

    The CPU of configured backends counts, because the load on them depends on the layout; tuner's own CPU
    never counts.

    Returns:
        0 if there is nothing to compare: no item was finished, or no CPU use was measured.

    Raises:
        ValueError: there is no such objective.
    """
    return value_from(
        window.n_done, window.length_s, window.service_cpu_s + window.backend_cpu_s, objective=objective
    )


def value_from(n_done: int, length_s: float, cpu_s: float, *, objective: str) -> float:
    """Return the same value for the sums of several windows; times are in seconds."""
    if objective == "throughput":
        return n_done / length_s
    if objective == "throughput-per-cpu":
        return n_done / cpu_s if cpu_s > 0 else 0.0
    raise ValueError(f"no such objective: {objective!r}")


def parse_objective(text: str) -> Objective:
    """Read the name of an objective.

    Raises:
        ConfigError: there is no objective of that name.
    """
    name = text.strip().lower()
    if name in OBJECTIVES:
        return name
    near = get_close_matches(name, OBJECTIVES, n=1)
    hint = f"Did you mean {near[0]}?" if near else f"There are {' and '.join(OBJECTIVES)}."
    raise ConfigError(f"no such objective: {text!r}", hint=hint)
