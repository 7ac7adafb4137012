"""Adapters that keep all in memory: the store of a test or a replay, and what stands beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tuner.core.domain.fleet import BoxFacts, record_of_box
from tuner.core.domain.layout import Layout
from tuner.core.domain.provenance import Provenance
from tuner.core.domain.records import BoxRecord, LaunchRecord, StudyRecord, WindowRecord
from tuner.core.domain.window import Sample, Window
from tuner.core.windows.launch_sums import Sums, tally
from tuner.core.windows.summary import record_of


class MemoryStore:
    """A Store that is gone with its process."""

    def __init__(self, study: StudyRecord) -> None:
        self._study = study
        self._launches: list[LaunchRecord] = []
        self._windows: dict[tuple[int, int, int], Window] = {}
        self._warmups: dict[int, list[Sample]] = {}
        self._boxes: list[BoxRecord] = []

    def study(self) -> StudyRecord:  # noqa: D102  (ports.Store says it; so for the others)
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
        return tally(self.windows())

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
    """A Progress that remembers what it was told."""

    def __init__(self) -> None:
        self.launches: list[
            tuple[Layout, int, int, float | None]
        ] = []  #: layout, block, position, remaining_s
        self.windows: list[Window] = []
        self.counts: list[
            tuple[int, int | None, float | None]
        ] = []  #: taken, planned, remaining_s after each window
        self.warnings: list[tuple[str, str]] = []
        self.boxes: list[str] = []  #: as they were turned to
        self.boxes_left: list[str] = []
        self.turns: list[tuple[tuple[Layout, ...], Layout | None]] = []  #: layouts started, and which worked
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
    """A Stop that comes when a condition holds, and stays."""

    def __init__(self, when: Callable[[], bool] = lambda: False) -> None:
        self._when = when
        self._requested = False

    def requested(self) -> bool:  # noqa: D102
        self._requested = self._requested or self._when()
        return self._requested
