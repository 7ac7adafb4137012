"""The full grid: every layout once per block, whatever was seen before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Answer, Goal, Observed, Proposal
from tuner.core.search.strategies.grid_fit import GridFit, GridOrder
from tuner.core.search.strategies.launches import by_launch
from tuner.core.stats.interval import Estimate


class FullGrid:
    """Randomised blocks of all layouts, in the order of `domain.run_order.blocks`; the best mean is named.

    It names the best mean and promises nothing of it; ties are what Tukey's limit cannot tell from it.

    A launch that gave no valid window leaves its place in the block empty: whoever takes the windows has
    tried again by then. A layout that failed is in no further block.

    Args:
        goal: which layouts, and the longest window: the grid takes all its windows that long.
        seed: of the order.
        n_blocks: None sizes the grid: it ends when a difference of the goal's margin between two layouts
            would be found with a power of 80 % by a two-sided t-test at the goal's confidence, from the
            variance seen so far (after 3 blocks at the earliest).
        windows_per_launch: taken one after the other; a launch counts once.
    """

    def __init__(
        self, goal: Goal, seed: int, n_blocks: int | None = None, windows_per_launch: int = 1
    ) -> None:
        self._goal = goal
        self._n_blocks, self._windows_per_launch = n_blocks, windows_per_launch
        self._order = GridOrder(goal.layouts, seed)
        self._block = self._n_started = 0
        self._settled: set[Layout] = set()  # in the current block: launched, or nothing came of it
        self._asked: tuple[Layout, ...] = ()  # and not heard of yet
        self._failed: set[Layout] = set()
        self._fit = GridFit(goal)
        self._fitted = 0  # the latest block that it has a launch of

    def propose(self) -> Sequence[Proposal]:
        """The rest of the block, or the next block; none once all are done."""
        block = self._block
        missing = [layout for layout in self._order.of(block) if layout not in self._settled | self._failed]
        if not missing:
            block += 1
            missing = [layout for layout in self._order.of(block) if layout not in self._failed]
        if self._is_enough(block):
            return []
        self._asked, self._n_started = tuple(missing), block + 1
        window_s = self._goal.max_window_s
        return [Proposal(layout, window_s, self._windows_per_launch) for layout in missing]

    def learn(self, windows: Sequence[Observed], failed: Sequence[Layout] = ()) -> None:
        """Take note of a block, or of any part of the grid, in the order it was taken."""
        self._failed.update(failed)
        heard = set()
        before: Layout | None = None
        for launch in by_launch(windows):
            layout = launch[0].layout
            is_the_rest = layout == before and layout in self._asked  # of one that had to be launched again
            before = layout
            if layout in self._settled and not is_the_rest:
                self._block += 1
                self._settled = set()
            self._settled.add(layout)
            heard.add(layout)
            self._fit_to(launch)
        if self._asked and not heard and self._block < self._n_started - 1:  # a whole block in vain
            self._block = self._n_started - 1
            self._settled = set()
        self._settled.update(layout for layout in self._asked if layout not in heard)
        self._asked = ()

    def expected_rest(self) -> Sequence[Proposal] | None:
        """The blocks after the one in hand, whole; None while the grid sizes itself."""
        if self._n_blocks is None:
            return None
        n_started = max(self._n_started, self._block + bool(self._settled))
        window_s = self._goal.max_window_s
        return [
            Proposal(layout, window_s, self._windows_per_launch)
            for block in range(n_started, self._n_blocks)
            for layout in self._order.of(block)
            if layout not in self._failed
        ]

    def answer(self) -> Answer:
        """The best mean over the blocks so far."""
        return self._fit.answer(self._failed)

    def estimates(self) -> Mapping[Layout, Estimate]:
        """Each launched layout's value, drift between blocks taken out."""
        return self._fit.estimates()

    def _fit_to(self, launch: Sequence[Observed]) -> None:
        if self._fitted != self._block:
            self._fit.end_block(self._fitted)
            self._fitted = self._block
        self._fit.add(launch, self._block)

    def _is_enough(self, block: int) -> bool:
        """Whether the first *block* blocks are all that it takes."""
        if len(self._failed) == len(self._goal.layouts):
            return True
        return self._fit.would_suffice(block) if self._n_blocks is None else block >= self._n_blocks
