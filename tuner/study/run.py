"""The use case: measure what the store does not hold yet, block by block."""

from __future__ import annotations

from itertools import groupby

from tuner.core.errors import TunerError
from tuner.core.layout import Layout
from tuner.core.records import WARMING_BLOCK, LaunchRecord
from tuner.core.window import Window
from tuner.ports import Box, Progress, Stop, Store
from tuner.study.history import Cell, History
from tuner.study.launching import Bench
from tuner.study.outcome import INTERRUPTED, StudyOutcome
from tuner.study.timetable import Timetable


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
        self._bench = Bench(self._asked, box, store, progress, stop)
        from tuner.core.plan import blocks

        order = blocks(self._asked.layouts, self._asked.n_blocks, self._asked.seed)
        launches, windows = store.launches(), store.windows()
        self._history = History(self._asked, order, launches, windows)
        self._timetable = Timetable(self._asked, launches, windows)
        self._out_of_budget = False

    def run(self) -> StudyOutcome:
        if self._history.n_blocks_done() == 0:
            self._timetable.check_budget(self._history.blocks[0])
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
        open_cells = list(self._history.open_cells())
        if open_cells and self._asked.warms_cache:
            self._warm_cache(open_cells[0].layout)
        for block, group in groupby(open_cells, key=lambda cell: cell.block):
            hopeless = self._history.left_out()
            cells = [cell for cell in group if cell.layout not in hopeless]
            if not self._may_begin(cells):
                return
            for cell in cells:
                self._measure_cell(cell)
                if self._stop.requested():
                    return
            if block == 0:
                self._name_left_out()

    def _may_begin(self, cells: list[Cell]) -> bool:
        """Whether the rest of a block is to be measured; one that was begun is, and so is the first."""
        begun = any(cell.is_done for cell in self._history.blocks[cells[0].block]) if cells else True
        if begun or self._history.n_blocks_done() == 0:
            if not self._timetable.fits(cells):
                text = "this block will end after the budget; it is finished all the same, to be of use"
                self._progress.warning("budget-short", text)
            return True
        if self._timetable.fits(cells):
            return True
        self._out_of_budget = True
        done, planned = self._history.n_blocks_done(), len(self._history.blocks)
        self._progress.warning("budget-over", f"the budget ends after {done} of {planned} blocks")
        return False

    def _measure_cell(self, cell: Cell) -> None:
        while not cell.is_done and not self._stop.requested():
            self._progress.launch_started(cell.layout, cell.block, cell.position, self._remaining_s())
            began_s = self._box.clock.monotonic_s()
            launch = LaunchRecord(
                block=cell.block,
                position=cell.position,
                attempt=cell.n_spoilt + 1,
                layout=cell.layout,
                box=self._box.name,
                started_wall_s=self._box.clock.wall_s(),
                running_after_s=None,
                warmup_s=None,
                settled=None,
            )
            launch = self._bench.measure(launch, cell, lambda window: self._window_taken(cell, window))
            self._history.end_launch(cell, spoilt=launch.error is not None)
            self._timetable.add(launch, self._box.clock.monotonic_s() - began_s)
        if cell.is_void and not cell.is_hopeless:
            self._progress.warning(
                "cell-void", f"{cell.layout} gave no valid window in block {cell.block + 1}"
            )

    def _warm_cache(self, layout: Layout) -> None:
        """Page cache, compiled bytecode, the CPU's clock: let a launch that is discarded pay for them."""
        self._progress.launch_started(layout, WARMING_BLOCK, 0, self._remaining_s())
        began_s = self._box.clock.monotonic_s()
        launch = LaunchRecord(
            block=WARMING_BLOCK,
            position=0,
            attempt=1,
            layout=layout,
            box=self._box.name,
            started_wall_s=self._box.clock.wall_s(),
            running_after_s=None,
            warmup_s=None,
            settled=None,
        )
        launch = self._bench.discard(launch)
        self._timetable.add(launch, self._box.clock.monotonic_s() - began_s)

    def _window_taken(self, cell: Cell, window: Window) -> None:
        self._history.add_window(cell, window)
        n_layouts = len(self._asked.layouts) - len(self._history.left_out())
        n_planned = n_layouts * self._asked.n_blocks * self._asked.windows_per_launch
        self._progress.window_taken(window, self._history.n_windows, n_planned, self._remaining_s())

    def _remaining_s(self) -> float | None:
        """Until the last whole block within the budget is done, or all of them."""
        remaining_s = 0.0
        for _, group in groupby(self._history.open_cells(), key=lambda cell: cell.block):
            cells = list(group)
            remaining_s += self._timetable.expected_s(cells)
        return remaining_s

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
            interrupted=self._stop.requested() and any(history.open_cells()),
        )
