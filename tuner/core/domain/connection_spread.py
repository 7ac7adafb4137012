"""How the connections of the load generator spread over the worker processes of a layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, TypeVar

Held = TypeVar("Held")
STARVED_RATIO = 0.05  #: of the threads' time: below it even connections would bring less than 5 %


@dataclass(frozen=True, slots=True)
class ConnectionSpread:
    """Sums over looks at the connections; each look stands for the time until the next one."""

    seconds: float = 0.0  #: looked at
    #: thread-seconds that a worker's threads had no request for while another worker had more than threads
    starved_s: float = 0.0
    connection_s: tuple[float, ...] = ()  #: connections x seconds of each worker process
    waiting_s: float = 0.0  #: connections x seconds that no worker had accepted

    @property
    def per_worker(self) -> tuple[float, ...]:
        """How many connections each worker had on average, the most first; empty: not seen."""
        if not self.seconds:
            return ()
        return tuple(sorted((held / self.seconds for held in self.connection_s), reverse=True))

    def starved_ratio(self, total_threads: int) -> float | None:
        """The share (0..1) of the threads' time that uneven connections left without work; None: not seen."""
        return self.starved_s / (self.seconds * total_threads) if self.seconds else None

    def since(self, earlier: ConnectionSpread) -> ConnectionSpread:
        """What was seen after *earlier*."""
        held = zip_longest(self.connection_s, earlier.connection_s, fillvalue=0.0)
        return ConnectionSpread(
            self.seconds - earlier.seconds,
            self.starved_s - earlier.starved_s,
            tuple(now - before for now, before in held),
            self.waiting_s - earlier.waiting_s,
        )

    def merged(self, other: ConnectionSpread) -> ConnectionSpread:
        """Both together; the workers with the most connections are taken for the same ones."""
        held = zip_longest(
            sorted(self.connection_s, reverse=True), sorted(other.connection_s, reverse=True), fillvalue=0.0
        )
        return ConnectionSpread(
            self.seconds + other.seconds,
            self.starved_s + other.starved_s,
            tuple(one + another for one, another in held),
            self.waiting_s + other.waiting_s,
        )


def n_starved(busy: Sequence[int], threads: int) -> int:
    """How many threads have nothing to do because requests are where there are too many.

    Args:
        busy: requests under way in each worker.
        threads: of each worker.
    """
    lacking = sum(max(0, threads - n) for n in busy)
    beyond = sum(max(0, n - threads) for n in busy)
    return min(lacking, beyond)


def surplus(held: Sequence[Sequence[Held]]) -> list[Held]:
    """Which connections to open anew so that each worker may have as many as the others, one more or less.

    *held* are those of each worker; those that it has had for longest come first and stay.
    """
    if not held:
        return []
    each, left = divmod(sum(map(len, held)), len(held))
    moved: list[Held] = []
    for n, own in enumerate(sorted(held, key=len, reverse=True)):
        moved += own[each + (n < left) :]
    return moved


def uneven_ratio(spread: ConnectionSpread, total_threads: int) -> float | None:
    """Return the share of thread time without a request; None: connections are even enough."""
    starved = spread.starved_ratio(total_threads)
    return None if starved is None or starved < STARVED_RATIO else starved


def spread_to_json(spread: ConnectionSpread) -> list[Any]:
    """*spread* as a file keeps it: JSON that `spread_from_json` reads back."""
    return [spread.seconds, spread.starved_s, spread.waiting_s, [*spread.connection_s]]


def spread_from_json(kept: Any) -> ConnectionSpread:
    """What `spread_to_json` gave.

    Raises:
        ValueError: *kept* is something else.
    """
    match kept:
        case [int() | float(), int() | float(), int() | float(), list(held)]:
            if all(isinstance(one, int | float) for one in held):
                seconds, starved_s, waiting_s, _ = kept
                return ConnectionSpread(seconds, starved_s, tuple(held), waiting_s)
    raise ValueError(f"no spread of connections: {str(kept)[:60]}")
