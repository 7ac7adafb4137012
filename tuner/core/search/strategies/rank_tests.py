"""Tests on ranks, as F-race uses them. Checked against scipy.stats in the tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import erfc, inf, sqrt

from tuner.core.stats.variance_quantiles import chi_square_tail

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
