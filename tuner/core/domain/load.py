"""The load on layouts: clients of a closed loop, the rate of an open loop, waiting messages.

The number of clients is the same for all requested layouts, and enough to load each. A layout by which a grid
grows has proportionally more clients for its threads.

A client has one request under way at a time. Servers take connections as they come, so requests spread over
the worker processes at random: with few clients one process is idle while another has a queue. Two processes
of two threads and 8 clients reach 7/8 of their capacity (a closed network of two stations, Gordon and
Newell 1967), for every service. So the number is doubled until throughput no longer rises.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from tuner.core.domain.layout import Layout, parse_layout
from tuner.core.domain.stored_config import StoredConfig
from tuner.core.errors import ConfigError
from tuner.core.text.figures import parse_duration, render_exact_duration

# The time for which clients of a closed loop keep a connection, and the worker process of a connection.
#
# In a server with several processes the kernel chooses the process that accepts a connection, and it is
# not fair: of 8 connections that were opened at once one of two processes of gunicorn took all. This affects
# a closed loop more than users, because the other process then has no requests. At a load beyond their
# capacity all processes have a queue, even if uneven: that is what *even* measures.

_HINT = "Write even, fresh, kept, or reuse: N for at most N requests over one connection."


@dataclass(frozen=True, slots=True)
class Connections:
    """The treatment of connections."""

    reuse: int | None = None  #: most requests over one connection; None: as many as the server allows
    is_even: bool = False  #: connections are reopened until each worker process has equally many


EVEN = Connections(is_even=True)  #: kept open, and spread evenly: loads every process
FRESH = Connections(reuse=1)  #: a new connection for each request, as from a proxy without keep-alive
KEPT = Connections()  #: kept open by the process that accepts them
_NAMES = {"even": EVEN, "fresh": FRESH, "kept": KEPT}


def parse_connections(text: str) -> Connections:
    """Read ``even``, ``fresh``, ``kept`` or ``reuse: N``.

    Raises:
        ConfigError: *text* is none of them.
    """
    compact = text.strip().lower().replace(" ", "")
    if compact in _NAMES:
        return _NAMES[compact]
    match = re.fullmatch(r"reuse[:=]?([1-9][0-9]{0,8})", compact, re.ASCII)
    if match is None:
        raise ConfigError(f"invalid connections {text!r}", hint=_HINT)
    return Connections(reuse=int(match[1]))


def render_connections(connections: Connections) -> str:
    """Return the text that `parse_connections` reads back."""
    for name, one in _NAMES.items():
        if one == connections:
            return name
    return f"reuse: {connections.reuse}"


CLIENTS_PER_THREAD = 2  #: first number of clients in a search: one request is in work while the other waits
MOST_CLIENTS = 1024  #: largest number of clients in a search
RISE_RATIO = 0.02  #: the search ends when doubling the clients gains less
_NEARLY_TWICE = 1.8


@dataclass(frozen=True, slots=True)
class TriedClients:
    """The throughput with a number of clients."""

    clients: int
    per_s: float  #: successful answers per second


@dataclass(frozen=True, slots=True)
class ClientSearchResult:
    """The number of clients of a study, and the measurements behind it."""

    clients: int
    layout: str  #: layout that was measured
    tried: tuple[TriedClients, ...]
    saturates: bool  #: False: the search ended before doubling stopped gaining, for the reason in *why*
    why: str = ""


def first_clients(layouts: Iterable[Layout]) -> int:
    """Return the first number of clients of a search, which is final if there is no search."""
    return CLIENTS_PER_THREAD * max(layout.total_threads for layout in layouts)


def hardest_to_load(layouts: Sequence[Layout]) -> Layout:
    """Return the layout that needs the most clients: the most threads, of these the most processes.

    Each thread needs its own request, and more processes spread requests less evenly.
    """
    return max(layouts, key=lambda layout: (layout.total_threads, layout.processes))


def choose(tried: Sequence[TriedClients]) -> int:
    """Return the number with the higher throughput of the last two."""
    return max(tried[-2:], key=lambda one: one.per_s).clients


def has_risen(tried: Sequence[TriedClients]) -> bool:
    """Return whether the last doubling gained `RISE_RATIO` or more; true for a single try."""
    return len(tried) < 2 or tried[-1].per_s >= (1 + RISE_RATIO) * tried[-2].per_s


def clients_for(layout: Layout, found: ClientSearchResult) -> int:
    """Return the number of clients of *layout* for a search result of another layout.

    A layout with more threads has proportionally more clients. One with fewer threads has equally many.
    """
    more = max(1.0, layout.total_threads / parse_layout(found.layout).total_threads)
    return ceil(found.clients * more)


def requests_at_once(found: ClientSearchResult) -> float | None:
    """Estimate the number of requests that each process works on at once, by Little's law; None: unknown.

    The smallest tried number of clients gives the time of a request that never waits, which requires that
    the first doubling nearly doubled throughput.
    """
    if len(found.tried) < 3 or found.tried[1].per_s < _NEARLY_TWICE * found.tried[0].per_s:
        return None
    alone_s = found.tried[0].clients / found.tried[0].per_s
    most_per_s = max(one.per_s for one in found.tried)
    return most_per_s * alone_s / parse_layout(found.layout).processes


def render_client_search(found: ClientSearchResult) -> str:
    """Convert *found* to JSON for a study's provenance."""
    return json.dumps(
        {
            "clients": found.clients,
            "layout": found.layout,
            "tried": [[one.clients, round(one.per_s, 3)] for one in found.tried],
            "saturates": found.saturates,
            "why": found.why,
        }
    )


def parse_client_search(kept_text: str | None, n_clients: int | None) -> ClientSearchResult | None:
    """Read the JSON of `render_client_search`, if it matches *n_clients* of the settings.

    None: there was no search, the user has set another number since, or the JSON is invalid.
    """
    try:
        kept: Any = json.loads(kept_text or "null")
        tried = tuple(TriedClients(int(clients), float(per_s)) for clients, per_s in kept["tried"])
        parse_layout(kept["layout"])
        found = ClientSearchResult(
            int(kept["clients"]), kept["layout"], tried, kept["saturates"] is True, kept["why"]
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return found if found.clients == n_clients else None


# The rate of requests: a number, a share of a layout's capacity, or the highest rate that keeps a p95.


MOST_PER_S = 1e6
P95 = 0.95
N_TRIED = 6  #: number of rates in a search, which gives the result to 1/64 of the capacity
_RATE_HINT = "Write requests per second, as 200; a share of each layout's capacity, as 70%; or p95=200ms."


@dataclass(frozen=True, slots=True)
class Share:
    """A share of a launch's throughput in a closed loop."""

    ratio: float  #: share of the capacity, above 0 and below 1


@dataclass(frozen=True, slots=True)
class WithinP95:
    """The highest rate at which 95 % of the requests are answered within a time."""

    p95_s: float


Pace = Share | WithinP95  #: rule from which each launch derives its rate


@dataclass(frozen=True, slots=True)
class TriedRate:
    """A rate that was tried, as a share of the capacity."""

    ratio: float
    kept: bool  #: whether the p95 limit was kept


def parse_rate(text: str) -> float | Pace:
    """Read ``200``, ``70%`` or ``p95=200ms``.

    Raises:
        ConfigError: it is none of them.
    """
    compact = text.strip().lower().replace(" ", "")
    if compact.startswith("p95="):
        seconds = parse_duration(compact.removeprefix("p95="))
        if not seconds:
            raise ConfigError(f"{text!r} leaves no time at all", hint=_RATE_HINT)
        return WithinP95(seconds)
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(%|/s)?", compact, re.ASCII)
    if match is None:
        raise ConfigError(f"{text!r} is no rate", hint=_RATE_HINT)
    if match[2] == "%":
        return _share(text, float(f"{float(match[1]) / 100:.12g}"))
    return checked_rate(float(match[1]))


def checked_rate(per_s: float) -> float:
    """Return the rate unchanged; ConfigError if it is not above 0, or more than `MOST_PER_S`."""
    if not 0 < per_s <= MOST_PER_S:
        raise ConfigError(
            f"a rate should be greater than 0 and at most {MOST_PER_S:.0f}/s, got {per_s:g}", hint=_RATE_HINT
        )
    return per_s


def render_rate(rate: float | Pace) -> float | str:
    """Return the value that ``parse_rate`` reads back exactly; a number stays a number."""
    if isinstance(rate, Share):
        return f"{100 * rate.ratio:.12g}%"
    if isinstance(rate, WithinP95):
        return f"p95={render_exact_duration(rate.p95_s)}"
    return rate


def stored_rate(config: StoredConfig) -> float | Pace | None:
    """Return the rate in a study's settings; None: there is none, or no requests are sent."""
    rate: str | float | None = config.service.feeder.get("rate")
    return parse_rate(rate) if isinstance(rate, str) else rate


def next_ratio(tried: Sequence[TriedRate]) -> float | None:
    """Return the next share of the capacity to try for the highest that keeps the p95; None: it is found.

    Bisection from half the capacity on: a share that keeps the p95 is assumed to keep it at every lower rate.
    The capacity itself is never tried, because its queue grows without end.
    """
    if len(tried) >= N_TRIED:
        return None
    low = max((one.ratio for one in tried if one.kept), default=0.0)
    high = min((one.ratio for one in tried if not one.kept and one.ratio > low), default=1.0)
    return (low + high) / 2


def found_ratio(tried: Sequence[TriedRate]) -> float:
    """Return the highest share that kept the p95; if none did, the lowest that was tried."""
    kept = [one.ratio for one in tried if one.kept]
    return max(kept) if kept else min(one.ratio for one in tried)


def _share(text: str, ratio: float) -> Share:
    if not 0 < ratio < 1:
        raise ConfigError(
            f"{text!r}: at its whole capacity a layout falls behind without end; a share is above 0 and"
            " below 100 %",
            hint=_RATE_HINT,
        )
    return Share(ratio)


# The number of messages that wait for a layout, so that its queue never runs dry.


FEWEST_WAITING = 5_000
AHEAD_S = 20.0  #: seconds of work at the best measured rate that should wait in the queue
PREFETCHED = 8  #: messages prefetched by each thread: twice Celery's default
MOST_WAITING_BYTES = 256 * 2**20  #: largest size of the messages that wait, without their ids
_RATE_OVER_S = 2.0


def wanted_backlog(best_per_s: float, n_threads: int, message_bytes: float) -> int:
    """Return the number of messages that should wait.

    Args:
        best_per_s: the best measured rate of any layout, messages/s; 0 before the first.
        n_threads: of the layout, in all.
        message_bytes: mean size; large messages wait in smaller numbers, but never fewer than are prefetched.
    """
    in_reach = PREFETCHED * n_threads
    wanted = max(FEWEST_WAITING, round(AHEAD_S * best_per_s), in_reach)
    return max(min(wanted, int(MOST_WAITING_BYTES / max(1.0, message_bytes))), in_reach)


class BestRate:
    """The highest rate of a growing total, over 2 s or a little more."""

    def __init__(self, best_per_s: float = 0.0) -> None:
        """Start with *best_per_s*, an earlier result."""
        self.per_s = best_per_s
        self._seen: deque[tuple[float, int]] = deque()

    def add(self, at_s: float, total: int) -> None:
        """Add *total* at *at_s* (seconds), in time order."""
        self._seen.append((at_s, total))
        while len(self._seen) > 1 and self._seen[1][0] <= at_s - _RATE_OVER_S:
            self._seen.popleft()
        since_s, before = self._seen[0]
        if at_s - since_s >= _RATE_OVER_S:
            self.per_s = max(self.per_s, (total - before) / (at_s - since_s))
