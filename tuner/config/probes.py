"""How the items of a script service are counted."""

from __future__ import annotations

import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, ValidationInfo

from tuner.config.fields import Command, LongerThanZero, Section

LONGEST_SOCKET_BYTES = 107  #: unix(7): 108 with the zero at the end


class MmapCounterSettings(Section):
    """Workers count themselves, through tuner.probe."""

    kind: Literal["mmap-counter"] = "mmap-counter"


class CommandProbeSettings(Section):
    """A command prints how many items were finished up to now."""

    kind: Literal["command"]
    command: Command
    timeout: LongerThanZero = 2.0  #: of each run; then it is killed, and the look is a gap


def _metric(name: str) -> str:
    if re.fullmatch(r"[^\s:|@#]{1,200}", name) is None:
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

    kind: Literal["statsd"]
    name: MetricName  #: of the counter of items done
    failed: MetricName | None = None  #: of the counter of items that failed
    failed_included: FailedIncluded = False  #: the first one counts those too


def _http(url: str) -> str:
    parts = urlsplit(url)
    try:
        known = parts.scheme == "http" and bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port
        known = False
    if not known or parts.username is not None or re.search(r"[^\x21-\x7e]", url) is not None:
        raise ValueError("should be http://HOST:PORT/PATH")
    return url


def _prometheus_metric(name: str) -> str:
    if re.fullmatch(r"[a-zA-Z_:][a-zA-Z0-9_:]*", name) is None:
        raise ValueError(f"{name!r} is no name of a metric of Prometheus")
    return name


PrometheusMetric = Annotated[str, AfterValidator(_prometheus_metric)]


class MetricSettings(Section):
    """Samples that are added up."""

    metric: PrometheusMetric  #: as the page writes it, with _total
    labels: dict[str, str] = Field(default_factory=dict)  #: that they must have


class PrometheusProbeSettings(MetricSettings):
    """The service shows Prometheus a page."""

    kind: Literal["prometheus"]
    url: Annotated[str, AfterValidator(_http)]
    failed: MetricSettings | None = None
    failed_included: FailedIncluded = False  #: the metric counts those too
    timeout: LongerThanZero = 2.0  #: for the whole page


def _stats_address(address: str) -> str:
    host, _, port = address.rpartition(":")
    is_path = address.startswith("/") and len(address.encode()) <= LONGEST_SOCKET_BYTES
    is_port = re.fullmatch(r"[0-9]{1,5}", port) is not None and 0 < int(port) < 65536
    if not is_path and not (is_port and host and "/" not in host):
        raise ValueError(
            f"should be HOST:PORT, or the whole path of a unix socket of {LONGEST_SOCKET_BYTES} bytes at most"
        )
    return address


class UwsgiProbeSettings(Section):
    """uWSGI tells at its stats socket."""

    kind: Literal["uwsgi"]
    stats: Annotated[str, AfterValidator(_stats_address)]  #: HOST:PORT, or a path: as its --stats
    timeout: LongerThanZero = 2.0  #: for the whole answer

    @property
    def address(self) -> str | tuple[str, int]:
        """What a socket connects to."""
        host, _, port = self.stats.rpartition(":")
        return self.stats if self.stats.startswith("/") else (host, int(port))


ProbeSettings = Annotated[
    MmapCounterSettings
    | CommandProbeSettings
    | StatsdProbeSettings
    | PrometheusProbeSettings
    | UwsgiProbeSettings,
    Field(discriminator="kind"),
]
