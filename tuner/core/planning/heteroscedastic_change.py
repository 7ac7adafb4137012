"""The change of a figure whose noise differs from layout to layout, such as the load average.

A layout has only a few launches, which estimate its noise badly; the noise of the other layouts adds some
information. So the variances are assumed to be draws from one distribution (scaled inverse chi-square, as in
Smyth 2004) of unknown width: if all are similar, the launches of all count for each, otherwise hardly. The
unknowns (the width, the middle, the noise of the second study relative to the first) are weighed by their
likelihood, and an interval is that of the resulting mixture of Student's t.

Changes of the host between blocks are part of each layout's own noise here: blocks are not removed. In a
fleet, so are the differences between hosts, but each host counts equally in the mean of a layout.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, expm1, fsum, lgamma, log, log1p, sqrt

from tuner.core.domain.layout import Layout
from tuner.core.ranking.study_difference import Changes, LayoutChange, Side, estimate_of_gap, look_share
from tuner.core.stats.interval import Estimate
from tuner.core.stats.quantiles import falling_root, student_t_quantile, student_t_tail

#: degrees of freedom of the distribution of noises, and prior probabilities
_WIDTHS = ((1.0, 0.4), (2.0, 0.25), (4.0, 0.15), (8.0, 0.1), (32.0, 0.1))
#: variance of the second study's noise as a multiple of the first's, and prior probabilities
_NOISIER = ((1 / 9, 0.1), (1 / 3, 0.2), (1.0, 0.4), (3.0, 0.2), (9.0, 0.1))
_LEAST_SD = 1e-5  #: least standard deviation; no measurement is more exact
_PLACES = tuple(range(-3, 4))  #: nodes around the middle, in its standard deviations
_LEAST_WEIGHT = 1e-3


@dataclass(frozen=True, slots=True)
class _LaunchPair:
    """The launches of one layout in both studies."""

    n: tuple[int, int]
    means: tuple[float, float]  #: means over hosts
    squares: tuple[float, float]  #: sums of squared differences from the mean of the launches

    @property
    def df(self) -> int:
        return self.n[0] + self.n[1] - 2


@dataclass(frozen=True, slots=True)
class _Part:
    """One possible distribution of the layouts' noises."""

    weight: float
    df: float
    variance: float  #: variance of a launch of the first study
    noisier: float  #: variance of the second study as a multiple of the first's


def estimate_changes(before: Side, after: Side, confidence: float) -> Changes:
    """Compare two studies, each layout by its own noise; *confidence* is of all intervals together.

    If no layout was launched twice, the noise is unknown and ratios have no interval. The shared change has
    no interval, and no layout has a change relative to the others.
    """
    of_each = [_values(side) for side in (before, after)]
    seen = {
        layout: _launch_pair(of_each[0][layout], of_each[1][layout])
        for layout in of_each[0]
        if layout in of_each[1]
    }
    n_blocks = (
        len({launch.block for launch in before.launches}),
        len({launch.block for launch in after.launches}),
    )
    if not seen:
        return Changes((), None, 0, n_blocks, confidence)
    parts = _parts(list(seen.values()))
    found = []
    for layout, one in seen.items():
        doubt = (1 - confidence) * look_share((before, after), one.n)
        each = -expm1(log1p(-doubt) / len(seen))
        reach = _reach(one, parts, each)
        ratio = estimate_of_gap(one.means[1] - one.means[0], reach)
        found.append(LayoutChange(layout, ratio, None, one.n, (exp(one.means[0]), exp(one.means[1]))))
    shared = fsum(one.means[1] - one.means[0] for one in seen.values()) / len(seen)
    return Changes(tuple(found), Estimate(exp(shared)), len(seen), n_blocks, confidence)


def _values(side: Side) -> Mapping[Layout, dict[int, list[float]]]:
    """Return the values of the launches of each layout, by host."""
    found: dict[Layout, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for launch in side.launches:
        found[launch.layout][side.box_of.get(launch.block, 0)].append(launch.value)
    return found


def _launch_pair(before: Mapping[int, Sequence[float]], after: Mapping[int, Sequence[float]]) -> _LaunchPair:
    (n, mean, squares), (n_after, mean_after, squares_after) = (_summary(one) for one in (before, after))
    return _LaunchPair((n, n_after), (mean, mean_after), (squares, squares_after))


def _summary(of_hosts: Mapping[int, Sequence[float]]) -> tuple[int, float, float]:
    """Return the number of launches, their mean over hosts, and the squares around their plain mean."""
    values = [value for own in of_hosts.values() for value in own]
    plain = _mean(values)
    mean = _mean([_mean(own) for own in of_hosts.values()])
    return len(values), mean, fsum((value - plain) ** 2 for value in values)


def _mean(values: Sequence[float]) -> float:
    return fsum(values) / len(values)


def _parts(seen: Sequence[_LaunchPair]) -> list[_Part]:
    """Return the possible distributions of the noises by weight; empty: the noise is unknown or zero."""
    known = [one for one in seen if one.df]
    if not known:
        return []
    n_after = sum(one.n[1] - 1 for one in known)
    found: list[tuple[float, _Part]] = []
    for noisier, prior in _NOISIER:
        squares = [(one.df, max(_squares(one, noisier), one.df * _LEAST_SD**2)) for one in known]
        for df, share in _WIDTHS:
            middle, sd = _middle(df, squares)
            for place in _PLACES:
                at = middle + place * sd
                likely = (
                    _log_likelihood(df, at, squares) - n_after / 2 * log(noisier) + log(prior * share * sd)
                )
                found.append((likely, _Part(0.0, df, exp(at), noisier)))
    most = max(likely for likely, _ in found)
    weighed = [(exp(likely - most), part) for likely, part in found]
    total = fsum(weight for weight, _ in weighed)
    kept = [(weight / total, part) for weight, part in weighed if weight > _LEAST_WEIGHT * total]
    total = fsum(weight for weight, _ in kept)
    return [_Part(weight / total, part.df, part.variance, part.noisier) for weight, part in kept]


def _squares(one: _LaunchPair, noisier: float) -> float:
    return one.squares[0] + one.squares[1] / noisier


def _log_likelihood(df: float, at: float, squares: Sequence[tuple[int, float]]) -> float:
    """Return the log likelihood of sums of squares with their degrees of freedom; exp(*at*): their middle."""
    prior = df * exp(at)
    return fsum(
        lgamma((df + own) / 2) - lgamma(df / 2) + df / 2 * log(prior) - (df + own) / 2 * log(prior + square)
        for own, square in squares
    )


def _middle(df: float, squares: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """Return the place of the likelihood's only maximum, as a logarithm, and its width."""
    logs = [log(square / own) for own, square in squares]
    low, high = min(logs) - 3, max(logs) + 3
    for _ in range(40):
        at = (low + high) / 2
        prior = df * exp(at)
        slope = fsum(df - (df + own) * prior / (prior + square) for own, square in squares)
        low, high = (at, high) if slope > 0 else (low, at)
    prior = df * exp(low)
    bend = fsum((df + own) * prior * square / (prior + square) ** 2 for own, square in squares) / 2
    return low, 1 / sqrt(bend)


def _reach(one: _LaunchPair, parts: Sequence[_Part], doubt: float) -> float | None:
    """Return half of an interval that is wrong with probability *doubt*; None: unknown."""
    if not parts:
        return None
    scales = [
        (
            part.weight,
            part.df + one.df,
            sqrt(
                (part.df * part.variance + _squares(one, part.noisier))
                / (part.df + one.df)
                * (1 / one.n[0] + part.noisier / one.n[1])
            ),
        )
        for part in parts
    ]
    reaches = [-student_t_quantile(doubt / 2, df) * scale for _, df, scale in scales]

    def doubted(reach: float) -> float:
        outside = fsum(2 * weight * student_t_tail(reach / scale, df) for weight, df, scale in scales)
        return log(outside / doubt)

    low, high = min(reaches), max(reaches)
    return high if high - low <= 1e-9 * high else falling_root(doubted, low, high)
