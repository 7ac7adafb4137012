"""What became of the requests that a feeder sent, and how long they took."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import ceil

from tuner.core.latency import LONGEST_NS, Latencies

LONGEST_S = LONGEST_NS / 1e9  #: a latency of that much stands for all that are longer, or have no end


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests that came to their end, up to one moment or between two."""

    latencies: Latencies = field(default_factory=Latencies)  #: of those that were answered well
    n_failed: int = 0  #: answered badly, not answered, or not even sent
    rate_per_s: float | None = None  #: so many become due a second; None: closed loop
    #: answered well a second, in the closed loop from which the rate was derived; None: it was not
    capacity_per_s: float | None = None

    @property
    def n_total(self) -> int:
        """All of them."""
        return self.latencies.n_recorded + self.n_failed

    @property
    def failed_ratio(self) -> float | None:
        """The share (0..1) that failed; None: there were no requests."""
        return self.n_failed / self.n_total if self.n_total else None

    def latency_s(self, share: float) -> float | None:
        """The time within which a *share* (0..1) of all requests was answered well.

        What failed counts as taking longer than anything: a service that answers half of its requests at once
        and refuses the others has no p95 to be proud of.

        Returns:
            The upper end of the histogram's bucket, at most 0.1 % too much; ``LONGEST_S`` when it was longer
            or so many failed; None when there are too few requests for one to lie beyond it (p95: 20).
        """
        if self.n_total * (1 - share) < 1:
            return None
        rank = ceil(share * self.n_total)
        if rank > self.latencies.n_recorded:
            return LONGEST_S
        return min(self.latencies.at_rank(rank).high_s, LONGEST_S)

    def since(self, earlier: Requests) -> Requests:
        """Those that came to their end after *earlier*, an older snapshot; at the rate there is now.

        Raises:
            ValueError: it is not an older snapshot.
        """
        latencies = self.latencies.since(earlier.latencies)
        return replace(self, latencies=latencies, n_failed=self.n_failed - earlier.n_failed)

    def merged(self, other: Requests) -> Requests:
        """Both together; the rate is that of the first."""
        latencies = self.latencies.merged(other.latencies)
        return replace(self, latencies=latencies, n_failed=self.n_failed + other.n_failed)
