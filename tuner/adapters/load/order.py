"""Order of the load generator: the requests, their concurrency or rate, and the duration."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tuner.adapters.processes.pausing import Asked, PausingProcess

ARRIVALS = ("poisson", "even")
#: methods that may be sent again if a kept connection is found closed (RFC 9110, 9.2.2)
_IDEMPOTENT = frozenset({"GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE"})


@dataclass(frozen=True, slots=True)
class Request:
    """One request as the bytes that are sent."""

    method: str
    wire: bytes

    @property
    def last_wire(self) -> bytes:
        """Return the request with a header that closes its connection after the answer."""
        line, end, rest = self.wire.partition(b"\r\n")
        return line + end + b"Connection: close\r\n" + rest

    def to(self, before: str, now: str) -> Request:
        """Return the request with the Host header *now* in place of *before*."""
        head, end, body = self.wire.partition(b"\r\n\r\n")
        old, new = (f"\r\nHost: {host}\r\n".encode("latin-1") for host in (before, now))
        return replace(self, wire=(head + b"\r\n").replace(old, new, 1)[:-2] + end + body)

    @property
    def is_idempotent(self) -> bool:
        """Whether sending it twice has the same effect as once."""
        return self.method in _IDEMPOTENT


@dataclass(frozen=True, slots=True)
class Order:
    """Order for one run of the generator."""

    host: str  #: host name, or the whole path of a unix socket
    port: int
    requests: tuple[Request, ...]  #: requests, which are sent in turn
    #: closed loop: number of clients, each of which waits for its answer before the next request
    clients: int
    reuse: int | None = None  #: most requests per connection; None: until the server closes it
    processes: int = 1  #: worker processes of the layout
    threads: int = 1  #: threads of each worker process
    #: file with the pids of these processes, once they exist; see `write_workers`; None: no such file
    workers_file: str | None = None
    spreads: bool = False  #: whether clients reopen connections until all workers have equally many
    rate_per_s: float | None = None  #: open loop: requests due per second; None: closed loop
    rate_file: str | None = (
        None  #: file that, once it exists, sets the rate, which may be 0; see ``write_rate``
    )
    arrivals: str = "poisson"  #: distribution of the arrivals: poisson or even
    #: file that contains the reason while the service has not answered; see `write_problem`; None: no such
    #: file
    problem_file: str | None = None
    max_outstanding: int = 1000  #: open loop: requests beyond this number of unanswered ones are not sent
    timeout_s: float = 30.0  #: time limit for one answer
    wait_s: float = 60.0  #: time limit for the service's first answer
    #: number of requests after which the generator ends; None: it ends when it is stopped
    n_requests: int | None = None
    seed: int = 1  #: seed of the arrivals
    is_tls: bool = False  #: whether connections are encrypted
    checks_certificate: bool = True  #: whether the service's certificate must be trusted by this host
    #: whether requests go to the address at which the workers listen according to the kernel, if it differs
    finds_address: bool = False
    authority: str = ""  #: Host header of the requests; it is replaced if the address is
    #: file that gets the URL in use if it is not the configured one; see `write_problem`; None: no such file
    found_file: str | None = None
    gate_descriptor: int | None = None  #: socket for requests to pause; None: the generator never pauses
    #: hosts and ports of further processes; clients use all in turn
    others: tuple[tuple[str, int], ...] = ()

    @property
    def n_clients(self) -> int:
        """Maximum number of requests under way at once."""
        is_closed_only = self.rate_per_s is None and self.rate_file is None
        return self.clients if is_closed_only else max(self.clients, self.max_outstanding)

    def write(self, path: Path) -> None:
        """Write the order to *path*, readable only by this user: headers contain secrets."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(asdict(self), file, default=lambda wire: wire.decode("latin-1"))


def write_rate(path: Path, rate_per_s: float) -> None:
    """Change the rate of the generator whose order names *path* as its rate file."""
    draft = path.with_name(f"{path.name}.new")
    draft.write_text(repr(rate_per_s), encoding="ascii")
    os.replace(draft, path)


def write_workers(path: Path, pids: Iterable[int]) -> None:
    """Write the workers' pids for the generator whose order names *path* as its workers file."""
    draft = path.with_name(f"{path.name}.new")
    draft.write_text(" ".join(map(str, sorted(pids))), encoding="ascii")
    os.replace(draft, path)


def read_workers(path: str) -> tuple[int, ...]:
    """Return the pids that ``write_workers`` wrote; empty: none yet."""
    try:
        return tuple(int(word) for word in Path(path).read_text(encoding="ascii").split())
    except FileNotFoundError:
        return ()


def read_rate(path: str) -> float | None:
    """Return the rate that ``write_rate`` wrote; None: none yet."""
    try:
        return float(Path(path).read_text(encoding="ascii"))
    except FileNotFoundError:
        return None


def write_problem(path: str, problem: str) -> None:
    """Write why the service has not answered yet, for `read_problem`; empty: it has answered."""
    draft = Path(f"{path}.new")
    draft.write_text(problem, encoding="utf-8")
    os.replace(draft, path)


def read_problem(path: Path) -> str:
    """Return the text that `write_problem` wrote last; empty: none yet."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""


def read_order(path: Path) -> Order:
    """Read an order that ``Order.write`` wrote."""
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    requests = tuple(
        Request(request["method"], request["wire"].encode("latin-1")) for request in data.pop("requests")
    )
    others = tuple((str(host), int(port)) for host, port in data.pop("others"))
    return Order(requests=requests, others=others, **data)


# Gate of the load generator, which is closed while the feeder requests a pause.


class Gate:
    """Open until the feeder requests a pause, which is confirmed once no request is under way."""

    def __init__(
        self,
        descriptor: int | None,
        *,
        is_busy: Callable[[], bool],
        shuts: Callable[[], None],
        opens: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        """Set up the gate; *is_busy*: whether requests are under way. *descriptor* None: it always stays
        open.
        """
        self._feeder = None if descriptor is None else PausingProcess(descriptor)
        self._is_busy, self._shuts, self._opens = is_busy, shuts, opens
        self._opening: asyncio.Task[None] | None = None
        self._open = asyncio.Event()
        self._open.set()
        self._unanswered: Asked | None = None
        self._since_ns = 0
        self._shut_ns = 0

    @property
    def is_shut(self) -> bool:
        """Whether no request may be sent."""
        return not self._open.is_set()

    @property
    def is_quiet(self) -> bool:
        """Whether it is shut and no request is under way."""
        return self.is_shut and self._unanswered is None

    @property
    def shut_ns(self) -> int:
        """Total time in ns that it was shut, up to the last opening."""
        return self._shut_ns

    def listen(self) -> None:
        """Read the feeder's requests from now on."""
        if self._feeder is not None:
            asyncio.get_running_loop().add_reader(self._feeder.fileno(), self._hear)

    async def passed(self) -> None:
        """Wait until it is open."""
        await self._open.wait()

    def look(self) -> None:
        """Confirm a pause to the feeder if the requests under way have ended."""
        if self._unanswered is not None and not self._is_busy():
            asked, self._unanswered = self._unanswered, None
            if self._feeder is not None:
                self._feeder.answer(asked)

    def open(self) -> None:
        """Open the gate."""
        if self.is_shut:
            self._shut_ns += time.monotonic_ns() - self._since_ns
            self._unanswered = None
            self._open.set()
            self._opening = asyncio.get_running_loop().create_task(self._opens())

    def _hear(self) -> None:
        assert self._feeder is not None
        asked = self._feeder.hear()
        if asked is None:
            if not self._feeder.is_open:
                asyncio.get_running_loop().remove_reader(self._feeder.fileno())
            return
        if not asked.pauses:
            self.open()
            self._feeder.answer(asked)
            return
        if not self.is_shut:
            self._since_ns = time.monotonic_ns()
            self._open.clear()
            self._shuts()
        self._unanswered = asked
        self.look()
