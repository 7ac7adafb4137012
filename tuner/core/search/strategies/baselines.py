"""Strategies to compare races with: F-race, one layout after the other, successive halving."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, erfc, fsum, inf, log, log2, sqrt
from random import Random

from tuner.core.defaults import LEAST_LAUNCHES
from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Answer, Goal, Observed, Proposal
from tuner.core.search.strategies.launches import Launches, by_launch, launch_value
from tuner.core.stats.interval import Estimate
from tuner.core.stats.quantiles import chi_square_tail, student_t_quantile

# Tests on ranks, as F-race uses them. Checked against scipy.stats in the tests.

_EXACT_UP_TO = 50  #: pairs; from there on the normal approximation of the signed-rank sum is good enough


@dataclass(frozen=True, slots=True)
class FriedmanTest:
    """Whether columns of a table differ, rows being blocks; rank 1 is the largest of a row."""

    p: float  #: of differences like these where columns are alike
    difference_sd: float  #: of a difference of two rank sums, for the t-test after it
    df: int  #: of that t-test


class RankSums:
    """Ranks within rows of *n_columns* values, added up by column as the rows come."""

    def __init__(self, n_columns: int) -> None:
        self.n_rows = 0
        self.sums = [0.0] * n_columns
        self._squares = 0.0

    def add(self, row: Sequence[float]) -> None:
        """Take one more row."""
        self.n_rows += 1
        for column, rank in enumerate(ranks(row)):
            self.sums[column] += rank
            self._squares += rank * rank

    def friedman_test(self) -> FriedmanTest:
        """Friedman's test with Conover's correction for ties, and what his t-tests of pairs after it need.

        Raises:
            ValueError: fewer than two rows or columns.

        Source: Conover, Practical Nonparametric Statistics (1999), section 5.8.
        """
        m, k = self.n_rows, len(self.sums)
        if m < 2 or k < 2:
            raise ValueError(f"a table of {m} rows and {k} columns")
        of_sums = sum(one * one for one in self.sums)
        middle = m * k * (k + 1) ** 2 / 4
        df = (m - 1) * (k - 1)
        if self._squares <= middle:  # all tied in every row
            return FriedmanTest(1.0, inf, df)
        statistic = (k - 1) * (of_sums - m * middle) / (self._squares - middle)
        sd = sqrt(max(0.0, 2 * (m * self._squares - of_sums) / df))
        return FriedmanTest(chi_square_tail(statistic, k - 1), sd, df)


def ranks(values: Sequence[float]) -> list[float]:
    """1 for the largest; equal values share the mean of their ranks."""
    order = sorted(range(len(values)), key=lambda index: -values[index])
    result = [0.0] * len(values)
    first = 0
    while first < len(order):
        end = first
        while end < len(order) and values[order[end]] == values[order[first]]:
            end += 1
        for index in order[first:end]:
            result[index] = (first + 1 + end) / 2
        first = end
    return result


def signed_rank_p(differences: Sequence[float]) -> float:
    """Two-sided p of Wilcoxon's signed-rank test for *differences* around 0; those that are 0 say nothing.

    Exact for up to 50 without ties, else the normal approximation with corrections for ties and continuity.
    """
    reported = sorted((difference for difference in differences if difference), key=abs)
    n = len(reported)
    if not n:
        return 1.0
    sizes = [-abs(difference) for difference in reported]  # the smallest difference has rank 1
    is_tied = len(set(sizes)) < n
    ranked = ranks(sizes) if is_tied else range(1, n + 1)
    positive = sum(rank for rank, difference in zip(ranked, reported, strict=True) if difference > 0)
    total = n * (n + 1) / 2
    smaller = min(positive, total - positive)
    if n <= _EXACT_UP_TO and not is_tied:
        return min(1.0, 2 * _signed_rank_cdf(round(smaller), n))
    ties = sum(count**3 - count for count in Counter(sizes).values()) if is_tied else 0
    sd = sqrt(n * (n + 1) * (2 * n + 1) / 24 - ties / 48)
    return min(1.0, erfc((total / 2 - smaller - 0.5) / sd / sqrt(2))) if sd else 1.0


def _signed_rank_cdf(at: int, n: int) -> float:
    """The probability that the ranks 1..n with random signs give a positive sum of *at* or less."""
    return sum(_signed_rank_ways(n)[: at + 1]) / 2.0**n


@lru_cache(maxsize=_EXACT_UP_TO)
def _signed_rank_ways(n: int) -> list[int]:
    """In how many ways signs give each sum."""
    ways = [1] + [0] * (n * (n + 1) // 2)
    for rank in range(1, n + 1):
        for total in range(len(ways) - 1, rank - 1, -1):
            ways[total] += ways[total - rank]
    return ways


FIRST_TEST = 5  #: blocks before the first test, as irace's firstTest
WINDOWS = 2000  #: the budget when none is given


class _Blocks:
    """Randomised blocks of the layouts that are left, until the windows are used up."""

    def __init__(self, goal: Goal, seed: int, n_windows: int) -> None:
        self._goal, self._random, self._left = goal, Random(seed), n_windows
        self._survivors = list(goal.layouts)
        self._launches = Launches()

    def propose(self) -> Sequence[Proposal]:
        """Return the next block."""
        if len(self._survivors) < 2 or self._left < len(self._survivors):
            return []
        order = list(self._survivors)
        self._random.shuffle(order)
        return [Proposal(layout, self._goal.max_window_s) for layout in order]

    def estimates(self) -> Mapping[Layout, Estimate]:
        """Return the value of each measured layout, without the drift between blocks."""
        return self._launches.estimates(self._goal.confidence)


class FRace(_Blocks):
    """Friedman's test after every block; where it finds a difference, a t-test on rank sums drops layouts.

    With two left, Wilcoxon's signed-rank test decides. It ends with one layout, or when the next block would
    pass the budget; the best sum of ranks is named. The tests are at the level 1 - confidence after every
    block, with no allowance for how often they look: it promises nothing that holds at the end.

    Source: Birattari et al. (2002); Lopez-Ibanez et al. (2016), section 2 (irace) for its first test and for
    two candidates.
    """

    def __init__(self, goal: Goal, seed: int, n_windows: int | None = None) -> None:
        super().__init__(goal, seed, n_windows if n_windows is not None else WINDOWS)
        self._rows: list[dict[Layout, float]] = []
        self._sums = RankSums(len(self._survivors))
        self._differences: list[float] = []  # block by block, once two are left
        self._leader: Layout | None = None

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


# One layout after the other: how it was done in 2014, and how hyperfine does it.


class InOrder:
    """All launches of one layout, then all of the next; the best mean is named, and nothing promised.

    Whatever the box does meanwhile goes into the difference between layouts: under drift more launches do
    not help.
    """

    def __init__(self, goal: Goal, n_each: int = 1) -> None:
        self._goal, self._n_each = goal, n_each
        self._values: dict[Layout, list[float]] = defaultdict(list)
        self._done: set[Layout] = set()  # what came of their launches is all that will
        self._asked: Layout | None = None
        self._launches = Launches()

    def propose(self) -> Sequence[Proposal]:
        """The launches of the next layout."""
        for layout in self._goal.layouts:
            lacking = self._n_each - len(self._values.get(layout, ()))
            if lacking > 0 and layout not in self._done:
                self._asked = layout
                return [Proposal(layout, self._goal.max_window_s)] * lacking
        return []

    def learn(self, windows: Sequence[Observed], failed: Sequence[Layout] = ()) -> None:
        """Take note of what its launches gave."""
        self._done.update(failed)
        if self._asked is not None:
            self._done.add(self._asked)
        for launch in by_launch(windows):
            self._values[launch[0].layout].append(log(launch_value(launch)))
            self._launches.add(launch, 0)

    def answer(self) -> Answer:
        """The best mean."""
        means = {layout: fsum(values) / len(values) for layout, values in self._values.items()}
        return Answer(max(means, key=lambda x: means[x]) if means else None, False, "none")

    def estimates(self) -> Mapping[Layout, Estimate]:
        """Each layout's mean. No interval: what the box did meanwhile is not known."""
        return self._launches.estimates(self._goal.confidence)


# Successive halving: a budget in equal parts, the better half of the layouts goes on.


WINDOWS_PER_LAYOUT = 10  #: the budget when none is given


class SuccessiveHalving(_Blocks):
    """Rounds of equal cost, after each of which the worse half is dropped; it promises nothing.

    A layout is dropped only once it was launched `stats.groups.LEAST_LAUNCHES` times: a first round has
    that many blocks, though the budget then ends with more layouts left.

    Within a round the layouts run in randomised blocks, and means are over all windows so far, which all
    survivors have equally many of: drift between blocks cancels.

    Source: Karnin, Koren & Somekh (2013), sequential halving; there a round forgets the ones before.
    """

    def __init__(self, goal: Goal, seed: int, n_windows: int | None = None) -> None:
        most = WINDOWS_PER_LAYOUT * len(goal.layouts)
        super().__init__(goal, seed, n_windows if n_windows is not None else most)
        self._n_blocks = 0
        self._blocks_left = self._blocks_of_round()
        self._values: dict[Layout, list[float]] = defaultdict(list)

    def learn(self, windows: Sequence[Observed], failed: Sequence[Layout] = ()) -> None:
        """Take note of a block; at the end of a round, drop the worse half."""
        for launch in by_launch(windows):
            self._values[launch[0].layout].append(log(launch_value(launch)))
            self._launches.add(launch, self._n_blocks)
        self._n_blocks += 1
        self._left -= len(self._survivors)  # a window that was void was paid for as well
        self._survivors = [layout for layout in self._survivors if layout not in failed]
        self._blocks_left -= 1
        if not self._blocks_left and self._survivors:
            better = self._ranked()[: ceil(len(self._survivors) / 2)]
            self._survivors = [
                layout
                for layout in self._survivors
                if layout in better or len(self._values.get(layout, ())) < LEAST_LAUNCHES
            ]
            self._blocks_left = self._blocks_of_round()

    def answer(self) -> Answer:
        """The best mean of the layouts that are left."""
        ranked = [layout for layout in self._ranked() if self._values.get(layout)]
        return Answer(ranked[0] if ranked else None, False, "none", tuple(ranked[1:]))

    def _blocks_of_round(self) -> int:
        n = len(self._survivors)
        n_rounds = max(1, ceil(log2(n)))
        return max(1, LEAST_LAUNCHES - self._n_blocks, self._left // (n_rounds * n))

    def _ranked(self) -> list[Layout]:
        means = {x: fsum(values) / len(values) for x, values in self._values.items() if values}
        return sorted(self._survivors, key=lambda x: -means.get(x, float("-inf")))
