"""The base class of the settings of feeders; each kind is a file in `tuner/adapters/feeders/`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from tuner.config.fields import Section, nearest
from tuner.config.kinds import FeederSurroundings, Kinds
from tuner.core.domain.layout import Layout
from tuner.core.domain.load import EVEN, KEPT, render_connections
from tuner.core.errors import ConfigError
from tuner.ports import Feeder

if TYPE_CHECKING:
    from tuner.config.service import ScriptSettings

_EVEN, _KEPT = render_connections(EVEN), render_connections(KEPT)


class FeederSettings(Section):
    """Settings of one kind of feeder, and the properties of the kind that other parts of tuner use."""

    kind: str  #: Kind of feeder
    can_pause: ClassVar[bool] = False  #: whether it can stop supplying one launch while others work
    reports_latency: ClassVar[bool] = False  #: whether it is known how long the items take

    def build(self, service: ScriptSettings, layouts: Sequence[Layout], around: FeederSurroundings) -> Feeder:
        """Make the feeder of *service*, for each of *layouts*."""
        raise NotImplementedError

    def describe(self) -> str:
        """Return the items that the service gets, as part of a sentence."""
        raise NotImplementedError

    @property
    def has_closed_loop(self) -> bool:
        """Whether each client waits for the answer to a request before it sends the next one."""
        return False

    @property
    def rate_per_s(self) -> float | None:
        """Items per second if the rate is one number, else None."""
        return None

    @property
    def servers(self) -> Mapping[str, str]:
        """URLs of the brokers that the feeder uses, by their keys."""
        return {}

    @property
    def places(self) -> Mapping[str, tuple[str, int]]:
        """Hosts and ports where the running service should listen, by the keys that name them."""
        return {}

    def connections_for(self, _layouts: Sequence[Layout]) -> int:
        """Return how many connections to the service the feeder may hold open."""
        return 0

    @classmethod
    def alternatives(cls, kind: object = None) -> list[type[Section]]:
        """Return all kinds of feeder, or only *kind*, for this class; for a kind, the kind itself."""
        return FEEDERS.alternatives(cls, kind)


FEEDERS = Kinds("tuner.adapters.feeders", FeederSettings)
AnyFeeder = Annotated[FeederSettings, FEEDERS]


def no_feeder() -> FeederSettings:
    """Return the default feeder of a service: tuner sends no items."""
    model = FEEDERS.find("none")
    assert model is not None
    return model.model_validate({})


OF_LOAD = ("rate", "clients", "connections")  #: settings of a feeder that sends requests


def with_clients(section: Any, *, is_kept: bool) -> Any:
    """Return a feeder's *section* in today's terms: `connections` used to be the number of clients.

    *is_kept*: it comes from a study file; all clients kept their connections then.
    """
    if not isinstance(section, dict) or "clients" in section or section.get("kind") != "http":
        return section
    number = section.get("connections", None if is_kept else _EVEN)
    if number is not None and not str(number).isdecimal():
        return section
    rest = {name: value for name, value in section.items() if name != "connections"}
    return {**rest, "clients": number, **({"connections": _KEPT} if is_kept else {})}


FORMS = ("celery", "dramatiq", "rq", "huey", "taskiq", "arq", "saq", "streaq", "list", "stream")
FORMS_ON_RABBITMQ = ("celery", "dramatiq")
FORMS_THAT_TELL_FAILED = ("dramatiq", "rq")  #: kinds whose broker counts failed messages


def check_form(name: str) -> str:
    """Return *name* if it is a known message format, else raise ConfigError."""
    if name not in FORMS:
        raise ConfigError(f"{name} is none of {', '.join(FORMS)}{nearest(name, FORMS)}")
    return name


def check_form_at(name: str, url: str) -> None:
    """Raise ConfigError if the broker of *url* does not support the message format *name*."""
    if url.startswith("amqp:") and name not in FORMS_ON_RABBITMQ:
        raise ConfigError(f"{name} is not supported on RabbitMQ; use {' or '.join(FORMS_ON_RABBITMQ)}")
