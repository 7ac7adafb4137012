"""The requests that the load generator sends to a service, and how it sends them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tuner.adapters.load.order import Order, Request
from tuner.adapters.load.requests_file import read_body, read_requests
from tuner.core.domain.layout import Layout
from tuner.core.settings.clients import EVEN, Connections
from tuner.core.settings.pace import Pace
from tuner.core.text.http_request import HttpUrl, render_request

MOST_OUTSTANDING = 1000  #: requests of a rate at once, unless told


@dataclass(frozen=True, slots=True)
class LoadFiles:
    """The files by which a launch and its load generator tell each other what changes."""

    workers: Path  #: the processes of the service
    problem: Path  #: why it does not answer
    found: Path  #: where it was found to listen
    rate: Path | None  #: None: the rate stays


@dataclass(frozen=True, slots=True)
class Traffic:
    """What is sent to the service, and how."""

    url: HttpUrl
    method: str = "GET"
    headers: Mapping[str, str] | None = None
    body: bytes = b""
    body_file: Path | None = None
    requests_file: Path | None = None  #: instead of one request; see ``read_requests``
    clients: int | None = None  #: of the closed loop; None: twice the threads of the largest layout
    connections: Connections = EVEN
    rate_per_s: float | None = None  #: None: closed loop
    pace: Pace | None = None  #: what the rate follows from once the closed loop has warmed up
    arrivals: str = "poisson"
    max_outstanding: int = MOST_OUTSTANDING
    timeout_s: float = 30.0
    wait_s: float = 60.0
    seed: int = 1
    finds_address: bool = False  #: whether *url* gives way to where the launch's own processes listen
    #: where so many processes listen, if each does at an address of its own, *url* first; None: all at *url*
    addresses: Callable[[int], Sequence[HttpUrl]] | None = None

    @property
    def checks_certificate(self) -> bool:
        """Whether a certificate has to be one that this host trusts: not on the host itself."""
        return not (self.url.is_loopback or self.finds_address)

    def requests(self) -> tuple[Request, ...]:
        """Make the requests, which are sent in turn."""
        headers = self.headers or {}
        if self.requests_file is not None:
            return read_requests(self.requests_file, self.url, headers)
        body = self.body if self.body_file is None else read_body(self.body_file)
        return (Request(self.method, render_request(self.method, self.url, headers, body)),)

    def order(
        self, layout: Layout, *, clients: int, n_fed: int, files: LoadFiles, gate_descriptor: int
    ) -> Order:
        """Make the order of the load generator of one launch, after *n_fed* other launches."""
        others = () if self.addresses is None else self.addresses(layout.processes)[1:]
        return Order(
            host=self.url.host,
            port=self.url.port,
            requests=self.requests(),
            clients=clients,
            reuse=self.connections.reuse,
            spreads=self.connections.is_even,
            processes=layout.processes,
            threads=layout.threads,
            workers_file=str(files.workers),
            problem_file=str(files.problem),
            rate_per_s=self.rate_per_s,
            rate_file=None if files.rate is None else str(files.rate),
            arrivals=self.arrivals,
            max_outstanding=self.max_outstanding,
            timeout_s=self.timeout_s,
            wait_s=self.wait_s,
            seed=self.seed + n_fed,
            is_tls=self.url.is_tls,
            checks_certificate=self.checks_certificate,
            finds_address=self.finds_address,
            authority=self.url.authority,
            found_file=str(files.found),
            gate_descriptor=gate_descriptor,
            others=tuple((one.host, one.port) for one in others),
        )
