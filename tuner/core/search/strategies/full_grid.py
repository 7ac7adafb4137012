"""The full grid: every layout once per block."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import fsum, log

from tuner.core.domain.layout import Layout, blocks
from tuner.core.domain.strategy import Answer, Goal, Observed, Proposal
from tuner.core.search.strategies.launches import Launches, by_launch, launch_value
from tuner.core.stats.groups import Comparison, compare, group_of
from tuner.core.stats.interval import Estimate
from tuner.core.stats.quantiles import student_t_quantile

# Estimates of a full grid, and the number of blocks that suffices.

PILOT_BLOCKS = 3  #: number of blocks of a grid that sizes itself, because the noise is unknown before
POWER = 0.8  #: probability of finding a real difference


class GridOrder:
    """The order of the layouts in each block, computed on demand; see `domain.layout.blocks`."""

    def __init__(self, layouts: Sequence[Layout], seed: int) -> None:
        self._layouts, self._seed = layouts, seed
        self._orders: tuple[tuple[Layout, ...], ...] = ()

    def of(self, block: int) -> tuple[Layout, ...]:
        """Return all layouts in the order of *block*."""
        if block >= len(self._orders):  # doubled, because a longer plan begins like a shorter one
            self._orders = blocks(self._layouts, 2 * block + 4, self._seed)
        return self._orders[block]


@dataclass(frozen=True, slots=True)
class GridEstimate:
    """The estimates of the launches so far, as logarithms."""

    effects: Mapping[Layout, float]
    #: variance of one launch around layout + block; None: no degrees of freedom are left for it
    variance: float | None
    df: float


class GridFit:
    """All launches with their blocks. It names the best mean, without any guarantee."""

    def __init__(self, goal: Goal) -> None:
        self._goal = goal
        self._launches = Launches()
        self._table = _Table(len(goal.layouts))
        self._n_windows = 0
        #: results with the number of windows, or blocks, that they include
        self._known: tuple[int, Comparison, Sequence[Layout]] | None = None

    def __len__(self) -> int:
        """Return the number of launches."""
        return len(self._launches)

    def add(self, launch: Sequence[Observed], block: int) -> None:
        """Add the windows of one launch in *block*."""
        self._n_windows += len(launch)
        self._launches.add(launch, block)
        self._table.add(launch[0].layout, block, log(launch_value(launch)))

    def end_block(self, block: int) -> None:
        """Mark *block* as finished."""
        self._table.end_block(block)

    def seen(self) -> GridEstimate:
        """Return the effects of the layouts, and their noise."""
        if self._table.is_whole and self._table.n_blocks:
            return self._table.seen()
        if not len(self._launches):
            return GridEstimate({}, None, 0.0)
        fitted, layouts = self._launches.fitted()
        effects = dict(zip(layouts, fitted.effects, strict=True))
        return GridEstimate(effects, fitted.residual_variance, float(fitted.residual_df))

    def answer(self, failed: Collection[Layout]) -> Answer:
        """Name the best mean over the blocks so far; ties are not significantly different from it."""
        if not len(self._launches):
            return Answer(None, False, "none")
        compared, layouts = self._compare()
        effects = dict(zip(layouts, compared.fit.effects, strict=True))
        ranked = sorted((x for x in layouts if x not in failed), key=lambda x: -effects[x])
        if not ranked:
            return Answer(None, False, "none")
        best, others = ranked[0], ranked[1:]
        if compared.fit.residual_variance is None or not others:
            return Answer(best, False, "none", tuple(others))
        number = {layout: index for index, layout in enumerate(layouts)}
        within, confidence = self._goal.within, self._goal.confidence
        groups = {
            other: group_of(
                compared.beside(number[other], number[best], [number[x] for x in ranked], within)[0],
                within=within,
                confidence=confidence,
            )
            for other in others
        }
        ties = tuple(other for other in others if groups[other] != "slower")
        tied = tuple(other for other in ties if groups[other] == "best-or-tied")
        return Answer(best, False, "none", ties, tied=tied)

    def _compare(self) -> tuple[Comparison, Sequence[Layout]]:
        """Compare all pairs (of whole blocks, if the table has no gap); return also the numbered layouts."""
        whole = self._table.whole_blocks if self._table.is_whole and self._table.n_blocks else None
        n_known = self._n_windows if whole is None else -len(whole)
        if self._known is None or self._known[0] != n_known:
            seen, layouts = self._launches.observed(whole)
            compared = compare(seen, len(layouts), self._goal.confidence, by_own_noise=True)
            self._known = n_known, compared, layouts
        return self._known[1:]

    def estimates(self) -> Mapping[Layout, Estimate]:
        """Estimate each launched layout's value, without drift between blocks."""
        return self._launches.estimates(self._goal.confidence, by_own_noise=True)

    def would_suffice(self, n_blocks: int) -> bool:
        """Return whether *n_blocks* blocks find a difference of the goal's margin with the power `POWER`.

        The test is a two-sided t-test of two layouts at the goal's confidence, with the variance so far.
        """
        seen = self.seen()
        if n_blocks < PILOT_BLOCKS or (seen.variance is None and len(seen.effects) > 1):
            return False
        if seen.variance is None:
            return True  # one layout: nothing to compare
        reach = student_t_quantile((1 + self._goal.confidence) / 2, seen.df)
        reach += student_t_quantile(POWER, seen.df)
        return n_blocks >= 2 * seen.variance * (reach / log(1 - self._goal.within)) ** 2


class _Table:
    """Sums of the whole blocks: the fit of `stats.two_way_anova` for a table without gaps, at low cost."""

    def __init__(self, n_layouts: int) -> None:
        self._n_layouts = n_layouts
        self._open: dict[int, dict[Layout, float]] = {}  #: incomplete blocks
        self._seen: set[tuple[int, Layout]] = set()
        self._centre: float | None = None
        self._totals: dict[Layout, float] = defaultdict(float)
        self._squares = 0.0
        self._block_squares = 0.0
        self.n_blocks = 0  #: number of complete blocks
        self.whole_blocks: set[int] = set()
        self.is_whole = True  #: False: a finished block lacks a layout, or has one twice

    def add(self, layout: Layout, block: int, value: float) -> None:
        if (block, layout) in self._seen:  # a further part of a launch: the table cannot hold both
            self.is_whole = False
            return
        self._seen.add((block, layout))
        if self._centre is None:
            self._centre = value
        values = self._open.setdefault(block, {})
        values[layout] = value - self._centre
        if len(values) == self._n_layouts:
            self._close(self._open.pop(block))
            self.whole_blocks.add(block)

    def end_block(self, block: int) -> None:
        if self._open.pop(block, None):
            self.is_whole = False

    def seen(self) -> GridEstimate:
        n, size = self.n_blocks, self._n_layouts
        assert self._centre is not None
        df = (n - 1) * (size - 1)
        variance = None
        if df:
            residual = self._squares - fsum(total**2 for total in self._totals.values()) / n
            residual += fsum(self._totals.values()) ** 2 / (n * size) - self._block_squares / size
            variance = max(0.0, residual) / df
        effects = {layout: self._centre + total / n for layout, total in self._totals.items()}
        return GridEstimate(effects, variance, float(df))

    def _close(self, values: Mapping[Layout, float]) -> None:
        for layout, value in values.items():
            self._totals[layout] += value
            self._squares += value**2
        self._block_squares += fsum(values.values()) ** 2
        self.n_blocks += 1


class FullGrid:
    """Randomised blocks of all layouts, in the order of `domain.layout.blocks`.

    It names the best mean without any guarantee; ties are not significantly different from it.

    A launch without a valid window leaves its place in the block empty, because the study has already
    repeated it. Later blocks omit a layout that failed.

    Args:
        goal: the layouts, and the longest window, which is the length of all windows of the grid.
        seed: of the random order.
        n_blocks: None sizes the grid: it ends when a difference of the goal's margin between two layouts
            would be found with a power of 80 % by a two-sided t-test at the goal's confidence, from the
            variance so far (after 3 blocks at the earliest).
        windows_per_launch: number of consecutive windows of a launch; a launch counts once.
    """

    def __init__(
        self, goal: Goal, seed: int, n_blocks: int | None = None, windows_per_launch: int = 1
    ) -> None:
        self._goal = goal
        self._n_blocks, self._windows_per_launch = n_blocks, windows_per_launch
        self._order = GridOrder(goal.layouts, seed)
        self._block = self._n_started = 0
        self._settled: set[Layout] = set()  # in the current block: launched, or without a result
        self._asked: tuple[Layout, ...] = ()  # proposed in it, without a result so far
        self._failed: set[Layout] = set()
        self._fit = GridFit(goal)
        self._fitted = 0  # the latest block with a launch in the fit

    def propose(self) -> Sequence[Proposal]:
        """Return the rest of the block, or the next block; empty when all are done."""
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
        """Add the windows of a block, or of any part of the grid, in the order of measurement."""
        self._failed.update(failed)
        heard = set()
        before: Layout | None = None
        for launch in by_launch(windows):
            layout = launch[0].layout
            is_the_rest = layout == before and layout in self._asked  # the rest of a launch that was repeated
            before = layout
            if layout in self._settled and not is_the_rest:
                self._block += 1
                self._settled = set()
            self._settled.add(layout)
            heard.add(layout)
            self._fit_to(launch)
        if self._asked and not heard and self._block < self._n_started - 1:  # a whole block without a result
            self._block = self._n_started - 1
            self._settled = set()
        self._settled.update(layout for layout in self._asked if layout not in heard)
        self._asked = ()

    def expected_rest(self) -> Sequence[Proposal] | None:
        """Return the launches of the blocks after the current one; None for a self-sized grid."""
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
        """Return the layout with the best mean over the blocks so far."""
        return self._fit.answer(self._failed)

    def estimates(self) -> Mapping[Layout, Estimate]:
        """Estimate each launched layout's value, without drift between blocks."""
        return self._fit.estimates()

    def _fit_to(self, launch: Sequence[Observed]) -> None:
        if self._fitted != self._block:
            self._fit.end_block(self._fitted)
            self._fitted = self._block
        self._fit.add(launch, self._block)

    def _is_enough(self, block: int) -> bool:
        """Return whether the first *block* blocks suffice."""
        if len(self._failed) == len(self._goal.layouts):
            return True
        return self._fit.would_suffice(block) if self._n_blocks is None else block >= self._n_blocks
