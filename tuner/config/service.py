"""The config section `service`: the built-in crash processor, or the user's service."""

from __future__ import annotations

import os
import pwd
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from tuner.config.document import ConfigPath, check_file, check_folder
from tuner.config.feeders import AnyFeeder, no_feeder
from tuner.config.fields import (
    FILLED_IN,
    Count,
    Environment,
    LayoutCommand,
    LimitName,
    Misplaced,
    Name,
    Ratio,
    Section,
    VariantName,
    WholeNumber,
    fields_in,
    nearest,
)
from tuner.config.kinds import (
    PORT_FIELD,
    PORT_VARIABLE,
    AnyProbe,
    AnyReady,
    ProbeSettings,
    counter_probe,
    fillers,
    with_lines_of_masters,
)
from tuner.config.variants import (
    Axes,
    CrashAxes,
    CrashVariantSettings,
    Interpreter,
    StopSettings,
    VariantSettings,
    Words,
    context_folder,
    crash_processor_with_variants,
    place_in_axes,
    script_with_variants,
    with_whole_stops,
)
from tuner.core.domain.service import Gate, OsThreads, Programs, Workers


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
    """User, folder, environment and limits of a service."""

    #: User that runs the service. tuner must run as root to start the service as another user; None: the user
    #: of tuner
    user: Annotated[str, AfterValidator(_user)] | None = None
    directory: ConfigPath | None = None  #: Folder in which the service runs; None: the current folder
    #: Environment variables for the service, in addition to those of tuner
    environment: Environment = Field(default_factory=dict)
    #: File with environment variables for the service, one NAME=VALUE per line. In this file, tuner does not
    #: replace placeholders such as `{threads}`
    environment_file: ConfigPath | None = None
    stop: StopSettings = StopSettings()  #: How tuner stops the processes of the service
    #: Resource limits of each process of the service, in the units of setrlimit, for example `{nofile: 4096}`
    limits: dict[LimitName, WholeNumber] = Field(default_factory=dict)
    #: Number of threads that a process may run in addition to the threads of its layout. If a process runs
    #: more threads, tuner rejects the measurement; None: the known service's limit, or no limit
    max_extra_threads: WholeNumber | None = None
    #: How tuner pauses a started layout while it measures another layout (only with `slices: auto`). freeze:
    #: tuner suspends the processes; feed: tuner sends no items; none: tuner starts layouts one after the
    #: other; None: a way that is safe for the known service, else none
    gate: Gate | None = None
    #: Number of connections that each process of the service opens, for example to a database. With
    #: `connections: threads`, each process opens one connection per thread
    connections: Count | Literal["threads"] = "threads"

    @field_validator("directory")
    @classmethod
    def _check_folder(cls, value: Any) -> Any:
        return value if value is None else check_folder(value)

    @field_validator("environment_file")
    @classmethod
    def _check_file(cls, value: Any) -> Any:
        return value if value is None else check_file(value)  # it is read when the service is made

    @property
    def owner(self) -> tuple[int, int] | None:
        """User and group id of the service; None: those of tuner."""
        if self.user is None:
            return None
        entry = pwd.getpwnam(self.user)
        return entry.pw_uid, entry.pw_gid

    @property
    def probe_fields(self) -> tuple[str, ...]:
        """Fields that the probe of this service replaces, in addition to those of every service."""
        return ()

    @property
    def filled_in(self) -> list[tuple[tuple[str | int, ...], str]]:
        """Texts in which tuner replaces fields, with their places."""
        return [(("environment", name), word) for name, word in self.environment.items()]

    @model_validator(mode="after")
    def _check_fields(self) -> Self:
        for place, word in self.filled_in:
            for name in fields_in(word).difference(FILLED_IN, self.probe_fields):
                which = f"probe {' or '.join(fillers(name))}{' that asks there' * (name == PORT_VARIABLE)}"
                raise Misplaced(f"{{{name}}} is filled in with {which} only", place)
        return self


class CrashProcessorSettings(RunSettings):
    """The built-in service `crash-processor` analyses crash dumps with a C program."""

    record: ClassVar[None] = None
    cautions: ClassVar[dict[str, str]] = {}
    threads: ClassVar[bool] = True
    reports_latency: ClassVar[bool] = False
    programs: ClassVar[Programs] = "each"
    workers: ClassVar[Workers | None] = None
    ready: ClassVar[None] = None
    cross_check: ClassVar[None] = None
    cross_check_within: ClassVar[None] = None
    kind: Literal["crash-processor"] = "crash-processor"  #: Kind of service
    #: Name of the service in results and in the name of the study file
    name: Name = "crash-processor"
    #: Folder for the crash dumps. tuner does not delete this folder; None: a temporary folder
    spool: ConfigPath | None = None
    #: Number of crash dumps in the folder `spool`; None: four times the number of threads of the largest
    #: layout
    items: Count | None = None
    seed: WholeNumber = 1  #: Seed for the random contents of the generated crash dumps
    symbols_bytes: Count | None = None  #: Size of each generated symbol file, in bytes
    #: Folder with real crash dumps to analyse instead of generated crash dumps
    dumps: ConfigPath | None = None
    symbols: ConfigPath | None = None  #: Folder with the symbol files for the crash dumps in `dumps`
    #: Options of the command `crash-processor run`, by name. The default profile imitates the load of
    #: Mozilla's Socorro in 2014
    options: dict[str, str] = Field(default_factory=lambda: {"profile": "socorro-2014"})
    #: Python interpreter that runs the service; None: the interpreter of tuner
    interpreter: Interpreter | None = None
    prepend: Words = ()  #: Arguments to put before the command, for example `[numactl, --interleave=all]`
    #: Settings that tuner varies, for example the Python interpreter
    axes: CrashAxes = Field(default_factory=dict)
    #: Key that only tuner sets
    variants: dict[VariantName, CrashVariantSettings] = Field(default_factory=dict)

    @property
    def probe(self) -> ProbeSettings:
        """The probe: the code of the service counts its items itself."""
        return counter_probe()

    def of(self, variant: str) -> Self:
        """Return the service in one of its variants."""
        asked = self.variants[variant]
        other = _fields_set_by(asked)
        for name in ("environment", "options"):
            other[name] = {**getattr(self, name), **getattr(asked, name)}
        other["prepend"] = (*(asked.prepend or ()), *self.prepend)
        return self.model_copy(update={**other, "axes": {}, "variants": {}})

    @model_validator(mode="before")
    @classmethod
    def _axes_make_variants(cls, section: Any) -> Any:
        return with_whole_stops(crash_processor_with_variants(section))

    @field_validator("variants")
    @classmethod
    def _variants_are_of_axes(cls, value: Any, info: ValidationInfo) -> Any:
        if value and "axes" in info.data and not info.data["axes"]:
            raise ValueError("the built-in worker has axes: name one, as axes: {python: {...}}")
        return value

    @field_validator("gate")
    @classmethod
    def _has_no_feeder(cls, value: Any) -> Any:
        if value == "feed":
            raise ValueError("its spool cannot pause: use freeze or none")
        return value

    @model_validator(mode="after")
    def _symbols_belong_to_dumps(self) -> Self:
        if self.symbols is not None and self.dumps is None:
            raise ValueError("symbols without dumps: synthetic dumps bring their own")
        return self


class ScriptSettings(RunSettings):
    """tuner starts a service of this kind with a command."""

    kind: Literal["script"]  #: Kind of service
    name: Name  #: Name of the service in results and in the name of the study file
    command: LayoutCommand  #: Command that starts the service
    #: Whether tuner varies the number of threads, too (yes), or only the number of processes (no)
    threads: bool = True
    #: How often tuner starts the command. each: once for each process; one: once, because the command starts
    #: all processes itself
    programs: Programs = "each"
    #: Which processes or threads work on items: the processes that tuner starts (programs), their child
    #: processes (children), one child process for each thread (pools), or the threads of one process
    #: (threads). `children-if-several` means `children`, but a single process works itself; None: `children`
    #: if `programs` is `one`, else `programs`
    workers: Workers | None = None
    #: Whether a process starts its threads at once, or only when items need them. With `os_threads`, the
    #: study ends if a layout with more threads does not run more threads; None: no check
    os_threads: OsThreads | None = None
    #: Whether each process runs an event loop (asyncio), which works on any number of items at the same time
    event_loop: bool = False
    #: How tuner detects that the service has started and is ready for items; None: the service is ready at
    #: once
    ready: AnyReady | None = None
    probe: AnyProbe = Field(default_factory=counter_probe)  #: How tuner counts finished items
    #: Second way to count finished items. tuner rejects a measurement if the counts of `probe` and
    #: `cross_check` differ too much
    cross_check: AnyProbe | None = None
    #: Largest accepted difference between the counts of `probe` and `cross_check`; None: 2 %
    cross_check_within: Annotated[Ratio, Field(ge=0, lt=0.5)] | None = None
    feeder: AnyFeeder = Field(default_factory=no_feeder)  #: How tuner sends items to the service
    #: Variants of the service to compare, for example with different worker classes. `4x6@NAME` is the layout
    #: `4x6` of the variant `NAME`
    variants: dict[VariantName, VariantSettings] = Field(default_factory=dict)
    #: Settings to vary, such as the interpreter or an option of the command. The values of an axis are a
    #: mapping of names to changed keys (for the axis `omp`: a list such as `[1, 2, auto]`). tuner measures
    #: every combination of values as a variant, for example `4x6@VALUE+VALUE`
    axes: Axes = Field(default_factory=dict)
    record: Name | None = None  #: Key that only tuner sets
    cautions: dict[str, str] = Field(default_factory=dict)  #: Key that only tuner sets

    def of(self, variant: str) -> Self:
        """Return the service in one of its variants."""
        asked = self.variants[variant]
        environment = {**self.environment, **asked.environment}
        return self.model_copy(
            update={**_fields_set_by(asked), "environment": environment, "axes": {}, "variants": {}}
        )

    @model_validator(mode="before")
    @classmethod
    def _axes_make_variants(cls, section: Any, info: ValidationInfo) -> Any:
        return with_lines_of_masters(with_whole_stops(script_with_variants(section, context_folder(info))))

    @model_validator(mode="after")
    def _check_complete(self) -> Self:
        if not self.variants:
            _check_complete(self)
        for name, asked in self.variants.items():
            try:
                _check_complete(self.of(name))
            except Misplaced as problem:
                at = problem.below
                own = bool(at) and at[0] in asked.model_fields_set
                if isinstance(problem, ThreadsAsked) and asked.threads is False and (self.axes or not own):
                    at, own = ("threads",), True  # the variant's setting is the error
                below = place_in_axes(self.axes, name, at) or (("variants", name, *at) if own else at)
                raise Misplaced(f"variant {name}: {problem}", below) from problem
        return self

    @property
    def reports_latency(self) -> bool:
        """Whether the feeder reports the latency of items, as tuner's load generator does."""
        return self.feeder.reports_latency

    @property
    def probe_fields(self) -> tuple[str, ...]:
        """Fields that the probes replace; the port of a launch only with a probe that uses it."""
        probes = self.probes.values()
        fields = dict.fromkeys(name for probe in probes for name in probe.fills_in if name != PORT_VARIABLE)
        has_port = any(probe.has_own_port for probe in probes)
        return (*fields, PORT_VARIABLE) if has_port else (*fields,)

    @property
    def probes(self) -> dict[str, ProbeSettings]:
        """The probe, and the cross-check if there is one, by their keys."""
        second = {} if self.cross_check is None else {"cross_check": self.cross_check}
        return {"probe": self.probe, **second}

    @property
    def filled_in(self) -> list[tuple[tuple[str | int, ...], str]]:
        """Texts with fields, including the words of the command, with their places."""
        return [*((("command", n), word) for n, word in enumerate(self.command)), *super().filled_in]

    @model_validator(mode="after")
    def _check_probes_have_feeder(self) -> Self:
        for key, probe in self.probes.items():
            if problem := probe.problem_with(self.feeder):
                raise Misplaced(problem, (key,))
        return self

    @model_validator(mode="after")
    def _check_gate(self) -> Self:
        if self.gate == "feed" and not self.feeder.can_pause:
            raise Misplaced(
                f"a feeder of kind {self.feeder.kind} cannot pause: use freeze or none", ("gate",)
            )
        return self

    @model_validator(mode="after")
    def _check_two_probes(self) -> Self:
        if self.cross_check is None:
            if self.cross_check_within is not None:
                raise Misplaced("belongs to a cross_check, and there is none", ("cross_check_within",))
            return self
        kind = self.cross_check.kind
        if kind == self.probe.kind and self.probe.is_alone:
            why = f"a launch has one {kind} only, and probe has it: name a probe of another kind"
            raise Misplaced(why, ("cross_check",))
        if self.probe.has_own_port and self.cross_check.has_own_port:
            raise Misplaced(f"a launch has one {PORT_FIELD} only, and probe has it", ("cross_check",))
        if self.cross_check == self.probe:
            raise Misplaced("is the same as probe, and would always agree with it", ("cross_check",))
        return self


class ThreadsAsked(Misplaced):
    """A word of the command or environment uses {threads}, but the service has none."""


def _fields_set_by(variant: Section) -> dict[str, Any]:
    """Return the settings that *variant* sets to a value other than None."""
    return {name: value for name in variant.model_fields_set if (value := getattr(variant, name)) is not None}


def _check_complete(service: ScriptSettings) -> None:
    words = service.filled_in
    for place, word in words:
        if not service.threads and "threads" in fields_in(word):
            raise ThreadsAsked("uses {threads}, but threads is no", place)
    if service.workers == "pools" and (service.programs == "one" or not service.threads):
        raise Misplaced(
            "a layout's threads are the processes of each program's pool then: programs is each, threads yes",
            ("workers",),
        )
    if service.workers == "threads":
        if service.programs != "one" or not service.threads:
            raise Misplaced(
                "the one program's threads are its workers then: programs is one, threads yes", ("workers",)
            )
    elif service.programs == "one" and not any("processes" in fields_in(word) for _, word in words):
        raise Misplaced(
            "the one program does not receive the number of processes to start: write {processes} in its"
            " command or environment",
            ("programs",),
        )


ServiceSettings = Annotated[CrashProcessorSettings | ScriptSettings, Field(discriminator="kind")]
