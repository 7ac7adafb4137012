"""tuner export: the ranking in a format to keep, a page to act on in a runbook, settings of the winner."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuner.cli.rank import (
    DEFAULT_COSTS,
    Confidence,
    Costs,
    Current,
    MaxLoad,
    MaxMemory,
    MaxP95,
    Objective,
    Pareto,
    StudyFile,
    Within,
)
from tuner.cli.shared.completions import formats
from tuner.cli.shared.snippet import SnippetKind, SnippetLayout, print_snippet
from tuner.core.errors import ConfigError, StaleReport

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tuner.core.domain.records import StudyRecord
    from tuner.core.ranking.overview import Overview
    from tuner.core.ranking.ranking import Ranking
    from tuner.core.ranking.ranking_options import RankingOptions
    from tuner.reports.documents import Block, Picture
    from tuner.reports.runbook.runbook import MadeWith

_RUNBOOK = "Runbook"


def _names_formats(value: str | None) -> str | None:
    """`--format list` needs no study: it is answered while options are read."""
    if value == "list":
        typer.echo("\n".join(_formats()))
        raise typer.Exit
    return value


Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="FORMAT",
        autocompletion=formats,
        is_eager=True,
        callback=_names_formats,
        help="Format: markdown, csv, json, html, rst, jira or another. `--format list` prints all.",
    ),
]


def export(
    study: StudyFile,
    format_: Format = None,
    into: Annotated[
        Path | None,
        typer.Option(
            metavar="RUNBOOK",
            rich_help_panel=_RUNBOOK,
            help="Write a runbook page into this file: replace tuner's section, or append one.",
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            metavar="",
            rich_help_panel=_RUNBOOK,
            help="With --into: write nothing, and exit with code 4 if the section is stale.",
        ),
    ] = False,
    page: Annotated[
        bool,
        typer.Option("--page", metavar="", rich_help_panel=_RUNBOOK, help="Print the runbook page."),
    ] = False,
    repeat_after: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            rich_help_panel=_RUNBOOK,
            help="Time from the end of the study until it should be repeated (default: 90d).",
        ),
    ] = None,
    pictures: Annotated[
        bool,
        typer.Option(
            "--pictures",
            metavar="",
            rich_help_panel=_RUNBOOK,
            help="With --into: write pictures as SVG files next to the runbook.",
        ),
    ] = False,
    snippet: SnippetKind = None,
    layout: SnippetLayout = None,
    current: Current = None,
    confidence: Confidence = None,
    objective: Objective = None,
    max_load: MaxLoad = None,
    max_memory: MaxMemory = None,
    max_p95: MaxP95 = None,
    pareto: Pareto = False,
    costs: Costs = None,
    within: Within = None,
    as_json: Annotated[
        bool, typer.Option("--json", metavar="", help="Print JSON, as `--format json` does.")
    ] = False,
) -> int:
    """Print the ranking in a format to keep, or write a page into a runbook.

    The page names the layout to run and the reason, and the steps to apply it and to roll back. It also names
    the conditions of the measurement, and the date to repeat it. tuner writes the page between two comments:
    in Markdown <!-- tuner:ranking:SERVICE begin --> and <!-- tuner:ranking:SERVICE end -->. tuner replaces
    the file as a whole or not at all, and the same study always gives the same bytes. The section stores its
    options, and --check without options uses them again.

    --snippet prints settings for supervisor, systemd, Kubernetes and others. tuner applies nothing. If the
    study has no answer yet, the settings are those of the leading layout, and the exit code is 5.

    Example: tuner export crash-processor.tuner.db --into RUNBOOK.md
    """
    from tuner.reports.ranking.ranking import render_ranking
    from tuner.reports.runbook.runbook import MadeWith

    fmt = checked_format(format_, as_json=as_json)
    costs = costs or (DEFAULT_COSTS if pareto else None)
    options = MadeWith(
        current,
        confidence,
        objective,
        max_load,
        max_memory,
        max_p95,
        within,
        costs,
        repeat_after,
        pictures or None,
    )
    if snippet is not None:
        _check_alone(
            {
                "--into": into,
                "--check": check,
                "--page": page,
                "--repeat-after": repeat_after is not None,
                "--pictures": pictures,
                "--json": as_json,
                "--format": fmt,
                "--current": current,
                "--pareto": costs,
            }
        )
        return print_snippet(study, snippet, layout=layout, confidence=confidence, question=_asked(options))
    if layout is not None:
        raise ConfigError("--layout is of a snippet", hint="Name its kind with --snippet KIND.")
    if into is not None:
        if page:
            raise ConfigError("--page prints, and --into writes into a file", hint="Keep one of them.")
        _keep(study, into, fmt, options, check=check)
        return 0
    if check:
        raise ConfigError("--check needs a runbook to look at", hint="Name it with --into RUNBOOK.md.")
    if pictures:
        raise ConfigError(
            "--pictures needs --into: the pictures go into the folder of the runbook",
            hint="Name it with --into RUNBOOK.md.",
        )
    if page:
        typer.echo(_printed(study, fmt or "markdown", options), nl=False)
        return 0
    if repeat_after is not None:
        raise ConfigError("--repeat-after is for a page", hint="Add --page, or --into RUNBOOK.md.")
    record, ranking = _ranked(study, options)
    typer.echo(render_ranking(record, ranking, fmt or "markdown"), nl=False)
    return 0


def _check_alone(others: Mapping[str, object]) -> None:
    """Refuse what says nothing of a snippet."""
    if named := [name for name, value in others.items() if value]:
        raise ConfigError(f"--snippet goes without {', '.join(named)}", hint="Leave one of them out.")


def _keep(study: Path, runbook: Path, fmt: str | None, options: MadeWith, *, check: bool) -> None:
    from tuner.bootstrap import stores
    from tuner.bootstrap.host import read_text, replace_text
    from tuner.reports.runbook.runbook import MadeWith, check_format, format_of, made_with, updated

    named, fmt = fmt, fmt or format_of(runbook)
    before = read_text(runbook)
    with stores.open_store(study, read_only=True) as store:
        service = store.study().service
    check_format(before or "", service=service, fmt=fmt, name=str(runbook))
    if check and options == MadeWith():
        options = made_with(before or "", service=service, fmt=fmt)
    section, pictures = _section(study, fmt, options, runbook)
    after = updated(before or "", section, service=service, fmt=fmt, name=str(runbook), options=options)
    stale = {path: svg for path, svg in pictures.items() if read_text(path) != svg}
    if before == after and not stale:
        typer.echo(f"{runbook} is up to date.", err=True)
        return
    if check:
        what = "does not exist" if before is None else f"does not show the results of {study}"
        again = ["tuner", "export", str(study), "--into", str(runbook), *str(options).split()]
        raise StaleReport(
            f"{runbook} {what}", hint=shlex.join([*again, *(["--format", named] if named else [])])
        )
    for path, svg in stale.items():
        replace_text(path, svg)
    replace_text(runbook, after)
    typer.echo(f"{runbook}: the section of {service} is written.", err=True)


def _section(study: Path, fmt: str, options: MadeWith, runbook: Path) -> tuple[str, dict[Path, str]]:
    """The page, and the pictures beside it; in a format that has none, the ranking."""
    from tuner.reports.documents import PAGE_FORMATS, render_document
    from tuner.reports.ranking.ranking import render_ranking
    from tuner.reports.runbook.pictures import Pictures, runbook_pictures

    if fmt not in PAGE_FORMATS:
        if options.pictures:
            raise ConfigError(
                f"--pictures: {fmt} has no page", hint=f"Formats with one are {', '.join(PAGE_FORMATS)}."
            )
        return render_ranking(*_ranked(study, options), fmt), {}
    overview = _overview(study, options)
    real = runbook.resolve()  # what a link points to: pictures are found from there
    pictures = runbook_pictures(overview, real.stem) if options.pictures else Pictures()
    page = _page(overview, options, pictures.blocks)
    return render_document(page, fmt), {real.with_name(name): svg for name, svg in pictures.files.items()}


def _printed(study: Path, fmt: str, options: MadeWith) -> str:
    """The page below its title."""
    from tuner.reports.documents import PAGE_FORMATS, Heading, render_document
    from tuner.reports.runbook.document import runbook_title

    if fmt not in PAGE_FORMATS:
        raise ConfigError(f"--page has no {fmt}", hint=f"Its formats are {', '.join(PAGE_FORMATS)}.")
    overview = _overview(study, options)
    return render_document([Heading(runbook_title(overview.study), 2), *_page(overview, options, ())], fmt)


def _overview(study: Path, options: MadeWith) -> Overview:
    """The study, which has to be one that proposes a layout."""
    from tuner.bootstrap import study_queries

    overview = study_queries.overview(
        study, current=options.current, confidence=options.confidence, question=_asked(options)
    )
    strategy = overview.study.strategy
    if strategy in ("check", "aa"):
        what = "a check of another study" if strategy == "check" else "a comparison of a layout with itself"
        raise ConfigError(f"{study} is {what}, so it recommends no layout", hint="Name the study itself.")
    return overview


def _page(overview: Overview, options: MadeWith, pictures: Sequence[Picture]) -> Sequence[Block]:
    from tuner.bootstrap import production
    from tuner.reports.runbook.document import REPEAT_AFTER_S, runbook_page

    repeat_after_s = _repeat_after_s(options.repeat_after) or REPEAT_AFTER_S
    starts = production.starts_of(overview)
    return runbook_page(overview, starts, repeat_after_s=repeat_after_s, pictures=pictures)


def _repeat_after_s(text: str | None) -> float | None:
    from tuner.core.text.durations import parse_duration

    if text is None:
        return None
    try:
        seconds = parse_duration(text)
    except ConfigError as error:
        raise ConfigError(f"--repeat-after: {error.problem}", hint=error.hint) from error
    if not seconds:
        raise ConfigError("--repeat-after: should be longer than 0")
    return seconds


def _ranked(study: Path, options: MadeWith) -> tuple[StudyRecord, Ranking]:
    from tuner.bootstrap import study_queries

    return study_queries.ranked(
        study, current=options.current, confidence=options.confidence, question=_asked(options)
    )


def _asked(options: MadeWith) -> RankingOptions:
    from tuner.core.ranking.ranking_options import parse_question

    return parse_question(
        objective=options.objective,
        max_load=options.max_load,
        max_memory=options.max_memory,
        max_p95=options.max_p95,
        costs=options.costs,
        within=options.within,
    )


def _formats() -> list[str]:
    from tuner.reports.text.formats import table_formats

    return sorted(["json", *table_formats()])


def checked_format(name: str | None, *, as_json: bool) -> str | None:
    """The name of a format as it was typed; None: none was.

    Raises:
        ConfigError: there is no such format.
    """
    if as_json and name not in (None, "json"):
        raise ConfigError(f"--json and --format {name} are two formats", hint="Keep one of them.")
    if as_json:
        return "json"
    if name is None or name in _formats():
        return name
    from difflib import get_close_matches

    near = get_close_matches(name, _formats(), n=1)
    hint = f"Did you mean {near[0]}?" if near else "`tuner export --format list` names them all."
    raise ConfigError(f"--format: no such format: {name!r}", hint=hint)
