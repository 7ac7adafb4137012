"""Rank tests, with scipy as the oracle."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from scipy import stats

from tuner.core.search.strategies.baselines import FriedmanTest, RankSums, ranks, signed_rank_p
from tuner.core.stats.quantiles import chi_square_tail


def friedman_test(rows: Sequence[Sequence[float]]) -> FriedmanTest:
    return rank_sums(rows).friedman_test()


def rank_sums(rows: Sequence[Sequence[float]]) -> RankSums:
    sums = RankSums(len(rows[0]))
    for row in rows:
        sums.add(row)
    return sums


@pytest.mark.parametrize("df", [1, 2, 5, 23, 173])
def test_the_tail_of_chi_square_is_scipy_s(df: int) -> None:
    for x in (0.0, 0.1, 1.0, df / 2, df, df + 1, 2 * df, 5 * df + 20):
        assert chi_square_tail(x, df) == pytest.approx(float(stats.chi2.sf(x, df)), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_friedman_s_test_is_scipy_s_with_ties_and_without(seed: int) -> None:
    random = Random(seed)
    table = [[random.gauss(column / 5, 1) for column in range(6)] for _ in range(12)]
    tied = [[round(value) for value in row] for row in table]

    for rows in (table, tied):
        expected = stats.friedmanchisquare(*zip(*rows, strict=True)).pvalue
        assert friedman_test(rows).p == pytest.approx(expected)


def test_the_sd_of_a_difference_of_rank_sums_is_that_of_conover_s_t_test() -> None:
    # Worked by hand: two columns, the first larger in three rows of four. Ranks: A = 4 x (1 + 4) = 20,
    # rank sums 5 and 7, so the sd is sqrt(2 (4 x 20 - 25 - 49) / 3) = 2.
    sums = rank_sums([[2, 1], [2, 1], [2, 1], [1, 2]])
    test = sums.friedman_test()

    assert sums.sums == [5, 7]
    assert test.difference_sd == pytest.approx(2.0)
    assert test.df == 3


def test_where_all_are_tied_nothing_differs() -> None:
    assert friedman_test([[1.0, 1.0, 1.0]] * 4).p == 1.0


@pytest.mark.parametrize("n", [1, 2, 5, 12, 30, 50])
def test_the_signed_rank_test_is_scipy_s_exact_one(n: int) -> None:
    random = Random(n)
    differences = [random.gauss(0.3, 1) for _ in range(n)]

    assert signed_rank_p(differences) == pytest.approx(stats.wilcoxon(differences, method="exact").pvalue)


def test_many_pairs_and_ties_take_the_normal_approximation() -> None:
    random = Random(1)
    many = [random.gauss(0.1, 1) for _ in range(120)]
    tied = [round(value * 2) for value in many[:40]]

    for differences in (many, tied):
        expected = stats.wilcoxon(differences, method="asymptotic", correction=True).pvalue
        assert signed_rank_p(differences) == pytest.approx(expected)


def test_differences_of_nothing_say_nothing() -> None:
    assert signed_rank_p([0.0, 0.0]) == 1.0


def test_equal_values_share_their_ranks() -> None:
    assert ranks([5, 7, 5, 1]) == [2.5, 1, 2.5, 4]


def test_one_row_is_no_table() -> None:
    with pytest.raises(ValueError, match="1 rows"):
        friedman_test([[1.0, 2.0]])
