"""Config sections with a key ``kind``: each kind is one file, which tuner finds by its name.

Such a file holds the settings of the kind, a class derived from that of the section, and the code that
uses them. tuner imports a kind only once a config names it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from importlib import import_module
from operator import or_
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, TypeVar, get_args

from pydantic import AfterValidator, Field, GetCoreSchemaHandler, TypeAdapter, ValidationError, ValidationInfo
from pydantic_core import CoreSchema, core_schema

from tuner.config.fields import LongerThanZero, Section
from tuner.core.domain.layout import Layout
from tuner.core.domain.records import StudyRecord
from tuner.core.domain.service import ServiceSpec
from tuner.ports import Clock, Probe, ReadyCheck, Warn

if TYPE_CHECKING:
    from tuner.config.feeders import FeederSettings
    from tuner.config.settings import Settings

Base = TypeVar("Base", bound=Section)


class Kinds(Generic[Base]):
    """The kinds in the files of one package; the annotation of a config field that holds one kind.

    The name of a file is its kind, with underscores for dashes. It defines one class that derives from
    *base* and whose field ``kind`` has this name. Other files of the package define no kinds.
    """

    def __init__(self, package: str, base: type[Base]) -> None:
        self._package, self._base = package, base

    def find(self, kind: object) -> type[Base] | None:
        """Import only the file of *kind* and return its settings class, or None for an unknown kind."""
        name = str(kind).replace("-", "_")
        if name not in self._files():
            return None
        found = self._settings_class(import_module(f"{self._package}.{name}"))
        return found if found is not None and kind_of(found) == kind else None

    def models(self) -> list[type[Base]]:
        """Import all files and return the settings class of every kind, in alphabetical order."""
        modules = (import_module(f"{self._package}.{name}") for name in self._files())
        found = (self._settings_class(module) for module in modules)
        return sorted((model for model in found if model is not None), key=kind_of)

    def alternatives(self, model: type[Section], kind: object) -> list[type[Section]]:
        """Return the classes for a field of type *model*: all kinds of this section, or only *kind*."""
        if model is not self._base:
            return [model]
        found = self.find(kind)
        return [*self.models()] if found is None else [found]

    def __get_pydantic_core_schema__(self, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        """Have pydantic call `_validate` for such a field."""
        return core_schema.with_info_plain_validator_function(self._validate)

    def _files(self) -> list[str]:
        return [one.name for one in iter_modules(import_module(self._package).__path__) if not one.ispkg]

    def _settings_class(self, module: ModuleType) -> type[Base] | None:
        """Return the settings class that *module* itself defines (not one that it imports)."""
        declared = (value for value in vars(module).values() if isinstance(value, type))
        own = (value for value in declared if value.__module__ == module.__name__)
        return next((value for value in own if issubclass(value, self._base)), None)

    def _validate(self, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, self._base):
            return value
        model = self.find(value.get("kind")) if isinstance(value, Mapping) else None
        if model is not None:
            try:
                return _validated_by(TypeAdapter(model), value, info)
            except ValidationError:
                pass  # the union of all kinds raises it again, and names the kind in the place
        models: list[Any] = [*self.models()]
        of_any: Any = Annotated[reduce(or_, models), Field(discriminator="kind")]
        return _validated_by(TypeAdapter(of_any), value, info)


def kind_of(model: type[Section]) -> str:
    """Return the value of the key ``kind`` for *model*."""
    return str(get_args(model.model_fields["kind"].annotation)[0])


def _validated_by(adapter: TypeAdapter[Any], value: Any, info: ValidationInfo) -> Any:
    if info.mode == "json":
        return adapter.validate_json(json.dumps(value), context=info.context)
    return adapter.validate_python(value, context=info.context)


# The facts of a study that the parts of its launches may use.


@dataclass(frozen=True, slots=True)
class StudyName:
    """Identifiers of a study for other programs."""

    id: str  #: the same when it is resumed
    file: str


@dataclass(frozen=True, slots=True)
class FeederSurroundings:
    """The facts of a study that its feeder may use."""

    study: StudyName
    scratch: Path  #: a folder of the study, for the feeder
    warn: Warn


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The facts of a study that its probe may use."""

    spec: ServiceSpec  #: the service, as launches start it
    record: StudyRecord
    clock: Clock
    counters: Path  #: folder for counters in memory
    scratch: Path  #: the feeder's folder
    logs: Callable[[], Sequence[Path]]  #: of the programs of the launch under way; none while there is none
    study: StudyName
    warn: Warn


# Base class of the settings of all probes; each kind is a file of `tuner/adapters/probes/`.


PORT_VARIABLE = "TUNER_PROBE_PORT"  #: a port of 127.0.0.1 that each launch has alone
PORT_FIELD = f"{{{PORT_VARIABLE}}}"


class ProbeSettings(Section):
    """Settings of one kind of probe, and the properties of the kind that other parts of tuner use."""

    kind: str  #: Kind of probe
    #: whether a launch can have only one probe of this kind: workers find it by a variable, or it counts what
    #: known to one feeder only
    is_alone: ClassVar[bool] = False
    #: variables that the probe fills in, in the command and the environment of the service
    fills_in: ClassVar[tuple[str, ...]] = ()
    #: keys whose texts are no secrets: ``where token = 'x'`` is a query, ``password: .*`` a pattern
    plain_keys: ClassVar[frozenset[str]] = frozenset()

    def build(self, settings: Settings, around: Surroundings) -> Probe:
        """Make the probe for the service of *settings*.

        Raises:
            ConfigError: this probe cannot count the items of this service.
        """
        raise NotImplementedError

    @property
    def has_own_port(self) -> bool:
        """Whether the probe uses the port that tuner reserves for each launch."""
        return False

    @property
    def needs_own_code(self) -> bool:
        """Whether the code of the service has to count its items with tuner.probe."""
        return False

    @property
    def servers(self) -> Mapping[str, str]:
        """URLs of the brokers and databases that the probe queries, by their keys."""
        return {}

    @property
    def pages(self) -> Mapping[str, str]:
        """Addresses (http or HOST:PORT) that the probe reads from the running service, by their keys."""
        return {}

    def counts_failed(self, _feeder: FeederSettings | None) -> bool:
        """Return whether the probe counts failed items if the service has this feeder."""
        return bool(getattr(self, "failed", None))

    def problem_with(self, _feeder: FeederSettings) -> str:
        """Return the reason why the probe cannot count items of this feeder; empty if it can."""
        return ""

    @classmethod
    def alternatives(cls, kind: object = None) -> list[type[Section]]:
        """Return all kinds of probe, or only *kind*, for this class; for a kind, the kind itself."""
        return PROBES.alternatives(cls, kind)


PROBES = Kinds("tuner.adapters.probes", ProbeSettings)
AnyProbe = Annotated[ProbeSettings, PROBES]


def counter_probe() -> ProbeSettings:
    """Return the default probe of a service: its workers count their items themselves."""
    model = PROBES.find("mmap-counter")
    assert model is not None
    return model.model_validate({})


def fillers(variable: str) -> list[str]:
    """Return the kinds of probe that fill in *variable*, in alphabetical order."""
    return [kind_of(model) for model in PROBES.models() if variable in model.fills_in]


def _needs_failed(included: bool, info: ValidationInfo) -> bool:
    if included and "failed" in info.data and info.data["failed"] is None:
        raise ValueError("nothing is named under failed")
    return included


FailedIncluded = Annotated[bool, AfterValidator(_needs_failed)]


# Base class of the settings of all readiness checks; each kind is a file of `tuner/adapters/ready/`.


class ReadySettings(Section):
    """Settings of one kind of readiness check, and the properties that other parts of tuner use."""

    condition: ClassVar[str]  # name of the key with the condition
    kind: str  #: Kind of check
    #: Longest time until the service is ready. After this time, the launch fails
    within: LongerThanZero = 60.0

    def build(self, layout: Layout, directory: Path | None) -> ReadyCheck:
        """Make the check for one launch of *layout*; the service runs in *directory* (None: tuner's)."""
        raise NotImplementedError

    @property
    def places(self) -> Mapping[str, tuple[str, int]]:
        """Hosts and ports where the running service should listen, by the keys that name them."""
        return {}

    @classmethod
    def alternatives(cls, kind: object = None) -> list[type[Section]]:
        """Return all kinds of check, or only *kind*, for this class; for a kind, the kind itself."""
        return CHECKS.alternatives(cls, kind)


CHECKS = Kinds("tuner.adapters.ready", ReadySettings)
AnyReady = Annotated[ReadySettings, CHECKS]


def with_lines_of_masters(section: Any) -> Any:
    """Return the service *section* with ``count: 1`` for ``ready: log`` where one program logs for all.

    That applies to ``programs: one``, of the service and of its variants, unless ``ready`` has a count.
    """
    if not isinstance(section, Mapping):
        return section
    variants = section.get("variants")
    if isinstance(variants, Mapping):
        programs = section.get("programs")
        variants = {name: _with_line(variant, programs) for name, variant in variants.items()}
        section = {**section, "variants": variants}
    return _with_line(section, None)


def _with_line(section: Any, otherwise: Any) -> Any:
    ready = section.get("ready") if isinstance(section, Mapping) else None
    is_of_master = ready is not None and section.get("programs", otherwise) == "one"
    if not is_of_master or not isinstance(ready, Mapping) or ready.get("kind") != "log":
        return section
    return {**section, "ready": {"count": 1, **ready}}
