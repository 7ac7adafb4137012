"""How the items of a script service are counted."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from tuner.config.fields import Command, Count, LongerThanZero, Pattern, RedisUrl, Section
from tuner.config.paths import ConfigPath, check_file, check_no_folder, from_config_folder
from tuner.core.http_request import LONGEST_SOCKET_BYTES

#: workers find the counter's folder, or statsd, by one variable; and there is one load generator, one queue
ONE_OF_A_KIND = ("mmap-counter", "statsd", "generator", "queue")
COUNT_FAILED = ("mmap-counter", "uwsgi", "generator")  #: probes that tell failed items without being asked


class MmapCounterSettings(Section):
    """Workers count themselves, through tuner.probe."""

    kind: Literal["mmap-counter"] = "mmap-counter"  #: which probe
    module: Literal["celery"] | None = None  #: put beside the counters, for the workers to import


class CommandProbeSettings(Section):
    """A command prints how many items were finished up to now."""

    kind: Literal["command"]  #: which probe
    command: Command  #: prints one whole number
    timeout: LongerThanZero = 2.0  #: of each run; then it is killed, and the look is a gap


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
    """The service tells statsd what it does, and tuner is the statsd: at ``{TUNER_STATSD}``."""

    kind: Literal["statsd"]  #: which probe
    name: MetricName  #: of the counter of items done
    failed: MetricName | None = None  #: of the counter of items that failed
    failed_included: FailedIncluded = False  #: the first one counts those too


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
    """Samples that are added up."""

    metric: PrometheusMetric  #: as the page writes it, with _total
    labels: dict[str, str] = Field(default_factory=dict)  #: that they must have


class PrometheusProbeSettings(MetricSettings):
    """The service shows Prometheus a page."""

    kind: Literal["prometheus"]  #: which probe
    #: of the page; with `{TUNER_PROBE_PORT}` at a port of each launch's own
    url: Annotated[str, AfterValidator(_http)]
    failed: MetricSettings | None = None  #: samples of items that failed
    failed_included: FailedIncluded = False  #: the metric counts those too
    timeout: LongerThanZero = 2.0  #: for the whole page


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
    """uWSGI tells at its stats socket."""

    kind: Literal["uwsgi"]  #: which probe
    stats: Annotated[str, AfterValidator(_stats_address)]  #: HOST:PORT, or a path: as its --stats
    timeout: LongerThanZero = 2.0  #: for the whole answer


RedisKey = Annotated[str, Field(min_length=1)]  #: text
_SQLITE = "sqlite:///"
_TERMS = ("llen", "hlen", "zcard", "scard", "get", "hget", "smembers_hget")


class TermSettings(Section):
    """One number in Redis: what a command says of a key, or of a field in it."""

    llen: RedisKey | None = None  #: length of a list
    hlen: RedisKey | None = None  #: fields of a hash
    zcard: RedisKey | None = None  #: members of a sorted set
    scard: RedisKey | None = None  #: members of a set
    get: RedisKey | None = None  #: a number
    hget: tuple[RedisKey, RedisKey] | None = None  #: a number in a hash: key and field
    #: a set of keys of hashes, and a field of these
    smembers_hget: tuple[RedisKey, RedisKey] | None = None
    sign: Literal["plus", "minus"] = "plus"  #: whether it is added or taken off

    @model_validator(mode="after")
    def _asks_for_one_thing(self) -> Self:
        if sum(getattr(self, name) is not None for name in _TERMS) != 1:
            raise ValueError(f"should ask for one of {', '.join(_TERMS)}")
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
    """Numbers in Redis, added up."""

    kind: Literal["redis"]  #: which probe
    url: RedisUrl  #: of the server
    count: Annotated[tuple[TermSettings, ...], AfterValidator(_at_least_one)]  #: of items done
    failed: tuple[TermSettings, ...] = ()  #: of items that failed
    falls: bool = False  #: count is what is left, and falls as items are finished
    fed: TermSettings | None = None  #: what was fed up to now; None: nothing is while a layout runs
    timeout: LongerThanZero = 2.0  #: of one answer

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
    """A database knows how many items are done."""

    kind: Literal["sql"]  #: which probe
    #: `sqlite:///FILE`, or `postgresql://USER:PASSWORD@HOST:PORT/DATABASE`
    url: Annotated[str, AfterValidator(_sql_url)]
    query: Annotated[str, Field(min_length=1)]  #: gives one number, which only grows
    failed: Annotated[str, Field(min_length=1)] | None = None  #: likewise, of items that failed
    timeout: LongerThanZero = 2.0  #: of each query; then it is a gap

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
    """A line is logged for each item."""

    kind: Literal["log"]  #: which probe
    pattern: Pattern  #: of a line that tells of a finished item
    failed: Pattern | None = None  #: a line that matches it counts as failed only
    #: where the lines are; None: what the programs write to stdout and stderr
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
    """Celery's nodes are asked, or heard, by a helper in the service's own Python."""

    kind: Literal["celery"]  #: which probe
    via: Literal["inspect", "events"] = "inspect"  #: tasks begun, asked for; or those that ended, at a cost
    broker: Annotated[str, AfterValidator(_broker)] | None = None  #: its url; None: the app's
    python: Annotated[ConfigPath, AfterValidator(check_file)] | None = (
        None  #: that has Celery; None: the command's
    )
    nodes: Count | None = None  #: that should answer; None: as many as there are programs
    timeout: LongerThanZero = 2.0  #: for the nodes' answers


class GeneratorProbeSettings(Section):
    """The answers that the feeder's load generator gets are counted."""

    kind: Literal["generator"]  #: which probe


class QueueProbeSettings(Section):
    """What goes through the queue that the feeder keeps full is counted."""

    kind: Literal["queue"]  #: which probe
    timeout: LongerThanZero = 2.0  #: of one answer of the broker


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
