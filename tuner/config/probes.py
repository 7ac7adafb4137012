"""How the items of a script service are counted."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from tuner.config.fields import Command, Count, LongerThanZero, Pattern, RedisUrl, Section
from tuner.config.paths import ConfigPath, check_file, check_no_folder, from_config_folder
from tuner.core.text.http_request import LONGEST_SOCKET_BYTES

#: workers find the counter's folder, or statsd, by one variable; and there is one load generator, one queue
ONE_OF_A_KIND = ("mmap-counter", "statsd", "generator", "queue")
COUNT_FAILED = ("mmap-counter", "uwsgi", "generator")  #: probes that tell failed items without being asked


class MmapCounterSettings(Section):
    """Workers count their items themselves, with tuner.probe."""

    kind: Literal["mmap-counter"] = "mmap-counter"  #: Kind of probe
    #: Module that tuner puts next to the counters, so that workers can import it
    module: Literal["celery"] | None = None


class CommandProbeSettings(Section):
    """A command prints the number of items finished so far."""

    kind: Literal["command"]  #: Kind of probe
    command: Command  #: Command that prints one whole number
    #: Time limit of each run; a slower run is killed, and its reading is missing
    timeout: LongerThanZero = 2.0


def _metric(name: str) -> str:
    if re.fullmatch(r"[^:|\x00-\x1f\x7f]{1,200}", name) is None or name != name.strip():
        raise ValueError(f"{name!r} is no name of a metric of statsd")
    return name


def _needs_failed(included: bool, info: ValidationInfo) -> bool:
    if included and "failed" in info.data and info.data["failed"] is None:
        raise ValueError("nothing is named under failed")
    return included


FailedIncluded = Annotated[bool, AfterValidator(_needs_failed)]
MetricName = Annotated[str, AfterValidator(_metric)]


class StatsdProbeSettings(Section):
    """The service sends statsd metrics to tuner, at ``{TUNER_STATSD}``."""

    kind: Literal["statsd"]  #: Kind of probe
    name: MetricName  #: Name of the counter of finished items
    failed: MetricName | None = None  #: Name of the counter of failed items
    failed_included: FailedIncluded = False  #: Whether the counter `name` includes failed items


PORT_FIELD = "{TUNER_PROBE_PORT}"  #: a port of each launch's own, which the service is told


def _http(url: str) -> str:
    parts = urlsplit(url.replace(PORT_FIELD, "1"))
    try:
        known = parts.scheme == "http" and bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port
        known = False
    if not known or parts.username is not None or re.search(r"[^\x21-\x7e]", url) is not None:
        raise ValueError("should be http://HOST:PORT/PATH")
    return url


_LONGEST_METRIC = 1000  #: characters; any of UTF-8 since Prometheus 3


def _prometheus_metric(name: str) -> str:
    if not name.isprintable() or not 0 < len(name) <= _LONGEST_METRIC:
        raise ValueError(f"{name[:80]!r} is no name of a metric of Prometheus")
    return name


PrometheusMetric = Annotated[str, AfterValidator(_prometheus_metric)]


class MetricSettings(Section):
    """A metric, whose samples tuner adds up."""

    metric: PrometheusMetric  #: Name of the metric, as the page prints it, with _total
    labels: dict[str, str] = Field(default_factory=dict)  #: Labels that the samples must have


class PrometheusProbeSettings(MetricSettings):
    """The service has a page of metrics for Prometheus."""

    kind: Literal["prometheus"]  #: Kind of probe
    #: URL of the page. `{TUNER_PROBE_PORT}` stands for a free port, chosen for each launch
    url: Annotated[str, AfterValidator(_http)]
    failed: MetricSettings | None = None  #: Metric of failed items
    failed_included: FailedIncluded = False  #: Whether the metric includes failed items
    timeout: LongerThanZero = 2.0  #: Time limit to read the whole page


def _stats_address(address: str) -> str:
    host, _, port = address.replace(PORT_FIELD, "1").rpartition(":")
    is_path = address.startswith("/") and len(address.encode()) <= LONGEST_SOCKET_BYTES
    is_port = re.fullmatch(r"[0-9]{1,5}", port) is not None and 0 < int(port) < 65536
    if not is_path and not (is_port and host and "/" not in host):
        raise ValueError(
            f"should be HOST:PORT, or the whole path of a unix socket of {LONGEST_SOCKET_BYTES} bytes at most"
        )
    return address


class UwsgiProbeSettings(Section):
    """tuner reads the stats socket of uWSGI."""

    kind: Literal["uwsgi"]  #: Kind of probe
    #: Address of the stats server, HOST:PORT or a path: the value of uWSGI's --stats
    stats: Annotated[str, AfterValidator(_stats_address)]
    timeout: LongerThanZero = 2.0  #: Time limit of the whole answer


RedisKey = Annotated[str, Field(min_length=1)]  #: text
_SQLITE = "sqlite:///"
_TERMS = ("llen", "hlen", "zcard", "scard", "get", "hget", "smembers_hget")


class TermSettings(Section):
    """One number in Redis: the result of a command on a key, or on a field of a hash."""

    llen: RedisKey | None = None  #: Length of the list with this key
    hlen: RedisKey | None = None  #: Number of fields of the hash with this key
    zcard: RedisKey | None = None  #: Number of members of the sorted set with this key
    scard: RedisKey | None = None  #: Number of members of the set with this key
    get: RedisKey | None = None  #: Value of this key
    hget: tuple[RedisKey, RedisKey] | None = None  #: Value of a field of a hash: key, field
    #: Sum of a field over all hashes whose keys are in a set: key of the set, field
    smembers_hget: tuple[RedisKey, RedisKey] | None = None
    sign: Literal["plus", "minus"] = "plus"  #: Whether the term is added or subtracted

    @model_validator(mode="after")
    def _asks_for_one_thing(self) -> Self:
        if sum(getattr(self, name) is not None for name in _TERMS) != 1:
            raise ValueError(f"should request one of {', '.join(_TERMS)}")
        return self

    @property
    def asked(self) -> tuple[str, str, str]:
        """The command, its key and, where it takes one, its field."""
        (name,) = (name for name in _TERMS if getattr(self, name) is not None)
        given = getattr(self, name)
        return (name, given, "") if isinstance(given, str) else (name, *given)


def _at_least_one(terms: tuple[TermSettings, ...]) -> tuple[TermSettings, ...]:
    if not terms:
        raise ValueError("should name at least one")
    return terms


class RedisProbeSettings(Section):
    """tuner reads numbers in Redis and adds them."""

    kind: Literal["redis"]  #: Kind of probe
    url: RedisUrl  #: URL of the server
    #: Terms whose sum is the number of finished items
    count: Annotated[tuple[TermSettings, ...], AfterValidator(_at_least_one)]
    failed: tuple[TermSettings, ...] = ()  #: Terms whose sum is the number of failed items
    falls: bool = False  #: Whether the count is the number of remaining items, which decreases
    fed: TermSettings | None = None  #: Number of items fed so far; None: nothing is fed while a layout runs
    timeout: LongerThanZero = 2.0  #: Time limit of one answer

    @field_validator("fed")
    @classmethod
    def _belongs_to_what_falls(cls, fed: TermSettings | None, info: ValidationInfo) -> TermSettings | None:
        if fed is not None and info.data.get("falls") is False:
            raise ValueError("belongs to a count that falls: set falls to yes")
        return fed


def _sql_url(url: str) -> str:
    if re.fullmatch(r"sqlite:///[^\0]*[^\0/]", url) is not None:
        return url
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("postgresql", "postgres") and parts.port != 0
    except ValueError:  # the port
        known = False
    if not known or not url.startswith(f"{parts.scheme}://") or parts.netloc.count("@") > 1 or parts.fragment:
        raise ValueError(
            "should be sqlite:///FILE, or postgresql://USER:PASSWORD@HOST:PORT/DATABASE with every / @ # of a"
            " password as %2F %40 %23"
        )
    return url


class SqlProbeSettings(Section):
    """A query returns the number of finished items."""

    kind: Literal["sql"]  #: Kind of probe
    #: URL of the database: `sqlite:///FILE`, or `postgresql://USER:PASSWORD@HOST:PORT/DATABASE`
    url: Annotated[str, AfterValidator(_sql_url)]
    query: Annotated[str, Field(min_length=1)]  #: Query that returns one number, which only increases
    #: Query that returns the number of failed items
    failed: Annotated[str, Field(min_length=1)] | None = None
    timeout: LongerThanZero = 2.0  #: Time limit of each query, after which the reading is missing

    @field_validator("url")
    @classmethod
    def _file_from_the_config_folder(cls, url: str, info: ValidationInfo) -> str:
        """A relative path begins where the config stands; kept as a whole one."""
        if not url.startswith(_SQLITE):
            return url
        path = from_config_folder(Path(url.removeprefix(_SQLITE)), info)
        return f"{_SQLITE}{check_no_folder(path)}"

    @property
    def file(self) -> Path | None:
        """Of SQLite; None: the url is PostgreSQL's."""
        return Path(self.url.removeprefix(_SQLITE)) if self.url.startswith(_SQLITE) else None


def _one_file_as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class LogProbeSettings(Section):
    """The service logs a line for each item."""

    kind: Literal["log"]  #: Kind of probe
    pattern: Pattern  #: Pattern of a line that reports a finished item
    failed: Pattern | None = None  #: Pattern of a line that reports a failed item instead of a finished one
    #: Files with the lines; None: stdout and stderr of the programs
    files: (
        Annotated[tuple[ConfigPath, ...], Field(min_length=1), BeforeValidator(_one_file_as_list)] | None
    ) = None

    @field_validator("files")
    @classmethod
    def _are_no_folders(cls, files: Any) -> Any:
        for path in files or ():
            check_no_folder(path)
        if len(set(files or ())) < len(files or ()):
            raise ValueError("names a file twice")
        return files


def _broker(url: str) -> str:
    if re.fullmatch(r"[a-z+-]+://[^\s]*", url) is None:
        raise ValueError(
            "should be the URL of a broker, as redis://HOST:PORT/DB or amqp://USER:PASSWORD@HOST/VHOST"
        )
    return url


class CeleryProbeSettings(Section):
    """A helper, run by the service's Python, queries Celery's nodes or listens to their events."""

    kind: Literal["celery"]  #: Kind of probe
    #: inspect: count tasks that began; events: count tasks that ended, which costs CPU time
    via: Literal["inspect", "events"] = "inspect"
    broker: Annotated[str, AfterValidator(_broker)] | None = None  #: URL of the broker; None: that of the app
    python: Annotated[ConfigPath, AfterValidator(check_file)] | None = (
        None  #: Interpreter that can import Celery; None: that of the command
    )
    nodes: Count | None = None  #: Number of nodes that should answer; None: the number of programs
    timeout: LongerThanZero = 2.0  #: Time limit of the answers of all nodes


class GeneratorProbeSettings(Section):
    """The load generator counts the answers that it gets."""

    kind: Literal["generator"]  #: Kind of probe


class QueueProbeSettings(Section):
    """The feeder counts the messages that leave its queue."""

    kind: Literal["queue"]  #: Kind of probe
    timeout: LongerThanZero = 2.0  #: Time limit of one answer of the broker


ProbeSettings = Annotated[
    MmapCounterSettings
    | CommandProbeSettings
    | StatsdProbeSettings
    | PrometheusProbeSettings
    | UwsgiProbeSettings
    | RedisProbeSettings
    | LogProbeSettings
    | SqlProbeSettings
    | CeleryProbeSettings
    | GeneratorProbeSettings
    | QueueProbeSettings,
    Field(discriminator="kind"),
]


def has_own_port(probe: ProbeSettings) -> bool:
    """Whether the probe asks at a port of each launch's own."""
    match probe.kind:
        case "prometheus":
            return PORT_FIELD in probe.url
        case "uwsgi":
            return PORT_FIELD in probe.stats
    return False
