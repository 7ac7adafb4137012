"""In-memory implementations of ports: store, progress, stop and fleet, for tests and replays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush

from tuner.adapters.clock import VirtualClock
from tuner.core.domain.fleet import BoxCame, BoxFacts, BoxWent, News, Order, record_of_box
from tuner.core.domain.layout import Layout
from tuner.core.domain.provenance import Provenance
from tuner.core.domain.records import BoxRecord, LaunchRecord, StudyRecord, WindowRecord
from tuner.core.domain.window import Sample, Window
from tuner.core.windows.launch_sums import Sums, tally
from tuner.core.windows.summary import record_of
from tuner.ports import Box, Stop


class MemoryStore:
    """A Store that exists only in memory."""

    def __init__(self, study: StudyRecord) -> None:
        self._study = study
        self._launches: list[LaunchRecord] = []
        self._windows: dict[tuple[int, int, int], Window] = {}
        self._warmups: dict[int, list[Sample]] = {}
        self._boxes: list[BoxRecord] = []

    def study(self) -> StudyRecord:  # noqa: D102  # documented in ports.Store, as are the others
        return self._study

    def add_to_study(self, layouts: Sequence[Layout], facts: Provenance) -> None:  # noqa: D102
        self._study = replace(
            self._study,
            layouts=(*self._study.layouts, *layouts),
            provenance=self._study.provenance.updated(facts),
        )

    def add_launch(self, launch: LaunchRecord) -> int:  # noqa: D102
        self._launches.append(launch)
        return len(self._launches)

    def finish_launch(self, launch_id: int, launch: LaunchRecord) -> None:  # noqa: D102
        self._launches[launch_id - 1] = launch

    def add_warmup(self, launch_id: int, samples: Sequence[Sample]) -> None:  # noqa: D102
        self._warmups.setdefault(launch_id, []).extend(samples)

    def add_window(self, launch_id: int, window: Window) -> None:  # noqa: D102
        key = (launch_id, window.index, window.attempt)
        if key in self._windows:
            raise ValueError(f"window {key} is kept already")
        self._windows[key] = window

    def add_box(self, facts: BoxFacts, joined_wall_s: float) -> None:  # noqa: D102
        self._boxes.append(record_of_box(facts, joined_wall_s))

    def end_box(self, name: str, left_wall_s: float, why: str) -> None:  # noqa: D102
        for place in reversed(range(len(self._boxes))):
            if self._boxes[place].name == name:
                if self._boxes[place].left_wall_s is None:
                    self._boxes[place] = replace(self._boxes[place], left_wall_s=left_wall_s, why=why)
                return

    def boxes(self) -> Sequence[BoxRecord]:  # noqa: D102
        return list(self._boxes)

    def launches(self) -> Sequence[tuple[int, LaunchRecord]]:  # noqa: D102
        return list(enumerate(self._launches, start=1))

    def windows(self) -> Sequence[WindowRecord]:  # noqa: D102
        records = []
        for (launch_id, _, _), window in self._windows.items():
            launch = self._launches[launch_id - 1]
            records.append(record_of(window, launch_id=launch_id, block=launch.block, box=launch.box))
        return records

    def sums(self) -> Sums:  # noqa: D102
        return tally(self.windows()).with_heats(self.launches())

    def samples(self, launch_id: int, index: int, attempt: int) -> Sequence[Sample]:  # noqa: D102
        return self.window(launch_id, index, attempt).samples

    def warmup_samples(self, launch_id: int) -> Sequence[Sample]:  # noqa: D102
        return tuple(self._warmups.get(launch_id, ()))

    def window(self, launch_id: int, index: int, attempt: int) -> Window:  # noqa: D102
        try:
            return self._windows[launch_id, index, attempt]
        except KeyError:
            raise ValueError(f"no window {index}, attempt {attempt}, of launch {launch_id}") from None


class MemoryProgress:
    """A Progress that records its calls."""

    def __init__(self) -> None:
        self.launches: list[
            tuple[Layout, int, int, float | None]
        ] = []  #: layout, block, position, remaining_s
        self.windows: list[Window] = []
        self.counts: list[
            tuple[int, int | None, float | None]
        ] = []  #: taken, planned, remaining_s after each window
        self.warnings: list[tuple[str, str]] = []
        self.boxes: list[str] = []  #: hosts in the order of `turn_to` calls
        self.boxes_left: list[str] = []
        #: started layouts, and the one that worked
        self.turns: list[tuple[tuple[Layout, ...], Layout | None]] = []
        self.n_warmup_ticks = 0
        self.n_samples = 0

    def launch_started(  # noqa: D102
        self, layout: Layout, block: int, position: int, remaining_s: float | None
    ) -> None:
        self.launches.append((layout, block, position, remaining_s))

    def in_turns(self, started: Sequence[Layout], works: Layout | None) -> None:  # noqa: D102
        self.turns.append((tuple(started), works))

    def warming_up(self, layout: Layout, elapsed_s: float, items_per_s: float | None) -> None:  # noqa: ARG002, D102
        self.n_warmup_ticks += 1

    def sampled(  # noqa: D102
        self,
        layout: Layout,  # noqa: ARG002
        elapsed_s: float,  # noqa: ARG002
        window_s: float,  # noqa: ARG002
        sample: Sample,  # noqa: ARG002
        items_per_s: float,  # noqa: ARG002
    ) -> None:
        self.n_samples += 1

    def window_taken(  # noqa: D102
        self, window: Window, n_taken: int, n_planned: int | None, remaining_s: float | None
    ) -> None:
        self.windows.append(window)
        self.counts.append((n_taken, n_planned, remaining_s))

    def warning(self, slug: str, text: str) -> None:  # noqa: D102
        self.warnings.append((slug, text))

    def turn_to(self, box: str) -> None:  # noqa: D102
        self.boxes.append(box)

    def box_left(self, box: str) -> None:  # noqa: D102
        self.boxes_left.append(box)


class PlannedStop:
    """A Stop that is requested once a condition holds."""

    def __init__(self, when: Callable[[], bool] = lambda: False) -> None:
        self._when = when
        self._requested = False

    def requested(self) -> bool:  # noqa: D102
        self._requested = self._requested or self._when()
        return self._requested


# Fleet port over several simulated hosts, without Dask, for tests of the coordinator.


#: makes a launch on a host and reports its events
Make = Callable[[Order, StudyRecord, Box, Callable[[News], None], Stop], None]


@dataclass(frozen=True, slots=True)
class Absence:
    """A host is killed, and the coordinator detects it."""

    box: str
    from_s: float  #: seconds since the study began
    until_s: float | None = None  #: time of its return; None: it does not return
    #: delay until the coordinator detects it, as if the host or the network hung; news until then arrives
    noticed_after_s: float = 0.0


class VirtualFleet:
    """Hosts that *box_of* makes, each with its own clock."""

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
        """Set up the fleet; *began_wall_s*: start of this session; None: when the study was created."""
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

    def news(self, until_s: float) -> News | None:  # noqa: D102  # see ports.Fleet
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
        """Return whether hosts are to end; launches made before the request are not affected."""
        return self._is_ending

    def _is_absent(self, box: str, sent_s: float, at_s: float) -> bool:
        """Return whether *box* was killed between an order and its present news."""
        return any(one.box == box and sent_s <= one.from_s < at_s for one in self._absences)

    def _send(self, at_s: float, news: News) -> None:
        self._n_reported += 1
        heappush(self._news, (at_s, self._n_reported, news))


def named_boxes(n: int, cores: float, provenance: Provenance) -> list[BoxFacts]:
    """Return the facts of *n* identical hosts."""
    one = BoxFacts("", cores, provenance)
    return [replace(one, name=f"box-{number}") for number in range(1, n + 1)]
