"""The HTML pages of a study and of a comparison."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tuner.app.collection import collection_paused

if TYPE_CHECKING:
    from tuner.core.planning.compared import StudyComparison
    from tuner.core.ranking.ranking_options import RankingOptions


def write_study_page(
    study: Path,
    target: Path | None,
    *,
    current: str | None,
    confidence: float | None,
    question: RankingOptions,
    small: bool,
) -> str:
    """Make the page of a study and write it to *target*, if one is given; the arguments are `ranked`'s."""
    from tuner.app.model import predict
    from tuner.app.rollouts import starts_of
    from tuner.reports.page import render_page

    with collection_paused():
        seen, prediction = predict(study, current=current, confidence=confidence, question=question)
        page = render_page(seen, prediction, starts=starts_of(seen), small=small)
    return _written(page, target)


def write_comparison_page(found: StudyComparison, target: Path | None) -> str:
    """Make the page of a comparison and write it to *target*, if one is given."""
    from tuner.reports.page.comparison import render_comparison_page

    return _written(render_comparison_page(found), target)


def _written(page: str, target: Path | None) -> str:
    if target is not None:
        from tuner.adapters.text_file import replace_text

        replace_text(target, page)
    return page
