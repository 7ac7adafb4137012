"""Whether the host became slower or faster during a study, by the CPU time of a fixed computation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import expm1, log, sqrt

from tuner.core.domain.layout import Layout
from tuner.core.domain.records import WARMING_BLOCK, LaunchRecord
from tuner.core.stats.interval import Estimate
from tuner.core.stats.quantiles import student_t_quantile, student_t_tail

LEVEL = 0.01  #: significance level on one host, for all moments jointly
LEAST_RATIO = 0.03  #: smallest change that is reported
LEAST_LAUNCHES = 3  #: fewest launches before the change, and after it


@dataclass(frozen=True, slots=True)
class SpeedChange:
    """A change of a host's speed."""

    box: str
    from_wall_s: float  #: start of the first launch after the change
    #: CPU time of the fixed work after the change, compared with before: 0.1 is 10 % slower
    slower: Estimate


def speed_changes(launches: Iterable[LaunchRecord], confidence: float) -> tuple[SpeedChange, ...]:
    """Return the clearest change on each host whose speed changed, in the order of the hosts' first launches.

    The launches on a host are split at each moment between two blocks. Layouts use caches differently, so
    the fixed work has one mean for each layout; the change is the same for all. The error probability of the
    best moment is multiplied by the number of moments, so it is valid for the moment that the data chose.

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
    values = _without_layouts(launches, [log(one.fixed_work_cpu_s or 1.0) for one in launches])
    df = len(launches) - len({one.layout for one in launches}) - 1
    moments = [
        n
        for n in range(LEAST_LAUNCHES, len(launches) - LEAST_LAUNCHES + 1)
        if _place(launches[n]) != _place(launches[n - 1])
    ]
    if df < 1 or not moments:
        return None
    total = sum(value * value for value in values)
    best: tuple[float, float, float, int] | None = None  #: t, change, standard error, moment
    for n in moments:
        late = _without_layouts(launches, [float(place >= n) for place in range(len(launches))])
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
    return SpeedChange(box, launches[n].started_wall_s, slower)


def _place(launch: LaunchRecord) -> tuple[int, int]:
    """Return a key that is equal for launches on the host at the same time: those that took turns."""
    return launch.block, -1 if launch.heat is not None else launch.position


def _without_layouts(launches: Sequence[LaunchRecord], values: Sequence[float]) -> list[float]:
    """Return *values* less the mean of each layout."""
    sums: defaultdict[Layout, list[float]] = defaultdict(list)
    for launch, value in zip(launches, values, strict=True):
        sums[launch.layout].append(value)
    means = {layout: sum(own) / len(own) for layout, own in sums.items()}
    return [value - means[launch.layout] for launch, value in zip(launches, values, strict=True)]
