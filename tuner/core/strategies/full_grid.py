"""The full grid: every layout once per block, whatever was seen before."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum, inf, log, sqrt

from tuner.core.interval import Estimate
from tuner.core.layout import Layout
from tuner.core.plan import blocks
from tuner.core.quantiles import student_t_quantile, studentized_range_quantile
from tuner.core.strategies.launches import Launches, by_launch, launch_value
from tuner.core.strategy import Answer, Goal, Observed, Proposal

PILOT_BLOCKS = 3  #: a grid that sizes itself knows no noise before
POWER = 0.8  #: the usual chance of finding a difference that is there


class FullGrid:
    """Randomised blocks of all layouts, in the order of `tuner.core.plan.blocks`; the best mean is named.

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
        self._goal, self._seed = goal, seed
        self._n_blocks, self._windows_per_launch = n_blocks, windows_per_launch
        self._orders: tuple[tuple[Layout, ...], ...] = ()
        self._block = self._n_begun = 0
        self._settled: set[Layout] = set()  # in the current block: launched, or nothing came of it
        self._asked: tuple[Layout, ...] = ()  # and not heard of yet
        self._failed: set[Layout] = set()
        self._launches = Launches()
        self._table = _Table(len(goal.layouts))

    def propose(self) -> Sequence[Proposal]:
        """The rest of the block, or the next block; none once all are done."""
        block = self._block
        missing = [layout for layout in self._order(block) if layout not in self._settled | self._failed]
        if not missing:
            block += 1
            missing = [layout for layout in self._order(block) if layout not in self._failed]
        if self._is_enough(block):
            return []
        self._asked, self._n_begun = tuple(missing), block + 1
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
            self._launches.add(launch, self._block)
            self._table.add(layout, self._block, log(launch_value(launch)))
        if self._asked and not heard and self._block < self._n_begun - 1:  # a whole block in vain
            self._block = self._n_begun - 1
            self._settled = set()
        self._settled.update(layout for layout in self._asked if layout not in heard)
        self._asked = ()

    def expected_rest(self) -> Sequence[Proposal] | None:
        """The blocks after the one in hand, whole; None while the grid sizes itself."""
        if self._n_blocks is None:
            return None
        n_begun = max(self._n_begun, self._block + bool(self._settled))
        window_s = self._goal.max_window_s
        return [
            Proposal(layout, window_s, self._windows_per_launch)
            for block in range(n_begun, self._n_blocks)
            for layout in self._order(block)
            if layout not in self._failed
        ]

    def answer(self) -> Answer:
        """The best mean over the blocks so far."""
        seen = self._seen()
        ranked = sorted((x for x in seen.effects if x not in self._failed), key=lambda x: -seen.effects[x])
        if not ranked:
            return Answer(None, False, "none")
        best, others = ranked[0], ranked[1:]
        if seen.variance is None or not others:
            return Answer(best, False, "none", tuple(others))
        limit = studentized_range_quantile(self._goal.confidence, len(seen.effects), seen.df) / sqrt(2)
        ties = [
            other
            for other in others
            if seen.effects[best] - seen.effects[other]
            <= limit * sqrt(seen.variance * seen.difference_variance(best, other))
        ]
        return Answer(best, False, "none", tuple(ties))

    def estimates(self) -> Mapping[Layout, Estimate]:
        """Each launched layout's value, drift between blocks taken out."""
        return self._launches.estimates(self._goal.confidence)

    def _order(self, block: int) -> tuple[Layout, ...]:
        if block >= len(self._orders):  # twice as many at a time: a longer plan begins as the shorter one did
            self._orders = blocks(self._goal.layouts, 2 * block + 4, self._seed)
        return self._orders[block]

    def _is_enough(self, block: int) -> bool:
        """Whether the first *block* blocks are all that it takes."""
        if len(self._failed) == len(self._goal.layouts):
            return True
        if self._n_blocks is not None:
            return block >= self._n_blocks
        seen = self._seen()
        if block < PILOT_BLOCKS or (seen.variance is None and len(seen.effects) > 1):
            return False
        if seen.variance is None:
            return True  # one layout: there is nothing to find out
        reach = student_t_quantile((1 + self._goal.confidence) / 2, seen.df)
        reach += student_t_quantile(POWER, seen.df)
        return block >= 2 * seen.variance * (reach / log(1 - self._goal.within)) ** 2

    def _seen(self) -> _Seen:
        if self._table.is_whole and self._table.n_blocks:
            return self._table.seen()
        if not len(self._launches):
            return _Seen({}, None, 0.0, lambda _, __: 0.0)
        fitted, layouts = self._launches.fitted()
        number = {layout: index for index, layout in enumerate(layouts)}
        return _Seen(
            dict(zip(layouts, fitted.effects, strict=True)),
            fitted.residual_variance,
            float(fitted.residual_df),
            lambda one, other: fitted.difference_variance(number[one], number[other]) or inf,
        )


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the launches say so far, on the logarithmic scale."""

    effects: Mapping[Layout, float]
    variance: float | None  #: of one launch around layout + block; None: nothing is left over to tell it
    df: float
    difference_variance: Callable[[Layout, Layout], float]  #: of two effects, per unit of *variance*


class _Table:
    """Sums of the whole blocks: the fit of `tuner.core.additive` for a table without gaps, at no cost."""

    def __init__(self, n_layouts: int) -> None:
        self._n_layouts = n_layouts
        self._open: dict[Layout, float] = {}
        self._open_block = 0
        self._centre: float | None = None
        self._totals: dict[Layout, float] = defaultdict(float)
        self._squares = 0.0
        self._block_squares = 0.0
        self.n_blocks = 0  #: whole ones
        self.is_whole = True  #: no block but the last one lacks a layout

    def add(self, layout: Layout, block: int, value: float) -> None:
        if self._centre is None:
            self._centre = value
        if block != self._open_block and self._open:
            self.is_whole = False
        self._open_block = block
        self._open[layout] = value - self._centre
        if len(self._open) == self._n_layouts:
            self._close()

    def seen(self) -> _Seen:
        n, size = self.n_blocks, self._n_layouts
        assert self._centre is not None
        df = (n - 1) * (size - 1)
        variance = None
        if df:
            residual = self._squares - fsum(total**2 for total in self._totals.values()) / n
            residual += fsum(self._totals.values()) ** 2 / (n * size) - self._block_squares / size
            variance = max(0.0, residual) / df
        effects = {layout: self._centre + total / n for layout, total in self._totals.items()}
        return _Seen(effects, variance, float(df), lambda _, __: 2 / n)

    def _close(self) -> None:
        for layout, value in self._open.items():
            self._totals[layout] += value
            self._squares += value**2
        self._block_squares += fsum(self._open.values()) ** 2
        self.n_blocks += 1
        self._open = {}
