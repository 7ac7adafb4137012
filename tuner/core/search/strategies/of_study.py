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

NAMES = ("race", "all")  #: what `tuner grid --strategy` takes


def goal_of(study: StudyRecord) -> Goal:
    """What *study* is to find out."""
    return Goal(
        layouts=study.layouts,
        within=study.within_ratio,
        confidence=study.confidence,
        kind=study.kind,
        min_window_s=study.shortest_window_s,
        max_window_s=study.window_s,
        cores=study.cores,
        limits=study.limits,
        # all that the model foretells; of a layout's threads it knows but one meaning
        guided=study.objective == "throughput" and not study.config.service.pooled_variants,
    )


def strategy_of(study: StudyRecord) -> Strategy:
    """A new strategy as *study* asked for it, which has seen nothing yet.

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
    """A new strategy for several boxes as *study* asked for it, which has seen nothing yet.

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


# A strategy that others look at while it leads a study.


# A strategy that is not asked how much is still to come: foreseeing takes longer than simulating it.


class Unforeseen:
    """Another strategy without its `Foreseeing`: it asks for the same launches and claims the same."""

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy

    def propose(self) -> Sequence[Proposal]:
        """As the other."""
        return self._strategy.propose()

    def learn(self, windows: Sequence[Observed], failed: Sequence[Layout] = ()) -> None:
        """As the other."""
        self._strategy.learn(windows, failed)

    def answer(self) -> Answer:
        """As the other."""
        return self._strategy.answer()

    def estimates(self) -> Mapping[Layout, Estimate]:
        """As the other."""
        return self._strategy.estimates()


class _Watched:
    """What another strategy says, asked for once after each thing that it learns, however often one looks."""

    def __init__(self, strategy: Strategy | SpreadingStrategy) -> None:
        self._watched = strategy
        self._failed: list[Layout] = []
        self._known: tuple[Answer, Mapping[Layout, Estimate]] | None = None  #: since it last learnt something
        self._beside: Mapping[Layout, OfBest] | None = None  #: likewise

    @property
    def failed(self) -> tuple[Layout, ...]:
        """Layouts that it was told cannot be run."""
        return tuple(self._failed)

    def answer(self) -> Answer:
        """As the other."""
        return self._asked()[0]

    def estimates(self) -> Mapping[Layout, Estimate]:
        """As the other."""
        return self._asked()[1]

    def of_best(self) -> Mapping[Layout, OfBest]:
        """As the other; none where that claims nothing."""
        if self._beside is None:
            self._beside = self._watched.beside() if isinstance(self._watched, Comparing) else {}
        return self._beside

    def verdicts(self) -> Mapping[Layout, Verdict]:
        """As the other; none where that heeds no limits."""
        return self._watched.verdicts() if isinstance(self._watched, Judging) else {}

    def _asked(self) -> tuple[Answer, Mapping[Layout, Estimate]]:
        if self._known is None:
            self._known = self._watched.answer(), self._watched.estimates()
        return self._known

    def _learns(self, failed: Sequence[Layout]) -> None:
        self._known = self._beside = None
        self._failed += failed


class Followed(_Watched):
    """Another strategy; what it says is asked for once per block, however often somebody looks."""

    def __init__(self, strategy: Strategy) -> None:
        super().__init__(strategy)
        self._strategy = strategy

    def follow(self, strategy: Strategy) -> None:
        """Look at *strategy* from now on, which has seen nothing yet."""
        self._strategy = self._watched = strategy
        self._known, self._failed = None, []

    def propose(self) -> Sequence[Proposal]:
        """As the other."""
        return self._strategy.propose()

    def learn(self, windows: Sequence[Observed], failed: Sequence[Layout] = ()) -> None:
        """As the other."""
        self._learns(failed)
        self._strategy.learn(windows, failed)

    def expected_rest(self) -> Sequence[Proposal] | None:
        """As the other; None where that cannot foresee at all."""
        return self._strategy.expected_rest() if isinstance(self._strategy, Foreseeing) else None


class FollowedOnFleet(_Watched):
    """The same of a strategy for several boxes."""

    def __init__(self, strategy: SpreadingStrategy) -> None:
        super().__init__(strategy)
        self._strategy = strategy

    def next_for(self, box: str, under_way: Sequence[Place], boxes: Sequence[str]) -> Place | None:
        """As the other."""
        return self._strategy.next_for(box, under_way, boxes)

    def learn(self, done: Done) -> None:
        """As the other."""
        self._learns(done.failed)
        self._strategy.learn(done)

    def expected_rest(self, under_way: Sequence[Place]) -> Sequence[Proposal] | None:
        """As the other."""
        return self._strategy.expected_rest(under_way)
