"""News of simulated boxes, in the order of their time: workers are done with a launch in whatever order."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Set

from tuner.core.domain.fleet import News


class VirtualOrder:
    """News that wait until no box can tell of anything earlier."""

    def __init__(self) -> None:
        self._waiting: defaultdict[str, deque[tuple[float, News]]] = defaultdict(deque)

    def add(self, box: str, at_wall_s: float, news: News) -> None:
        """*news* of *box*, later than all that it told before."""
        self._waiting[box].append((at_wall_s, news))

    def next(self, busy: Set[str]) -> tuple[float, News] | None:
        """The earliest; None: there is none, or one of the *busy* boxes may yet tell of something earlier."""
        waiting = {box: news for box, news in self._waiting.items() if news}
        if not waiting or not busy <= waiting.keys():
            return None
        box = min(waiting, key=lambda name: (waiting[name][0][0], name))
        return self._waiting[box].popleft()
