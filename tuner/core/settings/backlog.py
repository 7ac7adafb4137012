"""How many messages are to wait for a layout, so that its queue never runs dry."""

from __future__ import annotations

from collections import deque

FEWEST = 5_000
AHEAD_S = 20.0  #: of work at the best rate seen
PREFETCHED = 8  #: by each thread, twice what Celery takes unless told
MOST_BYTES = 256 * 2**20  #: of messages that wait, ids left out
_RATE_OVER_S = 2.0


def wanted_backlog(best_per_s: float, n_threads: int, message_bytes: float) -> int:
    """Messages that should wait.

    Args:
        best_per_s: the best rate that was seen of any layout, messages/s; 0 before the first.
        n_threads: of the layout, in all.
        message_bytes: mean size; large messages wait in smaller numbers, but never fewer than are prefetched.
    """
    in_reach = PREFETCHED * n_threads
    wanted = max(FEWEST, round(AHEAD_S * best_per_s), in_reach)
    return max(min(wanted, int(MOST_BYTES / max(1.0, message_bytes))), in_reach)


class BestRate:
    """The best rate of a total that grows, over 2 s or a little more."""

    def __init__(self, best_per_s: float = 0.0) -> None:
        """*best_per_s* is known from before."""
        self.per_s = best_per_s
        self._seen: deque[tuple[float, int]] = deque()

    def add(self, at_s: float, total: int) -> None:
        """*total* was seen at *at_s*; times grow."""
        self._seen.append((at_s, total))
        while len(self._seen) > 1 and self._seen[1][0] <= at_s - _RATE_OVER_S:
            self._seen.popleft()
        since_s, before = self._seen[0]
        if at_s - since_s >= _RATE_OVER_S:
            self.per_s = max(self.per_s, (total - before) / (at_s - since_s))
