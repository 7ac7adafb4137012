"""How long requests took: a histogram of fixed size that keeps 3 significant figures from 1 us to 1 h.

Buckets are log-linear, as in HdrHistogram: 1 ns wide up to 2.048 us, and 1024 in each octave above. From 1 us
on a bucket is at most 1/1024 of its latency wide. 33 421 counts hold every latency up to an hour.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, inf

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
