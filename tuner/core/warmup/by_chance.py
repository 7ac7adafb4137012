"""How many launches never settled, against how many the verdict's own false alarms give."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tuner.core.domain.layout import Layout
from tuner.core.domain.records import WARMING_BLOCK, LaunchRecord
from tuner.core.messages.catalogue import Message
from tuner.core.messages.launch import never_settled, warmup_cut
from tuner.core.stats.binomial import most_by_chance
from tuner.core.text.figures import pluralize

#: The share of steady launches that the verdict calls unsettled, rounded up: the mean of the table of false
#: alarms of bench/warmup.py is 3.7 % for launches of 11 minutes and more (docs/method/warmup.md). Launches
#: under two minutes have more: 13 % of those of 40 s, 8 % of those of 60 s, where the noise has no memory.
FALSE_ALARM_RATIO = 0.05
ALARM_LEVEL = 0.01  #: more launches than chance gives: chance alone gives so many so seldom
CUT = "cut"  #: the budget ended the warm-up before the launch had settled
NOT_BY_CHANCE = ("idle", "short", CUT)  #: reasons that are facts, not decisions against noise


@dataclass(frozen=True, slots=True)
class NeverSettled:
    """How many of the launches of a study, or of one layout, never settled."""

    n: int  #: launches that were judged
    n_never: int  #: of these, those that never settled, for a reason that noise can give
    level: float = ALARM_LEVEL

    @property
    def expected(self) -> float:
        """The mean number that chance gives."""
        return self.n * FALSE_ALARM_RATIO

    @property
    def most_by_chance(self) -> int:
        """The largest number that chance still explains at the level."""
        return most_by_chance(self.n, FALSE_ALARM_RATIO, self.level)

    @property
    def is_alarm(self) -> bool:
        """Whether more launches never settled than chance explains (one-sided binomial test)."""
        return self.n_never > self.most_by_chance

    def __str__(self) -> str:
        by_chance = f"chance alone gives up to {self.most_by_chance}"
        return f"{self.n_never} of {pluralize(self.n, 'launch')} did not settle; {by_chance}"


NONE_JUDGED = NeverSettled(0, 0)


@dataclass(slots=True)
class SettlingCount:
    """Counts the launches that were judged, of a study and of each of its layouts."""

    _n: Counter[Layout] = field(default_factory=Counter)
    _n_never: Counter[Layout] = field(default_factory=Counter)

    @classmethod
    def of(cls, launches: Iterable[LaunchRecord]) -> SettlingCount:
        """The count of *launches*."""
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
        """Of all layouts together."""
        return NeverSettled(self._n.total(), self._n_never.total())

    def of_layout(self, layout: Layout) -> NeverSettled:
        """Of *layout* alone; layouts share the level, because each of them could raise an alarm."""
        return NeverSettled(self._n[layout], self._n_never[layout], ALARM_LEVEL / max(1, len(self._n)))


def is_judged(launch: LaunchRecord) -> bool:
    """Whether there is a verdict on *launch* that counts."""
    return launch.block != WARMING_BLOCK and launch.settled is not None


def is_by_chance(launch: LaunchRecord) -> bool:
    """Whether *launch* never settled, for a reason that noise alone can give."""
    return launch.settled is False and not (launch.unsettled or "").startswith(NOT_BY_CHANCE)


def is_cut(launch: LaunchRecord) -> bool:
    """Whether the budget ended the warm-up of *launch* before it had settled."""
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
