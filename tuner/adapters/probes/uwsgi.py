"""Probe that reads the request counts of each worker from the stats socket of uWSGI."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator

from tuner.adapters.bounded_socket import Bound, BoundedSocket, TooMuchError
from tuner.adapters.probes.polled import Counts, PolledCounting, own_port, polling
from tuner.config.fields import TimeLimit
from tuner.config.kinds import PORT_FIELD, PORT_VARIABLE, ProbeSettings, Surroundings
from tuner.core.domain.layout import Layout
from tuner.core.errors import MeasurementError
from tuner.core.text.figures import parse_json, render_duration
from tuner.core.text.http_request import LONGEST_SOCKET_BYTES
from tuner.ports import Clock, Warn

if TYPE_CHECKING:
    from tuner.config.settings import Settings

LARGEST_BYTES = 8 << 20
_AT_A_TIME_BYTES = 65536


def _stats_address(address: str) -> str:
    host, _, port = address.replace(PORT_FIELD, "1").rpartition(":")
    is_path = address.startswith("/") and len(address.encode()) <= LONGEST_SOCKET_BYTES
    is_port = re.fullmatch(r"[0-9]{1,5}", port) is not None and 0 < int(port) < 65536
    if not is_path and not (is_port and host and "/" not in host):
        raise ValueError(
            f"should be HOST:PORT, or the whole path of a unix socket of {LONGEST_SOCKET_BYTES} bytes at most"
        )
    return address


class UwsgiProbeSettings(ProbeSettings):
    """tuner reads the stats socket of uWSGI."""

    fills_in: ClassVar[tuple[str, ...]] = (PORT_VARIABLE,)
    kind: Literal["uwsgi"]  #: Kind of probe
    #: Address of uWSGI's stats server, as in uWSGI's option `--stats`: HOST:PORT or a path
    stats: Annotated[str, AfterValidator(_stats_address)]
    timeout: TimeLimit = 2.0  #: Time limit for each answer of the stats server

    @property
    def has_own_port(self) -> bool:
        """See `ProbeSettings`."""
        return PORT_FIELD in self.stats

    @property
    def pages(self) -> Mapping[str, str]:
        """The stats server, unless it listens at a unix socket, or a launch chooses its port."""
        return {} if self.has_own_port or self.stats.startswith("/") else {"stats": self.stats}

    def build(self, _settings: Settings, around: Surroundings) -> UwsgiProbe:
        """See `ProbeSettings`."""
        return UwsgiProbe(around.clock, self.stats, self.timeout, around.warn)

    def counts_failed(self, _feeder: object) -> bool:
        """uWSGI counts exceptions."""
        return True


class UwsgiProbe:
    """Queries the stats server at each sample: requests of every worker; those with an exception are failed.

    Args:
        stats: the absolute path of a unix socket, or HOST:PORT; ``{TUNER_PROBE_PORT}`` is a port reserved for
            each launch.
        timeout_s: for the whole answer.
    """

    def __init__(self, clock: Clock, stats: str, timeout_s: float, warn: Warn) -> None:
        self._clock = clock
        self._stats = stats
        self._timeout_s = timeout_s
        self._warn = warn

    @contextmanager
    def counting(self, layout: Layout) -> Iterator[PolledCounting]:  # noqa: ARG002  # the port's signature
        """Count during one launch."""
        with own_port(self._stats) as (stats, environment):
            asked = PolledCounting(
                self._clock,
                lambda: self._counts(stats),
                stats,
                self._warn,
                failed_included=True,
                environment=environment,
            )
            with polling(asked) as counting:
                yield counting

    def _counts(self, stats: str) -> Counts:
        try:
            answer = self._answer(stats)
        except TimeoutError as error:
            raise MeasurementError(f"no whole answer in {render_duration(self._timeout_s)}") from error
        except TooMuchError as error:
            raise MeasurementError(str(error)) from error
        except OSError as error:
            raise MeasurementError(f"no answer: {error.strerror or error}") from error
        return parse_stats(answer)

    def _answer(self, stats: str) -> bytes:
        bound = Bound(self._timeout_s, LARGEST_BYTES)
        host, _, port = stats.rpartition(":")
        is_path = stats.startswith("/")
        family = socket.AF_UNIX if is_path else socket.AF_INET
        answer = bytearray()
        with socket.socket(family) as connection:
            connection.settimeout(self._timeout_s)
            connection.connect(stats if is_path else (host, int(port)))
            bounded = BoundedSocket(connection, bound)
            while part := bounded.recv(_AT_A_TIME_BYTES):
                answer += part
        return bytes(answer)


def parse_stats(answer: bytes) -> Counts:
    """Return the counts of every worker; MeasurementError if *answer* is invalid.

    uWSGI copies variables of current requests as their clients sent them. So an answer may contain bytes that
    are not UTF-8 (a path like /caf%E9) and control characters, and JSON allows neither.
    """
    try:
        reported = parse_json(answer.decode("utf-8", "replace"), allow_control_characters=True)
    except ValueError as error:
        raise MeasurementError(f"the answer is no JSON ({error}): {answer[:80]!r}") from error
    workers = reported.get("workers") if isinstance(reported, dict) else None
    if not isinstance(workers, list) or not workers:
        raise MeasurementError("the answer contains no workers: is it uWSGI's stats socket?")
    return Counts(_by_worker(workers, "requests"), _by_worker(workers, "exceptions"))


def _by_worker(workers: list[Any], what: str) -> dict[str, float]:
    counts: dict[str, float] = {}
    for worker in workers:
        number = worker.get("id") if isinstance(worker, dict) else None
        count = worker.get(what) if isinstance(worker, dict) else None
        if type(number) is not int or type(count) is not int or count < 0:  # a bool is an int
            raise MeasurementError(f"a worker has no count of {what}: {str(worker)[:80]}")
        series = f"{what} of worker {number}"
        if series in counts:
            raise MeasurementError(f"worker {number} stands there twice")
        counts[series] = count
    return counts
