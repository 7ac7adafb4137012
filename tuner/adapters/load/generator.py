"""HTTP load generator: ``python -m tuner.adapters.load ORDER TOTALS``; standard library only.

It waits until the service answers and then sends the requests of ORDER (a JSON file, see ``Order``) until
SIGTERM. Then it waits for the requests under way. It counts into TOTALS and prints only the error that
stopped it.
"""

from __future__ import annotations

import asyncio
import random
import resource
import signal
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import cycle
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.adapters.load.client import Client
from tuner.adapters.load.first_answer import FirstAnswer, NoAnswerError
from tuner.adapters.load.order import Gate, Order, Request, read_order, read_rate, read_workers, write_problem
from tuner.adapters.load.precise_timers import run_precisely
from tuner.adapters.load.totals import TotalsWriter
from tuner.adapters.load.workers import Peer, Workers
from tuner.core.domain.requests import n_starved, surplus

if TYPE_CHECKING:
    import ssl

# Count of the connections of each worker process, and reconnection of those that exceed a worker's share.

_EVERY_S = 1.0
_UNEVEN_EVERY_S = 0.2  #: interval while connections are reopened
_HURRIES_S = 60.0  #: longest time with this interval, because some servers never take connections evenly
_COST_RATIO = 0.01  #: largest share of one core for the counting


class SpreadWatch:
    """Counts each second, or less often if counting is slow: its cost grows with the connections."""

    def __init__(self, order: Order, totals: TotalsWriter) -> None:
        self._order = order
        self._totals = totals
        ports = [order.port, *(port for _, port in order.others)]
        self._workers = Workers([] if order.host.startswith("/") else ports)
        self._counted: tuple[Sequence[int], int, int] | None = None  #: result of the last count
        self._looked_ns = 0
        self._began_s: float | None = None

    async def go_on(self, clients: Collection[Client], gate: Gate) -> None:
        """Count until cancelled, while *gate* is open."""
        if self._order.workers_file is None:
            return
        while True:
            await gate.passed()
            cost_s, now_s = -time.thread_time(), time.monotonic()
            is_uneven = self._look(self._order.workers_file, clients)
            cost_s += time.thread_time()
            if self._counted is not None and self._began_s is None:
                self._began_s = now_s
            hurries = self._began_s is None or (is_uneven and now_s - self._began_s < _HURRIES_S)
            await asyncio.sleep(max(_UNEVEN_EVERY_S if hurries else _EVERY_S, cost_s / _COST_RATIO))

    def rest(self) -> None:
        """Close the current interval; the next count begins a new one."""
        if self._counted is not None:
            self._totals.spread(time.monotonic_ns() - self._looked_ns, *self._counted)
            self._counted = None

    def _look(self, file: str, clients: Collection[Client]) -> bool:
        """Count, and move clients if requested; return whether the spread was uneven."""
        now_ns = time.monotonic_ns()
        if self._counted is not None:  # the last count holds until now
            self._totals.spread(now_ns - self._looked_ns, *self._counted)
        self._looked_ns, self._counted = now_ns, None
        pids = read_workers(file)
        by_peer: dict[Peer, Client] = {peer: one for one in clients if (peer := one.peer) is not None}
        holders = self._workers.holders(pids, by_peer)
        held: dict[int, list[Client]] = {pid: [] for pid in self._workers.accepting}
        n_waiting = 0
        for peer, pid in holders.items():
            if pid:
                held[pid].append(by_peer[peer])
            else:
                n_waiting += 1
        if not any(held.values()):  # hidden, or nothing is connected yet
            return False
        counts = [len(own) for own in held.values()]
        busy = [sum(client.is_busy for client in own) for own in held.values()]
        self._counted = counts, n_starved(busy, self._order.threads), n_waiting
        # with several addresses each client has one, so the spread is even
        moving = surplus([*held.values()]) if self._order.spreads and not self._order.others else []
        for client in moving:
            client.move()
        return bool(moving)


NO_ANSWER_EXIT = 3
#: time between the first requests of two clients; simultaneous connections would mostly go to one process
_START_EVERY_S = 0.001
_LOOK_EVERY_S = 0.1  #: time between two checks for overdue answers
_TRY_EVERY_S = 0.1  #: pause after a failure, so that a service that does not answer is not flooded
_DRAIN_S = 2.0  #: time to end after SIGTERM; the feeder kills after 5 s


class Generator:
    """One run of the generator."""

    def __init__(self, order: Order, totals: TotalsWriter) -> None:
        self._order = order
        self._totals = totals
        self._requests: Iterator[Request] = cycle(order.requests)
        self._n_left = order.n_requests
        self._clients: set[Client] = set()
        self._idle: list[Client] = []
        self._paused: dict[Client, asyncio.TimerHandle] = {}
        self._held: list[Client] = []  #: clients of the closed loop that wait for the gate to open
        self._tls: ssl.SSLContext | None = None
        self._name = order.host
        self._rate_per_s = order.rate_per_s  #: None: closed loop
        self._waiting: asyncio.Task[bool] | None = None
        self._is_stopping = False
        self._looks_s = 0.0  #: time of the next check for a new rate
        self._over = asyncio.Event()
        self._chance = random.Random(order.seed)
        self._spread = SpreadWatch(order, totals)
        self._gate = Gate(
            order.gate_descriptor,
            is_busy=self._is_busy,
            shuts=lambda: self._spread.rest(),
            opens=self._send_held,
        )

    async def run(self) -> None:
        """Send requests until stopped, or until all are sent.

        Raises:
            NoAnswerError: the service did not answer at all.
        """
        self._gate.listen()
        self._waiting = asyncio.create_task(self._first_answer())
        await asyncio.wait([self._waiting])
        if self._waiting.cancelled() or not self._waiting.result():
            return
        self._gate.look()
        watching = asyncio.create_task(self._watch())
        spreading = asyncio.create_task(self._spread.go_on(self._clients, self._gate))
        if self._rate_per_s is None:
            for _ in range(self._order.clients):
                self._next(self._new_client())
                await asyncio.sleep(_START_EVERY_S)
            await self._closed_loop()
        if self._rate_per_s is not None:
            await self._arrivals(self._rate_per_s)
        watching.cancel()
        spreading.cancel()
        for client in self._clients:
            client.close()
        await asyncio.sleep(0)  # let connections close

    def stop(self) -> None:
        """Stop sending."""
        self._is_stopping = True
        if self._waiting is not None:
            self._waiting.cancel()
        for handle in self._paused.values():
            handle.cancel()
        self._paused.clear()
        self._gate.open()
        asyncio.get_running_loop().call_later(_DRAIN_S, self._over.set)
        self._end_if_done()

    # The first answer is counted like any other, so that the counts of service and generator agree.

    async def _first_answer(self) -> bool:
        """Try until the service answers; return False if there is nothing to send."""
        request = self._take_request()
        if request is None:
            return False
        order = self._order
        reached = await FirstAnswer(order).come(request)
        self._totals.answered(reached.status, reached.n_bytes, reached.began_ns, time.monotonic_ns())
        self._tls = reached.tls
        place = reached.place
        if reached.is_elsewhere:
            self._requests = cycle(one.to(order.authority, place.authority) for one in order.requests)
            if order.found_file is not None:
                write_problem(order.found_file, place.url)
        self._order = replace(order, host=reached.host, port=place.port)
        self._name = place.host
        self._spread = SpreadWatch(self._order, self._totals)
        return True

    # Closed loop.

    async def _closed_loop(self) -> None:
        """Return when the run is over, or a rate is set."""
        while not self._over.is_set() and self._rate_per_s is None:
            await self._gate.passed()
            await self._over_within(_LOOK_EVERY_S)
            self._new_rate()

    def _next(self, client: Client) -> None:
        """Send the next request of *client*, once the gate is open."""
        if self._gate.is_shut:
            self._held.append(client)
            return
        request = None if self._is_stopping else self._take_request()
        if request is None:
            self._end_if_done()
            return
        now_ns = time.monotonic_ns()
        client.send(request, now_ns, now_ns + int(self._order.timeout_s * 1e9))

    async def _send_held(self) -> None:
        """Send the requests that were held back, with new connections one after another."""
        while self._held and not self._gate.is_shut:
            client = self._held.pop(0)
            is_connected = client.peer is not None
            if self._rate_per_s is not None:
                self._idle.append(client)
            else:
                self._next(client)
            if not is_connected:
                await asyncio.sleep(_START_EVERY_S)

    def _is_busy(self) -> bool:
        """Return whether a request is under way, including the first one."""
        is_beginning = self._waiting is not None and not self._waiting.done()
        return is_beginning or any(client.is_busy for client in self._clients)

    def _on_end(self, client: Client, failure: str | None) -> None:
        self._follow_up(client, failure)
        if self._gate.is_shut:
            self._gate.look()

    def _follow_up(self, client: Client, failure: str | None) -> None:
        if self._rate_per_s is not None:
            self._idle.append(client)
            self._end_if_done()
        elif failure is None:
            self._next(client)
        elif not self._is_stopping:  # do not flood a service that does not answer
            loop = asyncio.get_running_loop()
            self._paused[client] = loop.call_later(_TRY_EVERY_S, self._after_pause, client)
        else:
            self._end_if_done()

    def _after_pause(self, client: Client) -> None:
        del self._paused[client]
        if self._rate_per_s is not None:
            self._idle.append(client)
        else:
            self._next(client)

    # Open loop.

    async def _arrivals(self, rate_per_s: float) -> None:
        """Send each request when it is due, regardless of earlier ones; at a rate of 0 send none."""
        order = self._order
        due_ns = float(time.monotonic_ns())
        gaps, mean_ns = _gaps(order.arrivals, order.seed), _mean_gap_ns(rate_per_s)
        if not rate_per_s:
            due_ns = inf
        n_clients_most, shut_ns = order.max_outstanding, self._gate.shut_ns
        while not self._over.is_set():
            await self._gate.passed()
            due_ns += self._gate.shut_ns - shut_ns  # nothing becomes due while the gate is shut
            shut_ns = self._gate.shut_ns
            now_ns = time.monotonic_ns()
            while due_ns <= now_ns and not self._is_stopping:
                request = self._take_request()
                if request is None:
                    break
                if self._idle or len(self._clients) < n_clients_most:
                    client = self._idle_client() or self._new_client()
                    client.send(request, int(due_ns), int(due_ns + order.timeout_s * 1e9))
                else:
                    self._totals.failed("overdue", now_ns)
                due_ns += next(gaps) * mean_ns
            if self._is_stopping or self._n_left == 0:
                self._end_if_done()
                await self._over.wait()
                return
            wait_s = max(0.0, (due_ns - time.monotonic_ns()) / 1e9)
            await self._over_within(min(wait_s, _LOOK_EVERY_S))
            if (reported := self._new_rate()) is not None:
                mean_ns = _mean_gap_ns(reported)
                due_ns, shut_ns = time.monotonic_ns() + next(gaps) * mean_ns, self._gate.shut_ns

    def _any_idle(self) -> Client:
        """Return a random idle client: the last one would always load the same worker."""
        place = self._chance.randrange(len(self._idle))
        self._idle[place], self._idle[-1] = self._idle[-1], self._idle[place]
        return self._idle.pop()

    # Both loops.

    async def _over_within(self, seconds: float) -> None:
        """Return once the run is over, or after *seconds*."""
        try:
            async with asyncio.timeout(seconds):
                await self._over.wait()
        except TimeoutError:
            return

    def _new_rate(self) -> float | None:
        """Return a new rate, if one was set; called every tenth of a second."""
        now_s = time.monotonic()
        if self._order.rate_file is None or now_s < self._looks_s:
            return None
        self._looks_s = now_s + _LOOK_EVERY_S
        reported = read_rate(self._order.rate_file)
        if reported is None or reported == self._rate_per_s:
            return None
        self._rate_per_s = reported
        return reported

    def _idle_client(self) -> Client | None:
        """Return an idle client (of the address whose turn it is); None: create a client."""
        others = self._order.others
        wanted = min(1 + len(others), self._order.max_outstanding) if others else 0
        if not self._idle or len(self._clients) < wanted:
            return None
        return self._idle.pop(0) if others else self._any_idle()

    def _new_client(self) -> Client:
        number, reuse = len(self._clients), self._order.reuse
        addresses = ((self._order.host, self._order.port), *self._order.others)
        host, port = addresses[number % len(addresses)]
        tls = None if self._tls is None else (self._tls, self._name if number % len(addresses) == 0 else host)
        client = Client(host, port, self._totals, number, self._on_end, reuse=reuse, tls=tls)
        self._clients.add(client)
        return client

    def _take_request(self) -> Request | None:
        """Return the next request, or None when all are sent."""
        if self._n_left is not None:
            if self._n_left == 0:
                return None
            self._n_left -= 1
        return next(self._requests)

    def _end_if_done(self) -> None:
        """End the run once no request is under way and none follows."""
        nothing_comes = self._is_stopping or (self._n_left == 0 and not self._paused)
        if nothing_comes and not any(client.is_busy for client in self._clients):
            self._over.set()

    async def _watch(self) -> None:
        """Abort requests whose answers take too long."""
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            if self._gate.is_quiet:
                await self._gate.passed()
            now_ns = time.monotonic_ns()
            for client in [one for one in self._clients if one.is_busy and one.gives_up_ns <= now_ns]:
                client.give_up()


def _mean_gap_ns(rate_per_s: float) -> float:
    return 1e9 / rate_per_s if rate_per_s else inf


def _gaps(arrivals: str, seed: int) -> Iterator[float]:
    """Yield the times between two due requests, in units of their mean."""
    chance = random.Random(seed)
    while True:
        yield 1.0 if arrivals == "even" else chance.expovariate(1.0)


def _raise_file_limit() -> None:
    """Raise the limit of open files: each connection needs one, and the usual 1024 are too few."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _main(order: Order, path: Path) -> None:
    totals = TotalsWriter(path, order.n_clients, order.processes)
    try:
        generator = Generator(order, totals)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, generator.stop)
        await generator.run()
    finally:
        totals.close()


def main(order: str, totals: str) -> None:
    """Run the order in the file *order*, and count into the file *totals*."""
    _raise_file_limit()
    try:
        run_precisely(_main(read_order(Path(order)), Path(totals)))
    except NoAnswerError as error:
        print(error, file=sys.stderr)  # noqa: T201  # the feeder prints it
        raise SystemExit(NO_ANSWER_EXIT) from None
