"""The interface of strategies: observations, proposals and answers.

A strategy decides block by block: it proposes launches, learns from their windows, and answers at any time.
The same seed and the same windows give the same proposals and the same answer, so an interrupted study is
resumed by passing its windows to a new strategy.
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


# Not frozen, although no code changes one, for the same reason as `WindowRecord`: there may be 100 000.
@dataclass(slots=True)
class Observed:
    """One valid window, as a strategy gets it."""

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
    """The question for a strategy: layouts, margin, confidence, window lengths and limits."""

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
    """The success of the model that guides a race."""

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
    """The check of slices: the ratio of *layout* to *other* in slices and in windows alone."""

    layout: Layout  #: the best by slices
    other: Layout  #: the rival that is hardest to separate from it
    in_slices: float
    alone: float
    expected: Estimate  #: of *alone*, as slices predict it: the interval is the noise of both
    holds: bool  #: False: layouts that stay started disturb each other, so slices count no longer


@dataclass(frozen=True, slots=True)
class Answer:
    """The present claim of a strategy."""

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
        """Whether windows in slices count, if there are any; otherwise only windows alone count."""
        return self.agreement is None or self.agreement.holds


@dataclass(frozen=True, slots=True)
class RemainingTime:
    """The expected rest of a study."""

    n_windows: int
    lasts_s: float


@dataclass(frozen=True, slots=True)
class Claim:
    """The answer with its scope, confidence and cost."""

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
        """The number of layouts that the answer was compared with, itself included."""
        return len(self.asked) - len(self.failed)

    @property
    def of_whom(self) -> str:
        """The group in which the answer is the best, in words."""
        if self.has_limits:
            return f"those of {pluralize(self.n_layouts, 'layout')} that keep the limits"
        return pluralize(self.n_layouts, "layout")

    @property
    def open_ties(self) -> tuple[Layout, ...]:
        """The layouts neither significantly slower than the named one nor known to be near it."""
        return tuple(layout for layout in self.answer.ties if layout not in self.answer.tied)

    def group_of(self, layout: Layout) -> Group:
        """Return the group of a measured layout: see `tuner.core.stats.groups`."""
        if layout == self.answer.layout or layout in self.answer.tied:
            return "best-or-tied"
        return "not-ruled-out" if layout in self.answer.ties else "slower"

    @property
    def not_ruled_out(self) -> tuple[Layout, ...]:
        """The layouts other than the leader that may be the best, likeliest first; empty after the answer."""
        return () if self.answer.reached else (*self.answer.ties, *self.unseen)


class Strategy(Protocol):
    """A strategy that chooses the launches of a study."""

    def propose(self) -> Sequence[Proposal]:
        """Return the launches of the next block, in run order; empty if nothing is left to measure."""

    def learn(self, windows: Sequence[Observed], failed: Sequence[Layout] = ()) -> None:
        """Add a block's valid windows, in the order of measurement.

        *failed* are the layouts that cannot run at all, and must not be proposed again. A proposal without a
        valid window may be proposed again.
        """

    def answer(self) -> Answer:
        """Return the present answer."""

    def estimates(self) -> Mapping[Layout, Estimate]:
        """Estimate each measured layout's value with its interval at the goal's confidence, without drift."""


@runtime_checkable
class Foreseeing(Protocol):
    """A strategy that can also predict the rest of the study."""

    def expected_rest(self) -> Sequence[Proposal] | None:
        """Return the expected launches without those already proposed; None: not predictable."""


@runtime_checkable
class Comparing(Protocol):
    """A strategy that can also compare layouts, with the intervals behind its claim."""

    def beside(self, layout: Layout | None = None) -> Mapping[Layout, OfBest]:
        """Compare each measured layout with *layout* (None: the named); empty until the noise is known."""


@runtime_checkable
class Judging(Protocol):
    """A strategy that can also check the limits of layouts."""

    def verdicts(self) -> Mapping[Layout, Verdict]:
        """Return the present verdict of each layout; empty without limits."""
