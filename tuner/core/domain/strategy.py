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
    from tuner.core.domain.records import LaunchRecord
    from tuner.core.stats.groups import Group, OfBest
    from tuner.core.stats.interval import Estimate

#: strict: has the requested confidence for every single service, and at every check; calibrated: on average
#: over studies; none: the strategy names a layout without any guarantee.
Kind = Literal["strict", "calibrated", "none"]
Axis = Literal["processes", "threads", "total_threads"]  #: an attribute of layouts
Slices = Literal["auto", "off"]  #: whether layouts take turns, if the service allows it


@dataclass(frozen=True, slots=True)
class Proposal:
    """One launch to make."""

    layout: Layout
    window_s: float  #: length of each window, seconds
    n_windows: int = 1  #: windows to measure in this launch, one after the other
    heat: int | None = None  #: launches of a block with the same number take turns; None: it runs alone


# Not frozen, although no code changes one, for the same reason as `WindowRecord`: there may be 100 000.
@dataclass(slots=True)
class Observed:
    """One valid window, as a strategy gets it."""

    layout: Layout
    #: value to maximise, above 0: items/s, or items per CPU second; 0 only if `is_silent`
    value: float
    launch: int  #: windows with the same number are of the same launch
    launch_began_s: float  #: start of its launch, in seconds since the study began, including breaks
    began_s: float  #: start of the window, on the same clock
    length_s: float
    box: str = ""  #: host on which it was measured; each host has its own drift
    #: load, memory_bytes and p95_s of the window, for limits; empty if the study has no limits
    usage: Mapping[str, float] = field(default_factory=dict)
    requests: Requests | None = None  #: requests that ended in it; None: unknown
    #: moment used for all windows that took turns with it, on the same clock; None: it was measured alone
    turns_s: float | None = None
    noise_of_second: float | None = None  #: of its launch, as in `LaunchRecord`; None: unknown
    #: items/s in its slices, as a multiple of those in the warm-up, when the launch ran alone; None: it was
    #: measured alone, or the warm-up had too few items
    of_warmup: float | None = None

    @property
    def is_silent(self) -> bool:
        """Whether it took turns and finished no item, although its launch finished many in the warm-up."""
        return self.of_warmup == 0


@dataclass(frozen=True, slots=True)
class Goal:
    """The question for a strategy: layouts, margin, confidence, window lengths and limits."""

    layouts: tuple[Layout, ...]
    within: float = WITHIN  #: margin: the answer may be worse than the best layout by this share
    confidence: float = CONFIDENCE
    kind: Kind = "strict"
    min_window_s: float = WINDOW_S  #: shortest window that the strategy may choose
    max_window_s: float = WINDOW_S  #: longest window that the strategy may choose
    cores: int | None = None  #: number of cores that the layouts are planned for; None: unknown
    #: largest load, memory_bytes and p95_s that the best layout may have
    limits: Mapping[str, float] = field(default_factory=dict)
    guided: bool = True  #: whether a queueing model may guide the measurements of a calibrated race


@dataclass(frozen=True, slots=True)
class Guidance:
    """The success of the model that guides a race."""

    used: bool  #: False: switched off, because its predictions were worse than those without a model
    n_held_out: int  #: number of layouts predicted before their first window
    error_ratio: float | None = None  #: median error of these predictions
    #: median error of the predictions without a model, for the same layouts
    error_without_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class ChangedRatio:
    """A layout whose ratio to the named layout changed during the study."""

    layout: Layout
    early: float  #: throughput as a multiple of the named layout's, in the first half of the study
    late: float  #: the same in the second half


@dataclass(frozen=True, slots=True)
class UnequalReaction:
    """A significant difference between layouts in how they react to the host's speed.

    Each change is a layout's throughput at the host's slowest measured moment, as a ratio to that at the
    fastest.
    """

    axis: Axis  #: the number that the reaction depends on
    weakest: Layout  #: layout that reacts least
    strongest: Layout  #: layout that reacts most
    weakest_ratio: float  #: change of *weakest*
    strongest_ratio: float  #: change of *strongest*


@dataclass(frozen=True, slots=True)
class Agreement:
    """The check of slices: the ratio of *layout* to *other* in slices and in windows alone."""

    layout: Layout  #: best layout in slices
    other: Layout  #: the rival that is hardest to separate from it
    in_slices: float
    alone: float
    expected: Estimate  #: prediction of *alone* from the slices; its interval includes the noise of both
    holds: bool  #: False: layouts that stay started disturb each other, so slices are no longer used


@dataclass(frozen=True, slots=True)
class LostInSlices:
    """A clear loss of throughput in slices, against the warm-ups of the same launches, which ran alone."""

    ratio: float  #: lost share of the throughput
    layouts: tuple[Layout, ...]  #: layouts that lose it; empty: all do


@dataclass(frozen=True, slots=True)
class Answer:
    """The present claim of a strategy."""

    layout: Layout | None  #: best layout so far; None: no layout was measured
    reached: bool  #: whether *layout* is within the goal's margin of the best, with its confidence
    kind: Kind
    #: layouts not significantly different from *layout*, best first, without *layout*
    ties: tuple[Layout, ...] = ()
    doubt: float | None = None  #: upper bound of the probability that the claim is wrong; None: unknown
    guidance: Guidance | None = None  #: success of the model; None: the strategy used no model
    #: layouts of *ties* that are known to be near *layout*: see `tuner.core.stats.groups`
    tied: tuple[Layout, ...] = ()
    pools_noise: bool = False  #: whether it assumes that all layouts have similar noise
    changed: tuple[ChangedRatio, ...] = ()  #: most significant first; tested only if there is an answer
    #: None: no significant difference; tested only if there is an answer
    reaction: UnequalReaction | None = None
    #: check of slices against windows alone; None: no slices, or not checked yet
    agreement: Agreement | None = None
    lost_in_slices: LostInSlices | None = None  #: None: no clear loss; otherwise slices do not count
    #: rival that is faster in longer launches, so that *layout* is not the answer; None: no such rival
    fell_below: Layout | None = None

    @property
    def counts_slices(self) -> bool:
        """Whether windows in slices count, if there are any; otherwise only windows alone count."""
        return self.lost_in_slices is None and (self.agreement is None or self.agreement.holds)

    def counts(self, heat: int | None) -> bool:
        """Return whether the windows of a launch count; *heat*: its heat, None if it ran alone."""
        return heat is None or self.counts_slices

    def judges(self, launch: LaunchRecord) -> bool:
        """Return whether a launch's trend, warm-up and error count: also if it ended before its slices."""
        return self.counts(launch.heat) or launch.warmup_s is None


@dataclass(frozen=True, slots=True)
class RemainingTime:
    """The expected rest of a study."""

    n_windows: int
    lasts_s: float


@dataclass(frozen=True, slots=True)
class Claim:
    """The answer with its scope, confidence and cost."""

    answer: Answer
    asked: tuple[Layout, ...]  #: layouts of the study
    failed: tuple[Layout, ...]  #: layouts of *asked* that cannot run; the claim excludes them
    unseen: tuple[Layout, ...]  #: layouts of *asked* without a window so far
    within: float
    confidence: float
    n_windows: int  #: number of valid windows
    spent_s: float  #: time spent in launches, over all sessions, seconds
    rest: RemainingTime | None = None  #: expected rest of the study; None: unknown
    has_limits: bool = False  #: whether only layouts that keep the study's limits may be the best
    n_otherwise: int = 0  #: number of blocks that this version of the strategy would not have proposed
    #: intervals behind the groups, for each measured layout except the named one
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
class Slicing(Protocol):
    """A strategy that measures in slices until they turn out to be wrong; then it tries all layouts again."""

    @property
    def counts_slices(self) -> bool:
        """Whether windows in slices count."""


@runtime_checkable
class Judging(Protocol):
    """A strategy that can also check the limits of layouts."""

    def verdicts(self) -> Mapping[Layout, Verdict]:
        """Return the present verdict of each layout; empty without limits."""
