"""Probe that reads a metric from a service's page in Prometheus format."""

from __future__ import annotations

import http.client
import re
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal
from urllib.parse import SplitResult, urlsplit

from pydantic import AfterValidator, Field

from tuner.adapters.bounded_socket import Bound, BoundedSocket
from tuner.adapters.load.answer import FinalResponse
from tuner.adapters.probes.polled import Counts, PolledCounting, own_port, polling
from tuner.config.fields import Section, TimeLimit
from tuner.config.kinds import PORT_FIELD, PORT_VARIABLE, FailedIncluded, ProbeSettings, Surroundings
from tuner.core.domain.layout import Layout
from tuner.core.errors import MeasurementError
from tuner.core.text.figures import render_duration
from tuner.core.text.prometheus_text import is_legacy, parse_samples, similar_names
from tuner.ports import Clock, Warn

if TYPE_CHECKING:
    from tuner.config.settings import Settings

LARGEST_BYTES = 8 << 20
_AT_A_TIME_BYTES = 65536
#: As in a request by curl, so that names are as the user saw them. OpenMetrics is not requested by name,
#: because prometheus_client would prefer it and its suffixes differ; a service without another format may
#: still send it.
_ACCEPT = "text/plain;version=0.0.4, */*;q=0.1"
#: for names that need quotes: without ``escaping``, an exporter replaces characters by underscores
_ACCEPT_QUOTED = f"text/plain;version=1.0.0;escaping=allow-utf-8, {_ACCEPT}"
# identity: no decompression bombs; no proxy, even if the environment names one
_HEADERS = {"Accept-Encoding": "identity", "Connection": "close"}
_CHARSETS = ("utf-8", "utf8", "us-ascii", "iso-8859-1")


def _http(url: str) -> str:
    parts = urlsplit(url.replace(PORT_FIELD, "1"))
    try:
        known = parts.scheme == "http" and bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port
        known = False
    if not known or parts.username is not None or re.search(r"[^\x21-\x7e]", url) is not None:
        raise ValueError("should be http://HOST:PORT/PATH")
    return url


_LONGEST_METRIC = 1000  #: limit in characters; since Prometheus 3, any UTF-8 is allowed


def _prometheus_metric(name: str) -> str:
    if not name.isprintable() or not 0 < len(name) <= _LONGEST_METRIC:
        raise ValueError(f"{name[:80]!r} is no name of a metric of Prometheus")
    return name


PrometheusMetric = Annotated[str, AfterValidator(_prometheus_metric)]


class MetricSettings(Section):
    """A metric of Prometheus."""

    metric: PrometheusMetric  #: Name of the metric as on the metrics page, including `_total`
    #: tuner adds up only samples of the metric that have all these labels and values
    labels: dict[str, str] = Field(default_factory=dict)


class PrometheusProbeSettings(MetricSettings, ProbeSettings):
    """tuner reads a metric on the page that the service offers to Prometheus."""

    fills_in: ClassVar[tuple[str, ...]] = (PORT_VARIABLE,)
    kind: Literal["prometheus"]  #: Kind of probe
    #: URL of the metrics page. tuner replaces `{TUNER_PROBE_PORT}` in the URL by a free port
    url: Annotated[str, AfterValidator(_http)]
    failed: MetricSettings | None = None  #: Metric that counts failed items
    failed_included: FailedIncluded = False  #: Whether the metric in `metric` also counts failed items
    timeout: TimeLimit = 2.0  #: Time limit to read the whole metrics page

    @property
    def has_own_port(self) -> bool:
        """See `ProbeSettings`."""
        return PORT_FIELD in self.url

    @property
    def pages(self) -> Mapping[str, str]:
        """The page, where a launch does not choose its port."""
        return {} if self.has_own_port else {"url": self.url}

    def build(self, _settings: Settings, around: Surroundings) -> PrometheusProbe:
        """See `ProbeSettings`."""
        done = Metric(self.metric, self.labels)
        failed = None if self.failed is None else Metric(self.failed.metric, self.failed.labels)
        included, timeout_s = self.failed_included, self.timeout
        return PrometheusProbe(
            around.clock, self.url, done, failed, timeout_s, around.warn, failed_included=included
        )


@dataclass(frozen=True, slots=True)
class Metric:
    """The samples whose sum is a count."""

    name: str
    #: labels that a sample must have; it may have others
    labels: Mapping[str, str] = field(default_factory=dict)


class PrometheusProbe:
    """Reads the page at *url* at each sample.

    Args:
        url: http only; ``{TUNER_PROBE_PORT}`` in it is a port reserved for each launch.
        done: counts the items; an answer without such a sample is an error.
        failed: counts the failed items; without such a sample, none has failed yet.
        failed_included: *done* counts the failed ones, too.
        timeout_s: for the whole page.
    """

    def __init__(
        self,
        clock: Clock,
        url: str,
        done: Metric,
        failed: Metric | None,
        timeout_s: float,
        warn: Warn,
        *,
        failed_included: bool = False,
    ) -> None:
        self._clock = clock
        self._url = url
        self._done, self._failed = done, failed
        names = [name for one in (done, failed) if one is not None for name in (one.name, *one.labels)]
        self._accept = _ACCEPT if all(map(is_legacy, names)) else _ACCEPT_QUOTED
        self._timeout_s = timeout_s
        self._warn = warn
        self._failed_included = failed_included

    @contextmanager
    def counting(self, layout: Layout) -> Iterator[PolledCounting]:  # noqa: ARG002  # the port's signature
        """Count during one launch."""
        with own_port(self._url) as (url, environment):
            asked = PolledCounting(
                self._clock,
                lambda: self._counts(url),
                url,
                self._warn,
                failed_included=self._failed_included,
                environment=environment,
            )
            with polling(asked) as counting:
                yield counting

    def _counts(self, whole_url: str) -> Counts:
        try:
            page = self._page(urlsplit(whole_url))
        except TimeoutError as error:
            raise MeasurementError(f"no whole page in {render_duration(self._timeout_s)}") from error
        except (OSError, http.client.HTTPException) as error:
            raise MeasurementError(f"no page: {error}") from error
        try:
            done = _series(page, self._done)
            failed = {} if self._failed is None else _series(page, self._failed)
        except ValueError as error:
            raise MeasurementError(str(error)) from error
        if not done:
            labels = f" with {dict(self._done.labels)}" if self._done.labels else ""
            similar = " and ".join(similar_names(page, self._done.name))
            but = f", but has {similar}" if similar else ""
            raise MeasurementError(f"the page has no sample of {self._done.name}{labels}{but}")
        return Counts(done, failed)

    def _page(self, url: SplitResult) -> str:
        bound = Bound(self._timeout_s, 2 * LARGEST_BYTES)  # headers and chunk lengths on top
        path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        with closing(http.client.HTTPConnection(url.netloc, timeout=self._timeout_s)) as connection:
            connection.response_class = FinalResponse
            connection.connect()
            connection.sock = BoundedSocket(connection.sock, bound)
            connection.request("GET", path, headers={"Accept": self._accept, **_HEADERS})
            answer = connection.getresponse()
            if answer.status != http.client.OK:  # also a redirection: it may lead anywhere
                raise MeasurementError(f"no page: status {answer.status} {answer.reason}")
            encoding = answer.headers.get("Content-Encoding", "identity").strip().lower()
            if encoding not in ("identity", ""):
                raise MeasurementError(f"the page is packed ({encoding}), which was not asked for")
            content_type = answer.headers.get_content_type()
            if content_type == "application/vnd.google.protobuf":
                raise MeasurementError("the page is in protobuf, and no text, which was not asked for")
            charset = answer.headers.get_content_charset("utf-8")
            if charset not in _CHARSETS:
                raise MeasurementError(f"the page is in the charset {charset[:80]}, expected utf-8")
            page = bytearray()
            while part := answer.read1(_AT_A_TIME_BYTES):
                page += part
                if len(page) > LARGEST_BYTES:
                    raise MeasurementError(f"the page is larger than {LARGEST_BYTES >> 20} MiB")
            # the format requires a line end after the last line; granian leaves it out, but sends the length
            if answer.length or not page or (answer.length is None and not page.endswith(b"\n")):
                raise MeasurementError(f"the page breaks off after {len(page)} bytes")
            is_ended = page.removesuffix(b"\n").endswith(b"\n# EOF")
            if content_type == "application/openmetrics-text" and not is_ended:
                raise MeasurementError(f"the page breaks off after {len(page)} bytes, before its # EOF")
        # invalid bytes stay distinct, so that labels do; a byte order mark would hide a line
        return page.decode(charset, "surrogateescape").removeprefix("\ufeff")


def _series(page: str, metric: Metric) -> dict[str, float]:
    samples = parse_samples(page, metric.name, metric.labels)
    return {f"{metric.name}{{{labels}}}" if labels else metric.name: n for labels, n in samples.items()}
