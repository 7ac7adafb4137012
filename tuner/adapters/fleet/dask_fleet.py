"""Fleet port on dask.distributed: the coordinator's side.

An order is one Dask task, pinned to one worker by address and never retried. Its results arrive as events
under a topic of this coordinator while the task runs. A thread lists the present workers once a second. All
decisions are made in the thread that calls `news`.
"""

from __future__ import annotations

import queue
import threading
import time
import uuid
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Set
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Any

from distributed import Client, Future

from tuner.adapters.clock import SystemClock, VirtualClock
from tuner.adapters.fleet.box_plugin import describe, key_of, make_order
from tuner.adapters.fleet.frames import Frame, OrderEvent, parse_event
from tuner.adapters.fleet.ledger import Ledger, Looking, Seen, send_finish
from tuner.core.domain.fleet import BoxFacts, Lost, News, Order
from tuner.core.errors import MeasurementError, TunerError
from tuner.ports import Clock

# News of simulated hosts in the order of simulated time, although workers finish in any order.


class VirtualOrder:
    """Buffer of news, which holds each one back until no host can send an earlier one."""

    def __init__(self) -> None:
        self._waiting: defaultdict[str, deque[tuple[float, News]]] = defaultdict(deque)

    def add(self, box: str, at_wall_s: float, news: News) -> None:
        """Add *news* of *box*, which are later than all its earlier news."""
        self._waiting[box].append((at_wall_s, news))

    def next(self, busy: Set[str]) -> tuple[float, News] | None:
        """Return the earliest news; None if there are none, or a *busy* host may still send earlier ones."""
        waiting = {box: news for box, news in self._waiting.items() if news}
        if not waiting or not busy <= waiting.keys():
            return None
        box = min(waiting, key=lambda name: (waiting[name][0][0], name))
        return self._waiting[box].popleft()


ANSWERS_WITHIN_S = 120.0  #: time for a host to answer a question about its programs
LOOK_S = 1.0  #: time between two lists of the connected hosts
PATIENCE_S = 600.0  #: time without the scheduler after which the study ends
PATIENCE = f"{PATIENCE_S / 60:.0f} minutes"
_CLOSES_WITHIN_S = 10.0
_TROUBLE = (OSError, TimeoutError)  #: connection errors

#: packs an order, with the wall time and the number of hosts, for its host
Asks = Callable[[Order, float, int], bytes]


class DaskFleet:
    """A fleet, in a ``with`` block; launches under way at its end are given up."""

    def __init__(
        self, address: str, security: Any, asks: Asks, *, facts_of: Callable[[BoxFacts], BoxFacts]
    ) -> None:
        """Join the scheduler at *address*, which is known to answer.

        *facts_of* changes the facts that hosts report.
        """
        self._clock: Clock = SystemClock()
        self._address, self._asks, self._facts_of = address, asks, facts_of
        self._topic = f"tuner-{uuid.uuid4().hex}"
        self._ledger = Ledger()
        self._futures: dict[str, Future[None]] = {}
        self._came: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self._pending: deque[News] = deque()
        self._has_ended: set[str] = set()  #: orders whose tasks had ended at the last check
        self._closing, self._finishing = threading.Event(), threading.Event()
        self._to_finish: Mapping[str, str] = {}
        self._looked_s = time.monotonic()  #: time of the scheduler's last list of hosts
        self._client = Client(
            address, security=security, timeout=PATIENCE, set_as_default=False, name="tuner"
        )
        self._looking = Looking(self._client)
        self._watch = threading.Thread(target=self._watch_workers, name="fleet", daemon=True)

    def __enter__(self) -> DaskFleet:
        self._look_around()  # raises if something is wrong with the scheduler
        self._watch.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for future in self._futures.values():
            future.release()
        self._closing.set()
        with suppress(*_TROUBLE):
            self._client.close(timeout=_CLOSES_WITHIN_S)
        self._watch.join(_CLOSES_WITHIN_S)

    @property
    def clock(self) -> Clock:
        """Clock of the coordinator."""
        return self._clock

    def news(self, until_s: float) -> News | None:
        """Return the next news; None if there are none until *until_s*; see `tuner.ports.Fleet`."""
        while not self._pending:
            left_s = until_s - self._clock.monotonic_s()
            if not self._take(max(0.0, left_s)) and left_s <= 0:
                self._check_listing_is_recent()
                return None
        return self._pending.popleft()

    def send(self, order: Order) -> None:
        """Order a host to make a launch."""
        seen = self._ledger.sent(order)
        if seen is None:
            self._pending.append(Lost(order.id, f"{order.place.box} is gone"))
            return
        key = key_of(self._topic, order.id)
        self._futures[order.id] = self._client.submit(
            make_order,
            self._topic,
            order.id,
            seen.worker,
            self._asks(order, self._clock.wall_s(), self._ledger.n_boxes),
            key=key,
            workers=[seen.address],
            allow_other_workers=False,
            resources={"box": 1},
            retries=0,
            pure=False,
        )

    def finish(self) -> None:
        """Ask all hosts to end after the current windows."""
        self._to_finish = self._ledger.open_orders()
        self._finishing.set()

    def give_up(self, order: str) -> None:
        """Order a host to end a launch at once."""
        if self._ledger.give_up(order):
            self._let_go(order)

    # ------------------------------------------------------------------ in the thread that calls news

    def _take(self, within_s: float) -> str:
        """Process the next event within *within_s* seconds; return its kind, empty if there was none."""
        try:
            what, event = self._came.get(timeout=within_s) if within_s > 0 else self._came.get_nowait()
        except queue.Empty:
            return ""
        match what:
            case "look":
                self._looked_s = time.monotonic()
                self._note(list(self._ledger.look(event)))
                self._look_at_futures()
            case "event":
                self._heard(*event)
            case "ended":
                self._note(list(self._ledger.ended(*event)))
                self._let_go(event[0])
            case _:
                raise MeasurementError(event, hint="Start it again (tuner fleet scheduler), then --resume.")
        return what

    def _check_listing_is_recent(self) -> None:
        """Raise an error if the listing of workers is overdue: a scheduler that hangs keeps its
        connections.
        """
        if time.monotonic() - self._looked_s > PATIENCE_S:
            raise MeasurementError(
                f"the scheduler at {self._address} has not answered for {PATIENCE}",
                hint="Start it again (tuner fleet scheduler), then --resume.",
            )

    def _heard(self, stop: OrderEvent, address: str | None) -> None:
        box = self._ledger.box_of(stop.order)
        for frame, news in list(self._ledger.heard(stop, address)):
            self._put(box, frame, news)
        if stop.frame is None:
            self._let_go(stop.order)
        for order in self._ledger.broken():
            self._let_go(order)

    def _put(self, box: str | None, frame: Frame | None, news: News) -> None:  # noqa: ARG002
        self._pending.append(news)

    def _note(self, news: Iterable[News]) -> None:
        self._pending.extend(news)

    def _look_at_futures(self) -> None:
        """Process tasks that ended in Dask, after all news that arrived before.

        Such an end takes effect at the next listing: the present one may be older, and contain a host that
        was gone when Dask ended the order. Then the host is removed first, and gets no order in between.
        """
        had_ended, self._has_ended = self._has_ended, set()
        for order, future in list(self._futures.items()):
            if self._ledger.box_of(order) is None:
                self._let_go(order)
            elif future.status != "pending":
                self._has_ended.add(order)
                if order in had_ended:
                    self._came.put(("ended", (order, f"Dask ended it: {future.status}")))

    def _let_go(self, order: str) -> None:
        """Release an order in Dask, which also ends it on the host."""
        future = self._futures.pop(order, None)
        if future is not None:
            future.release()

    # ------------------------------------------------------------------ in other threads

    def _watch_workers(self) -> None:
        while not self._closing.is_set():
            try:
                self._look_around()
            except _TROUBLE:
                pass  # the scheduler is away: Dask itself retries for some minutes
            except Exception as error:
                if not self._closing.is_set():
                    self._came.put(("over", f"the fleet at {self._address} cannot be followed: {error!r}"))
                return
            if self._client.status == "closed" and not self._closing.is_set():
                self._came.put(("over", f"the scheduler at {self._address} was away for {PATIENCE}"))
                return
            self._closing.wait(LOOK_S)

    def _look_around(self) -> None:
        found = self._look()
        # A new scheduler does not have the topic. It may have started during the listing, so the topic is
        # created after it, and before its hosts get orders.
        self._client.subscribe_topic(self._topic, self._event)
        self._came.put(("look", found))
        if self._finishing.is_set() and self._to_finish:
            self._send_finish()

    def _event(self, event: tuple[float, Any]) -> None:
        reported = parse_event(event[1])
        if reported is not None:
            self._came.put(("event", (reported, event[1].get("worker"))))

    def _look(self) -> list[Seen]:
        return [replace(one, facts=self._facts_of(one.facts)) for one in self._looking.boxes()]

    def _send_finish(self) -> None:
        keys_of: dict[str, list[str]] = {}
        for order, address in self._to_finish.items():
            keys_of.setdefault(address, []).append(key_of(self._topic, order))
        self._client.run_on_scheduler(send_finish, keys_of)
        self._to_finish = {}  # sending it twice does no harm, not sending it does


class VirtualDaskFleet(DaskFleet):
    """A fleet that simulates: time is that of the hosts, and advances with their news."""

    def __init__(self, *args: Any, began_wall_s: float, **named: Any) -> None:
        super().__init__(*args, **named)
        self._virtual = VirtualClock(began_wall_s, 0.0)
        self._clock = self._virtual
        self._ordered = VirtualOrder()

    def news(self, until_s: float) -> News | None:
        """Return the earliest news of the hosts, however long that takes: simulated waiting is free."""
        while not self._pending:
            earliest = self._ordered.next(self._ledger.busy_boxes())
            if earliest is not None:
                at_wall_s, news = earliest
                self._virtual.sleep_until(self._virtual.monotonic_s() + at_wall_s - self._virtual.wall_s())
                return news
            if self._take(LOOK_S) in ("", "look") and not self._pending:
                if not self._ledger.busy_boxes():
                    self._virtual.sleep_until(until_s)
                return None
        return self._pending.popleft()

    def _put(self, box: str | None, frame: Frame | None, news: News) -> None:
        if frame is None or box is None:
            self._pending.append(news)
        else:
            self._ordered.add(box, frame.at_wall_s, news)


def ask_host(address: str, security: Any, worker: str, asked: bytes) -> dict[str, str]:
    """Return the answer of the host of *worker* to the query *asked*.

    Raises:
        TunerError: the error that the host found.
        MeasurementError: the host has left.
    """
    topic, said = f"tuner-{uuid.uuid4().hex}", queue.SimpleQueue[dict[str, str]]()
    with Client(address, security=security, set_as_default=False, name="tuner") as client:
        client.subscribe_topic(topic, lambda event: said.put(event[1]["facts"]))
        future = client.submit(
            describe, topic, asked, workers=[worker], allow_other_workers=False, retries=0, pure=False
        )
        deadline_s = time.monotonic() + ANSWERS_WITHIN_S
        while time.monotonic() < deadline_s:
            has_ended = future.status != "pending"  # its answer has arrived by then
            with suppress(queue.Empty):
                return said.get(timeout=LOOK_S)
            if has_ended:
                break
        error = future.exception() if future.status == "error" else None
        if isinstance(error, TunerError):
            raise error
        raise MeasurementError(f"the host at {worker} gave no answer", hint="Try again.") from error
