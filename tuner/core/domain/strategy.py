"""The interface of strategies: observations, proposals and answers.

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
from tuner.core.text.figures import pluralize

if TYPE_CHECKING:
    from tuner.core.domain.limits import Verdict
    from tuner.core.stats.groups import Group, OfBest
    from tuner.core.stats.interval import Estimate

#: strict: right with the asked confidence on every single surface, at any look; calibrated: on average over
#: studies; none: the strategy names a layout and promises nothing.
Kind = Literal["strict", "calibrated", "none"]
Slices = Literal["auto", "off"]  #: whether layouts take turns where the service allows it


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
class ChangedRatio:
    """A layout whose ratio to the named layout changed during the study."""

    layout: Layout
    early: float  #: throughput as a multiple of the named layout's, in the first half of the study
    late: float  #: in the second half


@dataclass(frozen=True, slots=True)
class Agreement:
    """Whether windows alone confirm the ratio of two layouts in slices: of *layout* to *other*."""

    layout: Layout  #: the best by slices
    other: Layout  #: the rival that is hardest to separate from it
    in_slices: float
    alone: float
    expected: Estimate  #: of *alone*, as slices predict it: the interval is the noise of both
    holds: bool  #: False: layouts that stay started disturb each other, so slices count no longer


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
    changed: tuple[ChangedRatio, ...] = ()  #: the clearest first; tested once there is an answer
    agreement: Agreement | None = None  #: of slices with windows alone; None: no slices, or not checked yet
    fell_below: Layout | None = None  #: the rival that is faster in longer launches, so *layout* is no answer

    @property
    def counts_slices(self) -> bool:
        """Whether windows in slices count, if there are any; else those alone do."""
        return self.agreement is None or self.agreement.holds


@dataclass(frozen=True, slots=True)
class RemainingTime:
    """What a study is still expected to take."""

    n_windows: int
    lasts_s: float


@dataclass(frozen=True, slots=True)
class Claim:
    """The answer, how far it holds, and what it took to know it."""

    answer: Answer
    asked: tuple[Layout, ...]  #: the layouts of the study
    failed: tuple[Layout, ...]  #: of these, those that cannot be run; nothing is claimed of them
    unseen: tuple[Layout, ...]  #: of these, those without a window so far
    within: float
    confidence: float
    n_windows: int  #: that count
    spent_s: float  #: in launches, over all sessions
    rest: RemainingTime | None = None  #: None: nobody can tell
    has_limits: bool = False  #: only who keeps the study's limits may be the best
    n_otherwise: int = 0  #: blocks that this version of the strategy would not have asked for
    #: each measured layout but the named one: the intervals that the groups rest on
    of_best: Mapping[Layout, OfBest] = field(default_factory=dict)

    @property
    def n_layouts(self) -> int:
        """Among how many layouts the answer is one of the best."""
        return len(self.asked) - len(self.failed)

    @property
    def of_whom(self) -> str:
        """What the best is the best of, in words."""
        if self.has_limits:
            return f"those of {pluralize(self.n_layouts, 'layout')} that keep the limits"
        return pluralize(self.n_layouts, "layout")

    @property
    def open_ties(self) -> tuple[Layout, ...]:
        """Which layouts are not told apart from the named one, nor known to be near it."""
        return tuple(layout for layout in self.answer.ties if layout not in self.answer.tied)

    def group_of(self, layout: Layout) -> Group:
        """The group of a measured layout: `tuner.core.stats.groups`."""
        if layout == self.answer.layout or layout in self.answer.tied:
            return "best-or-tied"
        return "not-ruled-out" if layout in self.answer.ties else "slower"

    @property
    def not_ruled_out(self) -> tuple[Layout, ...]:
        """Which may still be the best beside the leader, likeliest first; none once there is an answer."""
        return () if self.answer.reached else (*self.answer.ties, *self.unseen)


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
