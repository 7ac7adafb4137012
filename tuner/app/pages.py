"""The comparison of two study files, and the HTML pages of a study and of a comparison."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.app.collection import collection_paused
from tuner.app.study_queries import rank_file
from tuner.bootstrap.stores import open_store
from tuner.core.errors import ConfigError

if TYPE_CHECKING:
    from tuner.core.planning.compared import Known, StudyComparison
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


# Two study files, read and compared.


def compare_studies(before: Path, after: Path, confidence: float | None = None) -> StudyComparison:
    """The studies in two files compared at *confidence*; None: the lower of what both were asked for.

    Raises:
        ConfigError: they are one file, or no layout was measured in both.
    """
    from tuner.core.planning.compared import compare_studies as compare

    if before.exists() and after.exists() and before.samefile(after):
        raise ConfigError(f"{after} is the same study twice", hint="Name two: tuner compare BEFORE AFTER")
    first, second = _read_known(before), _read_known(after)
    level = confidence or min(first.study.confidence, second.study.confidence)
    return compare(first, second, level)


def _read_known(file: Path) -> Known:
    from tuner.config.legacy import fill_defaults
    from tuner.core.planning.compared import Known
    from tuner.core.text.foreign import visible

    record, ranking = rank_file(file)
    record = replace(record, config=fill_defaults(record.config))
    with open_store(file, read_only=True) as store:
        windows = store.windows()
    return Known(visible(file.name), record, ranking, windows)
