"""How the service of a study is started in one of its layouts, for good."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.core.domain.layout import Layout
from tuner.core.domain.records import StudyRecord
from tuner.core.domain.rollout import Rollout
from tuner.core.errors import ConfigError
from tuner.core.text.stored_config import parse_stored_service

if TYPE_CHECKING:
    from tuner.core.ranking.overview import Overview
    from tuner.reports.ranking.first_screen import Starts


def in_production(record: StudyRecord, layout: Layout) -> Rollout | str:
    """What puts *layout* into production, by what the study *record* kept; else why that is not known."""
    from tuner.services.catalogue import known_services
    from tuner.services.derived.rollouts import rollout_of

    section = parse_stored_service(record.config)
    if not section:
        return "No service ran: measure this layout on a real host before you apply it."
    try:
        return rollout_of(section, layout, record.cores, known_services())
    except ConfigError as error:
        return f"Cannot print the command here: {error.problem}."


def starts_of(overview: Overview) -> Starts:
    """How the best layout of a study is started in production, and the one in use."""
    from tuner.reports.ranking.first_screen import Starts

    study, best, current = overview.study, overview.ranking.best, overview.ranking.current
    return Starts(
        None if best is None else in_production(study, best.layout),
        None if current is None else in_production(study, current),
    )
