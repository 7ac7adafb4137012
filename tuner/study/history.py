"""What was tried of each cell, and what it still needs: all that a resumed study has to know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tuner.core.layout import Layout
from tuner.core.records import WARMING_BLOCK, LaunchRecord, StudyRecord, WindowRecord
from tuner.core.window import Window

PASSING = frozenset(
    {"source-dry", "disturbed", "stolen", "memory-pressure", "clock-jumped", "stalled", "counts-fell"}
)  #: void reasons that core.validity gives: the box's, and they may pass. All others are the launch's own.


def spoils_launch(window: Window | WindowRecord) -> bool:
    """Whether what made *window* void will not go away while this launch runs."""
    return any(reason.slug not in PASSING for reason in window.void)


@dataclass(slots=True)
class Cell:
    """One layout in one block: so many windows wanted of it, and what was tried."""

    block: int
    position: int
    layout: Layout
    n_wanted: int
    max_attempts: int
    n_spoilt: int = 0  #: launches that failed or were spoilt
    tries: Counter[int] = field(default_factory=Counter)  #: window index -> windows taken, void ones included
    kept: set[int] = field(default_factory=set)  #: indexes of the windows that count

    @property
    def next_index(self) -> int | None:
        """The window to take next; None: there is nothing left to try."""
        if self.n_spoilt >= self.max_attempts:
            return None
        for index in range(self.n_wanted):
            if index not in self.kept and self.tries[index] < self.max_attempts:
                return index
        return None

    @property
    def is_done(self) -> bool:
        """Tried to its end, for better or worse."""
        return self.next_index is None

    @property
    def is_void(self) -> bool:
        """Tried to its end with a window missing."""
        return self.is_done and len(self.kept) < self.n_wanted

    @property
    def is_hopeless(self) -> bool:
        """Every launch of it failed or was spoilt, and none gave a window."""
        return self.n_spoilt >= self.max_attempts and not self.kept

    def add(self, window: Window | WindowRecord) -> None:
        """Take note of a window."""
        self.tries[window.index] += 1
        if not window.void:
            self.kept.add(window.index)


class History:
    """The cells of a study in run order, with everything its store holds of them."""

    def __init__(
        self,
        study: StudyRecord,
        order: Sequence[Sequence[Layout]],
        launches: Sequence[tuple[int, LaunchRecord]],
        windows: Sequence[WindowRecord],
    ) -> None:
        self.blocks = [
            [
                Cell(block, position, layout, study.windows_per_launch, study.max_attempts)
                for position, layout in enumerate(layouts)
            ]
            for block, layouts in enumerate(order)
        ]
        self.n_windows = sum(not window.void for window in windows)
        self.n_void = len(windows) - self.n_windows
        self.n_launches_spoilt = 0
        self._cells = {(cell.block, cell.layout): cell for cells in self.blocks for cell in cells}
        spoilt = {window.launch_id for window in windows if spoils_launch(window)}
        for launch_id, launch in launches:
            if launch.block != WARMING_BLOCK:
                self.end_launch(self._cell(launch), spoilt=launch_id in spoilt or launch.error is not None)
        for window in windows:
            self._cell(window).add(window)

    def end_launch(self, cell: Cell, *, spoilt: bool) -> None:
        """Take note of how a launch of *cell* went."""
        cell.n_spoilt += spoilt
        self.n_launches_spoilt += spoilt

    def add_window(self, cell: Cell, window: Window) -> None:
        """Take note of a window of *cell*."""
        cell.add(window)
        self.n_windows += not window.void
        self.n_void += bool(window.void)

    def left_out(self) -> tuple[Layout, ...]:
        """Layouts that could not be run at all in the first block, and are not tried again."""
        return tuple(sorted(cell.layout for cell in self.blocks[0] if cell.is_hopeless))

    def open_cells(self, block: int) -> list[Cell]:
        """What is left to do of *block*, in run order."""
        hopeless = self.left_out()
        return [cell for cell in self.blocks[block] if not cell.is_done and cell.layout not in hopeless]

    def is_begun(self, block: int) -> bool:
        """Whether something of *block* is in the store."""
        return any(cell.tries or cell.n_spoilt for cell in self.blocks[block])

    def void_cells(self) -> tuple[tuple[int, Layout], ...]:
        """Block and layout of what was tried in vain, left-out layouts apart."""
        hopeless = self.left_out()
        cells = [cell for cells in self.blocks for cell in cells]
        return tuple(
            (cell.block, cell.layout) for cell in cells if cell.is_void and cell.layout not in hopeless
        )

    def n_blocks_done(self) -> int:
        """Blocks of which every cell was tried to its end."""
        return sum(not self.open_cells(block) for block in range(len(self.blocks)))

    def _cell(self, record: LaunchRecord | WindowRecord) -> Cell:
        return self._cells[record.block, record.layout]
