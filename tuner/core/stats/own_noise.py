"""The noise of each layout from few launches: variances shrunk to a common one.

A pooled variance makes a noisy layout look quiet, and then a chance difference is called a real one. Three
launches estimate the variance of their layout badly. So the variances are treated as draws from one scaled
inverse chi-square distribution (Smyth 2004) of unknown width: either all are equal, or they scatter with few
degrees of freedom. Each case is weighed by its likelihood, and the error of a mean follows the mixture of
Student's t that results. If nothing shows that layouts differ, the pooled variance decides.

A block's effect is the mean of its launches weighed by their layouts' precision, so that one noisy layout
does not make the others look noisy.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, fsum, inf, lgamma, log, sqrt
from statistics import NormalDist

from tuner.core.stats.quantiles import falling_root, student_t_quantile, tail_beyond
from tuner.core.stats.two_way_anova import AdditiveFit, Observation

#: with two layouts, only the noise of their difference is known, not which of them causes it
LEAST_LAYOUTS = 3
_WIDTHS = ((0.5, 0.27), (1.0, 0.27), (2.0, 0.27))  #: degrees of freedom, and prior probability
_ROUNDS = 3  #: number of rounds that weigh blocks by the precision from the round before
_LEAST_SHARE = 1e-8  #: least own variance of a layout, as a share of the pooled variance
_HALVINGS = 25
_LEAST_WEIGHT = 2e-3  #: less likely cases are left out
_FAR = 100.0  #: doublings; no mixture reaches further below the start of its search
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class NoisePart:
    """One case of noise, with the variances of all layouts."""

    weight: float
    variances: tuple[float, ...]  #: variance of one launch of each layout
    df: tuple[float, ...]  #: degrees of freedom of each variance


@dataclass(frozen=True, slots=True)
class OwnNoise:
    """The variance of one launch of each layout, as a mixture of cases."""

    parts: tuple[NoisePart, ...]

    def reach(self, layout: int, risk: float) -> float:
        """Return the distance of a launch from its mean exceeded with probability *risk*, two-sided."""
        scales = [(one.weight, sqrt(one.variances[layout]), one.df[layout]) for one in self.parts]
        return mixture_reach(scales, risk / 2)

    def variance(self, layout: int) -> float:
        """Return the variance of one launch of *layout*, the mean over all cases."""
        return fsum(one.weight * one.variances[layout] for one in self.parts)

    def of_pair(self, one: int, other: int, shares: tuple[float, float]) -> list[tuple[float, float, float]]:
        """Return weight, standard error and degrees of freedom of the difference of two means, in each case.

        *shares*: the share of the variance of one launch in each mean.
        """
        found = []
        for part in self.parts:
            first, second = shares[0] * part.variances[one], shares[1] * part.variances[other]
            total = first + second
            same = part.df[one] == part.df[other] and part.variances[one] == part.variances[other]
            df = (
                part.df[one]
                if same or not total
                else total**2 / (first**2 / part.df[one] + second**2 / part.df[other])
            )
            found.append((part.weight, sqrt(total), df))
        return found


def mixture_tail(gap: float, scales: Iterable[tuple[float, float, float]]) -> float:
    """Return the probability that a mixture of Student's t exceeds *gap*; *scales*: weight, scale, df."""
    return fsum(weight * tail_beyond(gap, scale, df) for weight, scale, df in scales)


def mixture_reach(scales: Sequence[tuple[float, float, float]], tail: float) -> float:
    """Find the value that a mixture of Student's t exceeds with probability *tail*, below 0.5."""
    if len(scales) == 1:
        [(_, scale, df)] = scales
        return -student_t_quantile(tail, df) * scale if scale else 0.0
    # Tails are nearly straight lines on logarithmic scales, where a few steps are enough.
    start = -_NORMAL.inv_cdf(tail) * sqrt(fsum(weight * scale**2 for weight, scale, _ in scales))
    if not start:
        return 0.0

    def doubt(steps: float) -> float:
        reach = start * 2 ** (steps - _FAR)
        return log(mixture_tail(reach, scales) / tail)

    low = high = _FAR
    while doubt(low) < 0:
        low -= 1
    while doubt(high) > 0:
        high += 1
    return start * 2 ** (falling_root(doubt, low, high) - _FAR)


def estimate_own_noise(observations: Sequence[Observation], fitted: AdditiveFit) -> OwnNoise | None:
    """Estimate it from the residuals of a fit of layouts + blocks; None: the data cannot separate layouts.

    Source: the weighted sums of squares are those of Grubbs (1948) for equal weights.
    """
    n_layouts, pooled = len(fitted.effects), fitted.residual_variance
    n_of = Counter(seen.layout for seen in observations)
    if n_layouts < LEAST_LAYOUTS or not pooled or all(n < 2 for n in n_of.values()):
        return None
    blocks: dict[int, list[tuple[int, float]]] = defaultdict(list)
    for seen in observations:
        blocks[seen.block].append((seen.layout, seen.value - fitted.effects[seen.layout]))
    precision = [1 / pooled] * n_layouts
    parts: list[tuple[float, float, float]] = []
    squares: dict[int, tuple[float, float]] = {}
    for _ in range(_ROUNDS):
        squares = _squares_by_layout(blocks.values(), n_of, precision, _LEAST_SHARE * pooled)
        parts = _cases(list(squares.values()))
        unlike = [one for one in parts if one[1] < inf]
        if not unlike:
            break
        sure = fsum(weight for weight, _, _ in unlike)
        precision = [
            fsum(w / _shrunk(d, middle, squares.get(layout), pooled) for w, d, middle in unlike) / sure
            for layout in range(n_layouts)
        ]
    return OwnNoise(
        tuple(
            NoisePart(
                weight,
                tuple(_shrunk(df, middle, squares.get(layout), pooled) for layout in range(n_layouts)),
                tuple(
                    float(fitted.residual_df) if df == inf else df + squares.get(layout, (0.0, 0.0))[0]
                    for layout in range(n_layouts)
                ),
            )
            for weight, df, middle in parts
        )
    )


def _shrunk(df: float, middle: float, own: tuple[float, float] | None, pooled: float) -> float:
    """Return a layout's variance in the case of *df* and *middle*; *own*: its own df and variance."""
    if df == inf:
        return pooled
    return middle if own is None else (df * middle + own[0] * own[1]) / (df + own[0])


def _squares_by_layout(
    blocks: Iterable[Sequence[tuple[int, float]]],
    n_of: Mapping[int, int],
    precision: Sequence[float],
    least: float,
) -> dict[int, tuple[float, float]]:
    """Return degrees of freedom and variance of each layout that has two launches or more."""
    left: dict[int, list[float]] = defaultdict(list)
    of_blocks: dict[int, float] = defaultdict(float)  # the variance that blocks' means take from residuals
    for launches in blocks:
        weight = fsum(precision[layout] for layout, _ in launches)
        mean = fsum(precision[layout] * value for layout, value in launches) / weight
        for layout, value in launches:
            left[layout].append(value - mean)
            of_blocks[layout] += 1 / weight
    found = {}
    for layout, values in left.items():
        n = n_of[layout]
        if n < 2:
            continue
        mean = fsum(values) / n
        total = fsum((value - mean) ** 2 for value in values) + (1 - 1 / n) * of_blocks[layout]
        found[layout] = (float(n - 1), max(total / (n - 1), least))
    return found


def _cases(squares: Sequence[tuple[float, float]]) -> list[tuple[float, float, float]]:
    """Return weight, degrees of freedom and middle of each distribution of the variances; inf: all equal."""
    df_total = fsum(df for df, _ in squares)
    common = fsum(df * value for df, value in squares) / df_total
    alike = -fsum(df / 2 * log(2 * common) + df * value / (2 * common) for df, value in squares)
    found = [(alike + log(1 - fsum(share for _, share in _WIDTHS)), inf, common)]
    sums = [(df, df * value) for df, value in squares]
    for width, share in _WIDTHS:
        at = _middle(width, sums)
        found.append((log_likelihood(width, at, sums) + log(share), width, exp(at)))
    most = max(likely for likely, _, _ in found)
    total = fsum(exp(likely - most) for likely, _, _ in found)
    kept = [one for one in found if exp(one[0] - most) > _LEAST_WEIGHT * total]
    total = fsum(exp(likely - most) for likely, _, _ in kept)
    return [(exp(likely - most) / total, df, middle) for likely, df, middle in kept]


def log_likelihood(df: float, at: float, squares: Sequence[tuple[float, float]]) -> float:
    """Return the log likelihood of *squares* (degrees of freedom, sum) if the middle is exp(*at*)."""
    prior = df * exp(at)
    return fsum(
        lgamma((df + own) / 2) - lgamma(df / 2) + df / 2 * log(prior) - (df + own) / 2 * log(prior + square)
        for own, square in squares
    )


def _middle(df: float, squares: Sequence[tuple[float, float]]) -> float:
    """Return the maximum of the likelihood on the logarithmic scale; there is only one."""
    logs = [log(square / own) for own, square in squares]
    low, high = min(logs) - 3, max(logs) + 3
    for _ in range(_HALVINGS):
        at = (low + high) / 2
        prior = df * exp(at)
        slope = fsum(df - (df + own) * prior / (prior + square) for own, square in squares)
        low, high = (at, high) if slope > 0 else (low, at)
    return low
