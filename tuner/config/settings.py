"""The settings of a study, as a config file and the command line give them together."""

from __future__ import annotations

import os
import pwd
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from tuner.config.fields import (
    Command,
    Commands,
    ConfigPath,
    Count,
    Duration,
    Environment,
    LayoutCommand,
    Layouts,
    LimitName,
    LongerThanZero,
    Name,
    Section,
    SignalName,
    WholeNumber,
    nearest,
)
from tuner.core.durations import parse_duration
from tuner.core.errors import ConfigError
from tuner.core.layout import GRIDS, Layout

GridName = Literal["small", "divisors", "full"]
MOST_CORES = 4096  #: a full grid of these has 35 000 layouts already


class StudySettings(Section):
    """What is measured, how long and how often."""

    cores: Annotated[Count, Field(le=MOST_CORES)] | None = (
        None  #: the cores the layouts are for; None: what the process may use
    )
    grid: GridName | None = None  #: None: the layouts named, else divisors
    layouts: Layouts | None = None
    window: LongerThanZero = 600.0
    windows_per_launch: Count = 1
    warmup: Literal["auto"] | Duration = "auto"
    warmup_cap: LongerThanZero = 300.0
    warm_cache: bool = True  #: begin with one launch that is discarded
    repeats: Count = 3
    strategy: Literal["all"] = "all"
    seed: WholeNumber = 1
    budget: LongerThanZero | None = None
    max_attempts: Count = 3
    foreign_limit: Annotated[float, Field(gt=0)] | None = None  #: cores; None: max(0.15, 1 % of the cores)
    memory_pressure_limit: Annotated[float, Field(gt=0, le=1)] = 0.05  #: share of a window

    @field_validator("warmup", mode="wrap")
    @classmethod
    def _warmup(cls, value: Any, handler: Any, info: ValidationInfo) -> Any:  # noqa: ARG003  # pydantic's signature
        """One message instead of one per kind of value."""
        return "auto" if value == "auto" else _duration_only(value)

    @field_validator("strategy", "grid", mode="before")
    @classmethod
    def _known_word(cls, value: Any, info: ValidationInfo) -> Any:
        known = ("all",) if info.field_name == "strategy" else tuple(GRIDS)
        if value is not None and value not in known:
            raise ValueError(f"{value} is none of {', '.join(known)}{nearest(str(value), known)}")
        return value

    @field_validator("layouts")
    @classmethod
    def _one_choice_of_layouts(cls, value: Any, info: ValidationInfo) -> Any:
        if value is not None and info.data.get("grid") is not None:
            raise ValueError("name a grid or layouts, not both")
        return value

    def layouts_for(self, cores: int) -> tuple[Layout, ...]:
        """The layouts to measure, given the cores they are for."""
        return self.layouts or tuple(GRIDS[self.grid or "divisors"](cores))


def _duration_only(value: Any) -> float:
    try:
        return parse_duration(str(value))
    except ConfigError as error:
        raise ValueError(f"should be auto or a duration: {error.problem}. {error.hint}") from error


class StopSettings(Section):
    """How a worker process is told to end."""

    signal: SignalName = "TERM"
    wait: LongerThanZero = 60.0  #: then KILL
    as_group: bool = False


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

    user: Annotated[str, AfterValidator(_user)] | None = None
    directory: ConfigPath | None = None
    environment: Environment = Field(default_factory=dict)
    environment_file: ConfigPath | None = None
    stop: StopSettings = StopSettings()
    limits: dict[LimitName, WholeNumber] = Field(default_factory=dict)
    max_extra_threads: WholeNumber | None = None

    @field_validator("directory")
    @classmethod
    def _is_a_folder(cls, value: Any) -> Any:
        if value is not None and not value.is_dir():
            raise ValueError(f"no such folder: {value}")
        return value


class CrashProcessorSettings(RunSettings):
    """The built-in worker: a Socorro-like crash processor with a C stackwalker."""

    kind: Literal["crash-processor"] = "crash-processor"
    name: Name = "crash-processor"
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


class MmapCounterSettings(Section):
    """Workers count themselves, through tuner.probe."""

    kind: Literal["mmap-counter"] = "mmap-counter"


class CommandFeederSettings(Section):
    """A command that supplies items as long as a launch runs."""

    kind: Literal["command"]
    command: Command


class NoFeederSettings(Section):
    """The service finds its items by itself."""

    kind: Literal["none"] = "none"


class ScriptSettings(RunSettings):
    """A worker of the user's own: one command per process."""

    kind: Literal["script"]
    name: Name
    command: LayoutCommand
    probe: MmapCounterSettings = MmapCounterSettings()
    feeder: Annotated[CommandFeederSettings | NoFeederSettings, Field(discriminator="kind")] = (
        NoFeederSettings()
    )


ServiceSettings = Annotated[CrashProcessorSettings | ScriptSettings, Field(discriminator="kind")]


class HookSettings(Section):
    """Commands at certain moments; see the port ``Hooks``."""

    timeout: LongerThanZero = 60.0  #: of each command; then it is killed and counts as failed
    before_study: Commands = ()
    after_study: Commands = ()
    before_launch: Commands = ()
    after_launch: Commands = ()
    before_window: Commands = ()
    after_window: Commands = ()
    finished: Commands = ()


class Settings(Section):
    """Everything a study is told."""

    service: ServiceSettings = CrashProcessorSettings()
    study: StudySettings = StudySettings()
    hooks: HookSettings = HookSettings()
    backends: tuple[
        Name, ...
    ] = ()  #: names of programs whose CPU is the service's own backends': redis-server
