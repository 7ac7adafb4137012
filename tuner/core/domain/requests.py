"""The results of requests that a feeder sent, and their latencies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from math import ceil, inf
from typing import Any, TypeVar

# Latencies in a histogram of fixed size with 3 significant figures from 1 us to 1 h.
#
# Buckets are log-linear, as in HdrHistogram: 1 ns wide up to 2.048 us, and 1024 in each octave above. From 1
# us on a bucket is at most 1/1024 of its latency wide. 33 421 counts hold every latency up to an hour.

_PER_OCTAVE_BITS = 10
BUCKET_RATIO = 2.0**-_PER_OCTAVE_BITS  #: largest width of a bucket as a share of its latency, from 1 us on
LONGEST_NS = 3_600_000_000_000  #: longer latencies are counted in the last bucket, which has no upper end


def bucket_of(latency_ns: int) -> int:
    """Return the index of the bucket that counts *latency_ns*; less than 0 counts as 0."""
    if latency_ns < 2048:
        return max(latency_ns, 0)
    if latency_ns > LONGEST_NS:
        latency_ns = LONGEST_NS
    shift = latency_ns.bit_length() - _PER_OCTAVE_BITS - 1
    return (shift << _PER_OCTAVE_BITS) + (latency_ns >> shift)


N_BUCKETS = bucket_of(LONGEST_NS) + 1


def bucket_limits_ns(bucket: int) -> tuple[float, float]:
    """Return the least latency in *bucket*, and the least above it: ``inf`` for the last bucket."""
    if not 0 <= bucket < N_BUCKETS:
        raise ValueError(f"there is no bucket {bucket}, only 0 to {N_BUCKETS - 1}")
    shift = max(0, (bucket >> _PER_OCTAVE_BITS) - 1)
    low = (bucket - (shift << _PER_OCTAVE_BITS)) << shift
    return low, inf if bucket == N_BUCKETS - 1 else low + (1 << shift)


@dataclass(frozen=True, slots=True)
class LatencyQuantile:
    """A quantile of recorded latencies, to the precision of its bucket: ``low_s <= it < high_s``."""

    low_s: float
    high_s: float  #: upper end of the bucket; inf: longer than an hour

    @property
    def error_s(self) -> float:
        """The largest possible error of ``low_s``; from 1 us to 1 h at most 0.1 % of it."""
        return self.high_s - self.low_s


@dataclass(frozen=True, slots=True)
class Latencies:
    """Number of requests by latency, up to one moment or between two."""

    #: buckets that are not empty, shortest first
    n_by_bucket: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, counts: Sequence[int]) -> Latencies:
        """Return a snapshot of *counts*, which has one number for each bucket."""
        return cls({bucket: n for bucket, n in enumerate(counts) if n})

    @property
    def n_recorded(self) -> int:
        """The number of requests."""
        return sum(self.n_by_bucket.values())

    def merged(self, other: Latencies) -> Latencies:
        """Return the sum of both."""
        buckets = sorted({*self.n_by_bucket, *other.n_by_bucket})
        return Latencies({bucket: self._in(bucket) + other._in(bucket) for bucket in buckets})

    def since(self, earlier: Latencies) -> Latencies:
        """Return the requests recorded after *earlier*, an older snapshot of the same counts.

        Raises:
            ValueError: *earlier* has a larger count, so it is not an older snapshot.
        """
        if any(n > self._in(bucket) for bucket, n in earlier.n_by_bucket.items()):
            raise ValueError("counts fell: these are no two snapshots of one histogram")
        later = {bucket: n - earlier._in(bucket) for bucket, n in self.n_by_bucket.items()}
        return Latencies({bucket: n for bucket, n in later.items() if n})

    def quantile(self, share: float) -> LatencyQuantile:
        """Return the shortest latency that a *share* (0..1) of all requests did not exceed (nearest rank).

        Raises:
            ValueError: nothing was recorded, or *share* is outside 0..1.
        """
        if not 0 <= share <= 1:
            raise ValueError(f"a share is between 0 and 1, got {share}")
        return self.at_rank(max(1, ceil(share * self.n_recorded)))

    def at_rank(self, rank: int) -> LatencyQuantile:
        """Return the latency of the *rank*-th shortest request, from 1 on.

        Raises:
            ValueError: there are fewer requests.
        """
        n_below = 0
        for bucket, n in self.n_by_bucket.items():
            n_below += n
            if n_below >= rank:
                low_ns, high_ns = bucket_limits_ns(bucket)
                return LatencyQuantile(low_ns / 1e9, high_ns / 1e9)
        raise ValueError("nothing was recorded" if not n_below else f"there is no {rank} of {n_below}")

    def n_within(self, seconds: float) -> int:
        """Return the number of requests of at most *seconds*, to the precision of the buckets."""
        limit = bucket_of(int(seconds * 1e9))
        return sum(n for bucket, n in self.n_by_bucket.items() if bucket <= limit)

    def _in(self, bucket: int) -> int:
        return self.n_by_bucket.get(bucket, 0)


# The distribution of the load generator's connections over the worker processes of a layout.

Held = TypeVar("Held")
#: share of the threads' time; below it, evenly spread connections would gain less than 5 %
STARVED_RATIO = 0.05


@dataclass(frozen=True, slots=True)
class ConnectionSpread:
    """Sums over samples of the connections; each sample stands for the time until the next one."""

    seconds: float = 0.0  #: observed time
    #: thread-seconds without a request, while another worker had more connections than threads
    starved_s: float = 0.0
    connection_s: tuple[float, ...] = ()  #: connections x seconds of each worker process
    waiting_s: float = 0.0  #: connections x seconds that waited for a worker to accept them

    @property
    def per_worker(self) -> tuple[float, ...]:
        """The mean number of connections of each worker, largest first; empty: not measured."""
        if not self.seconds:
            return ()
        return tuple(sorted((held / self.seconds for held in self.connection_s), reverse=True))

    def starved_ratio(self, total_threads: int) -> float | None:
        """Return the share (0..1) of thread time lost to uneven connections; None: not measured."""
        return self.starved_s / (self.seconds * total_threads) if self.seconds else None

    def since(self, earlier: ConnectionSpread) -> ConnectionSpread:
        """Return the sums since *earlier*."""
        held = zip_longest(self.connection_s, earlier.connection_s, fillvalue=0.0)
        return ConnectionSpread(
            self.seconds - earlier.seconds,
            self.starved_s - earlier.starved_s,
            tuple(now - before for now, before in held),
            self.waiting_s - earlier.waiting_s,
        )

    def merged(self, other: ConnectionSpread) -> ConnectionSpread:
        """Add both; workers are matched by their rank in number of connections."""
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
    """Return the number of idle threads that could work on requests queued in other workers.

    Args:
        busy: requests under way in each worker.
        threads: of each worker.
    """
    lacking = sum(max(0, threads - n) for n in busy)
    beyond = sum(max(0, n - threads) for n in busy)
    return min(lacking, beyond)


def surplus(held: Sequence[Sequence[Held]]) -> list[Held]:
    """Return the connections to open anew so that all workers have equally many, plus or minus one.

    *held*: the connections of each worker, oldest first; the oldest stay.
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
    """Convert *spread* to JSON that `spread_from_json` reads back."""
    return [spread.seconds, spread.starved_s, spread.waiting_s, [*spread.connection_s]]


def spread_from_json(kept: Any) -> ConnectionSpread:
    """Read the result of `spread_to_json`.

    Raises:
        ValueError: *kept* has another form.
    """
    match kept:
        case [int() | float(), int() | float(), int() | float(), list(held)]:
            if all(isinstance(one, int | float) for one in held):
                seconds, starved_s, waiting_s, _ = kept
                return ConnectionSpread(seconds, starved_s, tuple(held), waiting_s)
    raise ValueError(f"no spread of connections: {str(kept)[:60]}")


#: a latency of this length stands for all longer ones, and for those without an end
LONGEST_S = LONGEST_NS / 1e9


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests that ended, up to one moment or between two; and those still under way."""

    latencies: Latencies = field(default_factory=Latencies)  #: latencies of successful requests
    n_failed: int = 0  #: requests with a bad answer, with none, or not sent at all
    rate_per_s: float | None = None  #: rate at which requests become due, per second; None: closed loop
    #: throughput per second in the closed loop from which the rate was derived; None: it was not derived
    capacity_per_s: float | None = None
    #: waiting times so far of the requests in flight at the end
    unfinished: Latencies = field(default_factory=Latencies)
    #: waiting times so far of the requests in flight at the beginning
    unfinished_before: Latencies = field(default_factory=Latencies)
    spread: ConnectionSpread | None = None  #: spread of the connections over the workers; None: not observed

    @property
    def n_total(self) -> int:
        """The number of requests that ended."""
        return self.latencies.n_recorded + self.n_failed

    @property
    def n_due(self) -> int:
        """The number of requests that became due."""
        return self.n_total + self.unfinished.n_recorded - self.unfinished_before.n_recorded

    @property
    def failed_ratio(self) -> float | None:
        """The share (0..1) of failed requests; None: there were none."""
        return self.n_failed / self.n_total if self.n_total else None

    def latency_s(self, share: float) -> float | None:
        """Return the time in seconds within which a *share* (0..1) of all requests was answered well.

        A failed request counts as slower than any other, so that a service that refuses half of its requests
        has no low p95. A request under way at the end counts as slower than the time that it has waited, and
        is ignored for longer times. If it had waited longer than a time already at the beginning, an earlier
        period counted it, so it does not count again. So each request counts once for each time: when it is
        answered within it, or when it has waited that long; and consecutive periods add up.

        Returns:
            The upper end of the histogram's bucket, at most 0.1 % too much; ``LONGEST_S`` if it was longer or
            too many failed; the longest wait, if only requests under way remain; None if there are too few
            requests for one to lie beyond it (p95: 20).
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
        """Return the number of requests that failed, or took or waited longer than *seconds*."""
        ended, after, before = (
            one.n_recorded - one.n_within(seconds)
            for one in (self.latencies, self.unfinished, self.unfinished_before)
        )
        return max(0, self.n_failed + ended + after - before)

    def since(self, earlier: Requests) -> Requests:
        """Return the requests that ended after *earlier*, an older snapshot; at the present rate.

        Raises:
            ValueError: it is not an older snapshot.
        """
        latencies = self.latencies.since(earlier.latencies)
        return replace(
            self,
            latencies=latencies,
            n_failed=self.n_failed - earlier.n_failed,
            unfinished_before=earlier.unfinished,
            spread=_combine_spreads(self.spread, earlier.spread, ConnectionSpread.since),
        )

    def merged(self, other: Requests) -> Requests:
        """Return the sum of both, with the rate of this one."""
        return replace(
            self,
            latencies=self.latencies.merged(other.latencies),
            n_failed=self.n_failed + other.n_failed,
            unfinished=self.unfinished.merged(other.unfinished),
            unfinished_before=self.unfinished_before.merged(other.unfinished_before),
            spread=_combine_spreads(self.spread, other.spread, ConnectionSpread.merged) or other.spread,
        )


def _combine_spreads(
    spread: ConnectionSpread | None,
    other: ConnectionSpread | None,
    by: Callable[[ConnectionSpread, ConnectionSpread], ConnectionSpread],
) -> ConnectionSpread | None:
    """Change *spread* by *other* with *by*, if both are known."""
    return spread if spread is None or other is None else by(spread, other)


def _high_s(bucket: int) -> float:
    return min(bucket_limits_ns(bucket)[1] / 1e9, LONGEST_S)
