"""Quantiles of variances against scipy's."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tuner.core.stats.quantiles import chi_square_cdf, chi_square_quantile, f_quantile

DFS = [0.7, 1, 2, 3, 4.7, 10, 63, 500, 1e4, 1e5]
PROBABILITIES = [1e-6, 0.005, 0.025, 0.3, 0.5, 0.8, 0.95, 0.975, 0.9999]


@pytest.mark.parametrize("df", DFS)
def test_chi_square_agrees_with_scipy(df: float) -> None:
    for p in PROBABILITIES:
        assert chi_square_quantile(p, df) == pytest.approx(stats.chi2.ppf(p, df), rel=1e-7)


@pytest.mark.parametrize("df", [1, 2, 3, 4.7, 10, 63, 500, 1e4, 2e5])
@pytest.mark.parametrize("other_df", [1, 2, 5.5, 40, 1e4, 1e5])
def test_f_agrees_with_scipy(df: float, other_df: float) -> None:
    for p in (0.005, 0.025, 0.5, 0.95, 0.975, 0.999):
        assert f_quantile(p, df, other_df) == pytest.approx(stats.f.ppf(p, df, other_df), rel=1e-6)


@settings(max_examples=100, deadline=None)
@given(st.floats(0.5, 1e4), st.floats(1e-6, 1 - 1e-6))
def test_a_quantile_undoes_its_distribution(df: float, p: float) -> None:
    assert chi_square_cdf(chi_square_quantile(p, df), df) == pytest.approx(p, rel=1e-7)


def test_nothing_is_below_0() -> None:
    assert chi_square_cdf(0.0, 3) == 0.0
    assert chi_square_cdf(-1.0, 3) == 0.0


@pytest.mark.parametrize(("p", "df"), [(0.5, 0), (0.5, float("inf")), (0.0, 3), (1.0, 3)])
def test_what_cannot_be_is_refused(p: float, df: float) -> None:
    with pytest.raises(ValueError, match="got"):
        chi_square_quantile(p, df)
    with pytest.raises(ValueError, match="got"):
        f_quantile(p, df, 2)
