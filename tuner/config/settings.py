"""The settings of a study, as a config file and the command line give them together."""

from __future__ import annotations

import os
import pwd
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from tuner.config.brake import BrakeSettings
from tuner.config.feeders import FORMS_THAT_TELL_FAILED, FeederSettings, NoFeederSettings
from tuner.config.fields import (
    FILLED_IN_BY_PROBES,
    Commands,
    ConfigPath,
    Count,
    Duration,
    Environment,
    LayoutCommand,
    Layouts,
    LimitName,
    LongerThanZero,
    MaxLoad,
    MaxMemory,
    MaxP95,
    Misplaced,
    Name,
    ObjectiveName,
    Ratio,
    Section,
    SignalName,
    VariantName,
    Variants,
    WholeNumber,
    fields_in,
    nearest,
)
from tuner.config.probes import (
    COUNT_FAILED,
    ONE_OF_A_KIND,
    MmapCounterSettings,
    ProbeSettings,
    has_own_port,
)
from tuner.config.ready import ReadySettings
from tuner.core.durations import parse_duration, render_duration
from tuner.core.errors import ConfigError
from tuner.core.layout import GRIDS, Layout, grid_of
from tuner.core.pooled import shape_of
from tuner.core.service import Programs, Workers, connections_of

GridName = Literal["small", "divisors", "full"]
SHORTEST_WINDOW_S = 60.0  #: that a race chooses, unless told otherwise
STRATEGIES = ("race", "all")
#: strategy -> the settings that no other one has
OF_STRATEGY = {"race": ("within", "kind", "min_window"), "all": ("repeats", "windows_per_launch")}
MOST_CORES = 4096  #: a full grid of these has 35 000 layouts already


class StudySettings(Section):
    """What is measured, how long and how often; a key of another strategy is refused.

    None is "as usual" for the strategy.
    """

    strategy: Literal["race", "all"] = "race"  #: race: until the best is known; all: each as often as told
    cores: Annotated[Count, Field(le=MOST_CORES)] | None = (
        None  #: the cores the layouts are for; None: what the process may use
    )
    #: small: N threads in all; divisors: N/2, N, 2N; full: every PxT up to 2N, for N cores; None: divisors
    grid: GridName | None = None
    layouts: Layouts | None = None  #: just these, instead of a grid
    variants: Variants | None = None  #: of those that the service has; None: all of them
    within: Annotated[Ratio, Field(gt=0, lt=0.5)] | None = None  #: race: the answer's margin; None: 2 %
    confidence: Annotated[Ratio, Field(ge=0.5, le=0.999)] = 0.95  #: of the answer and of every interval
    kind: Literal["strict", "calibrated"] | None = None  #: race: what the answer promises; None: strict
    objective: ObjectiveName = "throughput"  #: what is to be large
    max_connections: Count | None = None  #: a layout that opens more is not measured; see the service's
    max_load: MaxLoad | None = None  #: a layout with a larger load average cannot win
    max_memory: MaxMemory | None = None  #: one whose workers and their children use more (PSS) cannot win
    max_p95: MaxP95 | None = None  #: one whose p95 is longer cannot win; for services that report latency
    window: LongerThanZero = 600.0  #: how long a window is; race: the longest
    min_window: LongerThanZero | None = None  #: race: the shortest; None: 1 m, or the longest if that is less
    repeats: Count | None = None  #: all: launches of each layout; None: 3
    windows_per_launch: Count | None = None  #: all: windows of each launch; None: 1
    warmup: Literal["auto"] | Duration = "auto"  #: auto: until items and active tasks have settled
    warmup_cap: LongerThanZero = 300.0  #: the longest of auto; what has not settled is measured and marked
    warm_cache: bool = True  #: begin with one launch that is discarded
    seed: WholeNumber = 1  #: of the order of launches
    budget: LongerThanZero | None = None  #: stop within it, with what is known by then; None: no end
    max_attempts: Count = 3  #: tries of a window that was void
    #: cores that strangers may use; None: 0.15, or 1 % of the cores where that is more
    foreign_limit: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    #: share of a window in which some task may wait for memory
    memory_pressure_limit: Annotated[float, Field(gt=0, le=1)] = 0.05

    @field_validator("warmup", mode="wrap")
    @classmethod
    def _warmup(cls, value: Any, handler: Any, info: ValidationInfo) -> Any:  # noqa: ARG003  # pydantic's signature
        """One message instead of one per kind of value."""
        return "auto" if value == "auto" else _duration_only(value)

    @field_validator("strategy", "kind", "grid", mode="before")
    @classmethod
    def _known_word(cls, value: Any, info: ValidationInfo) -> Any:
        known = {"strategy": STRATEGIES, "kind": ("strict", "calibrated"), "grid": tuple(GRIDS)}[
            str(info.field_name)
        ]
        if value is not None and value not in known:
            raise ValueError(f"{value} is none of {', '.join(known)}{nearest(str(value), known)}")
        return value

    @field_validator("within", "kind", "min_window", "repeats", "windows_per_launch")
    @classmethod
    def _belongs_to_the_strategy(cls, value: Any, info: ValidationInfo) -> Any:
        strategy = info.data.get("strategy")
        if value is not None and strategy is not None and info.field_name not in OF_STRATEGY[strategy]:
            (other,) = (name for name in STRATEGIES if name != strategy)
            raise ValueError(f"belongs to strategy {other}, this study's is {strategy}")
        return value

    @field_validator("min_window")
    @classmethod
    def _not_longer_than_the_longest(cls, value: Any, info: ValidationInfo) -> Any:
        longest_s = info.data.get("window")
        if value is not None and longest_s is not None and value > longest_s:
            shown = render_duration(value), render_duration(longest_s)
            raise ValueError(f"{shown[0]} is longer than the longest window, {shown[1]}")
        return value

    @field_validator("layouts")
    @classmethod
    def _one_choice_of_layouts(cls, value: Any, info: ValidationInfo) -> Any:
        if value is not None and info.data.get("grid") is not None:
            raise ValueError("name a grid or layouts, not both")
        return value

    @property
    def limits(self) -> dict[str, float]:
        """The most that a layout may use and still win, by quantity."""
        asked = {"load": self.max_load, "memory_bytes": self.max_memory, "p95_s": self.max_p95}
        return {name: at_most for name, at_most in asked.items() if at_most is not None}

    @property
    def shortest_window(self) -> float:
        """The shortest window that the strategy may choose."""
        if self.strategy == "all":
            return self.window
        return min(SHORTEST_WINDOW_S, self.window) if self.min_window is None else self.min_window

    def layouts_for(
        self,
        cores: int,
        threads_of: Mapping[str, bool],
        connections: int | Literal["threads"] = "threads",
        pooled: Collection[str] = (),
    ) -> tuple[Layout, ...]:
        """The layouts to measure.

        Args:
            cores: that they are for.
            threads_of: of each variant of the service whether it has threads to choose; "" is the service as
                it is.
            connections: that a process opens; a layout of the grid with too many is left out.
            pooled: the variants whose threads are processes of a pool.
        """
        if self.layouts is not None:
            return tuple(
                replace(layout, has_threads=threads_of.get(layout.variant, threads_of.get("", True)))
                for layout in self.layouts
            )
        every = (
            replace(layout, variant=variant)
            for variant, has_threads in threads_of.items()
            for layout in grid_of(self.grid or "divisors", cores, has_threads=has_threads)
        )
        most = self.max_connections
        return tuple(
            layout
            for layout in every
            if most is None or connections_of(shape_of(layout, pooled), connections) <= most
        )


def _duration_only(value: Any) -> float:
    try:
        return parse_duration(str(value))
    except ConfigError as error:
        raise ValueError(f"should be auto or a duration: {error.problem}. {error.hint}") from error


class StopSettings(Section):
    """How a worker process is told to end."""

    signal: SignalName = "TERM"  #: that asks it to end
    wait: LongerThanZero = 60.0  #: for its end; then KILL
    as_group: bool = False  #: signal the whole process group; for shell wrappers only


def _user(name: str) -> str:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise ValueError(
            f"no such user: {name}{nearest(name, [user.pw_name for user in pwd.getpwall()])}"
        ) from None
    if os.geteuid() not in (0, entry.pw_uid):
        raise ValueError(f"only root can run a service as {name}; start tuner as root, or as {name}")
    return name


class RunSettings(Section):
    """Where, as whom and with what a service runs."""

    user: Annotated[str, AfterValidator(_user)] | None = None  #: runs it; tuner is root then; None: tuner's
    directory: ConfigPath | None = None  #: it runs there; None: the current folder
    environment: Environment = Field(default_factory=dict)  #: beside tuner's own environment
    environment_file: ConfigPath | None = None  #: lines of NAME=VALUE; nothing is filled in
    stop: StopSettings = StopSettings()  #: how a worker is told to end
    limits: dict[LimitName, WholeNumber] = Field(default_factory=dict)  #: of resources, in units of `ulimit`
    #: OS threads that a process may have beyond its layout's; None: the service's own, or any number
    max_extra_threads: WholeNumber | None = None
    #: that a process opens (to its database): as many as it has threads, or its pool's size
    connections: Count | Literal["threads"] = "threads"

    @field_validator("directory")
    @classmethod
    def _is_a_folder(cls, value: Any) -> Any:
        if value is not None and not value.is_dir():
            raise ValueError(f"no such folder: {value}")
        return value

    @property
    def probe_fields(self) -> tuple[str, ...]:
        """The fields that this service's probe fills in, beside those of every service."""
        return ()

    @property
    def filled_in(self) -> list[tuple[tuple[str | int, ...], str]]:
        """The texts in which fields are filled in, with their places."""
        return [(("environment", name), word) for name, word in self.environment.items()]

    @model_validator(mode="after")
    def _somebody_fills_in_every_field(self) -> Self:
        for place, word in self.filled_in:
            for name in fields_in(word).intersection(FILLED_IN_BY_PROBES).difference(self.probe_fields):
                raise Misplaced(f"{{{name}}} is filled in with {FILLED_IN_BY_PROBES[name]} only", place)
        return self


class VariantSettings(Section):
    """What is different in one variant of a service; what is left out is as in the service."""

    command: LayoutCommand | None = None  #: None: the service's
    environment: Environment = Field(default_factory=dict)  #: beside the service's
    threads: bool | None = None  #: None: the service's
    programs: Programs | None = None  #: None: the service's
    workers: Workers | None = None  #: None: the service's
    ready: ReadySettings | None = None  #: None: the service's
    stop: StopSettings | None = None  #: None: the service's
    max_extra_threads: WholeNumber | None = None  #: None: the service's


class CrashProcessorSettings(RunSettings):
    """The built-in worker: a Socorro-like crash processor with a C stackwalker."""

    record: ClassVar[None] = None
    cautions: ClassVar[dict[str, str]] = {}
    variants: ClassVar[dict[str, VariantSettings]] = {}
    threads: ClassVar[bool] = True
    reports_latency: ClassVar[bool] = False
    programs: ClassVar[Programs] = "each"
    workers: ClassVar[Workers | None] = None
    ready: ClassVar[None] = None
    probe: ClassVar[MmapCounterSettings] = MmapCounterSettings()
    cross_check: ClassVar[None] = None
    cross_check_within: ClassVar[None] = None
    kind: Literal["crash-processor"] = "crash-processor"  #: which service
    name: Name = "crash-processor"  #: names the study's file, and its section in a runbook
    spool: ConfigPath | None = None  #: kept afterwards; None: a temporary one
    items: Count | None = None  #: in the spool; None: four times what the largest layout holds at once
    seed: WholeNumber = 1  #: of the synthetic dumps
    symbols_bytes: Count | None = None  #: size of each synthetic symbol file
    dumps: ConfigPath | None = None  #: real dumps instead of synthetic ones
    symbols: ConfigPath | None = None  #: their symbols
    #: further options of `crash-processor run`, by name; unless told otherwise, the shares of an item in 2014
    options: dict[str, str] = Field(default_factory=lambda: {"profile": "socorro-2014"})

    @model_validator(mode="after")
    def _symbols_belong_to_dumps(self) -> Self:
        if self.symbols is not None and self.dumps is None:
            raise ValueError("symbols without dumps: synthetic dumps bring their own")
        return self


class ScriptSettings(RunSettings):
    """A worker of the user's own: its command, once per process or once in all."""

    kind: Literal["script"]  #: which service
    name: Name  #: names the study's file, and its section in a runbook
    command: LayoutCommand  #: starts it
    threads: bool = True  #: no: it has none to choose, only processes
    programs: Programs = "each"  #: "one": the command is started once, and starts the worker processes itself
    #: who works on items: the programs, or what they start; None: children of the one program, else programs
    workers: Workers | None = None
    ready: ReadySettings | None = None  #: when a launch that runs is ready to work; None: at once
    probe: ProbeSettings = MmapCounterSettings()  #: who counts its items
    cross_check: ProbeSettings | None = None  #: a second probe, which has to agree with the first one
    #: how far the two may differ; None: 2 %
    cross_check_within: Annotated[Ratio, Field(ge=0, lt=0.5)] | None = None
    feeder: FeederSettings = NoFeederSettings()  #: where its items come from
    #: a further axis (pool, interpreter, malloc): what is different in each; layouts are 4x6@NAME then
    variants: dict[VariantName, VariantSettings] = Field(default_factory=dict)
    record: Name | None = None  #: the known service that this is one of
    cautions: dict[str, str] = Field(default_factory=dict)  #: what its user should know, by slug

    def of(self, variant: str) -> Self:
        """The service in one of its variants."""
        asked = self.variants[variant]
        other = {
            name: value for name in asked.model_fields_set if (value := getattr(asked, name)) is not None
        }
        environment = {**self.environment, **asked.environment}
        return self.model_copy(update={**other, "environment": environment, "variants": {}})

    @model_validator(mode="after")
    def _is_told_what_it_has(self) -> Self:
        if not self.variants:
            _check_told(self)
        for name, asked in self.variants.items():
            try:
                _check_told(self.of(name))
            except Misplaced as problem:
                own = bool(problem.below) and problem.below[0] in asked.model_fields_set
                below = ("variants", name, *problem.below) if own else problem.below
                raise Misplaced(f"variant {name}: {problem}", below) from problem
        return self

    @property
    def reports_latency(self) -> bool:
        """Whether it is known how long its items take: those that tuner's load generator sends."""
        return self.feeder.kind == "http"

    @property
    def probe_fields(self) -> tuple[str, ...]:
        """The address of statsd, and the port of the launch's own, with such probes."""
        probes = self.probes.values()
        statsd = ("TUNER_STATSD",) if any(probe.kind == "statsd" for probe in probes) else ()
        return (*statsd, "TUNER_PROBE_PORT") if any(has_own_port(probe) for probe in probes) else statsd

    @property
    def probes(self) -> dict[str, ProbeSettings]:
        """The one that counts, and the second one where there is one, by their keys."""
        second = {} if self.cross_check is None else {"cross_check": self.cross_check}
        return {"probe": self.probe, **second}

    @property
    def filled_in(self) -> list[tuple[tuple[str | int, ...], str]]:
        """The command too."""
        return [*((("command", n), word) for n, word in enumerate(self.command)), *super().filled_in]

    @model_validator(mode="after")
    def _what_counts_by_the_feeder_has_it(self) -> Self:
        for key, probe in self.probes.items():
            if probe.kind == "generator" and self.feeder.kind != "http":
                raise Misplaced(
                    f"generator counts the answers that feeder http gets; the feeder is {self.feeder.kind}",
                    (key,),
                )
            if probe.kind == "queue" and self.feeder.kind != "queue":
                raise Misplaced(
                    f"queue counts what feeder queue puts into a queue; the feeder is {self.feeder.kind}",
                    (key,),
                )
        return self

    @model_validator(mode="after")
    def _two_probes_can_differ(self) -> Self:
        if self.cross_check is None:
            if self.cross_check_within is not None:
                raise Misplaced("belongs to a cross_check, and there is none", ("cross_check_within",))
            return self
        kind = self.cross_check.kind
        if kind == self.probe.kind and kind in ONE_OF_A_KIND:
            why = f"a launch has one {kind} only, and probe has it: name a probe of another kind"
            raise Misplaced(why, ("cross_check",))
        if has_own_port(self.probe) and has_own_port(self.cross_check):
            raise Misplaced("a launch has one {TUNER_PROBE_PORT} only, and probe has it", ("cross_check",))
        if self.cross_check == self.probe:
            raise Misplaced("is the same as probe, and would always agree with it", ("cross_check",))
        return self


def _check_told(service: ScriptSettings) -> None:
    words = service.filled_in
    for place, word in words:
        if not service.threads and "threads" in fields_in(word):
            raise Misplaced("asks for {threads}, and threads is no", place)
    if service.workers == "pools" and (service.programs == "one" or not service.threads):
        raise Misplaced(
            "a layout's threads are the processes of each program's pool then: programs is each, threads yes",
            ("workers",),
        )
    if service.programs == "one" and not any("processes" in fields_in(word) for _, word in words):
        raise Misplaced(
            "the one program is not told how many processes to start: write {processes} in its command or"
            " environment",
            ("programs",),
        )


ServiceSettings = Annotated[CrashProcessorSettings | ScriptSettings, Field(discriminator="kind")]


class HookSettings(Section):
    """Commands at certain moments; they find what it is about in TUNER_LAYOUT, TUNER_BLOCK and the like.

    See the port ``Hooks``.
    """

    timeout: LongerThanZero = 60.0  #: of each command; then it is killed and counts as failed
    before_study: Commands = ()  #: once; one that fails stops the study
    after_study: Commands = ()  #: once, before the result is told
    before_launch: Commands = ()  #: one that fails spoils the launch
    after_launch: Commands = ()  #: whatever became of it
    before_window: Commands = ()  #: one that fails spoils the window
    after_window: Commands = ()  #: whatever became of it
    finished: Commands = ()  #: at the very end, whatever happened: `TUNER_EXIT_CODE` says it


class Settings(Section):
    """Everything a study is told."""

    service: ServiceSettings = CrashProcessorSettings()  #: what is measured
    study: StudySettings = StudySettings()  #: in which layouts, how long, until when
    brake: BrakeSettings | None = None  #: at what a launch is stopped; None: at nothing
    hooks: HookSettings = HookSettings()  #: commands at certain moments
    #: names of programs whose CPU is the service's own backends': redis-server
    backends: tuple[Name, ...] = ()

    @field_validator("study")
    @classmethod
    def _layouts_have_the_threads_of_the_service(
        cls, study: StudySettings, info: ValidationInfo
    ) -> StudySettings:
        service = info.data.get("service")
        if service is None:
            return study
        known = list(service.variants)
        for n, name in enumerate(study.variants or ()):
            if name not in known:
                raise Misplaced(f"this service has no variant {name}{nearest(name, known)}", ("variants", n))
        threads_of = _threads_of(service, study)
        for n, layout in enumerate(study.layouts or ()):
            if known and layout.variant not in threads_of:
                raise Misplaced(
                    f"{layout} is of none of the variants {', '.join(threads_of)}", ("layouts", n)
                )
            has_threads = threads_of.get(layout.variant, service.threads)
            if layout.threads > 1 and not has_threads:
                raise Misplaced(f"{layout} has threads, and this service has none to choose", ("layouts", n))
            if has_threads and not layout.has_threads:
                raise Misplaced(f"{layout} leaves threads out, and this service has them", ("layouts", n))
            opened = connections_of(shape_of(layout, _pooled(service)), service.connections)
            if study.max_connections is not None and opened > study.max_connections:
                raise Misplaced(
                    f"{layout} opens {opened} connections, and {study.max_connections} is the most",
                    ("layouts", n),
                )
        return study

    @field_validator("brake")
    @classmethod
    def _failed_items_are_counted(
        cls, brake: BrakeSettings | None, info: ValidationInfo
    ) -> BrakeSettings | None:
        service = info.data.get("service")
        if brake is None or brake.errors is None or service is None:
            return brake
        probe = service.probe
        feeder = getattr(service, "feeder", None)
        if probe.kind == "queue" and feeder is not None and feeder.form in FORMS_THAT_TELL_FAILED:
            return brake
        if probe.kind == "celery" and probe.via == "events":
            return brake
        if probe.kind not in COUNT_FAILED and not getattr(probe, "failed", None):
            told = "is not told how to count" if hasattr(probe, "failed") else "cannot count"
            raise Misplaced(f"probe {probe.kind} {told} failed items (docs/probes.md)", ("errors",))
        return brake

    @field_validator("study")
    @classmethod
    def _latency_is_told_where_it_is_limited(
        cls, study: StudySettings, info: ValidationInfo
    ) -> StudySettings:
        service = info.data.get("service")
        if service is None or study.max_p95 is None or service.reports_latency:
            return study
        raise Misplaced(
            "this service does not report latency (feeder http does); leave that limit out", ("max_p95",)
        )

    def service_in(self, variant: str) -> CrashProcessorSettings | ScriptSettings:
        """The service in the *variant* of a layout."""
        service = self.service
        return service.of(variant) if isinstance(service, ScriptSettings) and service.variants else service

    def layouts_for(self, cores: int) -> tuple[Layout, ...]:
        """The layouts to measure on so many *cores*: those that do not open too many connections."""
        service = self.service
        threads_of = _threads_of(service, self.study)
        return self.study.layouts_for(cores, threads_of, service.connections, _pooled(service))

    def left_out(self, cores: int) -> tuple[Layout, ...]:
        """The layouts that would open too many connections, and are not measured."""
        every = self.study.model_copy(update={"max_connections": None})
        kept = self.layouts_for(cores)
        of_all = every.layouts_for(cores, _threads_of(self.service, self.study))
        return tuple(layout for layout in of_all if layout not in kept)


def _pooled(service: CrashProcessorSettings | ScriptSettings) -> frozenset[str]:
    """The variants whose threads are processes of a pool; "" is the service as it is."""
    if not isinstance(service, ScriptSettings):
        return frozenset()
    told = {"": service, **{name: service.of(name) for name in service.variants}}
    return frozenset(name for name, one in told.items() if one.workers == "pools")


def _threads_of(service: CrashProcessorSettings | ScriptSettings, study: StudySettings) -> dict[str, bool]:
    """Whether each variant that is measured has threads to choose; "" where there are no variants."""
    if not isinstance(service, ScriptSettings) or not service.variants:
        return {"": service.threads}
    names = service.variants if study.variants is None else study.variants
    return {name: service.of(name).threads for name in names}
