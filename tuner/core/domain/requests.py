"""What became of the requests that a feeder sent, and how long they took."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import ceil

from tuner.core.domain.connection_spread import ConnectionSpread
from tuner.core.domain.latency import LONGEST_NS, Latencies, bucket_limits_ns

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
