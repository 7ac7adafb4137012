"""Feeder that runs the HTTP load generator, which sends requests to the service during a launch."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

import tuner
from tuner.adapters.feeders.command import CommandFeeder
from tuner.adapters.load.order import ARRIVALS, read_problem, write_rate, write_workers
from tuner.adapters.load.totals import DamagedTotalsError, Totals, read_totals, totals_file
from tuner.adapters.load.traffic import MOST_OUTSTANDING, LoadFiles, Traffic
from tuner.adapters.processes.pausing import PausedProcess
from tuner.config.document import ConfigPath, check_file
from tuner.config.feeders import FeederSettings, with_clients
from tuner.config.fields import Count, TimeLimit, WholeNumber, Word, nearest
from tuner.config.kinds import FeederSurroundings
from tuner.config.request_fields import (
    NUMBER,
    ConnectionsText,
    Rate,
    check_url,
    checked_headers,
    checked_method,
)
from tuner.core.domain.layout import Layout
from tuner.core.domain.load import (
    CLIENTS_PER_THREAD,
    EVEN,
    ClientSearchResult,
    Connections,
    Pace,
    clients_for,
    first_clients,
    parse_connections,
    render_connections,
)
from tuner.core.domain.requests import Requests
from tuner.core.errors import ConfigError, MeasurementError
from tuner.core.messages.service import address_found, certificate_unchecked, redirected, requests_failed
from tuner.core.text.http_request import HttpUrl, parse_url
from tuner.core.text.safe_text import redact

if TYPE_CHECKING:
    from tuner.config.service import ScriptSettings

MANY_FAILED_RATIO = 0.01
_PAUSE_SLACK_S = 5.0  #: time beyond one answer's time limit for the generator to stop sending
#: ``-I -S``: without the user's PYTHON* variables and site-packages, which the generator does not need
_BOOT = (
    "import sys; sys.path.append(sys.argv[1]);"
    " from tuner.adapters.load.generator import main; main(*sys.argv[2:])"
)


class HttpFeederSettings(FeederSettings):
    """tuner sends HTTP requests to the service."""

    can_pause: ClassVar[bool] = True
    reports_latency: ClassVar[bool] = True
    kind: Literal["http"]  #: Kind of feeder
    #: URL to which tuner sends requests. If each process of the service listens at a different address, write
    #: `{process}` in the URL for the number of the process (0, 1, ...)
    url: Annotated[str, AfterValidator(check_url)]
    method: Annotated[str, AfterValidator(checked_method)] = "GET"  #: HTTP method of each request
    #: HTTP headers of each request, by name
    headers: Annotated[dict[str, Word], AfterValidator(checked_headers)] = Field(default_factory=dict)
    body: str | None = None  #: Text of the body of each request
    body_file: ConfigPath | None = None  #: File with the body of each request
    #: File with one request per line, as a JSON object. tuner sends the requests of the file in turn
    requests: ConfigPath | None = None
    #: Number of clients. Each client sends a request after the answer to its previous request; None: a
    #: sufficient number, which tuner finds before the study
    clients: Count | None = None
    #: Whether clients keep their connections: `even`, `fresh`, `kept` or `reuse: N` (see `--connections` of
    #: `tuner grid`)
    connections: ConnectionsText = render_connections(EVEN)
    #: Fixed rate at which tuner sends requests, without waiting for answers; None: no fixed rate
    rate: Rate | None = None
    #: Whether the times between requests are random (poisson) or equal, if `rate` is set; None: poisson
    arrivals: Literal["poisson", "even"] | None = None
    #: Largest number of requests without an answer at the same time, if `rate` is set; None: 1000
    max_outstanding: Count | None = None
    timeout: TimeLimit = 30.0  #: Time limit for each answer. A request that takes longer has failed
    wait: TimeLimit = 60.0  #: Time limit for the first answer after the start of the service
    seed: WholeNumber = 1  #: Seed for the random times between requests
    #: Whether tuner uses the address at which the service really listens, if `url` has another address
    find_address: bool = False

    @field_validator("body_file", "requests")
    @classmethod
    def _check_file(cls, value: Any) -> Any:
        return value if value is None else check_file(value)

    @field_validator("arrivals", mode="before")
    @classmethod
    def _check_arrivals(cls, value: Any) -> Any:
        if value is not None and value not in ARRIVALS:
            raise ValueError(f"{value} is none of {', '.join(ARRIVALS)}{nearest(str(value), ARRIVALS)}")
        return value

    @field_validator("arrivals", "max_outstanding")
    @classmethod
    def _check_rate(cls, value: Any, info: ValidationInfo) -> Any:
        if value is not None and info.data.get("rate", 0) is None:
            raise ValueError("belongs to a rate, and there is none")
        return value

    @field_validator("rate")
    @classmethod
    def _check_clients_or_rate(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, float) and info.data.get("clients") is not None:
            raise ValueError("name clients (closed loop) or a rate (open loop), not both")
        return value

    @model_validator(mode="before")
    @classmethod
    def _check_clients(cls, section: Any, info: ValidationInfo) -> Any:
        return with_clients(section, is_kept=info.mode == "json")

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        if self.body is not None and self.body_file is not None:
            raise ValueError("name body or body_file, not both")
        one = self.body is not None or self.body_file is not None or self.method != "GET"
        if self.requests is not None and one:
            raise ValueError("requests bring their own methods and bodies; leave these out")
        return self

    @property
    def how_connected(self) -> Connections:
        """Handling of connections between requests."""
        return parse_connections(self.connections)

    @property
    def rate_per_s(self) -> float | None:
        """Requests per second, if the rate is one number; None: closed loop, at least at first."""
        return self.rate if isinstance(self.rate, float) else None

    @property
    def pace(self) -> Pace | None:
        """Rule for the rate; None: the rate is one number, or there is none."""
        return None if isinstance(self.rate, float) else self.rate

    @property
    def is_numbered(self) -> bool:
        """Whether each process listens at a separate address."""
        return NUMBER in self.url

    @property
    def target(self) -> HttpUrl:
        """Address that receives the requests; with several processes, the address of the first."""
        return self.targets(1)[0]

    def targets(self, processes: int) -> list[HttpUrl]:
        """Return the addresses that receive the requests, for *processes* processes."""
        return [parse_url(self.url.replace(NUMBER, str(process))) for process in range(processes)]

    @property
    def has_closed_loop(self) -> bool:
        """See `FeederSettings`."""
        return self.rate is None

    @property
    def places(self) -> Mapping[str, tuple[str, int]]:
        """See `FeederSettings`."""
        if self.url.startswith("http+unix:"):
            return {}
        return {"url": (self.target.host, self.target.port)}

    @property
    def most_outstanding(self) -> int:
        """Largest number of unanswered requests at a time, if there is a rate."""
        return self.max_outstanding or MOST_OUTSTANDING

    def connections_for(self, layouts: Sequence[Layout]) -> int:
        """See `FeederSettings`."""
        if self.rate is not None:
            return self.most_outstanding
        return self.clients or first_clients(layouts)

    def describe(self) -> str:
        """See `FeederSettings`."""
        return f"requests to {redact(self.url)}, sent by tuner"

    def build(
        self, _service: ScriptSettings, layouts: Sequence[Layout], around: FeederSurroundings
    ) -> HttpFeeder:
        """See `FeederSettings`."""
        traffic = Traffic(
            url=self.target,
            method=self.method,
            headers=self.headers,
            body=(self.body or "").encode(),
            body_file=self.body_file,
            requests_file=self.requests,
            clients=self.clients,
            connections=self.how_connected,
            rate_per_s=self.rate_per_s,
            pace=self.pace,
            arrivals=self.arrivals or "poisson",
            max_outstanding=self.most_outstanding,
            timeout_s=self.timeout,
            wait_s=self.wait,
            seed=self.seed,
            finds_address=self.find_address,
            addresses=self.targets if self.is_numbered else None,
        )
        scratch = around.scratch
        return HttpFeeder(traffic, layouts, totals_file(scratch), scratch, around.warn)


class HttpFeeder:
    """Runs a load generator during each launch, which first waits until the service answers.

    Probes may read the generator's file of totals during the launch.
    """

    def __init__(
        self,
        traffic: Traffic,
        layouts: Sequence[Layout],
        totals: Path,
        scratch: Path | None,
        warn: Callable[[str, str], None],
    ) -> None:
        """Set up the feeder; *totals* is the file of counts; *layouts* are those of the study."""
        self._traffic = traffic
        self._layouts = layouts
        self._totals = totals
        self._scratch = scratch
        self._warn = warn
        self._generator: CommandFeeder | None = None
        self._pausing: PausedProcess | None = None  #: control of the generator; None: no launch is fed
        self._rate_file: Path | None = None
        self._workers_file: Path | None = None
        self._problem_file: Path | None = None
        self._found_file: Path | None = None
        self._found_url = ""  #: address at which the last launch was found to listen
        self._workers: frozenset[int] = frozenset()
        self._found: ClientSearchResult | None = None
        self._rate_per_s = traffic.rate_per_s
        self._capacity_per_s: float | None = None
        self._has_warned_of_redirects = False  #: whether the warning was printed, which all launches share
        self._n_fed = 0  #: launches fed so far; each gets different random arrivals

    def prepare(self) -> None:
        """Check that all requests are valid, with at least one client per thread of every layout."""
        self._traffic.requests()
        if self._traffic.url.is_tls and not self._traffic.checks_certificate:
            self._warn(*certificate_unchecked(f"https://{self._traffic.url.authority}"))
        largest = max(self._layouts, key=lambda layout: layout.total_threads)
        n = self.clients_of(largest)
        if n is not None and n < largest.total_threads:
            n_threads = largest.total_threads
            raise ConfigError(
                f"{n} clients are too few for {largest}, which has {n_threads} threads",
                hint=f"Set clients to {CLIENTS_PER_THREAD * n_threads} or more, or leave it out.",
            )

    @contextmanager
    def feeding(self, layout: Layout) -> Iterator[None]:
        """Send requests to one launch.

        Raises:
            MeasurementError: the service did not answer; the text describes the response.
        """
        with ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="load-", dir=self._scratch))
            order = Path(folder) / "order.json"
            self._rate_per_s, self._capacity_per_s = self._traffic.rate_per_s, None
            self._rate_file = None if self._traffic.pace is None else Path(folder) / "rate"
            self._workers_file, self._workers = Path(folder) / "workers", frozenset()
            self._problem_file, self._found_file = Path(folder) / "problem", Path(folder) / "found"
            pausing = stack.enter_context(closing(PausedProcess("the load generator")))
            self._traffic.order(
                layout,
                clients=self.clients_of(layout) or first_clients(self._layouts),
                n_fed=self._n_fed,
                files=LoadFiles(self._workers_file, self._problem_file, self._found_file, self._rate_file),
                gate_descriptor=pausing.descriptor,
            ).write(order)
            self._n_fed += 1
            root = str(Path(tuner.__file__).parent.parent)
            command = [sys.executable, "-I", "-S", "-c", _BOOT, root, str(order), str(self._totals)]
            self._generator = CommandFeeder(command, scratch=self._scratch, descriptors=[pausing.descriptor])
            try:
                with self._generator.feeding(layout):
                    pausing.started()
                    self._pausing = pausing
                    yield
            finally:
                self._pausing = None
                if self._totals.exists():
                    self._report(layout, read_totals(self._totals))
                    self._totals.unlink()
                self._warn_found_elsewhere()
                self._workers_file = self._problem_file = self._found_file = None

    def away(self) -> str:
        """Return no reason: requests need no source."""
        return ""

    def rest(self) -> None:
        """End the generator."""
        if self._generator is not None:
            self._generator.end()

    def is_dry(self) -> bool:
        """Return whether the generator has ended."""
        return self._generator is None or self._generator.is_dry()

    def problem(self) -> str:
        """Return why the service has not answered yet, or how the generator failed."""
        failed = "" if self._generator is None else self._generator.problem()
        if failed or self._problem_file is None:
            return failed
        return str(redact(read_problem(self._problem_file)))

    def pids(self) -> frozenset[int]:
        """Return the pid of the generator while it runs."""
        return frozenset() if self._generator is None else self._generator.pids()

    def requests(self) -> Requests:
        """Return the results of the launch's requests; empty before the first request."""
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
        """Whether this is a closed loop without a set number of clients."""
        return self._traffic.clients is None and self._traffic.rate_per_s is None

    @property
    def found(self) -> ClientSearchResult | None:
        """Result of the search for the number of clients; None: the user set it, or there is none."""
        return self._found

    def clients_of(self, layout: Layout) -> int | None:
        """Return the number of clients for *layout* in a closed loop; None: neither set nor found."""
        if self._traffic.rate_per_s is not None or self._traffic.clients is None:
            return None
        return self._traffic.clients if self._found is None else clients_for(layout, self._found)

    @property
    def timeout_s(self) -> float:
        """Time in seconds after which an unanswered request has failed."""
        return self._traffic.timeout_s

    def use_clients(self, n_clients: int) -> None:
        """Use *n_clients* clients from the next launch on."""
        self._traffic = replace(self._traffic, clients=n_clients)

    def use_found(self, found: ClientSearchResult) -> None:
        """Use the number of clients that was found, and more for layouts with more threads."""
        self._found = found
        self.use_clients(found.clients)

    @property
    def pace(self) -> Pace | None:
        """Rule for the rate, from the traffic."""
        return self._traffic.pace

    def follow(self, workers: Callable[[], frozenset[int]]) -> None:
        """Write the *workers* to the generator's file if they have changed."""
        if self._workers_file is not None and (pids := workers()) != self._workers:
            write_workers(self._workers_file, pids)
            self._workers = pids
        self._warn_found_elsewhere()

    def go_on_at(self, rate_per_s: float, capacity_per_s: float) -> None:
        """Write the rate to the generator's file, which the generator reads ten times a second."""
        if self._rate_file is None:
            raise ValueError("nothing is fed, or nothing at a pace")
        write_rate(self._rate_file, rate_per_s)
        self._rate_per_s, self._capacity_per_s = rate_per_s, capacity_per_s

    @property
    def can_pause(self) -> bool:
        """True: the generator can pause."""
        return True

    def pause(self) -> None:
        """Stop new requests and wait for the answers to all earlier ones."""
        self._paused_generator().pause(self._traffic.timeout_s + _PAUSE_SLACK_S)

    def resume(self) -> None:
        """Send requests again."""
        self._paused_generator().resume(self._traffic.timeout_s + _PAUSE_SLACK_S)

    def _paused_generator(self) -> PausedProcess:
        if self._pausing is None:
            raise ValueError("nothing is fed")
        return self._pausing

    def _warn_found_elsewhere(self) -> None:
        """Warn once if the service listens at another address than the config states."""
        if not self._traffic.finds_address or self._found_file is None:
            return
        url = read_problem(self._found_file)
        if url and url != self._found_url:
            self._found_url = url
            asked = self._traffic.url
            before = asked.host if asked.host.startswith("/") else asked.authority
            self._warn(*address_found(url, before))

    def _report(self, layout: Layout, totals: Totals) -> None:
        """Warn if many requests failed or were redirected, but ignore failures after the last good answer."""
        failed = dict(totals.n_failed)
        if totals.n_done:
            for kind, n in totals.n_failed_since_done.items():
                failed[kind] -= n
        n_failed = sum(failed.values())
        n = totals.n_done + n_failed
        if n_failed > MANY_FAILED_RATIO * n:
            self._warn(*requests_failed(layout, n_failed, n, failed, totals.last_status))
        if totals.n_redirected > MANY_FAILED_RATIO * totals.n_done and not self._has_warned_of_redirects:
            self._has_warned_of_redirects = True
            self._warn(*redirected(layout, totals.n_redirected, totals.n_done, totals.last_status[3]))
