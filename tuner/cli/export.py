"""tuner export: the ranking in a format to keep, or in a runbook; settings of the winner."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuner.cli.candidates import formats
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
from tuner.cli.snippet import SnippetKind, SnippetLayout, print_snippet
from tuner.core.errors import ConfigError, StaleReport

if TYPE_CHECKING:
    from tuner.core.question import Question
    from tuner.core.ranking import Ranking
    from tuner.core.records import StudyRecord
    from tuner.reports.runbook import MadeWith


def _names_formats(value: str | None) -> str | None:
    """`--format list` needs no study: it is answered while options are read."""
    if value == "list":
        typer.echo("\n".join(_formats()))
        raise typer.Exit
    return value


def export(
    study: StudyFile,
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            autocompletion=formats,
            is_eager=True,
            callback=_names_formats,
            help="markdown, csv, json, html, rst, jira ...; `--format list` names all.",
        ),
    ] = None,
    into: Annotated[
        Path | None,
        typer.Option(metavar="RUNBOOK", help="Rewrite tuner's section of this file, or add it."),
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", metavar="", help="With --into: write nothing; 4 when stale."),
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
    as_json: Annotated[bool, typer.Option("--json", metavar="", help="The same as --format json.")] = False,
) -> int:
    """Print the ranking in a format to keep, or keep it in a runbook.

    A runbook's section lies between two comments named after the service; in Markdown
    <!-- tuner:ranking:SERVICE begin --> and <!-- tuner:ranking:SERVICE end -->. The file is replaced as a
    whole or not at all, and twice the same study gives the same bytes. The section remembers the
    options that made it, so that --check alone compares like with like.

    With --snippet settings of the winner are printed, in the words of supervisor, systemd, Kubernetes ...;
    nothing is applied. 5 when the study has no answer yet, and they are of the layout that leads.

    Example: tuner export crash-processor.tuner.db --into RUNBOOK.md
    """
    from tuner.reports.ranking import render_ranking
    from tuner.reports.runbook import MadeWith

    fmt = _format(format_, as_json=as_json)
    costs = costs or (DEFAULT_COSTS if pareto else None)
    options = MadeWith(current, confidence, objective, max_load, max_memory, max_p95, within, costs)
    if snippet is not None:
        _check_alone(into, check=check, fmt=fmt, current=current, costs=costs)
        return print_snippet(study, snippet, layout=layout, confidence=confidence, question=_asked(options))
    if layout is not None:
        raise ConfigError("--layout is of a snippet", hint="Name its kind with --snippet KIND.")
    if into is not None:
        _keep(study, into, fmt, options, check=check)
        return 0
    if check:
        raise ConfigError("--check needs a runbook to look at", hint="Name it with --into RUNBOOK.md.")
    record, ranking = _ranked(study, options)
    typer.echo(render_ranking(record, ranking, fmt or "markdown"), nl=False)
    return 0


def _check_alone(
    into: Path | None, *, check: bool, fmt: str | None, current: str | None, costs: str | None
) -> None:
    """Refuse what says nothing of a snippet."""
    others = {"--into": into, "--check": check, "--format": fmt, "--current": current, "--pareto": costs}
    if named := [name for name, value in others.items() if value]:
        raise ConfigError(f"--snippet goes without {', '.join(named)}", hint="Leave one of them out.")


def _keep(study: Path, runbook: Path, fmt: str | None, options: MadeWith, *, check: bool) -> None:
    from tuner import bootstrap
    from tuner.adapters.text_file import read_text, replace_text
    from tuner.reports.ranking import render_ranking
    from tuner.reports.runbook import MadeWith, format_of, made_with, updated

    named, fmt = fmt, fmt or format_of(runbook)
    before = read_text(runbook)
    with bootstrap.open_store(study, read_only=True) as store:
        service = store.study().service
    if check and options == MadeWith():
        options = made_with(before or "", service=service, fmt=fmt)
    record, ranking = _ranked(study, options)
    section = render_ranking(record, ranking, fmt)
    after = updated(before or "", section, service=service, fmt=fmt, name=str(runbook), options=options)
    if before == after:
        typer.echo(f"{runbook} is up to date.", err=True)
        return
    if check:
        what = "does not exist" if before is None else f"does not show what {study} says"
        again = ["tuner", "export", str(study), "--into", str(runbook), *str(options).split()]
        raise StaleReport(
            f"{runbook} {what}", hint=shlex.join([*again, *(["--format", named] if named else [])])
        )
    replace_text(runbook, after)
    typer.echo(f"{runbook}: the section of {service} is written.", err=True)


def _ranked(study: Path, options: MadeWith) -> tuple[StudyRecord, Ranking]:
    from tuner import bootstrap

    return bootstrap.ranked(
        study, current=options.current, confidence=options.confidence, question=_asked(options)
    )


def _asked(options: MadeWith) -> Question:
    from tuner.core.question import parse_question

    return parse_question(
        objective=options.objective,
        max_load=options.max_load,
        max_memory=options.max_memory,
        max_p95=options.max_p95,
        costs=options.costs,
        within=options.within,
    )


def _formats() -> list[str]:
    from tuner.reports.formats import table_formats

    return sorted(["json", *table_formats()])


def _format(name: str | None, *, as_json: bool) -> str | None:
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
