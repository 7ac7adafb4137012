"""What was seen of one launch, for the verdict on its steady state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tuner.core.domain.window import Sample
from tuner.core.warmup import FEWEST, NotSettled, Trend, judge, spoils, warming_n

HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Settling:
    """The verdict on a launch, as its record keeps it."""

    settled: bool
    unsettled: str | None  #: why not, "slug: what was seen"
    steady_from_s: float | None  #: from RUNNING; None: too short to say
    trend_ratio_per_h: float | None
    trend_se_ratio_per_h: float | None


@dataclass(slots=True)
class Seen:
    """Items a second, since the launch's latest warm-up began; windows that are void are left out."""

    running_s: float | None = None  #: when the first warm-up began: the launch was up
    items_per_s: list[float] = field(default_factory=list)
    ends_s: list[float] = field(default_factory=list)  #: of these seconds
    window_starts: list[int] = field(default_factory=list)  #: at which of them a window that counts began
    heads_s: float = 0.0  #: what windows gave to the warm-up, before the first one that counts
    unkept: list[Sample] = field(default_factory=list)  #: of warm-up, not yet handed to the store

    def warm_up_again(self, now_s: float) -> None:
        """Forget what was seen: a launch begins, or its steady state is gone."""
        self.running_s = now_s if self.running_s is None else self.running_s
        self.items_per_s, self.ends_s, self.window_starts = [], [], []

    def add(self, items_per_s: Sequence[float], ends_s: Sequence[float]) -> None:
        """Take note of seconds that have passed."""
        self.items_per_s.extend(items_per_s)
        self.ends_s.extend(ends_s)

    def add_window(self, items_per_s: Sequence[float], ends_s: Sequence[float]) -> None:
        """Take note of a window that counts."""
        self.window_starts.append(len(self.items_per_s))
        self.add(items_per_s, ends_s)

    def warming_n(self, window: Sequence[float]) -> int:
        """How many seconds at the head of *window*, which is over now, are warm-up after all."""
        return warming_n([*self.items_per_s, *window], len(self.items_per_s))

    def settling(self) -> Settling:
        """The verdict on all of it."""
        if len(self.items_per_s) < FEWEST:
            seen = f"only {len(self.items_per_s)} s were seen of it"
            return Settling(False, f"short: {seen}", None, None, None)
        verdict = judge(self.items_per_s, self.window_starts)
        steady_from_s = self._since_running_s(verdict.from_n)
        unsettled = str(verdict) if isinstance(verdict, NotSettled) else self._late(verdict.from_n)
        return Settling(unsettled is None, unsettled, steady_from_s, *_per_h(verdict.trend))

    def _late(self, steady_n: int) -> str | None:
        """What to say when the first window was taken before the steady state, and that matters to it."""
        if not self.window_starts:
            return None
        began_n, *later = self.window_starts
        if not spoils(self.items_per_s[began_n : later[0] if later else None], steady_n - began_n):
            return None
        steady_s, began_s = self._since_running_s(steady_n), self._since_running_s(began_n)
        return f"late: steady state began after {steady_s:.0f} s, its first window after {began_s:.0f} s"

    def _since_running_s(self, n: int) -> float:
        assert self.running_s is not None
        return self.ends_s[n - 1] - self.running_s if n else 0.0


def _per_h(per_s: Trend | None) -> tuple[float | None, float | None]:
    return (None, None) if per_s is None else (per_s.slope * HOUR_S, per_s.standard_error * HOUR_S)
