"""What a strategy sees, what it asks for and what it may claim.

A strategy decides block by block: it proposes launches, learns what their windows gave, and answers at any
time. The same seed and the same windows give the same proposals and the same answer, so a study that was cut
off is resumed by showing its windows to a new strategy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from tuner.core.defaults import CONFIDENCE, WINDOW_S, WITHIN
from tuner.core.domain.layout import Layout
from tuner.core.domain.requests import Requests
from tuner.core.stats.interval import Estimate

if TYPE_CHECKING:
    from tuner.core.domain.limits import Verdict
    from tuner.core.stats.groups import OfBest

#: strict: right with the asked confidence on every single surface, at any look; calibrated: on average over
#: studies; none: the strategy names a layout and promises nothing.
Kind = Literal["strict", "calibrated", "none"]


@dataclass(frozen=True, slots=True)
class Proposal:
    """One launch to make."""

    layout: Layout
    window_s: float  #: length of each window, seconds
    n_windows: int = 1  #: windows to take of this launch, one after the other
    heat: int | None = None  #: launches of a block with the same number take turns; None: it runs alone


# Not frozen, though nobody changes one, for the same reason as `WindowRecord`: there may be 100 000.
@dataclass(slots=True)
class Observed:
    """One window that counts, as a strategy sees it."""

    layout: Layout
    value: float  #: what is to be large, above 0: items/s, or items per CPU second
    launch: int  #: windows of the same number are of the same launch
    launch_began_s: float  #: when its launch was begun, seconds since the study began, breaks included
    began_s: float  #: when the window began, on the same clock
    length_s: float
    box: str = ""  #: the box it was taken on; drift is a box's own
    #: load, memory_bytes, p95_s: what limits say; nothing where the study has none
    usage: Mapping[str, float] = field(default_factory=dict)
    requests: Requests | None = None  #: that ended in it; None: not known
    #: what it has in common with windows that were taken in turns with it, seconds; None: it was taken alone
    turns_s: float | None = None


@dataclass(frozen=True, slots=True)
class Goal:
    """What a strategy is to find out."""

    layouts: tuple[Layout, ...]
    within: float = WITHIN  #: the answer may be worse than the best by this share
    confidence: float = CONFIDENCE
    kind: Kind = "strict"
    min_window_s: float = WINDOW_S  #: the strategy chooses lengths from here ...
    max_window_s: float = WINDOW_S  #: ... to here
    cores: int | None = None  #: the cores the layouts are for
    limits: Mapping[str, float] = field(default_factory=dict)  #: the most of load, memory_bytes, p95_s
    guided: bool = True  #: whether a queueing model may choose what a calibrated race measures


@dataclass(frozen=True, slots=True)
class Guidance:
    """What became of the model that guides a race."""

    used: bool  #: False: it was switched off, because it foretold layouts worse than no model does
    n_held_out: int  #: layouts that it foretold before their first window
    error_ratio: float | None = None  #: of these, the median of how far it was off
    error_without_ratio: float | None = None  #: the same of the filters that know of no model


@dataclass(frozen=True, slots=True)
class Answer:
    """What a strategy claims just now."""

    layout: Layout | None  #: the best, as far as is known; None: nothing was measured
    reached: bool  #: whether *layout* is within the goal's margin of the best, with its confidence
    kind: Kind
    ties: tuple[Layout, ...] = ()  #: cannot be told from *layout*, best first; it is not among them
    doubt: float | None = None  #: upper bound of the probability that the claim is wrong; None: not known
    guidance: Guidance | None = None  #: None: there was no model
    tied: tuple[Layout, ...] = ()  #: those of *ties* that are known to be near: see `tuner.core.stats.groups`
    pools_noise: bool = False  #: it assumes that all layouts have similar noise


class Strategy(Protocol):
    """Decides what to measure next."""

    def propose(self) -> Sequence[Proposal]:
        """The launches of the next block, in run order; none when there is nothing left to find out."""

    def learn(self, windows: Sequence[Observed], failed: Sequence[Layout] = ()) -> None:
        """Take note of a block's valid windows, in the order they were taken.

        *failed* are the layouts that cannot be run at all, and are not to be proposed again. A proposal of
        which no valid window came may be proposed again.
        """

    def answer(self) -> Answer:
        """What may be claimed now."""

    def estimates(self) -> Mapping[Layout, Estimate]:
        """Each measured layout's value with its interval at the goal's confidence, drift taken out."""


@runtime_checkable
class Foreseeing(Protocol):
    """What a strategy may offer beside the rest: how much is still to be measured."""

    def expected_rest(self) -> Sequence[Proposal] | None:
        """The launches still to be expected, those already proposed left out; None: it cannot tell."""


@runtime_checkable
class Comparing(Protocol):
    """What a strategy that claims something may offer beside the rest: the intervals its claim rests on."""

    def beside(self, layout: Layout | None = None) -> Mapping[Layout, OfBest]:
        """Each measured layout beside *layout* (None: the named one); none before the noise is known."""


@runtime_checkable
class Judging(Protocol):
    """What a strategy that heeds limits may offer beside the rest: which layouts keep them."""

    def verdicts(self) -> Mapping[Layout, Verdict]:
        """By layout, as far as is known by now; none without limits."""
