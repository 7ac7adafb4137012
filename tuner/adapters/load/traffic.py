"""Requests that the load generator sends, their settings, and the file that lists them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tuner.adapters.load.order import Order, Request
from tuner.core.domain.layout import Layout
from tuner.core.domain.load import EVEN, Connections, Pace
from tuner.core.errors import ConfigError
from tuner.core.text.http_request import HttpUrl, check_header, check_method, parse_url, render_request

MOST_OUTSTANDING = 1000  #: default for the number of unanswered requests at a rate


@dataclass(frozen=True, slots=True)
class LoadFiles:
    """Files through which a launch and its load generator exchange changes."""

    workers: Path  #: pids of the service's processes
    problem: Path  #: reason why the service does not answer
    found: Path  #: address at which the service was found to listen
    rate: Path | None  #: None: the rate is constant


@dataclass(frozen=True, slots=True)
class Traffic:
    """Requests to the service, and how to send them."""

    url: HttpUrl
    method: str = "GET"
    headers: Mapping[str, str] | None = None
    body: bytes = b""
    body_file: Path | None = None
    requests_file: Path | None = None  #: file with several requests; see ``read_requests``
    clients: int | None = None  #: clients of the closed loop; None: twice the threads of the largest layout
    connections: Connections = EVEN
    rate_per_s: float | None = None  #: None: closed loop
    pace: Pace | None = None  #: rule that gives the rate after the warm-up of the closed loop
    arrivals: str = "poisson"
    max_outstanding: int = MOST_OUTSTANDING
    timeout_s: float = 30.0
    wait_s: float = 60.0
    seed: int = 1
    #: whether requests go to the address of the launch's own processes instead of *url*
    finds_address: bool = False
    #: returns the addresses of a number of processes, *url* first, if each has its own; None: all use *url*
    addresses: Callable[[int], Sequence[HttpUrl]] | None = None

    @property
    def checks_certificate(self) -> bool:
        """Whether certificates are verified: not if the service is on this host."""
        return not (self.url.is_loopback or self.finds_address)

    def requests(self) -> tuple[Request, ...]:
        """Return the requests, which are sent in turn."""
        headers = self.headers or {}
        if self.requests_file is not None:
            return read_requests(self.requests_file, self.url, headers)
        body = self.body if self.body_file is None else read_body(self.body_file)
        return (Request(self.method, render_request(self.method, self.url, headers, body)),)

    def order(
        self, layout: Layout, *, clients: int, n_fed: int, files: LoadFiles, gate_descriptor: int
    ) -> Order:
        """Return the order for the load generator of one launch, after *n_fed* other launches."""
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


# File of requests, one JSON object per line.


_KEYS = {"url", "method", "headers", "body", "body_file"}
_HINT = (
    'Write an object a line, as {"url": "/search?q=tea"}; method, headers, body and body_file are optional.'
)


def read_requests(path: Path, base: HttpUrl, headers: Mapping[str, str]) -> tuple[Request, ...]:
    """Return the requests of *path*, in order; a URL that begins with / goes to *base*, and all others
    must, too.

    Args:
        headers: sent with each request that does not override them.

    Raises:
        ConfigError: the file cannot be read, or a line is invalid; the error names the line.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"the requests of {path} cannot be read: {error}", hint="Name another file."
        ) from error
    requests = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            requests.append(_request(line, path.parent, base, headers))
        except ConfigError as error:
            raise ConfigError(f"{path}:{number}: {error.problem}", hint=error.hint) from error
    if not requests:
        raise ConfigError(f"{path} holds no request", hint=_HINT)
    return tuple(requests)


def read_body(path: Path) -> bytes:
    """Return the contents of *path* as a request body.

    Raises:
        ConfigError: the file cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"the body {path} cannot be read: {error.strerror}", hint="Name another file."
        ) from error


def _request(line: str, folder: Path, base: HttpUrl, headers: Mapping[str, str]) -> Request:
    try:
        reported: Any = json.loads(line)
    except ValueError as error:
        raise ConfigError(f"not JSON: {error}", hint=_HINT) from error
    if not isinstance(reported, dict) or not _is_well_typed(reported):
        raise ConfigError(f"no request: {line[:60]}", hint=_HINT)
    if unknown := sorted(reported.keys() - _KEYS):
        raise ConfigError(f"{', '.join(unknown)}: none of {', '.join(sorted(_KEYS))}", hint=_HINT)
    if "body" in reported and "body_file" in reported:
        raise ConfigError("body and body_file: name one", hint=_HINT)
    if reported["url"].startswith("/"):
        url = replace(base, target=parse_url(f"http://localhost{reported['url']}").target)
    else:
        url = parse_url(reported["url"])
    if (url.host, url.port, url.is_tls) != (base.host, base.port, base.is_tls):
        raise ConfigError(f"{reported['url']} goes to another service than {base.authority}", hint=_HINT)
    method = check_method(reported.get("method", "GET"))
    for name, value in reported.get("headers", {}).items():
        check_header(name, value)
    own = {name.lower() for name in reported.get("headers", {})}
    sent = {name: value for name, value in headers.items() if name.lower() not in own} | reported.get(
        "headers", {}
    )
    body = (
        read_body(folder / reported["body_file"])
        if "body_file" in reported
        else reported.get("body", "").encode()
    )
    return Request(method, render_request(method, url, sent, body))


def _is_well_typed(data: dict[str, Any]) -> bool:
    headers = data.get("headers", {})
    texts = [data.get("url"), *(data[key] for key in ("method", "body", "body_file") if key in data)]
    if not isinstance(headers, dict):
        return False
    return all(isinstance(text, str) for text in [*texts, *headers.values()])
