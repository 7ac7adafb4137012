"""A study as its strategy leads it, block after block; what the store holds comes first."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Foreseeing, Proposal, Strategy
from tuner.study.exclusions import Failing
from tuner.study.history import History
from tuner.study.launch.plan_cells import Block, Cell


class Course:
    """The talk between a study and its strategy.

    The same calls in the same order for the same windows, whether they are measured now or were before: so a
    strategy decides in a resumed study as it did before the cut. Where it would have decided otherwise (the
    file is of another version of tuner), it is told what was measured and goes on from there.
    """

    def __init__(self, history: History, strategy: Strategy, max_attempts: int) -> None:
        self.otherwise: list[int] = []  #: blocks that were measured otherwise than the strategy asks now
        self.n_blocks_done = 0
        self._history = history
        self._strategy = strategy
        self._failing = Failing(max_attempts)

    @property
    def failed(self) -> Sequence[Layout]:
        """Layouts that cannot be run, gave no window while others did, or passed a limit of the user's."""
        return self._failing.failed

    def next_block(self) -> Block | None:
        """What the strategy asks for next; None: nothing."""
        proposals = self._strategy.propose()
        if not proposals and not self._history.holds_more:
            return None
        block, as_asked = self._history.next_block(proposals)
        if not as_asked:
            self.otherwise.append(block.number)
        self._failing.add(block.cells)
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
        return self._failing.is_open(cell)

    def end_block(self, block: Block) -> list[Layout]:
        """Tell the strategy what *block* gave, as far as it got; gives the layouts that failed with it."""
        observed = [seen for cell in block.cells for seen in cell.kept.values()]
        observed.sort(key=lambda seen: seen.began_s)
        failed = self._failing.end(block.cells)
        self._strategy.learn(observed, failed)
        self.n_blocks_done += not self.open_cells(block)
        return failed

    def expected_rest(self) -> list[Proposal] | None:
        """The launches to be expected after the block in hand; None: the strategy cannot tell."""
        if not isinstance(self._strategy, Foreseeing):
            return None
        rest = self._strategy.expected_rest()
        return None if rest is None else [one for one in rest if not self._failing.is_hopeless(one.layout)]

    @property
    def over_limit(self) -> frozenset[Layout]:
        """Layouts that passed a limit of the user's in the blocks up to now, and are left out for it."""
        return self._failing.over_limit
