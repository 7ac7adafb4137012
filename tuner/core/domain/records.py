"""The records of a study, of each launch and of each window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Literal

from tuner.core.defaults import CONFIDENCE, HORIZON_S, MEMORY_PRESSURE_RATIO, WITHIN
from tuner.core.domain.layout import Layout, whole_cores
from tuner.core.domain.provenance import Provenance
from tuner.core.domain.requests import Requests
from tuner.core.domain.stored_config import StoredConfig
from tuner.core.domain.strategy import Kind
from tuner.core.domain.window import WindowClocks
from tuner.core.errors import ConfigError
from tuner.core.text.figures import pluralize

#: position of the first launch of a first look in block WARMING_BLOCK; scouts have lower positions
FIRST_LOOK = 1000
WARMING_BLOCK = -1  #: block number of the discarded launch that warms the page cache


@dataclass(frozen=True, slots=True)
class StudyRecord:
    """The settings of a study and its host; fixed when the study begins."""

    service: str  #: name in exports and marks
    strategy: str  #: name of the strategy: "all", "race", ...
    layouts: tuple[Layout, ...]
    cores: int  #: number of cores that the layouts are planned for
    box_cores: float  #: number of cores that the host offers (affinity, cgroup quota)
    window_s: float  #: length of a window, seconds; the longest, if the strategy chooses lengths
    warmup_s: float | None  #: length of the warm-up, seconds; None: detected per launch
    n_blocks: int  #: planned launches of each layout
    windows_per_launch: int
    seed: int
    budget_s: float | None
    created_wall_s: float
    config: StoredConfig  #: settings without secrets
    max_attempts: int = 3  #: attempts at a launch, or at a window, before it stays invalid
    #: longest warm-up, seconds; a launch not steady by then is measured anyway, and marked
    warmup_cap_s: float = 300.0
    #: CPU of other processes, in cores, above which a window is invalid; None: the default limit
    foreign_limit_cores: float | None = None
    #: largest share of a window spent waiting for memory
    memory_pressure_limit_ratio: float = MEMORY_PRESSURE_RATIO
    #: whether a first launch is discarded, so that all others start with a warm page cache
    warms_cache: bool = True
    provenance: Provenance = field(default_factory=Provenance)  #: host, software and origin of the study
    within_ratio: float = WITHIN  #: margin: the answer may be worse than the best layout by this share
    confidence: float = CONFIDENCE  #: confidence level of the answer
    kind: Kind = "strict"  #: guarantee of the answer
    #: length of the shortest window that the strategy may choose, seconds; None: window_s
    min_window_s: float | None = None
    objective: str = "throughput"  #: value to maximise
    #: largest value of each limited quantity that the best layout may have
    limits: Mapping[str, float] = field(default_factory=dict)
    #: most layouts that are started at once and take turns; 1: launches run one after the other
    n_resident: int = 1
    schema_version: int = 18

    @property
    def horizon_s(self) -> float:
        """The time after a start, in seconds, for which a layout must keep its memory limit."""
        found = self.config.study.get("horizon")
        return float(found) if isinstance(found, int | float) and found > 0 else HORIZON_S

    @property
    def is_held(self) -> bool:
        """Whether workers are held to the first `cores` CPUs of the host, which has more."""
        return self.cores < whole_cores(self.box_cores)

    @property
    def usable_cores(self) -> float:
        """Number of cores that the service can use: a CPU quota may have a fraction."""
        return float(self.cores) if self.is_held else self.box_cores

    @property
    def is_for_larger_host(self) -> bool:
        """Whether the layouts are planned for more cores than the host has; one core is the least."""
        return self.cores > max(1.0, self.box_cores)

    @property
    def shortest_window_s(self) -> float:
        """The shortest window that the strategy may choose, in seconds."""
        return self.window_s if self.min_window_s is None else self.min_window_s


# Launches and windows are not frozen, although no code changes one: a frozen instance takes twice as long to
# create, and a file may have 20 000 launches and 100 000 windows.
@dataclass(slots=True, unsafe_hash=True)
class LaunchRecord:
    """One start of one layout."""

    block: int  #: 0, 1, ...; WARMING_BLOCK for the first launch, which only warms the page cache
    position: int  #: position in its block: 0, 1, ...
    #: 1, 2, ...: a failed or spoilt launch is repeated with the next number, an interrupted one with the same
    attempt: int
    layout: Layout
    box: str  #: name of the host that it ran on
    started_wall_s: float
    running_after_s: float | None  #: seconds from the start until supervisord had every process RUNNING
    warmup_s: float | None  #: seconds from RUNNING until the first window began
    settled: bool | None  #: whether it reached a steady state; None: not judged, or it ended before
    error: str | None = None  #: reason why the launch failed or was spoilt; None: it did not
    #: time when all its processes had ended; None: it runs, or was interrupted
    ended_wall_s: float | None = None
    window_s: float | None = None  #: requested length of its windows, seconds; None: as in the study
    n_windows: int | None = None  #: requested number of windows; None: as in the study
    #: reason why it never became steady, as "slug: figures"; None: it did, or *settled* is None
    unsettled: str | None = None
    #: seconds from RUNNING to the beginning of the steady state; None: not judged
    steady_from_s: float | None = None
    #: slope of a straight line through the steady state, as a share of the mean per hour; None: not judged
    trend_ratio_per_h: float | None = None
    trend_se_ratio_per_h: float | None = None  #: standard error of trend_ratio_per_h
    has_gil: bool | None = None  #: whether a worker was observed with an active GIL; None: not observed
    gil_module: str | None = (
        None  #: module whose import switched the GIL on in a free-threaded Python; None: unknown
    )
    #: number of the group of launches in its block with which it took turns; None: it ran alone
    heat: int | None = None
    #: CPU time of one unit of fixed work before the start, while no layout worked, seconds; None: not
    #: measured
    idle_fixed_work_cpu_s: float | None = None
    #: mean CPU time of one unit of fixed work in its valid windows, seconds; None: not measured
    fixed_work_cpu_s: float | None = None
    #: standard deviation of the throughput of one second, as a share of the mean, without changes that its
    #: heat shares; None: it ran alone, or had too few slices
    noise_of_second_ratio: float | None = None
    #: share of its running time, in slices, that counts; None: it ran alone, or the study file is older
    counted_ratio: float | None = None


@dataclass(slots=True, unsafe_hash=True)
class WindowRecord(WindowClocks):
    """A window without its samples: the input of the ranking, up to 100 000 at a time."""

    #: requests that ended in the window; None: unknown
    requests: Requests | None = field(default=None, hash=False)

    @property
    def is_at_a_rate(self) -> bool:
        """Whether requests came at a rate: then threads also wait for work, and the bottleneck is unknown."""
        return self.requests is not None and self.requests.rate_per_s is not None


@dataclass(frozen=True, slots=True)
class BoxRecord:
    """A host of a fleet, from its joining of the study until it left."""

    name: str
    cores: float  #: number of cores that the host offers (affinity, cgroup quota)
    joined_wall_s: float  #: time of joining, by the coordinator's clock
    ahead_s: float = 0.0  #: its wall clock minus the coordinator's, seconds
    provenance: Provenance = field(default_factory=Provenance)  #: host, kernel, Python, version of tuner
    left_wall_s: float | None = None  #: time of leaving; None: it did not leave, or this is unknown
    why: str | None = None  #: reason why it left


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


def describe_assumed_memory(study: StudyRecord) -> list[str]:
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
