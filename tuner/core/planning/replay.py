"""A strategy on services with known throughput: how often it is right, and its cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import ceil, fsum
from random import Random
from typing import Protocol, runtime_checkable

from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Answer, Goal, Kind, Observed, Proposal, Strategy
from tuner.core.search.recorded import RecordedStudy
from tuner.core.search.strategies import make_strategy, promises
from tuner.core.search.suite import Suite
from tuner.core.stats.interval import wilson_interval

CAP_WINDOWS = 2000  #: number of windows after which a strategy that does not end is stopped without an answer

#: function that gets the claim after each block, and the number of windows so far
Look = Callable[[Answer, int], None]


class ReplayBox(Protocol):
    """A simulated host, the source of a replay's windows."""

    now_s: float  #: seconds since the study began
    n_windows: int
    n_launches: int

    def take(self, proposal: Proposal) -> list[Observed]:
        """Launch a layout and return its windows."""

    def is_right(self, layout: Layout) -> bool:
        """Return whether *layout* is truly within the margin of the best."""


@runtime_checkable
class TurnsBox(ReplayBox, Protocol):
    """A simulated host on which layouts can take turns."""

    def take_in_turns(self, proposals: Sequence[Proposal]) -> list[Observed]:
        """Launch layouts together and return their windows, taken in turns."""


@dataclass(frozen=True, slots=True)
class ReplayedStudy:
    """The result of one replayed study."""

    surface: int
    repeat: int
    layout: Layout | None  #: layout named at the end; None: none
    answered: bool  #: whether it gave an answer before the cap
    right: bool  #: whether it gave an answer, and the named layout is truly within the margin
    n_windows: int  #: number of windows; without an answer, the cap
    n_launches: int
    hours: float  #: time of all launches and windows


@dataclass(frozen=True, slots=True)
class ReplayJob:
    """The strategy and the suite of a replay; small enough to be sent to another process."""

    suite: Suite | RecordedStudy
    strategy: str
    kind: Kind = "strict"
    seed: int = 1
    n_windows: int | None = None  #: budget of strategies that do not end by themselves
    cap: int = CAP_WINDOWS


@dataclass(frozen=True, slots=True)
class ReplaySummary:
    """The figures of all runs; ratios are 0..1."""

    suite: str
    strategy: str
    kind: Kind
    n: int  #: number of runs
    right_ratio: float
    right_low: float  #: lower end of the share, Wilson, 95 %
    right_high: float
    worst_surface_right_ratio: float
    mean_windows: float
    p90_windows: int  #: number of windows that is enough for nine runs in ten
    mean_hours: float
    mean_launches: float
    unanswered_ratio: float


def replay(job: ReplayJob, surface: int, repeat: int, look: Look | None = None) -> ReplayedStudy:
    """Replay one study of *job*: row *surface* of its suite, for the *repeat*-th time."""
    stream = f"{job.seed}/{surface}/{repeat}"
    goal = job.suite.goal(job.kind)
    strategy = make_strategy(job.strategy, goal, Random(f"{stream}/strategy").getrandbits(32), job.n_windows)
    return run(strategy, goal, job.suite.box(surface, stream), (surface, repeat), job.cap, look)


def run(
    strategy: Strategy,
    goal: Goal,
    box: ReplayBox,
    which: tuple[int, int] = (0, 0),
    cap: int = CAP_WINDOWS,
    look: Look | None = None,
) -> ReplayedStudy:
    """Run *strategy* until it has its answer, proposes nothing more, or has taken *cap* windows.

    A strategy with a guarantee has answered when it reports so; one without, when it proposes nothing more. A
    study without an answer counts as wrong, and costs *cap* windows: the windows that it did not take are
    charged as launches of one window of the longest length.

    Raises:
        ValueError: it proposes a layout or a window length that the goal does not have.
    """
    answer = strategy.answer()
    while not answer.reached and box.n_windows < cap:
        proposals = strategy.propose()
        if not proposals:
            break
        windows: list[Observed] = []
        for heat, together in groupby(proposals, key=lambda one: one.heat):
            windows += _take(box, goal, list(together), cap, in_turns=heat is not None)
        strategy.learn(windows)
        answer = strategy.answer()
        if look is not None:
            look(answer, box.n_windows)
    answered = answer.reached or (answer.kind == "none" and not strategy.propose())
    answered = answered and answer.layout is not None
    right = answered and answer.layout is not None and box.is_right(answer.layout)
    n_lacking = 0 if answered else max(0, cap - box.n_windows)
    seconds = box.now_s + n_lacking * goal.max_window_s
    return ReplayedStudy(
        surface=which[0],
        repeat=which[1],
        layout=answer.layout,
        answered=answered,
        right=right,
        n_windows=box.n_windows + n_lacking,
        n_launches=box.n_launches + n_lacking,
        hours=seconds / 3600,
    )


def summary(job: ReplayJob, runs: Sequence[ReplayedStudy]) -> ReplaySummary:
    """Summarise one or more *runs*.

    Percentiles are by nearest rank, so they are numbers of windows of real runs.
    """
    n, n_right = len(runs), sum(one.right for one in runs)
    low, high = wilson_interval(n_right, n)
    of_surface: dict[int, list[bool]] = {}
    for one in runs:
        of_surface.setdefault(one.surface, []).append(one.right)
    return ReplaySummary(
        suite=job.suite.name,
        strategy=job.strategy,
        kind=job.kind if promises(job.strategy) else "none",
        n=n,
        right_ratio=n_right / n,
        right_low=low,
        right_high=high,
        worst_surface_right_ratio=min(sum(rights) / len(rights) for rights in of_surface.values()),
        mean_windows=sum(one.n_windows for one in runs) / n,
        p90_windows=sorted(one.n_windows for one in runs)[ceil(0.9 * n) - 1],
        mean_hours=fsum(one.hours for one in runs) / n,
        mean_launches=sum(one.n_launches for one in runs) / n,
        unanswered_ratio=sum(not one.answered for one in runs) / n,
    )


def _take(
    box: ReplayBox, goal: Goal, proposals: Sequence[Proposal], cap: int, *, in_turns: bool
) -> list[Observed]:
    """Take the windows of launches that follow each other or take turns, up to *cap* windows."""
    for proposal in proposals:
        _check(proposal, goal)
    if in_turns:
        if not isinstance(box, TurnsBox):
            raise ValueError("these windows were taken one after the other")
        return box.take_in_turns(proposals)
    windows: list[Observed] = []
    for proposal in proposals:
        n_windows = min(proposal.n_windows, cap - box.n_windows)
        if not n_windows:
            break
        windows += box.take(Proposal(proposal.layout, proposal.window_s, n_windows))
    return windows


def _check(proposal: Proposal, goal: Goal) -> None:
    if proposal.layout not in goal.layouts or proposal.n_windows < 1:
        raise ValueError(f"{proposal} is not of the layouts, or has no window")
    if not goal.min_window_s - 1e-9 <= proposal.window_s <= goal.max_window_s + 1e-9:
        raise ValueError(f"{proposal}: windows are {goal.min_window_s} s to {goal.max_window_s} s long")
