"""Whether launches of a layout lose throughput as they last."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from math import expm1, isfinite

from tuner.core.domain.layout import Layout
from tuner.core.domain.records import LaunchRecord, StudyRecord
from tuner.core.stats.interval import Estimate
from tuner.core.stats.slopes import Slope, pool_slopes
from tuner.core.warmup.report import is_judged
from tuner.core.windows.memory_growth import LONG_S

_LEAST_SE = 1e-6  #: of a slope, per hour; the noise of a simulation can be nothing at all


def throughput_trends(
    study: StudyRecord, launches: Iterable[LaunchRecord], confidence: float
) -> dict[Layout, Estimate]:
    """Return the trend that the launches of each layout share, in means per hour, with its interval.

    Layouts without a launch that shows a trend are left out. Of a layout with long launches only those count.
    """
    slopes: defaultdict[Layout, list[Slope]] = defaultdict(list)
    for one in launches:
        slope, error = one.trend_ratio_per_h, one.trend_se_ratio_per_h
        if slope is None or error is None or not is_judged(one) or not (isfinite(slope) and isfinite(error)):
            continue
        window_s = study.window_s if one.window_s is None else one.window_s
        n_windows = study.windows_per_launch if one.n_windows is None else one.n_windows
        slopes[one.layout].append(Slope(slope, max(error, _LEAST_SE) ** 2, window_s * n_windows))
    groups = {
        (layout, is_long): [one for one in own if (one.length_s >= LONG_S) is is_long]
        for layout, own in slopes.items()
        for is_long in (False, True)  # the later one counts, the other one shows the spread between launches
    }
    return {layout: trend for (layout, _), trend in pool_slopes(groups, confidence).items()}


def loss_per_h(trend: Estimate | None, least_ratio: float) -> Estimate | None:
    """Return the share of its throughput that a layout loses in an hour; None: no loss that matters is shown.

    A loss is shown if the whole interval of the *trend* is below 0, and matters from *least_ratio* on. The
    line is followed as an exponential, which stays below 100 % however steep it is.
    """
    if trend is None or trend.mean is None or trend.low is None or trend.high is None or trend.high >= 0:
        return None
    loss = Estimate(-expm1(trend.mean), -expm1(trend.high), -expm1(trend.low))
    return loss if loss.mean is not None and loss.mean >= least_ratio else None
