"""All measurements of a study by cell: everything that a resumed study needs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tuner.core.domain.fleet import LOST
from tuner.core.domain.layout import Layout
from tuner.core.domain.limits import usage_of
from tuner.core.domain.records import (
    FIRST_LOOK,
    WARMING_BLOCK,
    LaunchRecord,
    StudyRecord,
    WindowRecord,
    value_of,
)
from tuner.core.domain.safety_limits import BRAKED, OVER_LIMIT, parse_brake_error
from tuner.core.domain.settled_load import is_load_of_host
from tuner.core.domain.strategy import Observed, Proposal
from tuner.core.domain.window import Sample
from tuner.core.windows.layout_check import RanLayouts
from tuner.core.windows.slices import FEWEST_ITEMS, items_per_s
from tuner.ports import Store
from tuner.study.launch.outcome import AWAY
from tuner.study.launch.plan_cells import Block, Cell, spoils_launch
from tuner.study.timeline import HeatRun, HeatTimes, Timeline

# The processes and threads that ran for each layout of a resumed study.


def read_ran_before(store: Store, windows: Iterable[WindowRecord]) -> RanLayouts:
    """Return the processes and threads that ran in the last valid window of each layout in *store*."""
    ran = RanLayouts(store.study().config)
    last = {window.layout: window for window in windows if not window.void}
    for window in last.values():
        ran.judged(store.window(window.launch_id, window.index, window.attempt))
    return ran


FIRST_SCOUT = 1  #: position of the first scout; position 0 belongs to launches that warm the page cache
_APART_S = 1e-3  #: time from a heat to a window that was repeated after the others: it is compared with none
_NOTHING: Mapping[str, float] = {}


def new_launch(asked: Proposal, which: tuple[int, int, int], box: str, started_wall_s: float) -> LaunchRecord:
    """Return the record of the launch of *asked* that starts; *which* is its block, position, attempt."""
    block, position, attempt = which
    return LaunchRecord(
        block=block,
        position=position,
        attempt=attempt,
        layout=asked.layout,
        box=box,
        started_wall_s=started_wall_s,
        running_after_s=None,
        warmup_s=None,
        settled=None,
        window_s=asked.window_s,
        n_windows=asked.n_windows,
        heat=asked.heat,
    )


@dataclass(slots=True)
class Launched:
    """A launch, with its windows and its beginning in study time."""

    launch: LaunchRecord
    began_s: float
    #: observation None: invalid window
    windows: list[tuple[WindowRecord, Observed | None]] = field(default_factory=list)
    run: HeatRun | None = None  #: run of the heat that contains the launch

    @property
    def is_spoilt(self) -> bool:
        """Whether the launch failed, or must be repeated before it can give another window.

        False for a launch that a safety limit stopped together with the study, or that was lost with its host
        or its source, because its layout did not cause that.
        """
        if (error := self.launch.error) is not None:
            return all(parse_brake_error(error, slug) is None for slug in (BRAKED, LOST, AWAY))
        return any(spoils_launch(window) for window, _ in self.windows if window.void)

    @property
    def counted_s(self) -> float:
        """Total length of the valid windows, in seconds."""
        return sum(
            window.length_s for window, seen in self.windows if seen is not None and not seen.is_silent
        )

    @property
    def is_silent(self) -> bool:
        """Whether a window in slices had no item, although the launch finished many in its warm-up."""
        return any(seen is not None and seen.is_silent for _, seen in self.windows)


class History:
    """The blocks that a study has requested so far, filled with the launches and windows of its store."""

    def __init__(
        self,
        study: StudyRecord,
        launches: Sequence[tuple[int, LaunchRecord]],
        windows: Sequence[WindowRecord],
        warmup_of: Callable[[int], Sequence[Sample]],
    ) -> None:
        """*warmup_of* returns the samples of a launch's warm-up."""
        self.blocks: list[Block] = []
        self.scouts: list[Cell] = []  #: scouts before the first block, in order
        self.looks: list[Cell] = []  #: cells of the first look, in order
        self.n_windows = 0
        self.n_void = 0
        self.n_launches_spoilt = 0
        self._study, self._warmup_of = study, warmup_of
        self._warmup_per_s: dict[int, float | None] = {}  #: items/s of warm-ups before slices, by launch
        self._timeline = Timeline()
        self._heats = HeatTimes()
        #: layouts that passed a limit in a launch that only warmed the page cache
        self._over_limit: set[Layout] = set()
        self._recorded: dict[int, list[Launched]] = defaultdict(list)  # block -> its launches
        windows_of = defaultdict(list)
        for window in windows:
            windows_of[window.launch_id].append(window)
        begun = []
        for launch_id, launch in launches:
            launched = self.begin(launch)
            begun.append((launch, launched, windows_of[launch_id]))
            for window in windows_of[launch_id]:
                if launched.run is None:
                    launched.windows.append((window, self._observe(launched, window)))
                else:
                    self._heats.add_window(launch, window.started_wall_s)
        for launch, launched, of_launch in begun:
            if launched.run is not None:  # the number of launches that took turns is known by now
                launched.windows.extend((window, self._observe(launched, window)) for window in of_launch)
            if launch.block == WARMING_BLOCK:
                self.end_warming(launched)
                if launch.position >= FIRST_LOOK:
                    self._fill(self._look_at(launch), launched)
                elif launch.position >= FIRST_SCOUT:
                    self._fill(self._scout_at(launch), launched)
            else:
                self._recorded[launch.block].append(launched)
                self.n_launches_spoilt += launched.is_spoilt

    @property
    def holds_more(self) -> bool:
        """Whether the store held blocks beyond those requested so far."""
        return any(block >= len(self.blocks) for block in self._recorded)

    @property
    def over_limit(self) -> frozenset[Layout]:
        """Layouts that are left out because they passed a safety limit while they warmed the page cache."""
        return frozenset(self._over_limit)

    def next_block(self, proposals: Sequence[Proposal]) -> tuple[Block, bool]:
        """Open the next block with its stored launches; return it, and whether these agree with *proposals*.

        If they do not agree, the block holds the stored launches and is closed. A block is also closed if a
        later block was begun.
        """
        number = len(self.blocks)
        made: dict[int, list[Launched]] = defaultdict(list)  # position -> launches, in run order
        for launched in self._recorded.pop(number, []):
            made[launched.launch.position].append(launched)
        wanted = [self._asked_of(launches) for launches in made.values()]
        as_asked, positions = wanted == list(proposals[: len(wanted)]), list(made)
        if not as_asked and wanted == [proposals[n] for n in made if n < len(proposals)]:
            as_asked, positions = True, []  # a layout that is in several heats failed in the first one
        if as_asked:
            wanted = list(proposals)
        while len(positions) < len(wanted):  # gaps are left-out layouts, in files of schema version 1
            positions.append(positions[-1] + 1 if positions else 0)
        cells = [
            Cell(number, position, one.layout, one.window_s, one.n_windows, self._study.max_attempts)
            for position, one in zip(positions, wanted, strict=True)
        ]
        for cell, one in zip(cells, wanted, strict=True):
            cell.heat = one.heat
        for cell in cells:
            cell.is_over_limit = cell.layout in self._over_limit
            for launched in made.get(cell.position, []):
                self._fill(cell, launched)
        has_later = any(later > number for later in self._recorded)
        block = Block(number, cells, is_closed=not as_asked or has_later)
        self.blocks.append(block)
        return block, as_asked

    def scout(self, layout: Layout, window_s: float) -> Cell:
        """Open a cell before the first block for one window of *layout*."""
        position = FIRST_SCOUT + len(self.scouts)
        cell = Cell(WARMING_BLOCK, position, layout, window_s, 1, self._study.max_attempts)
        cell.is_over_limit = layout in self._over_limit
        self.scouts.append(cell)
        return cell

    def look(self, position: int, asked: Proposal) -> Cell:
        """Return the cell of the first look at *position*; open it if it does not exist yet."""
        found = next((cell for cell in self.looks if cell.position == FIRST_LOOK + position), None)
        if found is not None:
            return found
        most = min(2, self._study.max_attempts)
        cell = Cell(WARMING_BLOCK, FIRST_LOOK + position, asked.layout, asked.window_s, 1, most)
        cell.is_over_limit = asked.layout in self._over_limit
        self.looks.append(cell)
        return cell

    def places(self) -> list[tuple[str, Cell, list[Launched]]]:
        """Return the stored cells of a study on several hosts, each with its host and its launches in order.

        Call it once, and instead of `next_block`.
        """
        made: dict[tuple[int, int, str], list[Launched]] = {}
        for launched in (one for of_block in self._recorded.values() for one in of_block):
            launch = launched.launch
            made.setdefault((launch.block, launch.position, launch.box), []).append(launched)
        self._recorded.clear()
        found = []
        for (block, position, box), launches in made.items():
            asked = self._asked_of(launches)
            cell = Cell(
                block, position, asked.layout, asked.window_s, asked.n_windows, self._study.max_attempts
            )
            for launched in launches:
                self._fill(cell, launched)
            found.append((box, cell, launches))
        return found

    def begin(self, launch: LaunchRecord) -> Launched:
        """Record a launch that begins."""
        if launch.heat is None:
            return Launched(launch, self._timeline.at(launch.started_wall_s, box=launch.box))
        run = self._heats.begin(launch, self._timeline)
        return Launched(launch, run.began_s, run=run)

    def add_window(self, cell: Cell, launched: Launched, window: WindowRecord) -> None:
        """Record a window of *cell*."""
        if launched.run is not None:
            self._heats.add_window(launched.launch, window.started_wall_s)
        observed = self._observe(launched, window)
        launched.windows.append((window, observed))
        self._add(cell, window, observed)

    def end_launch(self, cell: Cell, launched: Launched) -> None:
        """Record the end of a launch of *cell*."""
        for observed in (one for _, one in launched.windows if one is not None):  # it is known only now
            observed.noise_of_second = launched.launch.noise_of_second_ratio
        self.n_launches_spoilt += launched.is_spoilt
        self._take_note(cell, launched)
        self._forgive(cell, launched)

    def end_warming(self, launched: Launched) -> None:
        """Record the end of a discarded launch; if it passed a safety limit, its layout is left out."""
        if parse_brake_error(launched.launch.error, OVER_LIMIT) is None:
            return
        self._over_limit.add(launched.launch.layout)
        for cell in (*self.scouts, *self.looks, *(cell for block in self.blocks for cell in block.cells)):
            cell.is_over_limit |= cell.layout in self._over_limit

    def _scout_at(self, launch: LaunchRecord) -> Cell:
        """Return the cell of a scout's *launch*; the first launch opens it."""
        found = next((cell for cell in self.scouts if cell.position == launch.position), None)
        window_s = self._study.window_s if launch.window_s is None else launch.window_s
        return found or self.scout(launch.layout, window_s)

    def _look_at(self, launch: LaunchRecord) -> Cell:
        """Return the cell of the first look to which *launch* belongs."""
        return self.look(launch.position - FIRST_LOOK, self._asked_of([Launched(launch, 0.0)]))

    def _fill(self, cell: Cell, launched: Launched) -> None:
        self._take_note(cell, launched)
        for window, observed in launched.windows:
            self._add(cell, window, observed)
        self._forgive(cell, launched)

    def _forgive(self, cell: Cell, launched: Launched) -> None:
        """Do not count invalid windows as tries of *cell* if their launch lost its source."""
        if parse_brake_error(launched.launch.error, AWAY) is None:
            return
        for window, observed in launched.windows:
            if observed is None:
                cell.tries[window.index] -= 1

    def _take_note(self, cell: Cell, launched: Launched) -> None:
        cell.n_spoilt += launched.is_spoilt
        cell.is_over_limit |= parse_brake_error(launched.launch.error, OVER_LIMIT) is not None

    def _add(self, cell: Cell, window: WindowRecord, observed: Observed | None) -> None:
        is_tried = not window.void or all(reason.slug != BRAKED for reason in window.void)
        cell.tries[window.index] = cell.tries.get(window.index, 0) + is_tried
        counts = cell.block != WARMING_BLOCK
        if observed is not None:
            cell.kept[window.index] = observed
        if observed is None or observed.is_silent:
            self.n_void += counts
        else:
            self.n_windows += counts

    def _asked_of(self, launches: Sequence[Launched]) -> Proposal:
        launch, study = launches[0].launch, self._study
        return Proposal(
            launch.layout,
            study.window_s if launch.window_s is None else launch.window_s,
            study.windows_per_launch if launch.n_windows is None else launch.n_windows,
            launch.heat,
        )

    def _observe(self, launched: Launched, window: WindowRecord) -> Observed | None:
        """Return the window as input of a strategy; None: it is invalid, or has no value of the objective."""
        launch_began_s, turns_s = launched.began_s, None
        if (run := launched.run) is None:
            began_s = self._timeline.at(window.started_wall_s, window.length_s, box=window.box)
        else:  # the time until slices began is shared by all launches
            began_s = turns_s = run.began_s + _APART_S * (window.attempt - 1)
            waited_s = window.started_wall_s - run.began_wall_s
            launch_began_s = began_s - max(0.0, waited_s) / run.n_launches
        value = 0.0 if window.void else value_of(window, self._study.objective)
        if not value and not (run is not None and self._is_silent(window)):
            return None
        return Observed(
            layout=window.layout,
            value=value,
            launch=window.launch_id,
            launch_began_s=launch_began_s,
            began_s=began_s,
            length_s=window.length_s,
            box=window.box,
            usage=self._usage_of(window),
            requests=window.requests,
            turns_s=turns_s,
            noise_of_second=launched.launch.noise_of_second_ratio,
            of_warmup=None if run is None else self._of_warmup(window),
        )

    def _usage_of(self, window: WindowRecord) -> Mapping[str, float]:
        """Return the usage of a window for the limits of the study; nothing without limits."""
        if not self._study.limits:
            return _NOTHING
        return usage_of(window, is_load_of_host=is_load_of_host(self._study))

    def _of_warmup(self, window: WindowRecord) -> float | None:
        """Return the items/s of a window in slices as a multiple of those in its launch's warm-up."""
        before_per_s = self._before_per_s(window.launch_id)
        return None if before_per_s is None else window.n_done / window.length_s / before_per_s

    def _is_silent(self, window: WindowRecord) -> bool:
        """Return whether a window in slices has no item, although its launch finished many in its warm-up."""
        if [reason.slug for reason in window.void] != ["no-items"]:
            return False
        return (self._before_per_s(window.launch_id) or 0.0) * window.length_s >= FEWEST_ITEMS

    def _before_per_s(self, number: int) -> float | None:
        if number not in self._warmup_per_s:
            self._warmup_per_s[number] = items_per_s(self._warmup_of(number))
        return self._warmup_per_s[number]
