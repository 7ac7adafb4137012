"""Sentences about the steady state of all launches of a study."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import expm1
from statistics import median

from tuner.core.domain.layout import Layout
from tuner.core.domain.records import WARMING_BLOCK, LaunchRecord
from tuner.core.messages import Message
from tuner.core.messages.launch import never_settled, warmup_cut
from tuner.core.stats.interval import most_by_chance
from tuner.core.text.figures import percent, pluralize, render_duration
from tuner.core.warmup.verdict import Trend, pool_trends

# The number of launches that never settled, compared with the number of false alarms of the verdict.

#: Share of steady launches that the verdict calls unsettled, rounded up. The mean of the table of false
#: alarms of bench/warmup.py is 3.7 % for launches of 11 minutes and more (docs/method/warmup.md). Launches
#: under two minutes have more: 13 % of those of 40 s, 8 % of those of 60 s, if the noise has no memory.
FALSE_ALARM_RATIO = 0.05
ALARM_LEVEL = 0.01  #: probability by chance below which a number of unsettled launches is reported
CUT = "cut"  #: the budget ended the warm-up before the launch was steady
NOT_BY_CHANCE = ("idle", "short", CUT)  #: reasons that are facts, not statistical decisions


@dataclass(frozen=True, slots=True)
class NeverSettled:
    """Number of launches, of a study or of one layout, that never settled."""

    n: int  #: number of judged launches
    n_never: int  #: number of judged launches that never became steady, for a reason that noise can cause
    level: float = ALARM_LEVEL

    @property
    def expected(self) -> float:
        """Return the number expected by chance."""
        return self.n * FALSE_ALARM_RATIO

    @property
    def most_by_chance(self) -> int:
        """Return the largest number that chance still explains at the level."""
        return most_by_chance(self.n, FALSE_ALARM_RATIO, self.level)

    @property
    def is_alarm(self) -> bool:
        """Return whether more launches never settled than chance explains (one-sided binomial test)."""
        return self.n_never > self.most_by_chance

    def __str__(self) -> str:
        by_chance = f"chance alone gives up to {self.most_by_chance}"
        return f"{self.n_never} of {pluralize(self.n, 'launch')} did not settle; {by_chance}"


NONE_JUDGED = NeverSettled(0, 0)


@dataclass(slots=True)
class SettlingCount:
    """Count of the judged launches of a study and of each of its layouts."""

    _n: Counter[Layout] = field(default_factory=Counter)
    _n_never: Counter[Layout] = field(default_factory=Counter)

    @classmethod
    def of(cls, launches: Iterable[LaunchRecord]) -> SettlingCount:
        """Return the count of *launches*."""
        count = cls()
        for launch in launches:
            count.add(launch)
        return count

    def add(self, launch: LaunchRecord) -> None:
        """Count *launch*, unless it was not judged or only warmed the page cache."""
        if is_judged(launch):
            self._n[launch.layout] += 1
            self._n_never[launch.layout] += is_by_chance(launch)

    @property
    def in_all(self) -> NeverSettled:
        """Return the count over all layouts."""
        return NeverSettled(self._n.total(), self._n_never.total())

    def of_layout(self, layout: Layout) -> NeverSettled:
        """Return the count of *layout*; layouts share the level, because each could raise an alarm."""
        return NeverSettled(self._n[layout], self._n_never[layout], ALARM_LEVEL / max(1, len(self._n)))


def is_judged(launch: LaunchRecord) -> bool:
    """Return whether *launch* has a verdict that counts."""
    return launch.block != WARMING_BLOCK and launch.settled is not None


def is_by_chance(launch: LaunchRecord) -> bool:
    """Return whether *launch* never settled, for a reason that noise alone can give."""
    return launch.settled is False and not (launch.unsettled or "").startswith(NOT_BY_CHANCE)


def is_cut(launch: LaunchRecord) -> bool:
    """Return whether the budget ended the warm-up of *launch* before it had settled."""
    return launch.settled is False and (launch.unsettled or "").startswith(CUT)


def alarm_of(launch: LaunchRecord, count: SettlingCount) -> Message | None:
    """Return the warning that *launch*, the latest in *count*, gives; None: none.

    A launch that never settled is one only if chance does not explain how many of the study or of its layout
    did not.
    """
    if launch.settled is not False or not is_judged(launch):
        return None
    layout, why = launch.layout, launch.unsettled
    if is_cut(launch):
        return warmup_cut(layout, (why or "").removeprefix(f"{CUT}: "))
    if not is_by_chance(launch):
        return never_settled(layout, why)
    if (in_all := count.in_all).is_alarm:
        return never_settled(layout, why, f"{in_all}")
    if (own := count.of_layout(layout)).is_alarm:
        return never_settled(layout, why, f"{own}", of_layout=True)
    return None


#: a common trend of all launches is reported if noise causes one as large with this probability or less
SURE = 0.01
HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Settling:
    """Result of the steady-state checks of a study's launches."""

    count: NeverSettled
    alarms: tuple[str, ...]  #: sentences on findings that chance does not explain

    @property
    def facts(self) -> tuple[str, ...]:
        """Return the count in a sentence if some launches never settled by chance; else nothing."""
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
            "had settled; the windows count all the same."
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

    It refers to the median window, which is no longer than the data, and is an exponential: a straight line
    through a steep fall would end below zero.
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
