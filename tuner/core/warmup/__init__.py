"""Warm-up and steady state of a launch: when windows may begin, or why steady state was not reached.

transient.py finds the end of the warm-up, and verdict.py judges it once a window or the launch is over. This
file decides while a launch runs. `docs/method/warmup.md` has the claims.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import sqrt
from statistics import fmean, variance
from typing import TYPE_CHECKING

from tuner.core.defaults import WINDOW_S
from tuner.core.warmup.transient import (
    BATCH,
    EarlierTransients,
    Expected,
    batch_means,
    remaining_ratio,
    transient_end,
    truncation_point,
)
from tuner.core.warmup.verdict import (
    FEWEST,
    NotSettled,
    Steady,
    Trend,
    detectable_slope,
    estimate_trend,
    first_item,
    judge,
    pool_trends,
)

if TYPE_CHECKING:
    from tuner.core.domain.window import Sample

__all__ = [
    "BATCH",
    "FEWEST",
    "LEAST_S",
    "EarlierTransients",
    "NotSettled",
    "Steady",
    "Trend",
    "batch_means",
    "detectable_slope",
    "estimate_trend",
    "has_settled",
    "judge",
    "pool_trends",
    "remaining_ratio",
    "spoils",
    "transient_end",
    "truncation_point",
    "warming_n",
]


# When the first window may begin: decided while the launch runs, once a second.


BIAS_RATIO = 0.005  #: largest remaining bias of a window by the transient, as a share
FEWEST_BATCHES = 4
LEAST_S = float(FEWEST_BATCHES * BATCH)  #: earliest time at which a launch can count as steady
KEPT_BATCHES = 3  #: fewest batches after MSER's point
MIN_ITEMS = 8  #: fewest items after MSER's point; slow items extend the warm-up
#: fewest seconds after MSER's point in which an item finished, because one burst shows no rate
MIN_BUSY_S = 4
TOLERANCE_ACTIVE = 0.5  #: tolerance in tasks, because a count of few tasks is coarse
TOLERANCE_RATIO = 0.05  #: tolerance as a share of the active tasks
STANDARD_ERRORS = 1.5  #: a difference of at most so many standard errors is noise


def has_settled(
    items_per_s: Sequence[float],
    n_active: Sequence[float | None],
    window_s: float = WINDOW_S,
    expected: Mapping[float, Expected] | None = None,
) -> bool:
    """Return whether a window of *window_s* seconds may begin now.

    It may if MSER-5 puts the end of warm-up into the first half of the time since the first item, if at
    least 8 items in 4 different seconds came after that, if no exponential transient that fits the data
    (see `remaining_ratio`) would bias the window by more than 0.5 %, and if the active count is level. A
    transient hidden by noise, and a step yet to come, are detected once the window is over: see `judge`.

    Args:
        items_per_s: items finished, one value a second since the launch was up, the latest last.
        n_active: the active count in the same seconds, None where it is not known. Never load1, which
            remembers the previous layout for minutes.
        window_s: length of the window; the shorter it is, the more the rest of a transient weighs.
        expected: transient that earlier launches lead to expect; None: only this launch counts.

    Raises:
        ValueError: the two differ in length.
    """
    if len(items_per_s) != len(n_active):
        raise ValueError(f"{len(items_per_s)} seconds of items, {len(n_active)} of the active count")
    first = first_item(items_per_s)
    batches = batch_means(items_per_s[first:])
    if len(batches) < FEWEST_BATCHES:
        return False
    cut = truncation_point(batches)
    if cut >= len(batches) // 2 or len(batches) - cut < KEPT_BATCHES:
        return False
    kept = items_per_s[first + cut * BATCH :]
    if sum(kept) < MIN_ITEMS or sum(items > 0 for items in kept) < MIN_BUSY_S:
        return False
    if not _is_level([count for count in n_active[-len(kept) :] if count is not None]):
        return False
    return remaining_ratio(batches, window_s / BATCH, expected) <= BIAS_RATIO


def _is_level(active: Sequence[float]) -> bool:
    """Return whether both halves differ by at most the tolerance or the noise; True if too short."""
    middle = len(active) // 2
    if middle < 2:
        return True
    earlier, later = active[:middle], active[-middle:]
    noise = STANDARD_ERRORS * sqrt((variance(earlier) + variance(later)) / middle)
    allowed = max(TOLERANCE_ACTIVE, TOLERANCE_RATIO * fmean(active), noise)
    return abs(fmean(later) - fmean(earlier)) <= allowed


# Whether a window began too early: decided once it is over, when much more data is there.

FEWEST_REST = 10  #: seconds that must remain after a cut for a comparison with the whole window


def warming_n(items_per_s: Sequence[float], began_n: int) -> int:
    """Return how many seconds at the head of a finished window are still warm-up; 0 if none that matter.

    Args:
        items_per_s: one value a second since the launch was up, to the end of the window.
        began_n: how many of them are before the window.

    Raises:
        ValueError: the window has no values.
    """
    if began_n >= len(items_per_s):
        raise ValueError(f"{len(items_per_s)} seconds, {began_n} of them before the window")
    first = first_item(items_per_s)
    batches = batch_means(items_per_s[first:])
    if len(batches) < FEWEST_BATCHES:
        return 0
    # MSER itself keeps a late step while that is nearer to the end than to the beginning; a fit does not.
    warming = first + transient_end(batches, or_trend=True) * BATCH - began_n
    if not spoils(items_per_s[began_n:], warming):
        return 0
    return min(warming, len(items_per_s) - began_n)


def spoils(window: Sequence[float], head_n: int) -> bool:
    """Return whether the first *head_n* seconds bias *window*'s mean by over 0.5 %, or are most of it."""
    if head_n <= 0:
        return False
    rest = window[head_n:]
    return len(rest) < FEWEST_REST or abs(fmean(rest) - fmean(window)) > BIAS_RATIO * fmean(rest)


# Data of one launch for the verdict on its steady state.


HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class SettlingVerdict:
    """The verdict on a launch, in the form that its record stores."""

    settled: bool
    unsettled: str | None  #: reason why it is not steady, as "slug: figures"; None: it is steady
    steady_from_s: float | None  #: seconds from RUNNING to the steady state; None: the launch is too short
    trend_ratio_per_h: float | None
    trend_se_ratio_per_h: float | None

    def over(self, counted_ratio: float) -> SettlingVerdict:
        """Return the verdict with trends per hour of running time, of which *counted_ratio* was counted."""
        trends = (self.trend_ratio_per_h, self.trend_se_ratio_per_h)
        per_h, se_per_h = (None if one is None else one * counted_ratio for one in trends)
        return replace(self, trend_ratio_per_h=per_h, trend_se_ratio_per_h=se_per_h)


@dataclass(slots=True)
class Seen:
    """Items per second since the launch's latest warm-up began, without invalid windows."""

    running_s: float | None = None  #: start time of the first warm-up, when the launch was RUNNING
    items_per_s: list[float] = field(default_factory=list)
    ends_s: list[float] = field(default_factory=list)  #: end times of these seconds
    #: indices of the seconds at which valid windows began
    window_starts: list[int] = field(default_factory=list)
    heads_s: float = 0.0  #: seconds of windows that were added to the warm-up before the first valid window
    unkept: list[Sample] = field(default_factory=list)  #: samples of the warm-up that are not stored yet

    def warm_up_again(self, now_s: float) -> None:
        """Discard the values: a launch begins, or its steady state has ended."""
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

    def since_first_item(self) -> Sequence[float]:
        """Return the items per second of the warm-up and the valid windows, from the first item on."""
        return self.items_per_s[first_item(self.items_per_s) :]

    def warming_n(self, window: Sequence[float]) -> int:
        """Return how many seconds at the head of the finished *window* are still warm-up."""
        return warming_n([*self.items_per_s, *window], len(self.items_per_s))

    def settling(self) -> SettlingVerdict:
        """Return the verdict on all values."""
        if len(self.items_per_s) < FEWEST:
            seen = f"only {len(self.items_per_s)} s were seen of it"
            return SettlingVerdict(False, f"short: {seen}", None, None, None)
        verdict = judge(self.items_per_s, self.window_starts)
        steady_from_s = self._since_running_s(verdict.from_n)
        unsettled = str(verdict) if isinstance(verdict, NotSettled) else self._late(verdict.from_n)
        return SettlingVerdict(unsettled is None, unsettled, steady_from_s, *_per_h(verdict.trend))

    def _late(self, steady_n: int) -> str | None:
        """Return a sentence if the first window began before the steady state, and that changes its mean."""
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
