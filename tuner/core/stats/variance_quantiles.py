"""Chi-square and F, for intervals of variances; without scipy, as `tuner.core.stats.quantiles`.

Checked against scipy.stats in the tests: quantiles agree to 1e-7 of their size.
"""

from __future__ import annotations

from functools import lru_cache
from math import exp, lgamma, log, sqrt
from statistics import NormalDist

from tuner.core.stats.quantiles import falling_root, incomplete_beta

_NORMAL = NormalDist()


def chi_square_cdf(x: float, df: float) -> float:
    """The probability that chi-square with *df* degrees of freedom stays below *x*."""
    _check(df)
    return 0.0 if x <= 0 else _gamma(x / 2, df / 2)[0]


@lru_cache(maxsize=4096)
def chi_square_quantile(p: float, df: float) -> float:
    """The *x* that chi-square with *df* degrees of freedom stays below with probability *p*, 0 < p < 1."""
    _check(df, p)
    low = high = _about(p, df)
    step = exp(min(0.25, 1 / sqrt(df)))
    while _gamma(low / 2, df / 2)[0] > p:
        low /= step
    while _gamma(high / 2, df / 2)[1] > 1 - p:
        high *= step
    if p < 0.5:
        return falling_root(lambda x: log(p / _gamma(x / 2, df / 2)[0]), low, high)
    return falling_root(lambda x: log(_gamma(x / 2, df / 2)[1] / (1 - p)), low, high)


def _about(p: float, df: float) -> float:
    """Near enough to the quantile of chi-square for a search: Wilson & Hilferty (1931), or the first term."""
    root = 1 - 2 / (9 * df) + _NORMAL.inv_cdf(p) * sqrt(2 / (9 * df))
    if root > 0.3:
        return df * root**3
    return 2 * exp((log(p) + lgamma(df / 2 + 1)) * 2 / df)


def chi_square_tail(x: float, df: float) -> float:
    """The probability that chi-square with *df* degrees of freedom exceeds *x*."""
    _check(df)
    return _gamma(x / 2, df / 2)[1] if x > 0 else 1.0


@lru_cache(maxsize=4096)
def f_quantile(p: float, df: float, other_df: float) -> float:
    """The value that the F distribution stays below with probability *p*, 0 < p < 1.

    *df* are the degrees of freedom above the line, *other_df* those below it.
    """
    _check(df, p)
    _check(other_df)
    if p < 0.5:
        return 1 / f_quantile(1 - p, other_df, df)

    def above(f: float) -> float:
        total = df * f + other_df
        return incomplete_beta(other_df / total, df * f / total, other_df / 2, df / 2)

    low = high = 1.0
    step = exp(min(0.7, sqrt(1 / df + 1 / other_df)))  # about the spread: far out there is only 0
    while above(low) < 1 - p:
        low /= step
    while above(high) > 1 - p:
        high *= step
    return falling_root(lambda f: log(above(f) / (1 - p)), low, high)


def _gamma(x: float, a: float) -> tuple[float, float]:
    """The regularised incomplete gamma functions, lower and upper, at *x* > 0.

    Below a + 1 the lower one by its series, above the upper one by Lentz's continued fraction.
    """
    front = exp(a * log(x) - x - lgamma(a))
    if x < a + 1:
        term = total = 1 / a
        n = a
        while term > total * 1e-16:
            n += 1
            term *= x / n
            total += term
        lower = min(1.0, front * total)
        return lower, 1 - lower
    tiny = 1e-300
    b = x + 1 - a
    c, d = 1 / tiny, 1 / b
    fraction = d
    for i in range(1, 10_000):
        numerator = -i * (i - a)
        b += 2
        d = 1 / ((numerator * d + b) or tiny)
        c = (b + numerator / c) or tiny
        fraction *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    upper = min(1.0, front * fraction)
    return 1 - upper, upper


def _check(df: float, p: float = 0.5) -> None:
    if not 0 < df < float("inf"):
        raise ValueError(f"degrees of freedom are positive, got {df}")
    if not 0 < p < 1:
        raise ValueError(f"a probability between 0 and 1, got {p}")
