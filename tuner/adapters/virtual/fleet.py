"""Several simulated boxes behind the port of a fleet, without Dask: what tests of the coordinator run on.

Each box has a time of its own. A launch is made at once, when it is ordered, and what comes of it is told
when the coordinator's time gets there: so a decision knows what a real one would know, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush

from tuner.adapters.virtual.clock import VirtualClock
from tuner.core.domain.fleet import BoxCame, BoxFacts, BoxWent, News, Order
from tuner.core.domain.provenance import Provenance
from tuner.core.domain.records import StudyRecord
from tuner.ports import Box, Stop

#: makes a launch on a box and tells what comes of it
Make = Callable[[Order, StudyRecord, Box, Callable[[News], None], Stop], None]


@dataclass(frozen=True, slots=True)
class Absence:
    """A box is killed, and its coordinator notices."""

    box: str
    from_s: float  #: since the study began
    until_s: float | None = None  #: then it is there again; None: it never is
    noticed_after_s: float = 0.0  #: what it tells until then is told: it hangs, or the network does


class VirtualFleet:
    """Boxes that *box_of* makes, each with its own clock."""

    def __init__(
        self,
        study: StudyRecord,
        facts: Sequence[BoxFacts],
        box_of: Callable[[str, VirtualClock], Box],
        make: Make,
        *,
        began_wall_s: float | None = None,
        absences: Sequence[Absence] = (),
    ) -> None:
        """*began_wall_s*: when this session begins; None: when the study was created."""
        wall_s = study.created_wall_s if began_wall_s is None else began_wall_s
        self.clock = VirtualClock(wall_s, 0.0)
        self._study, self._make, self._absences = study, make, absences
        self._facts: Mapping[str, BoxFacts] = {one.name: one for one in facts}
        self._clocks = {one.name: VirtualClock(wall_s + one.ahead_s, 0.0) for one in facts}
        self._boxes = {name: box_of(name, clock) for name, clock in self._clocks.items()}
        self._news: list[tuple[float, int, News]] = []
        self._n_reported = 0
        self._given_up: set[str] = set()
        self._is_ending = False
        for one in facts:
            self._send(0.0, BoxCame(one))
        for absence in absences:
            self._send(absence.from_s + absence.noticed_after_s, BoxWent(absence.box, "it was killed"))
            if absence.until_s is not None:
                self._send(absence.until_s, BoxCame(self._facts[absence.box]))

    def news(self, until_s: float) -> News | None:  # noqa: D102  (ports.Fleet says it; so for the others)
        while self._news and self._news[0][0] <= until_s:
            at_s, _, news = heappop(self._news)
            self.clock.sleep_until(at_s)
            if getattr(news, "order", None) not in self._given_up:
                return news
        self.clock.sleep_until(until_s)
        return None

    def send(self, order: Order) -> None:  # noqa: D102
        name = order.place.box
        clock = self._clocks[name]
        clock.sleep_until(self.clock.monotonic_s())

        def tell(news: News) -> None:
            if not self._is_absent(name, order_s, clock.monotonic_s()):
                self._send(clock.monotonic_s(), news)

        order_s = clock.monotonic_s()
        self._make(order, self._study, self._boxes[name], tell, self)

    def finish(self) -> None:  # noqa: D102
        self._is_ending = True

    def give_up(self, order: str) -> None:  # noqa: D102
        self._given_up.add(order)

    def requested(self) -> bool:
        """Whether boxes are to end; those whose launches were made before that do not hear of it in time."""
        return self._is_ending

    def _is_absent(self, box: str, sent_s: float, at_s: float) -> bool:
        """Whether *box* was killed between an order and what it would tell now."""
        return any(one.box == box and sent_s <= one.from_s < at_s for one in self._absences)

    def _send(self, at_s: float, news: News) -> None:
        self._n_reported += 1
        heappush(self._news, (at_s, self._n_reported, news))


def named_boxes(n: int, cores: float, provenance: Provenance) -> list[BoxFacts]:
    """Facts of *n* boxes alike."""
    one = BoxFacts("", cores, provenance)
    return [replace(one, name=f"box-{number}") for number in range(1, n + 1)]
