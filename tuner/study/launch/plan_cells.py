"""The launches that a strategy requested: earlier attempts at each, and its missing windows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import inf

from tuner.core.domain.layout import Layout
from tuner.core.domain.records import WindowRecord
from tuner.core.domain.strategy import Observed, Proposal
from tuner.core.domain.window import Window
from tuner.core.errors import MeasurementError

PASSING = frozenset(
    {"source-dry", "disturbed", "stolen", "memory-pressure", "clock-jumped", "stalled", "counts-fell"}
)  #: reasons of invalid windows that may pass; all others last as long as the launch


def spoils_launch(window: Window | WindowRecord) -> bool:
    """Return whether *window* is invalid for a reason that will last as long as this launch runs."""
    return any(reason.slug not in PASSING for reason in window.void)


@dataclass(slots=True)
class Cell:
    """One place in a block: a layout, the number of windows wanted, and the attempts so far."""

    block: int
    position: int
    layout: Layout
    window_s: float  #: length of each window
    n_wanted: int
    max_attempts: int
    n_spoilt: int = 0  #: launches that failed or were spoilt
    is_over_limit: bool = False  #: whether a launch passed a safety limit, so that the layout is left out
    #: window index -> attempts, invalid windows included
    tries: Counter[int] = field(default_factory=Counter)
    kept: dict[int, Observed] = field(default_factory=dict)  #: valid windows, by index
    heat: int | None = None  #: cells of the block with the same number take turns; None: the cell runs alone

    @property
    def next_index(self) -> int | None:
        """Index of the next window to measure; None: there is nothing left to try."""
        if self.n_spoilt >= self.max_attempts or self.is_over_limit or self.is_silent:
            return None
        for index in range(self.n_wanted):
            if index not in self.kept and self.tries[index] < self.max_attempts:
                return index
        return None

    @property
    def is_silent(self) -> bool:
        """Whether a window in slices had no item, so that slices count no longer."""
        return any(one.is_silent for one in self.kept.values())

    @property
    def is_done(self) -> bool:
        """Whether no attempt is left, with or without all windows."""
        return self.next_index is None

    @property
    def is_started(self) -> bool:
        """Whether an attempt has been made, successful or not."""
        return bool(self.tries) or self.n_spoilt > 0 or self.is_over_limit

    @property
    def is_void(self) -> bool:
        """Whether the cell is done with a window missing."""
        return self.is_done and len(self.kept) < self.n_wanted

    @property
    def is_vain(self) -> bool:
        """Whether the cell is done without any valid window."""
        return self.is_done and not self.kept

    @property
    def is_hopeless(self) -> bool:
        """Whether all its launches failed or were spoilt without a window, or a safety limit left it out."""
        return self.is_over_limit or (self.n_spoilt >= self.max_attempts and not self.kept)

    @property
    def asked(self) -> Proposal:
        """The original request."""
        return Proposal(self.layout, self.window_s, self.n_wanted, self.heat)

    @property
    def rest(self) -> Proposal:
        """The request for the missing windows only."""
        n_missing = 0 if self.is_done else self.n_wanted - len(self.kept)
        return Proposal(self.layout, self.window_s, n_missing, self.heat)


@dataclass(slots=True)
class Block:
    """The launches that a strategy requested at once, in run order."""

    number: int
    cells: list[Cell]
    is_closed: bool = False  #: whether nothing more is measured, even if windows are missing

    @property
    def is_started(self) -> bool:
        """Whether any attempt of it has been made."""
        return any(cell.is_started for cell in self.cells)


# The time limit of a launch, so that its study stays within the budget.


HEAD_S = 5.0  #: slack after the limit of the warm-up, because a window begins at the next sample of usage


@dataclass(frozen=True, slots=True)
class Deadline:
    """The monotonic seconds by which a launch must have ended; inf: there is no budget."""

    ends_s: float = inf  #: end of the budget
    share_ends_s: float = inf  #: end of this launch's share of the budget; later launches need the rest
    stop_s: float = 0.0  #: time that a launch takes to stop

    def warmup_s(self, now_s: float, windows_s: float) -> float:
        """Return the longest warm-up, in seconds from *now_s*, that leaves *windows_s* for windows."""
        share_s = self.share_ends_s - now_s - windows_s - self.stop_s
        whole_s = self.ends_s - now_s - windows_s - self.stop_s - HEAD_S
        return max(0.0, min(share_s, whole_s))

    def has_room(self, now_s: float, lasts_s: float) -> bool:
        """Return whether a step of *lasts_s* and the stop of the launch end before the budget."""
        return now_s + lasts_s + self.stop_s <= self.ends_s


NO_END = Deadline()


class NotWanted(MeasurementError):
    """A launch was cancelled while it started, which proves nothing about its layout."""
