"""What a study's launches say together of steady state, in sentences."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from tuner.core.layout import Layout
from tuner.core.records import WARMING_BLOCK, LaunchRecord
from tuner.core.warmup.trend import Trend, pooled_trend

SURE = 0.01  #: a trend of all launches is told when noise alone would show one as large so seldom


def settling_told(launches: Iterable[LaunchRecord]) -> tuple[str, ...]:
    """Which layouts have launches that never settled, and the trend that all launches share."""
    judged = [one for one in launches if one.block != WARMING_BLOCK and one.settled is not None]
    by_layout: dict[Layout, list[LaunchRecord]] = defaultdict(list)
    for launch in judged:
        by_layout[launch.layout].append(launch)
    told = []
    for layout, own in sorted(by_layout.items()):
        never = [launch for launch in own if not launch.settled]
        if never:
            seen = f" ({never[-1].unsettled})" if never[-1].unsettled else ""
            counted = f"{len(never)} of {len(own)} launches" if len(own) > 1 else "its only launch"
            told.append(f"{layout}: {counted} never settled{seen}; the windows count all the same.")
    slopes = [
        Trend(one.trend_ratio_per_h, one.trend_se_ratio_per_h or 0.0, 1)
        for one in judged
        if one.trend_ratio_per_h is not None
    ]
    pooled = pooled_trend(slopes)
    if pooled is not None and pooled.p_value < SURE:
        word = "lose" if pooled.slope < 0 else "gain"
        told.append(
            f"Launches {word} {100 * abs(pooled.slope):.3g} % of their throughput an hour, all {len(slopes)}"
            " together: the longer a window, the more of that is in it."
        )
    return tuple(told)
