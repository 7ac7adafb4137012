"""A study as its strategy leads it, block after block; what the store holds comes first."""

from __future__ import annotations

from collections import Counter

from tuner.core.layout import Layout
from tuner.core.strategy import Foreseeing, Proposal, Strategy
from tuner.study.cells import Block, Cell
from tuner.study.history import History


class Course:
    """The talk between a study and its strategy.

    The same calls in the same order for the same windows, whether they are measured now or were before: so a
    strategy decides in a resumed study as it did before the cut. Where it would have decided otherwise (the
    file is of another version of tuner), it is told what was measured and goes on from there.
    """

    def __init__(self, history: History, strategy: Strategy, max_attempts: int) -> None:
        #: cannot be run, never gave a window while others did, or passed a limit of the user's
        self.failed: list[Layout] = []
        self.otherwise: list[int] = []  #: blocks that were measured otherwise than the strategy asks now
        self.n_blocks_done = 0
        self._history = history
        self._strategy = strategy
        self._max_attempts = max_attempts
        self._first_cell: dict[Layout, Cell] = {}
        self._cells: list[Cell] = []
        self._n_vain: Counter[Layout] = Counter()  # cells in a row without a window
        self._since: dict[Layout, int] = {}  # windows of all layouts when that began
        self._n_windows = 0  # in the blocks that have ended

    def next_block(self) -> Block | None:
        """What the strategy asks for next; None: nothing."""
        proposals = self._strategy.propose()
        if not proposals and not self._history.holds_more:
            return None
        block, as_asked = self._history.next_block(proposals)
        if not as_asked:
            self.otherwise.append(block.number)
        for cell in block.cells:
            self._first_cell.setdefault(cell.layout, cell)
            self._cells.append(cell)
        return block

    def forward(self) -> Block | None:
        """The next block with something left to measure; None: there is none."""
        while (block := self.next_block()) is not None and not self.open_cells(block):
            self.end_block(block)
        return block

    def open_cells(self, block: Block) -> list[Cell]:
        """What is left to do of *block*, in run order."""
        return [] if block.is_closed else [cell for cell in block.cells if self.is_open(cell)]

    def is_open(self, cell: Cell) -> bool:
        """Whether *cell*, of a block that is not closed, is to be tried."""
        return not cell.is_done and not self._is_hopeless(cell.layout)

    def end_block(self, block: Block) -> list[Layout]:
        """Tell the strategy what *block* gave, as far as it got; gives the layouts that failed with it."""
        observed = [seen for cell in block.cells for seen in cell.kept.values()]
        observed.sort(key=lambda seen: seen.began_s)
        failed = self._failed_in(block, len(observed))
        self.failed += failed
        self._n_windows += len(observed)
        self._strategy.learn(observed, failed)
        self.n_blocks_done += not self.open_cells(block)
        return failed

    def expected_rest(self) -> list[Proposal] | None:
        """The launches to be expected after the block in hand; None: the strategy cannot tell."""
        if not isinstance(self._strategy, Foreseeing):
            return None
        rest = self._strategy.expected_rest()
        return None if rest is None else [one for one in rest if not self._is_hopeless(one.layout)]

    @property
    def over_limit(self) -> frozenset[Layout]:
        """Layouts that passed a limit of the user's in the blocks up to now, and are left out for it."""
        return frozenset(cell.layout for cell in self._cells if cell.is_over_limit)

    def _is_hopeless(self, layout: Layout) -> bool:
        """Whether it is not tried again: it failed, or will be told to have failed once its block ends."""
        first = self._first_cell.get(layout)
        return layout in self.failed or (first is not None and first.is_hopeless) or layout in self.over_limit

    def _failed_in(self, block: Block, n_observed: int) -> list[Layout]:
        """Layouts of *block* that cannot be run.

        That is: every launch of the first cell failed; or a launch passed a limit of the user's; or so many
        cells in a row gave no window while other layouts gave some. A box that is never quiet says nothing
        about a layout.
        """
        for cell in block.cells:
            if cell.kept:
                self._n_vain[cell.layout] = 0
            elif cell.is_vain:
                self._n_vain[cell.layout] += 1
                self._since.setdefault(cell.layout, self._n_windows)
            if not self._n_vain[cell.layout]:
                self._since.pop(cell.layout, None)
        n_windows = self._n_windows + n_observed
        return [
            layout
            for layout in dict.fromkeys(cell.layout for cell in block.cells)
            if layout not in self.failed
            and (
                self._is_hopeless(layout)
                or (self._n_vain[layout] >= self._max_attempts and n_windows > self._since[layout])
            )
        ]
