"""Until when a launch may run, so that the budget of its study holds."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from tuner.core.errors import MeasurementError

HEAD_S = 5.0  #: that a window may begin anew after the cap of the warm-up, for the next look at usage


@dataclass(frozen=True, slots=True)
class Deadline:
    """The monotonic seconds at which a launch is to be gone; inf: there is no budget."""

    ends_s: float = inf  #: the budget ends
    share_ends_s: float = inf  #: this launch's share of it ends; the launches after it need the rest
    stop_s: float = 0.0  #: it takes so long until a launch is gone

    def warmup_s(self, now_s: float, windows_s: float) -> float:
        """The longest warm-up, from *now_s* on, that leaves room for windows of *windows_s* in all."""
        share_s = self.share_ends_s - now_s - windows_s - self.stop_s
        whole_s = self.ends_s - now_s - windows_s - self.stop_s - HEAD_S
        return max(0.0, min(share_s, whole_s))

    def has_room(self, now_s: float, lasts_s: float) -> bool:
        """Whether something that takes *lasts_s* ends in time, with the launch gone."""
        return now_s + lasts_s + self.stop_s <= self.ends_s


NO_END = Deadline()


class NotWanted(MeasurementError):
    """A launch that is being started is not wanted any more: that says nothing of its layout."""
