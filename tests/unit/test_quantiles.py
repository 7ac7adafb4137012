"""Our quantiles against scipy's, and against what must hold whoever computes them."""

from __future__ import annotations

from itertools import pairwise
from math import inf, sqrt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tuner.core.stats.quantiles import (
    student_t_quantile,
    student_t_tail,
    studentized_range_cdf,
    studentized_range_quantile,
)

pytestmark = pytest.mark.pythons

DFS = [0.7, 1, 1.5, 2, 3, 4.7, 5, 10, 30, 100, 1e3, 1e5, 1e8]
PROBABILITIES = [0.02, 0.5, 0.6, 0.9, 0.95, 0.975, 0.995, 0.9999, 1 - 1e-7]


@pytest.mark.parametrize("df", [*DFS, inf])
def test_quantiles_of_t_agree_with_scipy(df: float) -> None:
    for p in PROBABILITIES:
        expected = stats.norm.ppf(p) if df == inf else stats.t.ppf(p, df)

        assert student_t_quantile(p, df) == pytest.approx(expected, rel=1e-7, abs=1e-12)


@pytest.mark.parametrize("df", [1, 3, 30, 1e5, inf])
def test_quantiles_of_t_are_exact_however_far_below(df: float) -> None:
    for p in (1e-12, 1e-17, 1e-25):
        t = -student_t_quantile(p, df)

        assert student_t_tail(t, df) == pytest.approx(p, rel=1e-6)


@pytest.mark.parametrize("df", DFS)
def test_tails_of_t_agree_with_scipy_far_out(df: float) -> None:
    for t in [0, 0.1, 1, 2, 5, 20, 300]:
        assert student_t_tail(t, df) == pytest.approx(stats.t.sf(t, df), rel=1e-6)


# scipy takes 10 ms and more for one of its values; past df 1e5 it answers for an infinite df instead.
@pytest.mark.parametrize("df", [1, 1.5, 2, 3, 7.3, 20, 120, 9e4, inf])
@pytest.mark.parametrize("k", [2, 3, 5, 22, 174])
def test_quantiles_of_the_studentized_range_agree_with_scipy(k: int, df: float) -> None:
    for p in [0.5, 0.9, 0.95, 0.99]:
        q = studentized_range_quantile(p, k, df)

        assert stats.studentized_range.sf(q, k, df) == pytest.approx(1 - p, rel=1e-5)


@pytest.mark.parametrize(
    ("k", "df", "expected"),
    [(3, 10, 3.877), (10, 20, 5.008), (5, 4, 6.287), (20, 120, 5.126), (6, inf, 4.030)],
)
def test_the_tables_of_tukeys_test_are_met(k: int, df: float, expected: float) -> None:
    assert studentized_range_quantile(0.95, k, df) == pytest.approx(expected, abs=0.0016)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 174), st.floats(1, 1e4), st.floats(0.5, 0.999))
def test_a_quantile_undoes_its_distribution(k: int, df: float, p: float) -> None:
    assert studentized_range_cdf(studentized_range_quantile(p, k, df), k, df) == pytest.approx(p, abs=2e-8)


@settings(max_examples=200, deadline=None)
@given(st.floats(0.5, 1e6), st.floats(1e-6, 1 - 1e-6))
def test_t_is_symmetric_and_undone_by_its_tail(df: float, p: float) -> None:
    t = student_t_quantile(p, df)

    assert t == pytest.approx(-student_t_quantile(1 - p, df), rel=1e-6, abs=1e-9)
    assert student_t_tail(abs(t), df) == pytest.approx(min(p, 1 - p), rel=1e-6)


def test_two_values_are_a_t_in_disguise() -> None:
    for df in (1, 4, 30):
        # the range of two is sqrt(2) |t|
        assert studentized_range_cdf(4.0, 2, df) == pytest.approx(
            1 - 2 * student_t_tail(4 / sqrt(2), df), abs=1e-9
        )


def test_more_values_and_fewer_degrees_of_freedom_spread_wider() -> None:
    by_k = [studentized_range_quantile(0.95, k, 12) for k in (2, 3, 10, 50, 174)]
    by_df = [studentized_range_quantile(0.95, 10, df) for df in (inf, 1e6, 100, 10, 3, 1)]

    assert all(one < other for one, other in pairwise(by_k))
    assert all(one <= other * (1 + 1e-6) for one, other in pairwise(by_df))


def test_a_range_is_never_below_0() -> None:
    assert studentized_range_cdf(0, 5, 10) == 0
    assert studentized_range_cdf(-1, 5, 10) == 0
    assert studentized_range_cdf(1e6, 5, 10) == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize(
    "call",
    [
        lambda: student_t_quantile(0, 3),
        lambda: student_t_quantile(1, 3),
        lambda: student_t_quantile(0.9, 0),
        lambda: student_t_tail(-1, 3),
        lambda: studentized_range_quantile(0.4, 3, 3),
        lambda: studentized_range_quantile(0.9, 3, float("nan")),
        lambda: studentized_range_cdf(3, 1, 3),
    ],
)
def test_what_has_no_meaning_is_refused(call) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=r"."):
        call()
