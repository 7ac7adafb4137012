"""Whether a test computation took more or less CPU time from some moment of a study on."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from math import expm1, log, sqrt
from statistics import fmean

from tuner.core.domain.layout import Layout
from tuner.core.domain.records import WARMING_BLOCK, LaunchRecord
from tuner.core.stats.interval import Estimate
from tuner.core.stats.quantiles import student_t_quantile, student_t_tail

LEVEL = 0.01  #: significance level on one host, for all moments jointly
LEAST_RATIO = 0.03  #: smallest change that is reported
LEAST_HEATS = 3  #: fewest heats before the change, and after it


@dataclass(frozen=True, slots=True)
class SpeedChange:
    """A change of a host's speed, as the test computation shows it."""

    box: str
    from_wall_s: float  #: start of the first launch after the change
    #: CPU time of the test computation after the change, compared with before: 0.1 is 10 % more
    slower: Estimate


def speed_changes(launches: Iterable[LaunchRecord], confidence: float) -> tuple[SpeedChange, ...]:
    """Return the clearest change on each host whose speed changed, in the order of the hosts' first launches.

    The launches on a host are split at each moment between two blocks. Layouts use caches differently, so
    the computation has one mean for each layout; the change is the same for all. Launches of a heat were on
    the host at the same time and share its speed, so that the mean of a heat is one observation. The error
    probability of the best moment is multiplied by the number of moments, so it is valid for the moment that
    the data chose.

    Args:
        launches: in the order of their start.
        confidence: of the interval of the change, which does not include the choice of the moment.
    """
    of_box: defaultdict[str, list[LaunchRecord]] = defaultdict(list)
    for one in launches:
        if one.block != WARMING_BLOCK and one.error is None and one.fixed_work_cpu_s:
            of_box[one.box].append(one)
    found = (_clearest(box, own, confidence) for box, own in of_box.items())
    return tuple(change for change in found if change is not None)


def _clearest(box: str, launches: Sequence[LaunchRecord], confidence: float) -> SpeedChange | None:
    heats = _heats(launches)
    logs = [log(one.fixed_work_cpu_s or 1.0) for one in launches]
    values = _of_heats(heats, _without_layouts(launches, logs))
    df = len(heats) - _n_means(heats, launches) - 1
    firsts = [launches[heat[0]] for heat in heats]
    moments = [
        n
        for n in range(LEAST_HEATS, len(heats) - LEAST_HEATS + 1)
        if _place(firsts[n]) != _place(firsts[n - 1])
    ]
    if df < 1 or not moments:
        return None
    total = sum(value * value for value in values)
    best: tuple[float, float, float, int] | None = None  #: t, change, standard error, moment
    for n in moments:
        is_late = [0.0] * len(launches)
        for place in chain.from_iterable(heats[n:]):
            is_late[place] = 1.0
        late = _of_heats(heats, _without_layouts(launches, is_late))
        spread = sum(one * one for one in late)
        if spread <= 0:
            continue  # no layout was launched before and after
        change = sum(one * value for one, value in zip(late, values, strict=True)) / spread
        rest = max(total - change * change * spread, 1e-12 * max(total, 1e-12))
        error = sqrt(rest / df / spread)
        if best is None or abs(change) / error > best[0]:
            best = abs(change) / error, change, error, n
    if best is None:
        return None
    t, change, error, n = best
    if 2 * student_t_tail(t, df) * len(moments) > LEVEL or abs(expm1(change)) < LEAST_RATIO:
        return None
    reach = student_t_quantile((1 + confidence) / 2, df) * error
    slower = Estimate(expm1(change), expm1(change - reach), expm1(change + reach))
    return SpeedChange(box, firsts[n].started_wall_s, slower)


def _place(launch: LaunchRecord) -> tuple[int, int]:
    """Return a key that is equal for the launches of a block that took turns, and differs otherwise."""
    return launch.block, -1 if launch.heat is not None else launch.position


def _heats(launches: Sequence[LaunchRecord]) -> list[list[int]]:
    """Return the places of launches, heat by heat in the order of their starts; a launch alone is a heat."""
    found: defaultdict[tuple[int, int, int], list[int]] = defaultdict(list)
    for place, launch in enumerate(launches):
        alone = place if launch.heat is None else -1
        found[launch.block, -1 if launch.heat is None else launch.heat, alone].append(place)
    return list(found.values())


def _of_heats(heats: Sequence[Sequence[int]], values: Sequence[float]) -> list[float]:
    """Return the mean of *values*, one for each launch, in each heat."""
    return [fmean(values[place] for place in heat) for heat in heats]


def _n_means(heats: Sequence[Sequence[int]], launches: Sequence[LaunchRecord]) -> float:
    """Return the degrees of freedom that the means of layouts take from the heats.

    It is the number of layouts if each launch is a heat, and 1 if each heat has all layouts: the trace of the
    matrix that turns errors of heats into errors of the layouts' means, and these into their mean in a heat.
    """
    n_of = Counter(one.layout for one in launches)
    found = 0.0
    for heat in heats:
        own = Counter(launches[place].layout for place in heat)
        found += sum(n * n / (len(heat) * n_of[layout]) for layout, n in own.items())
    return found


def _without_layouts(launches: Sequence[LaunchRecord], values: Sequence[float]) -> list[float]:
    """Return *values* less the mean of each layout."""
    sums: defaultdict[Layout, list[float]] = defaultdict(list)
    for launch, value in zip(launches, values, strict=True):
        sums[launch.layout].append(value)
    means = {layout: sum(own) / len(own) for layout, own in sums.items()}
    return [value - means[launch.layout] for launch, value in zip(launches, values, strict=True)]
