"""The commands and settings that put the best layout of a study into production."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.app.study_queries import parse_measured_layout, rank_file
from tuner.core.domain.layout import Layout
from tuner.core.domain.records import StudyRecord, is_simulated
from tuner.core.domain.rollout import Rollout
from tuner.core.errors import ConfigError, MeasurementError

if TYPE_CHECKING:
    from tuner.core.ranking.overview import Overview
    from tuner.core.ranking.ranked import Ranking, RankingOptions
    from tuner.reports.ranking.first_screen import Starts

# The commands that start the service of a study permanently in one of its layouts.


def in_production(record: StudyRecord, layout: Layout) -> Rollout | str:
    """Return the rollout of *layout* according to the study *record*, or the reason why it is unknown."""
    from tuner.services.catalogue import known_services
    from tuner.services.derived.rollouts import rollout_of

    section = record.config.service.section
    if not section:
        return "No service ran: measure this layout on a real host before you apply it."
    try:
        return rollout_of(section, layout, record.cores, known_services())
    except ConfigError as error:
        return f"Cannot print the command here: {error.problem}."


def starts_of(overview: Overview) -> Starts:
    """Return the rollouts of a study's best layout and of the layout in use."""
    from tuner.reports.ranking.first_screen import Starts

    study, best, current = overview.study, overview.ranking.best, overview.ranking.current
    return Starts(
        None if best is None else in_production(study, best.layout),
        None if current is None else in_production(study, current),
    )


def rollout(
    file: Path,
    *,
    layout: str | None = None,
    confidence: float | None = None,
    question: RankingOptions | None = None,
) -> tuple[Rollout, bool]:
    """Return the rollout of *layout* (None: the ranking's leader), and whether it is a final result.

    *confidence* and *question* are those of `rank_file`. A given *layout* always counts as final.

    Raises:
        ConfigError: the study was simulated, lacks the layout, or its service is unknown here.
        MeasurementError: no layout was given, and nothing was measured.
    """
    from tuner.reports.ranking.first_screen import has_answer
    from tuner.reports.snippets.provenance import provenance
    from tuner.services.catalogue import known_services
    from tuner.services.derived.rollouts import rollout_of

    record, ranking = rank_file(file, confidence=confidence, question=question)
    section = record.config.service.section
    if is_simulated(record) or not section:
        raise ConfigError(
            f"{file} ran no service, so there is none to write settings for",
            hint="Export the ranking instead: leave --snippet out.",
        )
    wanted = _leader(ranking, file) if layout is None else _parse_layout(layout, record, file)
    found = rollout_of(section, wanted, record.cores, known_services())
    about = tuple(provenance(record, ranking, wanted, file.name))
    is_final = layout is not None or has_answer(record, ranking, ranking.next_step)
    return replace(found, provenance=about), is_final


def _leader(ranking: Ranking, file: Path) -> Layout:
    from tuner.core.ranking.race_result import leader

    found = leader(ranking)
    if found is None:
        raise MeasurementError(
            f"{file} has no window that counts, so no layout leads", hint="Name one with --layout."
        )
    return found.layout


def _parse_layout(text: str, record: StudyRecord, file: Path) -> Layout:
    try:
        return parse_measured_layout(text, record, file)
    except ConfigError as error:
        raise ConfigError(f"--layout: {error.problem}", hint=error.hint) from error
