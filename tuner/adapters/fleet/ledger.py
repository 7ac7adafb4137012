"""Coordinator's record of the hosts, of their orders, and of the news that are not yet reported.

Dask may run a task twice, drop a message, or bring back a worker that was given up. Still, the news of an
order are reported once, in order, and end with one result: ended, refused or lost.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Literal

from distributed import Client

from tuner.adapters.fleet.box_worker import FACTS, FINISH_ORDERS
from tuner.adapters.fleet.frames import Frame, OrderEvent, unpack_news
from tuner.core.domain.fleet import (
    Began,
    BoxCame,
    BoxFacts,
    BoxWent,
    Ended,
    Lost,
    News,
    Order,
    Refused,
    Warned,
)
from tuner.core.domain.provenance import Provenance
from tuner.core.errors import ConfigError
from tuner.core.messages import Message
from tuner.core.messages.fleet import box_twice


@dataclass(frozen=True, slots=True)
class Seen:
    """A worker of the scheduler."""

    address: str
    worker: str  #: name of the worker, different after each start
    facts: BoxFacts
    identity: tuple[str, ...]  #: identifies the machine, even under another name


@dataclass(slots=True)
class _Under:
    """An order that was sent."""

    box: str
    worker: str
    address: str
    n: int = 0  #: number of events received
    has_started: bool = False
    #: open: the end is awaited. over: the end was received. given-up: the coordinator needs no result.
    #: broken: events are missing or unreadable
    state: Literal["open", "over", "given-up", "broken"] = "open"
    why: str | None = None  #: reason for the loss, if known


@dataclass(slots=True)
class Ledger:
    """The coordinator's record of its hosts; all calls come from one thread."""

    _boxes: dict[str, Seen] = field(default_factory=dict)  #: hosts by name
    _gone: set[str] = field(default_factory=set)  #: workers that will not come back
    _orders: dict[str, _Under] = field(default_factory=dict)
    _said: set[tuple[str, str, str]] = field(default_factory=set)  #: warnings before a launch

    # ------------------------------------------------------------------ calls of the coordinator

    def sent(self, order: Order) -> Seen | None:
        """Record *order*; return its host, or None if the host has left and the order is lost."""
        seen = self._boxes.get(order.place.box)
        if seen is not None:
            self._orders[order.id] = _Under(order.place.box, seen.worker, seen.address)
        return seen

    def give_up(self, order: str) -> bool:
        """Give *order* up, so that its news are ignored; return False if it has ended already."""
        under = self._orders.get(order)
        if under is None or under.state != "open":
            return False
        under.state = "given-up"
        return True

    def open_orders(self) -> Mapping[str, str]:
        """Return the orders that have not ended, each with the address of its worker."""
        return {name: under.address for name, under in self._orders.items() if under.state == "open"}

    def box_of(self, order: str) -> str | None:
        """Return the host of an order that has not ended."""
        under = self._orders.get(order)
        return None if under is None else under.box

    @property
    def n_boxes(self) -> int:
        """Number of hosts present."""
        return len(self._boxes)

    def busy_boxes(self) -> frozenset[str]:
        """Hosts with an open order."""
        return frozenset(under.box for under in self._orders.values() if under.state == "open")

    # ------------------------------------------------------------------ events

    def look(self, found: Sequence[Seen]) -> Iterator[News]:
        """Update the hosts from the scheduler's workers, and yield the resulting news."""
        now = {one.worker: one for one in found if one.worker not in self._gone}
        for seen in list(self._boxes.values()):
            if seen.worker not in now:
                yield from self._went(seen, "its worker is gone, or does not answer")
        for one in sorted(now.values(), key=lambda one: one.facts.name):
            if one.worker not in {seen.worker for seen in self._boxes.values()}:
                yield from self._came(one)

    def heard(self, stop: OrderEvent, address: str | None) -> Iterator[tuple[Frame | None, News]]:
        """Process an event of a host at *address*; yield its news with their frame."""
        under = self._orders.get(stop.order)
        if under is None or under.address != address or stop.n < under.n:
            return  # of a duplicate, or of an order that has ended
        if stop.n > under.n and under.state == "open":
            under.state, under.why = "broken", "some of its messages were lost"
        under.n = stop.n + 1
        if stop.frame is None:
            yield from ((None, news) for news in self._is_free(stop.order, stop.why))
        elif under.state == "open":
            try:
                news = unpack_news(stop.frame.data)
            except Exception as error:  # unpickling data of others may raise any exception
                under.state, under.why = "broken", f"its message cannot be read: {error!r}"
            else:
                yield from ((stop.frame, one) for one in self._news(under, news))

    def ended(self, order: str, why: str) -> Iterator[News]:
        """Record that Dask has ended *order*, and yield the resulting news."""
        under = self._orders.get(order)
        if under is None or under.state == "given-up":  # its host reports when it is free
            return
        del self._orders[order]
        if under.state != "over":
            yield Lost(order, under.why or why)

    def broken(self) -> list[str]:
        """Return orders with missing news: their hosts are to stop them."""
        return [order for order, under in self._orders.items() if under.state == "broken"]

    # ------------------------------------------------------------------ of these

    def _came(self, one: Seen) -> Iterator[News]:
        name = one.facts.name
        twin = next((seen for seen in self._boxes.values() if seen.identity == one.identity), None)
        if twin is not None or name in self._boxes:
            other = name if twin is None else twin.facts.name
            yield from self._warn(box_twice(other), name)
            return
        self._boxes[name] = one
        yield BoxCame(one.facts)

    def _went(self, seen: Seen, why: str) -> Iterator[News]:
        name = seen.facts.name
        del self._boxes[name]
        self._gone.add(seen.worker)
        yield BoxWent(name, why)
        for order, under in list(self._orders.items()):
            if under.worker == seen.worker:
                del self._orders[order]
                if under.state in ("open", "broken"):
                    yield Lost(order, why)

    def _is_free(self, order: str, why: str | None) -> Iterator[News]:
        under = self._orders.pop(order)
        if under.state == "given-up":
            if under.box in self._boxes and under.box not in self.busy_boxes():  # else it has another order
                yield BoxCame(self._boxes[under.box].facts)
        elif under.state != "over":
            yield Lost(order, under.why or why or "its process ended without a report")

    def _news(self, under: _Under, news: News) -> Iterator[News]:
        match news:
            case Warned(box, slug, text) if not under.has_started:  # repeated at each launch
                yield from self._warn(Message(slug, text), box)
                return
            case Lost(_, why):  # reported once its process has ended
                under.why = why
                return
            case Began():
                under.has_started = True
            case Ended() | Refused():
                under.state = "over"
            case _:
                pass
        yield news

    def _warn(self, message: Message, box: str) -> Iterator[News]:
        """Yield a warning, each one once."""
        if (box, *message) not in self._said:
            self._said.add((box, *message))
            yield Warned(box, *message)


# List of the hosts of a scheduler, as a client of it.


class Looking:
    """Lists the hosts repeatedly; the facts of each host are requested once."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._said: dict[str, Mapping[str, Any]] = {}  #: facts by worker, for the workers in the last list

    def boxes(self) -> list[Seen]:
        """Return the present hosts; other workers of the scheduler are left out.

        Raises:
            ConfigError: this is not the scheduler of a fleet.
        """
        began_s = time.time()
        found = self._client.run_on_scheduler(workers_of)
        if not found["is_ours"]:
            raise ConfigError(
                "this scheduler repeats failed tasks, so launches would count twice",
                hint="Start one with tuner fleet scheduler.",
            )
        ahead_s = found["wall_s"] - (began_s + time.time()) / 2  # the scheduler's clock minus ours
        there = {worker for _, worker, _ in found["workers"]}
        said = {worker: facts for worker, facts in self._said.items() if worker in there}
        if unknown := there - said.keys():
            said |= self._client.run_on_scheduler(describe_workers, unknown)
        self._said = said
        return [
            Seen(
                address,
                worker,
                _facts(said[worker], ahead_s - behind_s),
                tuple(map(str, said[worker]["identity"])),
            )
            for address, worker, behind_s in found["workers"]
            if worker in said  # other workers have left
        ]


def workers_of(dask_scheduler: Any) -> dict[str, Any]:
    """Return what a coordinator reads each second; runs in the scheduler, equal in all versions."""
    return {
        "is_ours": dask_scheduler.allowed_failures == 0,
        "wall_s": time.time(),
        "workers": [
            (one.address, one.server_id, one.time_delay)
            for one in dask_scheduler.workers.values()
            if FACTS in one.extra
        ],
    }


def describe_workers(workers: Set[str], dask_scheduler: Any) -> dict[str, Any]:
    """Return the facts that the present *workers* report; runs in the scheduler."""
    return {
        one.server_id: one.extra[FACTS]
        for one in dask_scheduler.workers.values()
        if one.server_id in workers and FACTS in one.extra
    }


def send_finish(keys_of: Mapping[str, list[str]], dask_scheduler: Any) -> None:
    """Ask workers, by address, to end orders after the current window; runs in the scheduler.

    The request takes the way of orders: it waits for no host, and reaches hosts behind a tunnel.
    """
    for address, keys in keys_of.items():
        if address in dask_scheduler.stream_comms:
            dask_scheduler.worker_send(address, {"op": FINISH_ORDERS, "keys": keys})


def _facts(said: Mapping[str, Any], ahead_s: float) -> BoxFacts:
    return BoxFacts(
        str(said["name"]), float(said["cores"]), Provenance.from_mapping(said["provenance"]), ahead_s
    )
