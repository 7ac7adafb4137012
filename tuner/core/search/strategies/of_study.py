"""The strategy of a study, and strategies with observers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import (
    Answer,
    Comparing,
    Foreseeing,
    Goal,
    Judging,
    Observed,
    Proposal,
    Slicing,
    Strategy,
)
from tuner.core.errors import ConfigError
from tuner.core.stats.interval import Estimate

if TYPE_CHECKING:
    from tuner.core.domain.fleet import Done, Place
    from tuner.core.domain.limits import Verdict
    from tuner.core.domain.records import StudyRecord
    from tuner.core.search.fleet_strategy import SpreadingStrategy
    from tuner.core.stats.groups import OfBest

NAMES = ("race", "all")  #: values of `tuner grid --strategy`


def goal_of(study: StudyRecord) -> Goal:
    """Return the goal of *study*."""
    return Goal(
        layouts=study.layouts,
        within=study.within_ratio,
        confidence=study.confidence,
        kind=study.kind,
        min_window_s=study.shortest_window_s,
        max_window_s=study.window_s,
        cores=study.cores,
        limits=study.limits,
        # the model predicts only throughput, and knows only one meaning of a layout's threads
        guided=study.objective == "throughput" and not study.config.service.pooled_variants,
    )


def strategy_of(study: StudyRecord) -> Strategy:
    """Create the strategy of *study*, without any windows.

    Raises:
        ConfigError: this tuner has no strategy of that name.
    """
    if study.strategy == "race":
        if study.n_resident > 1:
            from tuner.core.search.heat_race import HeatRace

            return HeatRace(goal_of(study), study.seed, study.n_resident)

        from tuner.core.search.racing import Race

        return Race(goal_of(study), study.seed)
    if study.strategy == "all":
        from tuner.core.search.strategies.full_grid import FullGrid

        return FullGrid(goal_of(study), study.seed, study.n_blocks, study.windows_per_launch)
    if study.strategy in ("aa", "check"):
        raise ConfigError(
            f"this file was begun by tuner {study.strategy}, and is no study of layouts",
            hint=f"Continue it with tuner {study.strategy} --resume.",
        )
    raise ConfigError(
        f"the study needs the strategy {study.strategy}, which this tuner does not support",
        hint="Continue with the tuner that started it.",
    )


def spreading_strategy_of(study: StudyRecord) -> SpreadingStrategy:
    """Create the strategy of *study* for several hosts, without any windows.

    Raises:
        ConfigError: this tuner has no such strategy.
    """
    if study.strategy == "race":
        from tuner.core.search.strategies.fleet_race import FleetRace

        return FleetRace(goal_of(study), study.seed)
    if study.strategy == "all":
        from tuner.core.search.strategies.fleet_grid import FleetGrid

        return FleetGrid(goal_of(study), study.seed, study.n_blocks, study.windows_per_launch)
    raise ConfigError(
        f"the study needs the strategy {study.strategy}, which this tuner does not support on several hosts",
        hint="Continue with the tuner that started it.",
    )


# A strategy without predictions of its rest, which take longer than the simulation of its study.


class Unforeseen:
    """Wrapper of a strategy without its `Foreseeing`; proposals and answers are the same."""

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy

    @property
    def counts_slices(self) -> bool:
        """Whether windows in slices count, if there are any."""
        return _counts_slices(self._strategy)

    def propose(self) -> Sequence[Proposal]:
        """Return the proposals of the strategy."""
        return self._strategy.propose()

    def learn(self, windows: Sequence[Observed], failed: Sequence[Layout] = ()) -> None:
        """Pass the windows to the strategy."""
        self._strategy.learn(windows, failed)

    def answer(self) -> Answer:
        """Return the answer of the strategy."""
        return self._strategy.answer()

    def estimates(self) -> Mapping[Layout, Estimate]:
        """Return the estimates of the strategy."""
        return self._strategy.estimates()


# A strategy with caches, which observers read while it drives a study.


class _Watched:
    """Wrapper of a strategy that caches its answer and estimates until it gets new windows."""

    def __init__(self, strategy: Strategy | SpreadingStrategy) -> None:
        self._watched = strategy
        self._failed: list[Layout] = []
        #: results since the last observation; None: not computed yet
        self._known: tuple[Answer, Mapping[Layout, Estimate]] | None = None
        #: comparisons since the last observation; None: not computed yet
        self._beside: Mapping[Layout, OfBest] | None = None

    @property
    def failed(self) -> tuple[Layout, ...]:
        """The layouts that cannot run, as reported to the strategy."""
        return tuple(self._failed)

    def answer(self) -> Answer:
        """Return the cached answer of the strategy."""
        return self._answer_and_estimates()[0]

    def estimates(self) -> Mapping[Layout, Estimate]:
        """Return the cached estimates of the strategy."""
        return self._answer_and_estimates()[1]

    def of_best(self) -> Mapping[Layout, OfBest]:
        """Return the cached comparisons of the strategy; empty if it compares nothing."""
        if self._beside is None:
            self._beside = self._watched.beside() if isinstance(self._watched, Comparing) else {}
        return self._beside

    def verdicts(self) -> Mapping[Layout, Verdict]:
        """Return the verdicts of the strategy; empty if it has no limits."""
        return self._watched.verdicts() if isinstance(self._watched, Judging) else {}

    def _answer_and_estimates(self) -> tuple[Answer, Mapping[Layout, Estimate]]:
        if self._known is None:
            self._known = self._watched.answer(), self._watched.estimates()
        return self._known

    def _learns(self, failed: Sequence[Layout]) -> None:
        self._known = self._beside = None
        self._failed += failed


class Followed(_Watched):
    """Wrapper of a strategy for one host that caches its answer once per block."""

    def __init__(self, strategy: Strategy) -> None:
        super().__init__(strategy)
        self._strategy = strategy

    @property
    def counts_slices(self) -> bool:
        """Whether windows in slices count, if there are any."""
        return _counts_slices(self._strategy)

    def follow(self, strategy: Strategy) -> None:
        """Replace the wrapped strategy by *strategy*, which has no windows yet."""
        self._strategy = self._watched = strategy
        self._known, self._failed = None, []

    def propose(self) -> Sequence[Proposal]:
        """Return the proposals of the strategy."""
        return self._strategy.propose()

    def learn(self, windows: Sequence[Observed], failed: Sequence[Layout] = ()) -> None:
        """Pass the windows to the strategy, and clear the cache."""
        self._learns(failed)
        counted = self.counts_slices
        self._strategy.learn(windows, failed)
        if counted and not self.counts_slices:
            self._failed.clear()

    def expected_rest(self) -> Sequence[Proposal] | None:
        """Return the predicted rest of the strategy; None if it cannot predict."""
        return self._strategy.expected_rest() if isinstance(self._strategy, Foreseeing) else None


class FollowedOnFleet(_Watched):
    """Wrapper of a strategy for several hosts that caches its answer until the next result."""

    def __init__(self, strategy: SpreadingStrategy) -> None:
        super().__init__(strategy)
        self._strategy = strategy

    def next_for(self, box: str, under_way: Sequence[Place], boxes: Sequence[str]) -> Place | None:
        """Return the next launch from the strategy."""
        return self._strategy.next_for(box, under_way, boxes)

    def learn(self, done: Done) -> None:
        """Pass the result to the strategy, and clear the cache."""
        self._learns(done.failed)
        self._strategy.learn(done)

    def expected_rest(self, under_way: Sequence[Place]) -> Sequence[Proposal] | None:
        """Return the predicted rest of the strategy."""
        return self._strategy.expected_rest(under_way)


def _counts_slices(strategy: Strategy) -> bool:
    return strategy.counts_slices if isinstance(strategy, Slicing) else True
