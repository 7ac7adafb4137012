"""The base of the settings of all probes; each kind is a file of `tuner/adapters/probes/`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import AfterValidator, ValidationInfo

from tuner.config.fields import Section
from tuner.config.kinds import Kinds, kind_of
from tuner.config.surroundings import Surroundings
from tuner.ports import Probe

if TYPE_CHECKING:
    from tuner.config.feeders import FeederSettings
    from tuner.config.settings import Settings

PORT_VARIABLE = "TUNER_PROBE_PORT"  #: a port of 127.0.0.1 that each launch has alone
PORT_FIELD = f"{{{PORT_VARIABLE}}}"


class ProbeSettings(Section):
    """The settings of one kind of probe, and all that other parts of tuner have to know of the kind."""

    kind: str  #: Kind of probe
    #: whether a launch can have only one probe of this kind: workers find it by a variable, or it counts what
    #: the one feeder knows
    is_alone: ClassVar[bool] = False
    #: variables that the probe fills in, in the command and the environment of the service
    fills_in: ClassVar[tuple[str, ...]] = ()
    #: keys whose texts are no secrets: ``where token = 'x'`` is a query, ``password: .*`` a pattern
    plain_keys: ClassVar[frozenset[str]] = frozenset()

    def build(self, settings: Settings, around: Surroundings) -> Probe:
        """Make the probe for the service of *settings*.

        Raises:
            ConfigError: it could never count here.
        """
        raise NotImplementedError

    @property
    def has_own_port(self) -> bool:
        """Whether the probe uses the port that each launch has alone."""
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
        """Whether failed items are counted, where the service has this feeder."""
        return bool(getattr(self, "failed", None))

    def problem_with(self, _feeder: FeederSettings) -> str:
        """Return why the probe cannot count where the service has this feeder; empty: it can."""
        return ""

    @classmethod
    def alternatives(cls, kind: object = None) -> list[type[Section]]:
        """Return the kinds of probe, or the one that is *kind*, for this class; a kind is its own."""
        return PROBES.alternatives(cls, kind)


PROBES = Kinds("tuner.adapters.probes", ProbeSettings)
AnyProbe = Annotated[ProbeSettings, PROBES]


def counter_probe() -> ProbeSettings:
    """Return the probe of a service that names none: its workers count their items themselves."""
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
