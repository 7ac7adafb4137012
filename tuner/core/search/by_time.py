"""The test whether the ratio of two layouts changed during a race.

A race models one drift of the host for all layouts. If layouts react differently, the answer of a race holds
for the measured hours, and may be different at other hours. The test splits the launches of a race at
one moment, treats the two halves of a layout as two layouts, and compares their gaps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import exp
from statistics import median
from typing import NamedTuple

import numpy as np

from tuner.core.defaults import LEAST_LAUNCHES
from tuner.core.search.posterior import Array, Posterior
from tuner.core.stats.quantiles import student_t_tail

#: Significance level of all tests in this module together; `by_speed` has its own.
LEVEL = 0.01
_LEVEL_OF_REST = 0.1  #: significance level that a change must keep without any one launch that is an outlier
_LEAST_VARIANCE = 1e-12  #: launches that are exactly equal have no variance


class Launch(NamedTuple):
    """One launch of a race."""

    layout: int
    log_value: float
    at_s: float
    length_s: float


@dataclass(frozen=True, slots=True)
class Gap:
    """The throughput of a layout as a multiple of the named layout's, before and after one moment."""

    layout: int
    early: float
    late: float


def changed_gaps(
    launches: Sequence[Launch], named: int, new_bank: Callable[[int], Posterior], n_layouts: int
) -> list[Gap]:
    """Return the layouts whose ratio to *named* changed between the halves; the clearest change first.

    Args:
        launches: all launches of the race, in the order in which the race learnt of them.
        named: the layout that the race names.
        new_bank: creates an empty posterior for a number of layouts.
        n_layouts: number of layouts of the race.

    A layout is tested if it and *named* have at least two launches in each half. `LEVEL` is divided by the
    number of tests.
    """
    of_named = [one.at_s for one in launches if one.layout == named]
    if len(of_named) < 2 * LEAST_LAUNCHES:
        return []
    half_s = median(of_named)
    tested = [k for k in range(n_layouts) if _is_in_both(launches, k, half_s)]
    if named not in tested or len(tested) < 2:
        return []
    late = {k: n_layouts + n for n, k in enumerate(tested)}
    places = [late.get(one.layout, one.layout) if one.at_s > half_s else one.layout for one in launches]

    def bank_without(left_out: int | None) -> Posterior:
        bank = new_bank(n_layouts + len(tested))
        for n, (place, one) in enumerate(zip(places, launches, strict=True)):
            if n != left_out:
                bank.observe(place, one.log_value, one.at_s, one.length_s)
        return bank

    bank, found = bank_without(None), []
    for k in tested:
        of = (named, late[named], k, late[k])
        if k == named:
            continue
        level = LEVEL / (len(tested) - 1)
        doubt, gap = _change(bank, k, of)
        if doubt <= level and all(
            _change(bank_without(n), k, of)[0] <= _LEVEL_OF_REST for n in _extremes(places, launches, of)
        ):
            found.append((doubt, gap))
    return [gap for _, gap in sorted(found, key=lambda one: one[0])]


def _extremes(places: Sequence[int], launches: Sequence[Launch], of: Sequence[int]) -> set[int]:
    """Return the launches with the lowest and the highest value of each place in *of*.

    A change that depends on one of them is rejected: a single window may lose most of its throughput.
    """
    found: set[int] = set()
    for place in of:
        own = [n for n, other in enumerate(places) if other == place]
        found |= {pick(own, key=lambda n: launches[n].log_value) for pick in (min, max)}
    return found


def _is_in_both(launches: Iterable[Launch], layout: int, half_s: float) -> bool:
    early = [one.at_s <= half_s for one in launches if one.layout == layout]
    return min(sum(early), len(early) - sum(early)) >= LEAST_LAUNCHES


def _change(bank: Posterior, layout: int, of: tuple[int, int, int, int]) -> tuple[float, Gap]:
    """Return the two-sided probability of such a change by chance, and the two gaps."""
    signs = np.array([1.0, -1.0, -1.0, 1.0])
    means = bank.mean[:, of]
    variance = np.einsum("i,gij,j->g", signs, bank.covariance[:, of][:, :, of], signs) * bank.sigma2
    t = np.abs(means @ signs) / np.sqrt(np.maximum(variance, _LEAST_VARIANCE) * _wider(bank, of))
    df = max(float(bank.df), 1.0)
    doubt = sum(
        2 * weight * student_t_tail(of_one, df) for weight, of_one in zip(bank.weight, t, strict=True)
    )
    ahead = bank.weight @ np.stack([means[:, 2] - means[:, 0], means[:, 3] - means[:, 1]], axis=1)
    return float(doubt), Gap(layout, exp(float(ahead[0])), exp(float(ahead[1])))


def _wider(bank: Posterior, of: tuple[int, int, int, int]) -> Array:
    """Return the variance of the four means by own noise, as a multiple of that by the pooled noise.

    It is at least 1: a few launches that are alike by chance do not make a change.
    """
    total = np.zeros(len(bank.weight))
    per_launch = 1 / bank.n_of[list(of)]
    for pair in ((0, 1), (2, 3)):
        places = [of[n] for n in pair]
        own = bank.own_squares[:, places].sum(axis=1) / max(int(bank.own_df[places].sum()), 1)
        total += own / np.maximum(bank.sigma2, _LEAST_VARIANCE) * per_launch[list(pair)].sum()
    wider: Array = np.maximum(total / per_launch.sum(), 1.0)
    return wider
