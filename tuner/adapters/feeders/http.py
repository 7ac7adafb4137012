"""The load generator beside a launch: keeps an HTTP service supplied with requests."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import tuner
from tuner.adapters.feeders.command import CommandFeeder
from tuner.adapters.load.order import Order, Request, read_problem, tell_rate, tell_workers
from tuner.adapters.load.requests_file import read_body, read_requests
from tuner.adapters.load.totals import DamagedTotalsError, Totals, read_totals
from tuner.core.domain.layout import Layout
from tuner.core.domain.requests import Requests
from tuner.core.errors import ConfigError, MeasurementError
from tuner.core.messages.feeders import address_found, certificate_unchecked, requests_failed
from tuner.core.settings.clients import CLIENTS_PER_THREAD, ClientSearchResult, clients_for, first_clients
from tuner.core.settings.connections import EVEN, Connections
from tuner.core.settings.pace import Pace
from tuner.core.text.http_request import HttpUrl, rendered_request
from tuner.core.text.redaction import redacted

MOST_OUTSTANDING = 1000  #: requests of a rate at once, unless told
MANY_FAILED_RATIO = 0.01
#: ``-I -S``: no PYTHON* variables of the user, no site-packages; the generator needs none
_BOOT = (
    "import sys; sys.path.append(sys.argv[1]);"
    " from tuner.adapters.load.generator import main; main(*sys.argv[2:])"
)


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


class HttpFeeder:
    """Starts a generator for each launch, which waits until the service answers, and ends it with the launch.

    The generator's totals are in a file that probes may read meanwhile.
    """

    def __init__(
        self,
        traffic: Traffic,
        layouts: Sequence[Layout],
        totals: Path,
        scratch: Path | None,
        warn: Callable[[str, str], None],
    ) -> None:
        """*totals* is where the counts are while a launch runs; *layouts* are those of the study."""
        self._traffic = traffic
        self._layouts = layouts
        self._totals = totals
        self._scratch = scratch
        self._warn = warn
        self._generator: CommandFeeder | None = None
        self._rate_file: Path | None = None
        self._workers_file: Path | None = None
        self._problem_file: Path | None = None
        self._found_file: Path | None = None
        self._found_url = ""  #: where the last launch was found to listen
        self._workers: frozenset[int] = frozenset()
        self._found: ClientSearchResult | None = None
        self._rate_per_s = traffic.rate_per_s
        self._capacity_per_s: float | None = None
        self._n_fed = 0  #: launches: each has arrivals of its own, or all would share their luck

    def prepare(self) -> None:
        """Check that all requests can be made, and that there is a client for each thread of every layout."""
        self._requests()
        if self._traffic.url.is_tls and not self._checks_certificate:
            self._warn(*certificate_unchecked(f"https://{self._traffic.url.authority}"))
        largest = max(self._layouts, key=lambda layout: layout.total_threads)
        n = self.clients_of(largest)
        if n is not None and n < largest.total_threads:
            n_threads = largest.total_threads
            raise ConfigError(
                f"{n} clients leave threads of {largest} without a request: it has {n_threads}",
                hint=f"Set clients to {CLIENTS_PER_THREAD * n_threads} or more, or leave it out.",
            )

    @contextmanager
    def feeding(self, layout: Layout) -> Iterator[None]:
        """Send requests to one launch.

        Raises:
            MeasurementError: the service did not answer; says what came instead.
        """
        with tempfile.TemporaryDirectory(prefix="load-", dir=self._scratch) as folder:
            order = Path(folder) / "order.json"
            self._rate_per_s, self._capacity_per_s = self._traffic.rate_per_s, None
            self._rate_file = None if self._traffic.pace is None else Path(folder) / "rate"
            self._workers_file, self._workers = Path(folder) / "workers", frozenset()
            self._problem_file, self._found_file = Path(folder) / "problem", Path(folder) / "found"
            self._order(layout).write(order)
            self._n_fed += 1
            root = str(Path(tuner.__file__).parent.parent)
            command = [sys.executable, "-I", "-S", "-c", _BOOT, root, str(order), str(self._totals)]
            self._generator = CommandFeeder(command, scratch=self._scratch)
            try:
                with self._generator.feeding(layout):
                    yield
            finally:
                if self._totals.exists():
                    self._tell(layout, read_totals(self._totals))
                    self._totals.unlink()
                self._tell_found()
                self._workers_file = self._problem_file = self._found_file = None

    def away(self) -> str:
        """Requests need none."""
        return ""

    def rest(self) -> None:
        """End the generator."""
        if self._generator is not None:
            self._generator.end()

    def is_dry(self) -> bool:
        """Whether the generator has died."""
        return self._generator is None or self._generator.is_dry()

    def problem(self) -> str:
        """Return why the service has not answered yet, or how the generator failed."""
        failed = "" if self._generator is None else self._generator.problem()
        if failed or self._problem_file is None:
            return failed
        return str(redacted(read_problem(self._problem_file)))

    def pids(self) -> frozenset[int]:
        """The generator, while it runs."""
        return frozenset() if self._generator is None else self._generator.pids()

    def requests(self) -> Requests:
        """What became of the launch's requests; of none before it sends the first."""
        before = Requests(rate_per_s=self._rate_per_s, capacity_per_s=self._capacity_per_s)
        try:
            totals = read_totals(self._totals)
        except FileNotFoundError:
            return before
        except (DamagedTotalsError, OSError) as error:
            raise MeasurementError(f"the load generator's counts cannot be read: {error}") from error
        return replace(
            before,
            latencies=totals.latencies,
            n_failed=totals.n_failed_total,
            unfinished=totals.unfinished(time.monotonic_ns()),
            spread=totals.spread if totals.spread.seconds else None,
        )

    @property
    def lacks_clients(self) -> bool:
        """Whether there is a closed loop, and nobody has said with how many clients."""
        return self._traffic.clients is None and self._traffic.rate_per_s is None

    @property
    def found(self) -> ClientSearchResult | None:
        """How the number of clients was found; None: the user set it, or there is none."""
        return self._found

    def clients_of(self, layout: Layout) -> int | None:
        """How many clients send to *layout* in a closed loop; None: the number is neither set nor found."""
        if self._traffic.rate_per_s is not None or self._traffic.clients is None:
            return None
        return self._traffic.clients if self._found is None else clients_for(layout, self._found)

    @property
    def timeout_s(self) -> float:
        """After so long without an answer a request has failed."""
        return self._traffic.timeout_s

    def use_clients(self, n_clients: int) -> None:
        """Send by so many clients from the next launch on."""
        self._traffic = replace(self._traffic, clients=n_clients)

    def use_found(self, found: ClientSearchResult) -> None:
        """Send by the clients that were found, and by more to layouts with more threads."""
        self._found = found
        self.use_clients(found.clients)

    @property
    def pace(self) -> Pace | None:
        """As the traffic has it."""
        return self._traffic.pace

    def follow(self, workers: Callable[[], frozenset[int]]) -> None:
        """Tell the generator, where they are others than before."""
        if self._workers_file is not None and (pids := workers()) != self._workers:
            tell_workers(self._workers_file, pids)
            self._workers = pids
        self._tell_found()

    def go_on_at(self, rate_per_s: float, capacity_per_s: float) -> None:
        """Tell the generator, which looks ten times a second."""
        if self._rate_file is None:
            raise ValueError("nothing is fed, or nothing at a pace")
        tell_rate(self._rate_file, rate_per_s)
        self._rate_per_s, self._capacity_per_s = rate_per_s, capacity_per_s

    def _order(self, layout: Layout) -> Order:
        traffic = self._traffic
        others = () if traffic.addresses is None else traffic.addresses(layout.processes)[1:]
        return Order(
            host=traffic.url.host,
            port=traffic.url.port,
            requests=self._requests(),
            clients=self.clients_of(layout) or first_clients(self._layouts),
            reuse=traffic.connections.reuse,
            spreads=traffic.connections.is_even,
            processes=layout.processes,
            threads=layout.threads,
            workers_file=str(self._workers_file),
            problem_file=str(self._problem_file),
            rate_per_s=traffic.rate_per_s,
            rate_file=None if self._rate_file is None else str(self._rate_file),
            arrivals=traffic.arrivals,
            max_outstanding=traffic.max_outstanding,
            timeout_s=traffic.timeout_s,
            wait_s=traffic.wait_s,
            seed=traffic.seed + self._n_fed,
            is_tls=traffic.url.is_tls,
            checks_certificate=self._checks_certificate,
            finds_address=traffic.finds_address,
            authority=traffic.url.authority,
            found_file=str(self._found_file),
            others=tuple((one.host, one.port) for one in others),
        )

    @property
    def _checks_certificate(self) -> bool:
        """Whether a certificate has to be one that this host trusts: not on the host itself."""
        return not (self._traffic.url.is_loopback or self._traffic.finds_address)

    def _tell_found(self) -> None:
        """Warn once where the service listens, if that is not where the config says."""
        if not self._traffic.finds_address or self._found_file is None:
            return
        url = read_problem(self._found_file)
        if url and url != self._found_url:
            self._found_url = url
            asked = self._traffic.url
            before = asked.host if asked.host.startswith("/") else asked.authority
            self._warn(*address_found(url, before))

    def _requests(self) -> tuple[Request, ...]:
        traffic, headers = self._traffic, self._traffic.headers or {}
        if traffic.requests_file is not None:
            return read_requests(traffic.requests_file, traffic.url, headers)
        body = traffic.body if traffic.body_file is None else read_body(traffic.body_file)
        return (Request(traffic.method, rendered_request(traffic.method, traffic.url, headers, body)),)

    def _tell(self, layout: Layout, totals: Totals) -> None:
        """Warn when many failed; what failed after the last good answer is the end of the service."""
        failed = dict(totals.n_failed)
        if totals.n_done:
            for kind, n in totals.n_failed_since_done.items():
                failed[kind] -= n
        n_failed = sum(failed.values())
        n = totals.n_done + n_failed
        if n_failed > MANY_FAILED_RATIO * n:
            self._warn(*requests_failed(layout, n_failed, n, failed))
