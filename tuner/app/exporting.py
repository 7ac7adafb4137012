"""Exports of a study: pages, a section of a runbook, and the comparison of two study files."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.app.collection import pause_collection
from tuner.app.study_queries import rank_file
from tuner.bootstrap.stores import open_store
from tuner.core.errors import ConfigError, StaleReport

if TYPE_CHECKING:
    from tuner.core.domain.records import StudyRecord
    from tuner.core.planning.compared import Known, StudyComparison
    from tuner.core.ranking.overview import Overview
    from tuner.core.ranking.ranked import Ranking, RankingOptions
    from tuner.reports.documents import Block, Picture
    from tuner.reports.runbook.runbook import MadeWith


def write_section(study: Path, runbook: Path, fmt: str | None, options: MadeWith, *, check: bool) -> str:
    """Write the section of a study into *runbook*, and its pictures next to it; return a line for the user.

    Raises:
        StaleReport: the section would change, but *check* is set.
        ConfigError: the runbook cannot be read or written, or has another format.
    """
    from tuner.adapters.text_file import read_text, replace_text
    from tuner.bootstrap import stores
    from tuner.reports.runbook.runbook import (
        MadeWith,
        check_format,
        format_of,
        parse_made_with,
        update_runbook,
    )

    named, fmt = fmt, fmt or format_of(runbook)
    before = read_text(runbook)
    with stores.open_store(study, read_only=True) as store:
        service = store.study().service
    check_format(before or "", service=service, fmt=fmt, name=str(runbook))
    if check and options == MadeWith():
        options = parse_made_with(before or "", service=service, fmt=fmt)
    section, pictures = _section(study, fmt, options, runbook)
    after = update_runbook(
        before or "", section, service=service, fmt=fmt, name=str(runbook), options=options
    )
    stale = {path: svg for path, svg in pictures.items() if read_text(path) != svg}
    if before == after and not stale:
        return f"{runbook} is up to date."
    if check:
        what = "does not exist" if before is None else f"does not show the results of {study}"
        again = ["tuner", "export", str(study), "--into", str(runbook), *str(options).split()]
        raise StaleReport(
            f"{runbook} {what}", hint=shlex.join([*again, *(["--format", named] if named else [])])
        )
    for path, svg in stale.items():
        replace_text(path, svg)
    replace_text(runbook, after)
    return f"{runbook}: the section of {service} is written."


def _section(study: Path, fmt: str, options: MadeWith, runbook: Path) -> tuple[str, dict[Path, str]]:
    """Return the page and its pictures; in a format without pages, the ranking and no pictures."""
    from tuner.reports.documents import PAGE_FORMATS, render_document
    from tuner.reports.ranking.ranking import render_ranking
    from tuner.reports.runbook.runbook import Pictures, runbook_pictures

    if fmt not in PAGE_FORMATS:
        if options.pictures:
            raise ConfigError(
                f"--pictures: {fmt} has no page", hint=f"Formats with one are {', '.join(PAGE_FORMATS)}."
            )
        return render_ranking(*ranked_as(study, options), fmt), {}
    overview = _overview(study, options)
    real = runbook.resolve()  # the target of a link: paths of pictures begin there
    pictures = runbook_pictures(overview, real.stem) if options.pictures else Pictures()
    page = _page(overview, options, pictures.blocks)
    return render_document(page, fmt), {real.with_name(name): svg for name, svg in pictures.files.items()}


def rendered_page(study: Path, fmt: str, options: MadeWith) -> str:
    """Render the page of a study below its title."""
    from tuner.reports.documents import PAGE_FORMATS, Heading, render_document
    from tuner.reports.runbook.document import runbook_title

    if fmt not in PAGE_FORMATS:
        raise ConfigError(f"--page has no {fmt}", hint=f"Its formats are {', '.join(PAGE_FORMATS)}.")
    overview = _overview(study, options)
    return render_document([Heading(runbook_title(overview.study), 2), *_page(overview, options, ())], fmt)


def _overview(study: Path, options: MadeWith) -> Overview:
    """Return the overview of the study; ConfigError if it is of a kind that recommends no layout."""
    from tuner.app import study_queries

    overview = study_queries.overview(
        study, current=options.current, confidence=options.confidence, question=question_of(options)
    )
    strategy = overview.study.strategy
    if strategy in ("check", "aa"):
        what = "a check of another study" if strategy == "check" else "a comparison of a layout with itself"
        raise ConfigError(f"{study} is {what}, so it recommends no layout", hint="Name the study itself.")
    return overview


def _page(overview: Overview, options: MadeWith, pictures: Sequence[Picture]) -> Sequence[Block]:
    from tuner.app import rollouts
    from tuner.reports.runbook.document import REPEAT_AFTER_S, runbook_page

    repeat_after_s = _repeat_after_s(options.repeat_after) or REPEAT_AFTER_S
    starts = rollouts.starts_of(overview)
    return runbook_page(overview, starts, repeat_after_s=repeat_after_s, pictures=pictures)


def _repeat_after_s(text: str | None) -> float | None:
    from tuner.core.text.figures import parse_duration

    if text is None:
        return None
    try:
        seconds = parse_duration(text)
    except ConfigError as error:
        raise ConfigError(f"--repeat-after: {error.problem}", hint=error.hint) from error
    if not seconds:
        raise ConfigError("--repeat-after: should be longer than 0")
    return seconds


def ranked_as(study: Path, options: MadeWith) -> tuple[StudyRecord, Ranking]:
    """Return the study and its ranking according to *options*."""
    from tuner.app import study_queries

    return study_queries.rank_file(
        study, current=options.current, confidence=options.confidence, question=question_of(options)
    )


def question_of(options: MadeWith) -> RankingOptions:
    """Read the objective, limits and costs of *options*."""
    from tuner.core.ranking.ranked import parse_question

    return parse_question(
        objective=options.objective,
        max_load=options.max_load,
        max_memory=options.max_memory,
        horizon=options.horizon,
        max_p95=options.max_p95,
        costs=options.costs,
        within=options.within,
    )


# The comparison of two study files, and the HTML pages of a study and of a comparison.


def write_study_page(
    study: Path,
    target: Path | None,
    *,
    current: str | None,
    confidence: float | None,
    question: RankingOptions,
    small: bool,
) -> str:
    """Render the page of a study, and write it to *target* if given; arguments as for `rank_file`."""
    from tuner.app.model import predict
    from tuner.app.rollouts import starts_of
    from tuner.reports.page import render_page

    with pause_collection():
        seen, prediction = predict(study, current=current, confidence=confidence, question=question)
        page = render_page(seen, prediction, starts=starts_of(seen), small=small)
    return _write_page(page, target)


def write_comparison_page(found: StudyComparison, target: Path | None) -> str:
    """Render the page of a comparison, and write it to *target* if given."""
    from tuner.reports.page.comparison import render_comparison_page

    return _write_page(render_comparison_page(found), target)


def _write_page(page: str, target: Path | None) -> str:
    if target is not None:
        from tuner.adapters.text_file import replace_text

        replace_text(target, page)
    return page


# Two study files, read and compared.


def compare_studies(before: Path, after: Path, confidence: float | None = None) -> StudyComparison:
    """Compare the studies in two files at *confidence*; None: the lower confidence of the two.

    Raises:
        ConfigError: both are the same file, or no layout was measured in both.
    """
    from tuner.core.planning.compared import compare_studies as compare

    if before.exists() and after.exists() and before.samefile(after):
        raise ConfigError(f"{after} is the same study twice", hint="Name two: tuner compare BEFORE AFTER")
    first, second = _read_study(before), _read_study(after)
    level = confidence or min(first.study.confidence, second.study.confidence)
    return compare(first, second, level)


def _read_study(file: Path) -> Known:
    from tuner.config.legacy import fill_defaults
    from tuner.core.planning.compared import Known
    from tuner.core.text.safe_text import visible
    from tuner.study.counted import left_out

    record, ranking = rank_file(file)
    record = replace(record, config=fill_defaults(record.config))
    with open_store(file, read_only=True) as store:
        others = left_out(store)
        windows = [one for one in store.windows() if one.launch_id not in others]
        launches = store.launches()
    return Known(visible(file.name), record, ranking, windows, launches)
