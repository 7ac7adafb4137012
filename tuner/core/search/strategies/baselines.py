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

# Rank tests of F-race. The tests compare them with scipy.stats.

#: number of pairs from which the normal approximation of the signed-rank sum is accurate enough
_EXACT_UP_TO = 50


@dataclass(frozen=True, slots=True)
class FriedmanTest:
    """Result of a test whether columns of a table differ; rows are blocks, rank 1 is a row's largest."""

    p: float  #: probability of differences as large if the columns do not differ
    difference_sd: float  #: standard deviation of a difference of two rank sums, for the subsequent t-test
    df: int  #: degrees of freedom of the t-test


class RankSums:
    """Ranks within rows of *n_columns* values, summed by column."""

    def __init__(self, n_columns: int) -> None:
        self.n_rows = 0
        self.sums = [0.0] * n_columns
        self._squares = 0.0

    def add(self, row: Sequence[float]) -> None:
        """Add one row."""
        self.n_rows += 1
        for column, rank in enumerate(ranks(row)):
            self.sums[column] += rank
            self._squares += rank * rank

    def friedman_test(self) -> FriedmanTest:
        """Compute Friedman's test with Conover's correction for ties, and the input of his pairwise t-tests.

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
    """Return the rank of each value: 1 for the largest; equal values share the mean of their ranks."""
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
    """Return the two-sided p of Wilcoxon's signed-rank test for *differences* around 0; zeros are ignored.

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
    """Return the probability that ranks 1..n with random signs have a positive sum of *at* or less."""
    return sum(_signed_rank_ways(n)[: at + 1]) / 2.0**n


@lru_cache(maxsize=_EXACT_UP_TO)
def _signed_rank_ways(n: int) -> list[int]:
    """Return the number of sign combinations for each sum."""
    ways = [1] + [0] * (n * (n + 1) // 2)
    for rank in range(1, n + 1):
        for total in range(len(ways) - 1, rank - 1, -1):
            ways[total] += ways[total - rank]
    return ways


FIRST_TEST = 5  #: number of blocks before the first test, as irace's firstTest
WINDOWS = 2000  #: default budget of windows


class _Blocks:
    """Randomised blocks of the remaining layouts, until the budget of windows is used."""

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
    """F-race: Friedman's test per block; if it finds a difference, a t-test on rank sums drops layouts.

    With two left, Wilcoxon's signed-rank test decides. It ends with one layout, or when the next block would
    pass the budget; it names the best sum of ranks. The tests are at the level 1 - confidence after every
    block, without a correction for repeated tests, so the final answer has no guarantee.

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
        """Add a block, test, and drop layouts."""
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
        """Return the layout with the best sum of ranks."""
        others = [layout for layout in self._survivors if layout != self._leader]
        return Answer(self._leader, False, "none", tuple(others) if self._leader else ())

    def _test(self) -> None:
        sums = self._sums
        if not sums.n_rows:  # no block has all survivors
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
            self._keep([x for x, rank_sum in self._rank() if rank_sum - sums.sums[best] <= reach])

    def _rank(self) -> list[tuple[Layout, float]]:
        return list(zip(self._survivors, self._sums.sums, strict=True))

    def _keep(self, survivors: list[Layout]) -> None:
        """Keep only *survivors*, and compute their ranks among each other again."""
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


# One layout after the other: the method of 2014, and of hyperfine.


class InOrder:
    """All launches of one layout, then all of the next; it names the best mean without any guarantee.

    Changes of the host over time add to the differences between layouts, so under drift more launches do not
    help.
    """

    def __init__(self, goal: Goal, n_each: int = 1) -> None:
        self._goal, self._n_each = goal, n_each
        self._values: dict[Layout, list[float]] = defaultdict(list)
        self._done: set[Layout] = set()  # layouts whose launches have all been made
        self._asked: Layout | None = None
        self._launches = Launches()

    def propose(self) -> Sequence[Proposal]:
        """Return the launches of the next layout."""
        for layout in self._goal.layouts:
            lacking = self._n_each - len(self._values.get(layout, ()))
            if lacking > 0 and layout not in self._done:
                self._asked = layout
                return [Proposal(layout, self._goal.max_window_s)] * lacking
        return []

    def learn(self, windows: Sequence[Observed], failed: Sequence[Layout] = ()) -> None:
        """Add the windows of a layout's launches."""
        self._done.update(failed)
        if self._asked is not None:
            self._done.add(self._asked)
        for launch in by_launch(windows):
            self._values[launch[0].layout].append(log(launch_value(launch)))
            self._launches.add(launch, 0)

    def answer(self) -> Answer:
        """Return the layout with the best mean."""
        means = {layout: fsum(values) / len(values) for layout, values in self._values.items()}
        return Answer(max(means, key=lambda x: means[x]) if means else None, False, "none")

    def estimates(self) -> Mapping[Layout, Estimate]:
        """Estimate each layout's mean, without an interval, because changes of the host are unknown."""
        return self._launches.estimates(self._goal.confidence)


# Successive halving: equal parts of a budget, each of which keeps the better half of the layouts.


WINDOWS_PER_LAYOUT = 10  #: default budget of windows per layout


class SuccessiveHalving(_Blocks):
    """Rounds of equal cost, each of which drops the worse half; the answer has no guarantee.

    A layout is dropped only after `stats.groups.LEAST_LAUNCHES` launches: a first round has that many
    blocks, even if the budget then ends with more layouts left.

    Within a round the layouts run in randomised blocks. Means are over all windows so far, of which all
    survivors have equally many, so drift between blocks cancels.

    Source: Karnin, Koren & Somekh (2013), sequential halving; their rounds ignore earlier rounds.
    """

    def __init__(self, goal: Goal, seed: int, n_windows: int | None = None) -> None:
        most = WINDOWS_PER_LAYOUT * len(goal.layouts)
        super().__init__(goal, seed, n_windows if n_windows is not None else most)
        self._n_blocks = 0
        self._blocks_left = self._blocks_of_round()
        self._values: dict[Layout, list[float]] = defaultdict(list)

    def learn(self, windows: Sequence[Observed], failed: Sequence[Layout] = ()) -> None:
        """Add a block; at the end of a round, drop the worse half."""
        for launch in by_launch(windows):
            self._values[launch[0].layout].append(log(launch_value(launch)))
            self._launches.add(launch, self._n_blocks)
        self._n_blocks += 1
        self._left -= len(self._survivors)  # an invalid window also uses budget
        self._survivors = [layout for layout in self._survivors if layout not in failed]
        self._blocks_left -= 1
        if not self._blocks_left and self._survivors:
            better = self._rank()[: ceil(len(self._survivors) / 2)]
            self._survivors = [
                layout
                for layout in self._survivors
                if layout in better or len(self._values.get(layout, ())) < LEAST_LAUNCHES
            ]
            self._blocks_left = self._blocks_of_round()

    def answer(self) -> Answer:
        """Return the best mean of the remaining layouts."""
        ranked = [layout for layout in self._rank() if self._values.get(layout)]
        return Answer(ranked[0] if ranked else None, False, "none", tuple(ranked[1:]))

    def _blocks_of_round(self) -> int:
        n = len(self._survivors)
        n_rounds = max(1, ceil(log2(n)))
        return max(1, LEAST_LAUNCHES - self._n_blocks, self._left // (n_rounds * n))

    def _rank(self) -> list[Layout]:
        means = {x: fsum(values) / len(values) for x, values in self._values.items() if values}
        return sorted(self._survivors, key=lambda x: -means.get(x, float("-inf")))
