"""What a study's launches say together of steady state, in sentences."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from math import expm1
from statistics import median

from tuner.core.domain.layout import Layout
from tuner.core.domain.records import LaunchRecord
from tuner.core.text.durations import render_duration
from tuner.core.text.figures import percent, pluralize
from tuner.core.warmup.by_chance import NeverSettled, SettlingCount, is_by_chance, is_cut, is_judged
from tuner.core.warmup.trend import Trend, pool_trends

SURE = 0.01  #: a trend of all launches is told when noise alone would show one as large so seldom
HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Settling:
    """What the launches of a study show of steady state."""

    count: NeverSettled
    alarms: tuple[str, ...]  #: what chance does not explain, a sentence each

    @property
    def facts(self) -> tuple[str, ...]:
        """The count in a sentence, where some never settled and chance explains it; else nothing."""
        return (f"{self.count}.",) if self.count.n_never and not self.count.is_alarm else ()


def summarize_settling(launches: Iterable[LaunchRecord], window_s: float) -> Settling:
    """Count the launches that never settled, and name the layouts and the trend that chance does not explain.

    Args:
        launches: of the whole study.
        window_s: the study's length of a window, for launches that do not have their own.
    """
    judged = [one for one in launches if is_judged(one)]
    count = SettlingCount.of(judged)
    by_layout: dict[Layout, list[LaunchRecord]] = defaultdict(list)
    for launch in judged:
        by_layout[launch.layout].append(launch)
    in_all = count.in_all
    lines = [f"{in_all}."] if in_all.is_alarm else []
    if n_cut := sum(is_cut(launch) for launch in judged):
        lines.append(
            f"The budget cut the warm-up of {n_cut} of {pluralize(len(judged), 'launch')} short, before it "
            "had"
            " settled; the windows count all the same."
        )
    for layout, own in sorted(by_layout.items()):
        is_alarm = in_all.is_alarm or count.of_layout(layout).is_alarm
        never = [
            launch
            for launch in own
            if not launch.settled and not is_cut(launch) and (is_alarm or not is_by_chance(launch))
        ]
        if never:
            seen = f" ({never[-1].unsettled})" if never[-1].unsettled else ""
            which = f"{len(never)} of {len(own)} launches" if len(own) > 1 else "its only launch"
            lines.append(f"{layout}: {which} never settled{seen}; the windows count all the same.")
    if (trend := _shared_trend(judged, window_s)) is not None:
        lines.append(trend)
    return Settling(in_all, tuple(lines))


def _shared_trend(judged: Iterable[LaunchRecord], window_s: float) -> str | None:
    """Return the change of throughput in a window that all launches share; None: chance explains it.

    It is stated over the median window, which is no longer than what was measured, and as an exponential: a
    straight line through a steep fall would end below nothing.
    """
    trends = [one for one in judged if one.trend_ratio_per_h is not None]
    pooled = pool_trends(
        [Trend(one.trend_ratio_per_h or 0.0, one.trend_se_ratio_per_h or 0.0, 1) for one in trends]
    )
    if pooled is None or pooled.p_value >= SURE:
        return None
    usual_s = median(window_s if one.window_s is None else one.window_s for one in trends)
    word = "lose" if pooled.slope < 0 else "gain"
    change = percent(abs(expm1(pooled.slope / HOUR_S * usual_s)))
    return (
        f"Launches {word} {change} of their throughput in a window of {render_duration(usual_s)}, all"
        f" {len(trends)} together: the longer a window, the more of that is in it."
    )
