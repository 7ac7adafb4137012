"""Wilson's interval against published values, and what it promises."""

from __future__ import annotations

import pytest
from scipy import stats

from tuner.core.stats.interval import wilson_interval

pytestmark = pytest.mark.pythons


@pytest.mark.parametrize(
    ("n_hits", "n", "low", "high"),
    [
        (81, 263, 0.2553, 0.3662),  # Newcombe (1998), table I, method 3
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_it_gives_the_published_figures(n_hits: int, n: int, low: float, high: float) -> None:
    assert wilson_interval(n_hits, n) == pytest.approx((low, high), abs=6e-5)


@pytest.mark.parametrize(("n_hits", "n"), [(0, 1), (1, 1), (7, 9), (950, 1000), (40_000, 40_000)])
@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.999])
def test_it_gives_scipy_s_figures(n_hits: int, n: int, confidence: float) -> None:
    oracle = stats.binomtest(n_hits, n).proportion_ci(confidence, method="wilson")

    assert wilson_interval(n_hits, n, confidence) == pytest.approx((oracle.low, oracle.high), abs=1e-12)


@pytest.mark.parametrize(("n_hits", "n"), [(0, 0), (3, 2), (-1, 5)])
def test_what_is_no_share_is_refused(n_hits: int, n: int) -> None:
    with pytest.raises(ValueError, match=f"{n_hits} of {n}"):
        wilson_interval(n_hits, n)
