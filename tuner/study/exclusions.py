"""Which layouts cannot be run, as it turns out block by block."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from tuner.core.domain.layout import Layout
from tuner.core.domain.records import LaunchRecord
from tuner.study.launch.plan_cells import Cell

_SLUG = re.compile(r"(?:^|[:;] )([a-z]+(?:-[a-z]+)+): ")  #: of docs/messages.md, in a launch's error
_VARYING = re.compile(r"\d+x(?:\d+|-)(?:\S*\w)?|\d+(?:\.\d+)?")  #: layouts, pids, seconds, ports


class FailingAlike:
    """Notes why launches fail as long as no window counts, to find that all fail for one reason."""

    def __init__(self, smallest: Layout) -> None:
        self.smallest = smallest
        self._layouts: dict[str, list[Layout]] = {}  #: of the launches that failed, by reasons of each

    def add(self, launch: LaunchRecord) -> int | None:
        """Note a *launch* that failed; gives how many failed like it, the smallest layout's among them.

        None: it is the only one, or the smallest layout may still work.
        """
        error = launch.error or ""
        found = []
        for reason in set(_SLUG.findall(error)) or {_VARYING.sub("#", error)}:
            layouts = self._layouts.setdefault(reason, [])
            layouts.append(launch.layout)
            if len(layouts) > 1 and self.smallest in layouts:
                found.append(len(layouts))
        return max(found, default=None)


class Failing:
    """Takes note of cells as they are asked for and as they end."""

    def __init__(self, max_attempts: int) -> None:
        #: cannot be run, gave no window while others did, or passed a limit of the user's
        self.failed: list[Layout] = []
        self._max_attempts = max_attempts
        self._first_cell: dict[Layout, Cell] = {}
        self._cells: dict[
            int, Cell
        ] = {}  #: that have not ended, by their id(): a study may have 20 000 others
        self._over_limit: set[Layout] = set()  #: of cells that have ended
        self._seen: set[Layout] = set()  #: gave a window, on another box if not on the first
        self._n_vain: Counter[Layout] = Counter()  # cells in a row without a window
        self._since: dict[Layout, int] = {}  # windows of all layouts when that began
        self._n_windows = 0  # in the cells that have ended

    def add(self, cells: Sequence[Cell]) -> None:
        """Take note of what was asked for."""
        for cell in cells:
            self._first_cell.setdefault(cell.layout, cell)
            self._cells[id(cell)] = cell

    @property
    def over_limit(self) -> frozenset[Layout]:
        """Layouts that passed a limit of the user's up to now, and are left out for it."""
        now = (cell.layout for cell in self._cells.values() if cell.is_over_limit)
        return frozenset((*self._over_limit, *now))

    def leave_out(self, layouts: Iterable[Layout]) -> list[Layout]:
        """Take note of *layouts* that passed a limit of the user's in no cell; gives them, in order."""
        left_out = sorted(layouts)
        self._over_limit.update(left_out)
        self.failed += left_out
        return left_out

    def is_hopeless(self, layout: Layout) -> bool:
        """Whether it is not tried again: it failed, or will be told to have failed once its block ends."""
        first = self._first_cell.get(layout)
        has_failed = first is not None and first.is_hopeless and layout not in self._seen
        return layout in self.failed or has_failed or layout in self.over_limit

    def is_open(self, cell: Cell) -> bool:
        """Whether *cell* is to be tried."""
        return not cell.is_done and not self.is_hopeless(cell.layout)

    def end(self, cells: Sequence[Cell]) -> list[Layout]:
        """Take note of *cells*, a block or a part of it, that are over; gives the layouts that failed by it.

        That is: every launch of the first cell failed; or a launch passed a limit of the user's; or so many
        cells in a row gave no window while other layouts gave some. A box that is never quiet says nothing
        about a layout.
        """
        for cell in cells:
            self._cells.pop(id(cell), None)
            if cell.is_over_limit:
                self._over_limit.add(cell.layout)
            if cell.kept:
                self._seen.add(cell.layout)
                self._n_vain[cell.layout] = 0
            elif cell.is_vain:
                self._n_vain[cell.layout] += 1
                self._since.setdefault(cell.layout, self._n_windows)
            if not self._n_vain[cell.layout]:
                self._since.pop(cell.layout, None)
        self._n_windows += sum(len(cell.kept) for cell in cells)
        failed = [
            layout
            for layout in dict.fromkeys(cell.layout for cell in cells)
            if layout not in self.failed
            and (
                self.is_hopeless(layout)
                or (self._n_vain[layout] >= self._max_attempts and self._n_windows > self._since[layout])
            )
        ]
        self.failed += failed
        return failed
