"""The use case: measure what the store does not hold yet, block by block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from tuner.core.errors import TunerError
from tuner.core.layout import Layout
from tuner.core.plan import blocks
from tuner.core.records import WARMING_BLOCK, LaunchRecord
from tuner.core.window import Window
from tuner.ports import Box, Progress, Stop, Store
from tuner.study.history import Cell, History
from tuner.study.launching import Workbench
from tuner.study.outcome import INTERRUPTED, StudyOutcome
from tuner.study.timetable import Timetable, check_budget

CACHE_KEEPS_S = 3600.0  #: so long after its last launch a study expects the page cache still to be warm


def run_study(box: Box, store: Store, progress: Progress, stop: Stop) -> StudyOutcome:
    """Measure what *store* asks for and does not hold yet; each window is in it once it is taken.

    A new study and a resumed one are the same call. Windows already in the store stay as they are, a launch
    that was cut off is made again, the order follows from the recorded seed.

    Args:
        box: where to measure.
        store: opened for writing.
        progress: told about everything, warnings included.
        stop: asked between seconds; once it says so, the window in hand is finished and kept, and no
            further one begun.

    Raises:
        ConfigError: not even one block fits into the budget (before anything starts), the service cannot be
            run at all, or the store cannot be written; what is finished is in the store.
        MeasurementError: the hook before the study failed.
        KeyboardInterrupt: the second Ctrl-C, as it came, with everything stopped.
    """
    return _Study(box, store, progress, stop).run()


class _Study:
    def __init__(self, box: Box, store: Store, progress: Progress, stop: Stop) -> None:
        self._box, self._store, self._progress, self._stop = box, store, progress, stop
        self._asked = store.study()
        self._bench = Workbench(self._asked, box, store, progress, stop)
        order = blocks(self._asked.layouts, self._asked.n_blocks, self._asked.seed)
        launches, windows = store.launches(), store.windows()
        self._history = History(self._asked, order, launches, windows)
        self._timetable = Timetable(self._asked, launches, windows)
        self._out_of_budget = False
        self._starts: bool | None = None  #: whether the service can be started at all; None: not known yet
        if any(launch.running_after_s is not None for _, launch in launches):
            self._starts = True
        self._seen_wall_s = max((_last_seen_s(launch) for _, launch in launches), default=-inf)

    def run(self) -> StudyOutcome:
        if self._history.n_blocks_done() == 0:
            check_budget(self._asked)
        facts = {"service": self._asked.service, "box": self._box.name}
        exit_code = 1
        try:
            with self._bench.between("study", facts):
                self._measure()
            outcome = self._outcome()
            exit_code = outcome.exit_code
        except TunerError as error:
            exit_code = error.exit_code
            raise
        except KeyboardInterrupt:
            exit_code = INTERRUPTED
            raise
        finally:
            told = {"exit_code": str(exit_code), "windows": str(self._history.n_windows)}
            self._box.hooks.run("finished", {**facts, **told})
        return outcome

    def _measure(self) -> None:
        self._renew_budget()
        for block in range(self._asked.n_blocks):
            cells = self._history.open_cells(block)
            if not cells:
                continue
            if self._must_end() or not self._may_begin(block, cells):
                return
            self._warm_cache(cells[0].layout)
            for cell in cells:
                self._measure_cell(cell)
            if block == 0:
                self._name_left_out()

    def _must_end(self) -> bool:
        return self._stop.requested() or self._starts is False

    def _renew_budget(self) -> None:
        """Whoever resumes a study whose budget is over gives it the same again; one cut off has the rest."""
        unfinished = [block for block in range(self._asked.n_blocks) if self._history.open_cells(block)]
        if not unfinished or self._history.is_begun(unfinished[0]):
            return
        if not self._timetable.fits(self._history.open_cells(unfinished[0])):
            self._timetable.renew_budget()

    def _may_begin(self, block: int, cells: Sequence[Cell]) -> bool:
        """Whether the rest of a block is to be measured: within the budget, or begun, or the first."""
        if self._timetable.fits(cells):
            return True
        done, planned = self._history.n_blocks_done(), self._asked.n_blocks
        if done == 0 or self._history.is_begun(block):
            text = f"block {block + 1} will end after the budget; half of it would be of no use"
            self._progress.warning("budget-short", text)
            return True
        self._out_of_budget = True
        self._progress.warning("budget-over", f"the budget ends after {done} of {planned} blocks")
        return False

    def _measure_cell(self, cell: Cell) -> None:
        while not cell.is_done and not self._must_end():
            attempt = cell.n_spoilt + 1
            launch = self._launched(
                cell.layout,
                (cell.block, cell.position, attempt),
                lambda launch: self._bench.measure(
                    launch, cell, lambda window: self._window_taken(cell, window)
                ),
            )
            self._history.end_launch(cell, spoilt=launch.error is not None)
        if cell.is_void:
            self._progress.warning(
                "cell-void", f"{cell.layout} lacks a valid window in block {cell.block + 1}"
            )

    def _warm_cache(self, layout: Layout) -> None:
        """Page cache, compiled bytecode, the CPU's clock: let a launch that is discarded pay for them."""
        if not self._asked.warms_cache or self._box.clock.wall_s() - self._seen_wall_s < CACHE_KEEPS_S:
            return
        self._launched(layout, (WARMING_BLOCK, 0, 1), self._bench.discard)

    def _launched(
        self, layout: Layout, which: tuple[int, int, int], made: Callable[[LaunchRecord], LaunchRecord]
    ) -> LaunchRecord:
        block, position, attempt = which
        self._progress.launch_started(layout, block, position, self._remaining_s())
        began_s = self._box.clock.monotonic_s()
        launch = made(
            LaunchRecord(
                block=block,
                position=position,
                attempt=attempt,
                layout=layout,
                box=self._box.name,
                started_wall_s=self._box.clock.wall_s(),
                running_after_s=None,
                warmup_s=None,
                settled=None,
            )
        )
        self._timetable.add(launch, self._box.clock.monotonic_s() - began_s)
        self._seen_wall_s = self._box.clock.wall_s()
        if launch.running_after_s is not None:
            self._starts = True
        elif self._starts is None and not self._stop.requested():
            self._see_whether_it_starts()
        return launch

    def _see_whether_it_starts(self) -> None:
        """The very first start has failed: try the smallest layout, lest all fail at every attempt."""
        self._starts = False
        smallest = min(self._asked.layouts, key=lambda layout: (layout.total_threads, layout))
        self._launched(smallest, (WARMING_BLOCK, 0, 1), self._bench.discard)
        if self._must_end():
            text = f"{self._asked.service} does not start, not even as {smallest}; no other layout is tried"
            self._progress.warning("never-started", text)

    def _window_taken(self, cell: Cell, window: Window) -> None:
        self._history.add_window(cell, window)
        n_layouts = len(self._asked.layouts) - len(self._history.left_out())
        n_planned = n_layouts * self._asked.n_blocks * self._asked.windows_per_launch
        self._progress.window_taken(window, self._history.n_windows, n_planned, self._remaining_s())

    def _remaining_s(self) -> float:
        """Until the last whole block within the budget is done, or all of them."""
        cells: list[Cell] = []
        for block in range(self._asked.n_blocks):
            with_this = cells + self._history.open_cells(block)
            if cells and not self._timetable.fits(with_this):
                break
            cells = with_this
        return self._timetable.expected_s(cells)

    def _name_left_out(self) -> None:
        for layout in self._history.left_out():
            text = f"{layout} failed at every attempt of the first block and is left out of the others"
            self._progress.warning("left-out", text)

    def _outcome(self) -> StudyOutcome:
        history = self._history
        return StudyOutcome(
            n_blocks_planned=len(history.blocks),
            n_blocks_done=history.n_blocks_done(),
            n_windows=history.n_windows,
            n_void=history.n_void,
            n_launches_failed=history.n_launches_spoilt,
            left_out=history.left_out(),
            void_cells=history.void_cells(),
            out_of_budget=self._out_of_budget,
            interrupted=self._stop.requested() and history.n_blocks_done() < len(history.blocks),
        )


def _last_seen_s(launch: LaunchRecord) -> float:
    """When *launch* surely had the service's files in the page cache."""
    if launch.ended_wall_s is not None:
        return launch.ended_wall_s
    return -inf if launch.block == WARMING_BLOCK else launch.started_wall_s
