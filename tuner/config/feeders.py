"""What supplies a service with items, as a config tells it."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    Field,
    PlainSerializer,
    PlainValidator,
    ValidationInfo,
    field_validator,
    model_validator,
)

from tuner.config.fields import (
    BrokerUrl,
    Command,
    Count,
    LongerThanZero,
    Section,
    WholeNumber,
    Word,
    nearest,
    said,
)
from tuner.config.paths import ConfigPath, check_file
from tuner.core.errors import ConfigError
from tuner.core.settings.connections import EVEN, KEPT, Connections, parse_connections, render_connections
from tuner.core.settings.pace import Pace, Share, WithinP95, checked_rate, parse_rate, render_rate
from tuner.core.text.http_request import HttpUrl, check_header, check_method, parse_url

ARRIVALS = ("poisson", "even")
_EVEN, _KEPT = render_connections(EVEN), render_connections(KEPT)


class CommandFeederSettings(Section):
    """A command that supplies items while a launch runs."""

    kind: Literal["command"]  #: Kind of feeder
    command: Command  #: Command that tuner starts and stops with each launch


class NoFeederSettings(Section):
    """tuner feeds nothing: the service has its own source of items."""

    kind: Literal["none"] = "none"  #: Kind of feeder


_NUMBER = "{process}"  #: in a URL: each process listens at an address of its own


def _url(text: str) -> str:
    try:
        parse_url(text.replace(_NUMBER, "0"))
    except ConfigError as error:
        raise said(error) from error
    return text


def _method(text: str) -> str:
    try:
        return check_method(text)
    except ConfigError as error:
        raise said(error) from error


def _rate(value: Any) -> float | Pace:
    """``200``, ``70%``, ``p95=200ms``; as a study keeps it, a number or such a text."""
    try:
        if isinstance(value, str):
            return parse_rate(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return checked_rate(float(value))
    except ConfigError as error:
        raise said(error) from error
    raise ValueError("should be a rate, as 200, 70% or p95=200ms")


#: rate: `200` per second, `70%` of each layout's capacity, or the highest one that keeps `p95=200ms`
Rate = Annotated[float | Share | WithinP95, PlainValidator(_rate), PlainSerializer(render_rate)]


def _connections(value: Any) -> str:
    """``even``, ``fresh``, ``kept``, ``reuse: 100``; YAML reads the last one as a mapping."""
    if isinstance(value, dict) and [*value] == ["reuse"]:
        value = f"reuse: {value['reuse']}"
    if not isinstance(value, str):
        raise ValueError("should be even, fresh, kept or reuse: N")
    try:
        return render_connections(parse_connections(value))
    except ConfigError as error:
        raise said(error) from error


ConnectionsText = Annotated[str, PlainValidator(_connections)]


def with_clients(section: Any, *, is_kept: bool) -> Any:
    """A feeder's *section* in today's words: `connections` was the number of clients once.

    *is_kept*: a study file holds it, so its clients kept their connections, as all did then.
    """
    if not isinstance(section, dict) or "clients" in section or section.get("kind") != "http":
        return section
    number = section.get("connections", None if is_kept else _EVEN)
    if number is not None and not str(number).isdecimal():
        return section
    rest = {name: value for name, value in section.items() if name != "connections"}
    return {**rest, "clients": number, **({"connections": _KEPT} if is_kept else {})}


def _headers(headers: dict[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        try:
            check_header(name, value)
        except ConfigError as error:
            raise said(error) from error
    return headers


class HttpFeederSettings(Section):
    """Requests to an HTTP service, in a closed loop or at a rate."""

    kind: Literal["http"]  #: Kind of feeder
    #: URL of the requests. `{process}` stands for 0, 1, ... if each process has its own address
    url: Annotated[str, AfterValidator(_url)]
    method: Annotated[str, AfterValidator(_method)] = "GET"  #: Method of each request
    #: Headers of each request, by name
    headers: Annotated[dict[str, Word], AfterValidator(_headers)] = Field(default_factory=dict)
    body: str | None = None  #: Body of each request
    body_file: ConfigPath | None = None  #: File with the body of each request
    #: File of requests as JSON lines, which are sent in turn. The URLs in it may be paths
    requests: ConfigPath | None = None
    clients: Count | None = None  #: Number of clients of the closed loop; None: found before the study
    #: Connections of the clients. `even`: kept, and spread over all worker processes; `fresh`: a new one for
    #: each request; `kept`: stays with the process that accepts it; `reuse: N`: closed after N requests
    connections: ConnectionsText = _EVEN
    #: Requests per second, or the rule that sets this rate; None: closed loop
    rate: Rate | None = None
    #: Distribution of arrivals, if there is a rate; None: poisson
    arrivals: Literal["poisson", "even"] | None = None
    #: Most unanswered requests at a time, if there is a rate; None: 1000
    max_outstanding: Count | None = None
    timeout: LongerThanZero = 30.0  #: Time limit of one answer
    wait: LongerThanZero = 60.0  #: Time limit of the first answer
    seed: WholeNumber = 1  #: Seed for Poisson arrivals
    #: Whether requests go to the address that the service listens on, if `url` names another one
    find_address: bool = False

    @field_validator("body_file", "requests")
    @classmethod
    def _is_a_file(cls, value: Any) -> Any:
        return value if value is None else check_file(value)

    @field_validator("arrivals", mode="before")
    @classmethod
    def _known_arrivals(cls, value: Any) -> Any:
        if value is not None and value not in ARRIVALS:
            raise ValueError(f"{value} is none of {', '.join(ARRIVALS)}{nearest(str(value), ARRIVALS)}")
        return value

    @field_validator("arrivals", "max_outstanding")
    @classmethod
    def _belongs_to_a_rate(cls, value: Any, info: ValidationInfo) -> Any:
        if value is not None and info.data.get("rate", 0) is None:
            raise ValueError("belongs to a rate, and there is none")
        return value

    @field_validator("rate")
    @classmethod
    def _one_kind_of_loop(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, float) and info.data.get("clients") is not None:
            raise ValueError("name clients (closed loop) or a rate (open loop), not both")
        return value

    @model_validator(mode="before")
    @classmethod
    def _a_number_is_of_clients(cls, section: Any, info: ValidationInfo) -> Any:
        return with_clients(section, is_kept=info.mode == "json")

    @model_validator(mode="after")
    def _one_source_of_requests(self) -> Self:
        if self.body is not None and self.body_file is not None:
            raise ValueError("name body or body_file, not both")
        one = self.body is not None or self.body_file is not None or self.method != "GET"
        if self.requests is not None and one:
            raise ValueError("requests bring their own methods and bodies; leave these out")
        return self

    @property
    def how_connected(self) -> Connections:
        """What becomes of connections."""
        return parse_connections(self.connections)

    @property
    def rate_per_s(self) -> float | None:
        """The rate, where it is one number; None: closed loop, at least to begin with."""
        return self.rate if isinstance(self.rate, float) else None

    @property
    def pace(self) -> Pace | None:
        """What the rate follows from; None: it is one number, or there is none."""
        return None if isinstance(self.rate, float) else self.rate

    @property
    def is_numbered(self) -> bool:
        """Whether each process listens at an address of its own."""
        return _NUMBER in self.url

    @property
    def target(self) -> HttpUrl:
        """Where the requests go; of several processes, those of the first."""
        return self.targets(1)[0]

    def targets(self, processes: int) -> list[HttpUrl]:
        """Where the requests of so many *processes* go."""
        return [parse_url(self.url.replace(_NUMBER, str(process))) for process in range(processes)]


FORMS = ("celery", "dramatiq", "rq", "huey", "taskiq", "arq", "saq", "streaq", "list", "stream")
FORMS_ON_RABBITMQ = ("celery", "dramatiq")
FORMS_THAT_TELL_FAILED = ("dramatiq", "rq")  #: of whose messages the broker knows which failed


def check_form(name: str) -> str:
    """*name*, when it is that of a form of messages; ConfigError when it is none."""
    if name not in FORMS:
        raise ConfigError(f"{name} is none of {', '.join(FORMS)}{nearest(name, FORMS)}")
    return name


def check_form_at(name: str, url: str) -> None:
    """ConfigError when messages of the form *name* are not known at the broker of *url*."""
    if url.startswith("amqp:") and name not in FORMS_ON_RABBITMQ:
        raise ConfigError(f"{name} is not supported on RabbitMQ; use {' or '.join(FORMS_ON_RABBITMQ)}")


class QueueFeederSettings(Section):
    """Copies of recorded messages, enough to keep the queue from becoming empty."""

    kind: Literal["queue"]  #: Kind of feeder
    #: Library of the messages. `list`, `stream`: a list or stream of Redis, without a library
    form: Literal["celery", "dramatiq", "rq", "huey", "taskiq", "arq", "saq", "streaq", "list", "stream"]
    url: BrokerUrl  #: URL of the broker
    queue: Annotated[str, Field(min_length=1)]  #: Name of the queue
    sample: ConfigPath  #: File that `tuner sample` wrote
    #: Number of messages to keep in the queue; auto: enough for 20 s at the highest rate so far
    depth: Count | Literal["auto"] = "auto"
    timeout: LongerThanZero = 5.0  #: Time limit of one answer of the broker

    @field_validator("sample")
    @classmethod
    def _is_a_file(cls, value: Any) -> Any:
        return check_file(value)

    @field_validator("form", mode="before")
    @classmethod
    def _known_form(cls, value: Any) -> Any:
        try:
            return check_form(str(value))
        except ConfigError as error:
            raise said(error) from error

    @field_validator("url")
    @classmethod
    def _form_is_known_there(cls, url: str, info: ValidationInfo) -> str:
        try:
            check_form_at(info.data.get("form", FORMS_ON_RABBITMQ[0]), url)
        except ConfigError as error:
            raise said(error) from error
        return url

    @field_validator("depth", mode="before")
    @classmethod
    def _a_number_or_auto(cls, value: Any) -> Any:
        if value == "auto":
            return value
        if isinstance(value, bool) or re.fullmatch(r"[1-9][0-9]{0,8}", str(value)) is None:
            raise ValueError(f"should be auto, or a number of messages from 1 on (got {value!r})")
        return int(value)


FeederSettings = Annotated[
    CommandFeederSettings | HttpFeederSettings | QueueFeederSettings | NoFeederSettings,
    Field(discriminator="kind"),
]
