"""Which strategy a study asked for, and what it is to find out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.core.domain.strategy import Goal, Strategy
from tuner.core.errors import ConfigError

if TYPE_CHECKING:
    from tuner.core.domain.records import StudyRecord
    from tuner.core.search.fleet_strategy import SpreadingStrategy

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
        from tuner.core.search.race import Race

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
