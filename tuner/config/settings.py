"""All settings of a study, from the config file and the command line together."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from tuner.config.fields import (
    Command,
    Commands,
    Duration,
    LongerThanZero,
    MaxLoad,
    Misplaced,
    Name,
    Ratio,
    Section,
    TimeLimit,
    as_value_error,
    nearest,
)
from tuner.config.service import CrashProcessorSettings, ScriptSettings, ServiceSettings
from tuner.config.study import StudySettings, in_variants
from tuner.core.domain.layout import Layout, match_variants
from tuner.core.domain.service import Workers, connections_of, shape_of
from tuner.core.errors import ConfigError
from tuner.core.text.figures import parse_size

# Safety limits that stop a study.

_LIMITS = ("load", "memory", "errors", "command")
_SHARE = re.compile(r"(\d+(?:\.\d+)?)\s*%")


def memory_limit(text: str) -> tuple[float | None, float | None]:
    """Parse a memory limit: return (share of the host's memory, bytes) with one of the two None.

    Raises:
        ValueError: *text* is neither a share such as ``90%`` nor a size such as ``28G``.
    """
    if match := _SHARE.fullmatch(text.strip()):
        ratio = float(match[1]) / 100
        if not 0 < ratio < 1:
            raise ValueError(
                f"invalid share {text}: memory use is always above it or never; write a share such as 90%"
            )
        return ratio, None
    try:
        return None, parse_size(text)
    except ConfigError as error:
        raise as_value_error(error) from error


def _memory(text: str) -> str:
    memory_limit(text)
    return text


class BrakeSettings(Section):
    """Safety limits: tuner stops the service if one of them is exceeded."""

    load: MaxLoad | None = None  #: Largest 1-minute load average of the host
    #: Largest memory use of the host, as a share such as `90%` or as a size
    memory: Annotated[str, AfterValidator(_memory)] | None = None
    #: Largest share of failed items among all items of the last 30 s
    errors: Annotated[Ratio, Field(gt=0, lt=1)] | None = None
    #: Command that checks a limit of your own. tuner runs the command repeatedly while the service runs. If
    #: the exit code of the command is not 0, the limit is exceeded
    command: Command | None = None
    every: LongerThanZero | None = None  #: Time between two runs of `command`; None: 10 s
    #: Time after which tuner kills a run of `command`; None: 10 s
    timeout: TimeLimit | None = None
    #: Time for which a limit must be exceeded before tuner stops the service. If the limit `memory` is
    #: exceeded, tuner stops the service at once
    holds: Duration = 10.0
    #: Whether the study ends after a limit was exceeded (stop), or continues without the layout (leave-out)
    then: Literal["stop", "leave-out"] = "stop"

    @field_validator("then", mode="before")
    @classmethod
    def _known_word(cls, value: Any) -> Any:
        known = ("stop", "leave-out")
        if value not in known:
            raise ValueError(
                f"invalid value {value}: expected {' or '.join(known)}{nearest(str(value), known)}"
            )
        return value

    @model_validator(mode="after")
    def _check_any_limit(self) -> Self:
        if all(getattr(self, name) is None for name in _LIMITS):
            raise ValueError(f"has no limit: set {', '.join(_LIMITS[:-1])} or {_LIMITS[-1]}")
        for name in ("every", "timeout"):
            if getattr(self, name) is not None and self.command is None:
                raise Misplaced("needs command, which is missing", (name,))
        return self


class HookSettings(Section):
    """tuner runs these commands with environment variables such as TUNER_LAYOUT.

    See the port ``Hooks``.
    """

    timeout: TimeLimit = 60.0  #: Time after which tuner kills a command
    #: Commands that tuner runs before the study. If a `before_study` command fails, the study stops
    before_study: Commands = ()
    after_study: Commands = ()  #: Commands that tuner runs after the study, before it prints the result
    #: Commands that tuner runs before each launch. If a `before_launch` command fails, the launch fails
    before_launch: Commands = ()
    after_launch: Commands = ()  #: Commands that tuner runs after each launch, even if the launch failed
    #: Commands that tuner runs before each measurement (window). If a `before_window` command fails, the
    #: window is invalid
    before_window: Commands = ()
    #: Commands that tuner runs after each measurement (window), even if it is invalid
    after_window: Commands = ()
    #: Commands that tuner runs at the end of the study, even if the study failed. The environment variable
    #: `TUNER_EXIT_CODE` contains the exit code of the study
    finished: Commands = ()


class Settings(Section):
    """Sections of a config."""

    #: The program to measure, and how tuner starts this program and counts its finished items
    service: ServiceSettings = CrashProcessorSettings()
    #: Settings of the study, for example the layouts to measure and the time limit
    study: StudySettings = StudySettings()
    #: Limits on load, memory and failed items at which tuner stops the service; None: no limits
    brake: BrakeSettings | None = None
    #: Commands that tuner runs before and after the study, each launch and each window
    hooks: HookSettings = HookSettings()
    #: Names of server programs that the service uses, for example redis-server. tuner counts the CPU time of
    #: these programs separately; None: brokers and databases in the config that run on this host
    backends: tuple[Name, ...] | None = None

    @field_validator("study")
    @classmethod
    def _check_layout_threads(cls, study: StudySettings, info: ValidationInfo) -> StudySettings:
        service = info.data.get("service")
        if service is None:
            return study
        known = list(service.variants)
        for n, name in enumerate(study.variants or ()):
            if not match_variants(name, known):
                raise Misplaced(f"this service has no variant {name}{nearest(name, known)}", ("variants", n))
        threads_of, pooled = _threads_of(service, study), _with_workers("pools", service)
        one_process = _with_workers("threads", service)
        found: set[Layout] = set()
        for n, layout in enumerate(study.layouts or ()):
            if known and layout.variant and layout.variant not in threads_of:
                raise Misplaced(
                    f"{layout} is of none of the variants {', '.join(threads_of)}", ("layouts", n)
                )
            of_every = bool(known) and not layout.variant
            may_have = (
                set(threads_of.values()) if of_every else {threads_of.get(layout.variant, service.threads)}
            )
            if layout.threads > 1 and True not in may_have:
                raise Misplaced(f"{layout} has threads, and this service has none to choose", ("layouts", n))
            if not layout.has_threads and False not in may_have:
                raise Misplaced(f"{layout} leaves threads out, and this service has them", ("layouts", n))
            may_be_of = threads_of if of_every else [layout.variant if known else ""]
            if layout.processes > 1 and one_process.issuperset(may_be_of):
                alone = replace(layout, processes=1, threads=layout.total_threads, has_threads=True)
                raise Misplaced(
                    f"{layout} has several processes, and the workers of this service are threads of one:"
                    f" write {alone}",
                    ("layouts", n),
                )
            for one in in_variants(layout, threads_of, one_process):
                if one in found:
                    raise Misplaced(f"{layout} names {one}, which is named before", ("layouts", n))
                found.add(one)
                opened = connections_of(shape_of(one, pooled), service.connections)
                if study.max_connections is not None and opened > study.max_connections:
                    raise Misplaced(
                        f"{one} opens {opened} connections, and {study.max_connections} is the most",
                        ("layouts", n),
                    )
        return study

    @field_validator("brake")
    @classmethod
    def _check_failed_items_counted(
        cls, brake: BrakeSettings | None, info: ValidationInfo
    ) -> BrakeSettings | None:
        service = info.data.get("service")
        if brake is None or brake.errors is None or service is None:
            return brake
        probe = service.probe
        if not probe.counts_failed(getattr(service, "feeder", None)):
            text = "has no setting that counts" if hasattr(probe, "failed") else "cannot count"
            raise Misplaced(f"probe {probe.kind} {text} failed items (docs/probes.md)", ("errors",))
        return brake

    @field_validator("study")
    @classmethod
    def _check_latency_known(cls, study: StudySettings, info: ValidationInfo) -> StudySettings:
        service = info.data.get("service")
        if service is None or study.max_p95 is None or service.reports_latency:
            return study
        raise Misplaced(
            "this service does not report latency (feeder http does); leave that limit out", ("max_p95",)
        )

    @property
    def is_there_already(self) -> bool:
        """Whether brokers and databases run before the study begins, because no hook starts them."""
        return not (self.hooks.before_study or self.hooks.before_launch)

    def service_in(self, variant: str) -> CrashProcessorSettings | ScriptSettings:
        """Return the service in the *variant* of a layout."""
        service = self.service
        return service.of(variant) if service.variants else service

    def layouts_for(self, cores: int) -> tuple[Layout, ...]:
        """Return the layouts to measure on *cores* cores, without those that open too many connections."""
        return self.study.layouts_for(cores, *self._of_variants)

    def left_out(self, cores: int) -> tuple[Layout, ...]:
        """Return the layouts that are not measured because they would open too many connections."""
        every = self.study.model_copy(update={"max_connections": None})
        kept = self.layouts_for(cores)
        of_all = every.layouts_for(cores, *self._of_variants)
        return tuple(layout for layout in of_all if layout not in kept)

    @property
    def _of_variants(
        self,
    ) -> tuple[dict[str, bool], int | Literal["threads"], frozenset[str], frozenset[str]]:
        """Arguments for `StudySettings.layouts_for` about the service and its variants."""
        service = self.service
        pooled, one_process = _with_workers("pools", service), _with_workers("threads", service)
        return _threads_of(service, self.study), service.connections, pooled, one_process


def _with_workers(asked: Workers, service: CrashProcessorSettings | ScriptSettings) -> frozenset[str]:
    """Return the variants whose kind of workers is *asked*; "" is the service without a variant."""
    if not isinstance(service, ScriptSettings):
        return frozenset()
    data = {"": service, **{name: service.of(name) for name in service.variants}}
    return frozenset(name for name, one in data.items() if one.workers == asked)


def _threads_of(service: CrashProcessorSettings | ScriptSettings, study: StudySettings) -> dict[str, bool]:
    """Map each measured variant ("" if there are none) to whether its number of threads can be chosen."""
    if not service.variants:
        return {"": service.threads}
    names = list(service.variants)
    if study.variants is not None:
        names = [name for pattern in study.variants for name in match_variants(pattern, service.variants)]
    return {name: service.of(name).threads for name in names}
