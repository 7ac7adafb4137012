"""F-race: blocks of all survivors, and a test on ranks after each that drops the worst."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Answer, Goal, Observed, Proposal
from tuner.core.search.strategies.launches import Launches, by_launch, launch_value
from tuner.core.search.strategies.rank_tests import RankSums, signed_rank_p
from tuner.core.stats.interval import Estimate
from tuner.core.stats.quantiles import student_t_quantile

FIRST_TEST = 5  #: blocks before the first test, as irace's firstTest
WINDOWS = 2000  #: the budget when none is given


class FRace:
    """Friedman's test after every block; where it finds a difference, a t-test on rank sums drops layouts.

    With two left, Wilcoxon's signed-rank test decides. It ends with one layout, or when the next block would
    pass the budget; the best sum of ranks is named. The tests are at the level 1 - confidence after every
    block, with no allowance for how often they look: it promises nothing that holds at the end.

    Source: Birattari et al. (2002); Lopez-Ibanez et al. (2016), section 2 (irace) for its first test and for
    two candidates.
    """

    def __init__(self, goal: Goal, seed: int, n_windows: int | None = None) -> None:
        self._goal, self._random = goal, Random(seed)
        self._left = n_windows if n_windows is not None else WINDOWS
        self._survivors = list(goal.layouts)
        self._rows: list[dict[Layout, float]] = []
        self._sums = RankSums(len(self._survivors))
        self._differences: list[float] = []  # block by block, once two are left
        self._leader: Layout | None = None
        self._launches = Launches()

    def propose(self) -> Sequence[Proposal]:
        """The next block of the layouts that are left."""
        if len(self._survivors) < 2 or self._left < len(self._survivors):
            return []
        order = list(self._survivors)
        self._random.shuffle(order)
        return [Proposal(layout, self._goal.max_window_s) for layout in order]

    def learn(self, windows: Sequence[Observed], failed: Sequence[Layout] = ()) -> None:
        """Take note of a block, test, and drop."""
        row = {}
        for launch in by_launch(windows):
            row[launch[0].layout] = launch_value(launch)
            self._launches.add(launch, len(self._rows))
        self._rows.append(row)
        self._left -= len(self._survivors)
        self._add(row)
        self._keep([layout for layout in self._survivors if layout not in failed])
        if len(self._survivors) > 1:
            self._test()
        else:
            self._leader = self._survivors[0] if self._survivors else None

    def answer(self) -> Answer:
        """The best sum of ranks."""
        others = [layout for layout in self._survivors if layout != self._leader]
        return Answer(self._leader, False, "none", tuple(others) if self._leader else ())

    def estimates(self) -> Mapping[Layout, Estimate]:
        """Each layout's value, drift between blocks taken out."""
        return self._launches.estimates(self._goal.confidence)

    def _test(self) -> None:
        sums = self._sums
        if not sums.n_rows:  # no block has them all
            row = self._rows[-1] if self._rows else {}
            self._leader = max(self._survivors, key=lambda layout: row.get(layout, 0.0))
            return
        best = min(range(len(self._survivors)), key=lambda index: sums.sums[index])
        self._leader = self._survivors[best]
        doubt = 1 - self._goal.confidence
        if len(self._rows) < FIRST_TEST or sums.n_rows < 2:
            return
        if len(self._survivors) == 2:
            if signed_rank_p(self._differences) < doubt:
                self._survivors = [self._leader]
            return
        test = sums.friedman_test()
        if test.p < doubt:
            reach = student_t_quantile(1 - doubt / 2, test.df) * test.difference_sd
            self._keep([x for x, rank_sum in self._ranked() if rank_sum - sums.sums[best] <= reach])

    def _ranked(self) -> list[tuple[Layout, float]]:
        return list(zip(self._survivors, self._sums.sums, strict=True))

    def _keep(self, survivors: list[Layout]) -> None:
        """Go on with *survivors*: their ranks among each other are others than among all."""
        if survivors != self._survivors:
            self._survivors, self._sums, self._differences = survivors, RankSums(len(survivors)), []
            for row in self._rows:
                self._add(row)

    def _add(self, row: Mapping[Layout, float]) -> None:
        if all(layout in row for layout in self._survivors):
            values = [row[layout] for layout in self._survivors]
            self._sums.add(values)
            if len(values) == 2:
                self._differences.append(values[0] - values[1])
