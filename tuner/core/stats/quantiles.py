"""Student's t and the studentized range without scipy, because ranking must start in milliseconds.

Degrees of freedom need not be whole (Satterthwaite gives fractions) and may be ``math.inf``. Checked against
scipy.stats in the tests: probabilities agree to 1e-9 (beyond a million degrees of freedom to 1e-6), quantiles
to 1e-7 of their size.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import erfc, exp, inf, lgamma, log, log2, pi, sqrt
from statistics import NormalDist

_NORMAL = NormalDist()


def student_t_tail(t: float, df: float) -> float:
    """Return the probability that Student's t with *df* degrees of freedom exceeds *t*, *t* >= 0.

    Its relative error stays small for any *t*.
    """
    _check_df(df)
    if t < 0:
        raise ValueError(f"the upper tail begins at 0, got {t}")
    if df > 1e10:
        return erfc(t / sqrt(2)) / 2
    squared = t * t
    return incomplete_beta(df / (df + squared), squared / (df + squared), df / 2, 0.5) / 2


def tail_beyond(gap: float, error: float, df: float) -> float:
    """Return the probability that Student's t of scale *error* exceeds *gap*, of either sign."""
    if not error:
        return float(gap < 0)
    t = gap / error
    return student_t_tail(t, df) if t >= 0 else 1 - student_t_tail(-t, df)


@lru_cache(maxsize=4096)
def student_t_quantile(p: float, df: float) -> float:
    """Return the quantile of Student's t with *df* degrees of freedom at probability *p*, 0 < p < 1.

    Below 0.5 it is exact for any small *p*: if 1 - *p* would be 1, pass *p* and change the sign.
    """
    _check_p(p)
    _check_df(df)
    if p == 0.5:
        return 0.0
    normal = abs(_NORMAL.inv_cdf(p))
    reach = normal if df > 1e10 else _student_t_beyond(min(p, 1 - p), df, normal)
    return reach if p > 0.5 else -reach


def _student_t_beyond(tail: float, df: float, normal: float) -> float:
    """Return the *t* that is exceeded with probability *tail*, below 0.5; *normal* is the normal quantile."""
    low, high = normal, 2 * normal + 1  # t has the heavier tails
    while student_t_tail(high, df) > tail:
        low, high = high, 4 * high
    return falling_root(lambda t: log(student_t_tail(t, df) / tail), low, high)


def studentized_range_cdf(q: float, k: int, df: float) -> float:
    """Return the probability that the range of *k* normals over an independent sd of *df* is below *q*.

    The double integral is done by the trapezoidal rule in z and in the logarithm of the sd, which converges
    exponentially for such smooth, fast-falling integrands (Trefethen & Weideman 2014).

    Source: Copenhaver & Holland (1988) for the integral.
    """
    _check_df(df)
    if k < 2:
        raise ValueError(f"a range needs two values or more, got {k}")
    if q <= 0:
        return 0.0
    if df > 1e6:  # the sd is known; the error is below 1e-6 of the quantile
        return _range_cdf(q, k)
    # u = ln(sd) has the density exp(df (u - exp(2u) / 2)) up to a constant: its peak is at 0 with sd
    # 1 / sqrt(2 df). The steps follow it, but are not coarser than the range as a function of u needs.
    step = min(0.7 / sqrt(2 * df), 0.18, 0.3 / log2(k))
    constant = log(2) + df / 2 * log(df / 2) - lgamma(df / 2)
    total = 0.0
    for direction, first in ((step, 0), (-step, 1)):
        u = direction * first
        while True:
            density = exp(constant + df * (u - exp(2 * u) / 2))
            term = density * _range_cdf(q * exp(u), k)
            total += term
            if term < 1e-13:
                break
            u += direction
    return min(total * step, 1.0)


@lru_cache(maxsize=4096)
def studentized_range_quantile(p: float, k: int, df: float) -> float:
    """Return the quantile of the studentized range at probability *p*, 0.5 <= p < 1 (Tukey uses 0.95).

    Raises:
        ValueError: *p* outside that, *k* < 2, or *df* not positive.
    """
    _check_p(p)
    if p < 0.5:
        raise ValueError(f"quantiles are given from 0.5 up, got {p}")
    # One pair alone is a t; all pairs cannot be worse than the sum of each (Bonferroni).
    low = sqrt(2) * student_t_quantile((1 + p) / 2, df)
    if k == 2:
        return low
    high = sqrt(2) * student_t_quantile(1 - (1 - p) / (k * (k - 1)), df)
    return falling_root(lambda q: log((1 - studentized_range_cdf(q, k, df)) / (1 - p)), low, high)


_Z_STEP = 0.25
_Z = [index * _Z_STEP for index in range(-26, 33)]
_Z_WEIGHTS = [_Z_STEP * exp(-z * z / 2) / sqrt(2 * pi) for z in _Z]
_Z_CDF = [erfc(-z / sqrt(2)) / 2 for z in _Z]


def _range_cdf(w: float, k: int) -> float:
    """Return the probability that *k* standard normals lie within *w* of each other."""
    if w > 18:
        return 1.0
    total = 0.0
    # z is the largest of them, all the rest lie between z - w and z
    for z, weight, below in zip(_Z, _Z_WEIGHTS, _Z_CDF, strict=True):
        between = below - erfc((w - z) / 1.4142135623730951) / 2
        if between > 0:
            total += weight * between ** (k - 1)
    return min(k * total, 1.0)


def incomplete_beta(x: float, complement: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function at *x* = 1 - *complement*, by Lentz's fraction."""
    if x <= 0:
        return 0.0
    if complement <= 0:
        return 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - incomplete_beta(complement, x, b, a)
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log(complement)) / a
    tiny = 1e-300
    c, d = 1.0, 1 / ((1 - (a + b) * x / (a + 1)) or tiny)
    fraction = d
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1 / ((1 + even * d) or tiny)
        c = (1 + even / c) or tiny
        fraction *= c * d
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d = 1 / ((1 + odd * d) or tiny)
        c = (1 + odd / c) or tiny
        fraction *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return front * fraction


def falling_root(f: Callable[[float], float], low: float, high: float) -> float:
    """Return the root of the decreasing *f* between *low* and *high*, by the Illinois form of regula falsi.

    Every eighth step halves the interval, so that the search ends for any shape of *f*.
    """
    f_low, f_high = f(low), f(high)
    if f_low <= 0:
        return low
    if f_high >= 0:
        return high
    side = n_steps = 0
    while high - low > 1e-13 * high:
        n_steps += 1
        x = high - f_high * (high - low) / (f_high - f_low)
        if n_steps % 8 == 0:
            x = (low + high) / 2
        f_x = f(x)
        if abs(f_x) < 1e-10:
            return x
        if f_x > 0:
            low, f_low = x, f_x
            if side == 1:
                f_high /= 2
            side = 1
        else:
            high, f_high = x, f_x
            if side == -1:
                f_low /= 2
            side = -1
    return high


def _check_df(df: float) -> None:
    if not 0 < df <= inf:
        raise ValueError(f"degrees of freedom are positive, got {df}")


def _check_p(p: float) -> None:
    if not 0 < p < 1:
        raise ValueError(f"a probability between 0 and 1, got {p}")


# Chi-square and F, for intervals of variances; without scipy, as `tuner.core.stats.quantiles`.
#
# Checked against scipy.stats in the tests: quantiles agree to 1e-7 of their size.


def chi_square_cdf(x: float, df: float) -> float:
    """Return the probability that chi-square with *df* degrees of freedom is below *x*."""
    _check(df)
    return 0.0 if x <= 0 else _gamma(x / 2, df / 2)[0]


@lru_cache(maxsize=4096)
def chi_square_quantile(p: float, df: float) -> float:
    """Return the quantile of chi-square with *df* degrees of freedom at probability *p*, 0 < p < 1."""
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
    """Return an approximate quantile of chi-square: Wilson & Hilferty (1931), or the first term."""
    root = 1 - 2 / (9 * df) + _NORMAL.inv_cdf(p) * sqrt(2 / (9 * df))
    if root > 0.3:
        return df * root**3
    return 2 * exp((log(p) + lgamma(df / 2 + 1)) * 2 / df)


def chi_square_tail(x: float, df: float) -> float:
    """Return the probability that chi-square with *df* degrees of freedom exceeds *x*."""
    _check(df)
    return _gamma(x / 2, df / 2)[1] if x > 0 else 1.0


@lru_cache(maxsize=4096)
def f_quantile(p: float, df: float, other_df: float) -> float:
    """Return the quantile of the F distribution at probability *p*, 0 < p < 1.

    *df* are the degrees of freedom of the numerator, *other_df* those of the denominator.
    """
    _check(df, p)
    _check(other_df)
    if p < 0.5:
        return 1 / f_quantile(1 - p, other_df, df)

    def above(f: float) -> float:
        total = df * f + other_df
        return incomplete_beta(other_df / total, df * f / total, other_df / 2, df / 2)

    low = high = 1.0
    step = exp(min(0.7, sqrt(1 / df + 1 / other_df)))  # about the spread: far out the density is 0
    while above(low) < 1 - p:
        low /= step
    while above(high) > 1 - p:
        high *= step
    return falling_root(lambda f: log(above(f) / (1 - p)), low, high)


def _gamma(x: float, a: float) -> tuple[float, float]:
    """Return the regularised incomplete gamma functions, lower and upper, at *x* > 0.

    Below a + 1 the lower one is a series; above, the upper one is Lentz's continued fraction.
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
