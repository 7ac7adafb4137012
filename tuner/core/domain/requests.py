"""The results of requests that a feeder sent, and their latencies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from math import ceil, inf
from typing import Any, TypeVar

# How long requests took: a histogram of fixed size that keeps 3 significant figures from 1 us to 1 h.
#
# Buckets are log-linear, as in HdrHistogram: 1 ns wide up to 2.048 us, and 1024 in each octave above. From 1
# us on a bucket is at most 1/1024 of its latency wide. 33 421 counts hold every latency up to an hour.

_PER_OCTAVE_BITS = 10
BUCKET_RATIO = 2.0**-_PER_OCTAVE_BITS  #: width of a bucket to its latency, at most; from 1 us on
LONGEST_NS = 3_600_000_000_000  #: what takes longer is counted in the last bucket, which has no upper end


def bucket_of(latency_ns: int) -> int:
    """The index of the bucket that *latency_ns* is counted in; less than 0 counts as 0."""
    if latency_ns < 2048:
        return max(latency_ns, 0)
    if latency_ns > LONGEST_NS:
        latency_ns = LONGEST_NS
    shift = latency_ns.bit_length() - _PER_OCTAVE_BITS - 1
    return (shift << _PER_OCTAVE_BITS) + (latency_ns >> shift)


N_BUCKETS = bucket_of(LONGEST_NS) + 1


def bucket_limits_ns(bucket: int) -> tuple[float, float]:
    """The least latency in *bucket*, and the least that is above it: ``inf`` for the last one."""
    if not 0 <= bucket < N_BUCKETS:
        raise ValueError(f"there is no bucket {bucket}, only 0 to {N_BUCKETS - 1}")
    shift = max(0, (bucket >> _PER_OCTAVE_BITS) - 1)
    low = (bucket - (shift << _PER_OCTAVE_BITS)) << shift
    return low, inf if bucket == N_BUCKETS - 1 else low + (1 << shift)


@dataclass(frozen=True, slots=True)
class LatencyQuantile:
    """A quantile of what was recorded, as exactly as its bucket tells: ``low_s <= it < high_s``."""

    low_s: float
    high_s: float  #: inf: longer than an hour

    @property
    def error_s(self) -> float:
        """How far ``low_s`` may be below it; from 1 us to 1 h at most 0.1 % of it."""
        return self.high_s - self.low_s


@dataclass(frozen=True, slots=True)
class Latencies:
    """How many requests took how long, up to one moment or between two."""

    n_by_bucket: Mapping[int, int] = field(
        default_factory=dict
    )  #: buckets that are not empty, shortest first

    @classmethod
    def of(cls, counts: Sequence[int]) -> Latencies:
        """What *counts*, one for each bucket, hold now."""
        return cls({bucket: n for bucket, n in enumerate(counts) if n})

    @property
    def n_recorded(self) -> int:
        """Requests in it."""
        return sum(self.n_by_bucket.values())

    def merged(self, other: Latencies) -> Latencies:
        """What both hold together."""
        buckets = sorted({*self.n_by_bucket, *other.n_by_bucket})
        return Latencies({bucket: self._in(bucket) + other._in(bucket) for bucket in buckets})

    def since(self, earlier: Latencies) -> Latencies:
        """What was recorded after *earlier*, an older snapshot of the same counts.

        Raises:
            ValueError: *earlier* holds more somewhere: it is not an older snapshot.
        """
        if any(n > self._in(bucket) for bucket, n in earlier.n_by_bucket.items()):
            raise ValueError("counts fell: these are no two snapshots of one histogram")
        later = {bucket: n - earlier._in(bucket) for bucket, n in self.n_by_bucket.items()}
        return Latencies({bucket: n for bucket, n in later.items() if n})

    def quantile(self, share: float) -> LatencyQuantile:
        """The shortest latency that a *share* (0..1) of all requests did not exceed (the nearest rank).

        Raises:
            ValueError: nothing was recorded, or *share* is none.
        """
        if not 0 <= share <= 1:
            raise ValueError(f"a share is between 0 and 1, got {share}")
        return self.at_rank(max(1, ceil(share * self.n_recorded)))

    def at_rank(self, rank: int) -> LatencyQuantile:
        """The latency of the *rank*-th shortest, from 1 on.

        Raises:
            ValueError: so many were not recorded.
        """
        n_below = 0
        for bucket, n in self.n_by_bucket.items():
            n_below += n
            if n_below >= rank:
                low_ns, high_ns = bucket_limits_ns(bucket)
                return LatencyQuantile(low_ns / 1e9, high_ns / 1e9)
        raise ValueError("nothing was recorded" if not n_below else f"there is no {rank} of {n_below}")

    def n_within(self, seconds: float) -> int:
        """Requests that took no longer than that, as exactly as the buckets tell."""
        limit = bucket_of(int(seconds * 1e9))
        return sum(n for bucket, n in self.n_by_bucket.items() if bucket <= limit)

    def _in(self, bucket: int) -> int:
        return self.n_by_bucket.get(bucket, 0)


# How the connections of the load generator spread over the worker processes of a layout.

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


LONGEST_S = LONGEST_NS / 1e9  #: a latency of that much stands for all that are longer, or have no end


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests that came to their end, up to one moment or between two; and those that did not."""

    latencies: Latencies = field(default_factory=Latencies)  #: of those that were answered well
    n_failed: int = 0  #: answered badly, not answered, or not even sent
    rate_per_s: float | None = None  #: so many become due a second; None: closed loop
    #: answered well a second, in the closed loop from which the rate was derived; None: it was not
    capacity_per_s: float | None = None
    unfinished: Latencies = field(
        default_factory=Latencies
    )  #: how long those under way at the end had waited
    unfinished_before: Latencies = field(default_factory=Latencies)  #: and those under way at the beginning
    spread: ConnectionSpread | None = None  #: of their connections over the workers; None: not looked at

    @property
    def n_total(self) -> int:
        """All that came to their end."""
        return self.latencies.n_recorded + self.n_failed

    @property
    def n_due(self) -> int:
        """All that became due."""
        return self.n_total + self.unfinished.n_recorded - self.unfinished_before.n_recorded

    @property
    def failed_ratio(self) -> float | None:
        """The share (0..1) that failed; None: there were no requests."""
        return self.n_failed / self.n_total if self.n_total else None

    def latency_s(self, share: float) -> float | None:
        """The time within which a *share* (0..1) of all requests was answered well.

        What failed counts as taking longer than anything: a service that answers half of its requests at once
        and refuses the others has no p95 to be proud of. Nor has one that answers no more: a request under
        way at the end counts as taking longer than it has waited, and not at all for longer times, of which
        it tells nothing yet. One that had waited longer than a time at the beginning was told of before, and
        does not count again. So each counts once for each time: when it is answered within it, or when it has
        waited that long; and requests of one look after the other add up.

        Returns:
            The upper end of the histogram's bucket, at most 0.1 % too much; ``LONGEST_S`` when it was longer
            or so many failed; the longest wait, where only such requests tell of it; None when there are too
            few requests for one to lie beyond it (p95: 20).
        """
        if self.n_due * (1 - share) < 1:
            return None
        ended, after, before = (
            one.n_by_bucket for one in (self.latencies, self.unfinished, self.unfinished_before)
        )
        n_within, n_beyond = 0, self.n_due
        last = None
        for last in sorted({*ended, *after, *before}):
            n_within += ended.get(last, 0)
            n_beyond += before.get(last, 0) - ended.get(last, 0) - after.get(last, 0)
            n_reported = n_within + max(0, n_beyond)
            if n_reported and n_within >= ceil(share * n_reported):
                return _high_s(last)
        return LONGEST_S if last is None or n_beyond > 0 else _high_s(last)

    def n_beyond(self, seconds: float) -> int:
        """How many were found to take longer than that: they failed, or ended or waited that long."""
        ended, after, before = (
            one.n_recorded - one.n_within(seconds)
            for one in (self.latencies, self.unfinished, self.unfinished_before)
        )
        return max(0, self.n_failed + ended + after - before)

    def since(self, earlier: Requests) -> Requests:
        """Those that came to their end after *earlier*, an older snapshot; at the rate there is now.

        Raises:
            ValueError: it is not an older snapshot.
        """
        latencies = self.latencies.since(earlier.latencies)
        return replace(
            self,
            latencies=latencies,
            n_failed=self.n_failed - earlier.n_failed,
            unfinished_before=earlier.unfinished,
            spread=_changed(self.spread, earlier.spread, ConnectionSpread.since),
        )

    def merged(self, other: Requests) -> Requests:
        """Both together; the rate is that of the first."""
        return replace(
            self,
            latencies=self.latencies.merged(other.latencies),
            n_failed=self.n_failed + other.n_failed,
            unfinished=self.unfinished.merged(other.unfinished),
            unfinished_before=self.unfinished_before.merged(other.unfinished_before),
            spread=_changed(self.spread, other.spread, ConnectionSpread.merged) or other.spread,
        )


def _changed(
    spread: ConnectionSpread | None,
    other: ConnectionSpread | None,
    by: Callable[[ConnectionSpread, ConnectionSpread], ConnectionSpread],
) -> ConnectionSpread | None:
    """*spread* changed by *other*, where both are known."""
    return spread if spread is None or other is None else by(spread, other)


def _high_s(bucket: int) -> float:
    return min(bucket_limits_ns(bucket)[1] / 1e9, LONGEST_S)
