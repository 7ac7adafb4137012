"""tuner export: the ranking in a format to keep, or between the marks of a runbook."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tuner.core.errors import ConfigError, StaleReport


def export(
    study: Annotated[Path, typer.Argument(metavar="STUDY", help="The file that `tuner grid` wrote.")],
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="markdown, csv, json, html, rst, jira ...; all: list.",
        ),
    ] = None,
    into: Annotated[
        Path | None,
        typer.Option(metavar="RUNBOOK", help="Rewrite tuner's section of this file, or add it."),
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="With --into: write nothing; 4 when stale."),
    ] = False,
    current: Annotated[
        str | None,
        typer.Option(metavar="LAYOUT", help="The layout in use: each row shows its ratio to it."),
    ] = None,
    confidence: Annotated[
        float, typer.Option(min=0.5, max=0.999, help="Level of the intervals and of the differences.")
    ] = 0.95,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Print the ranking in a format to keep, or keep it in a runbook.

    A runbook's section lies between two comments named after the service; in Markdown
    <!-- tuner:ranking:SERVICE begin --> and <!-- tuner:ranking:SERVICE end -->. The file is replaced as a
    whole or not at all, and twice the same study gives the same bytes.

    Example: tuner export crash-processor.tuner.db --into RUNBOOK.md
    """
    from tuner import bootstrap
    from tuner.adapters.text_file import read_text, replace_text
    from tuner.reports.ranking import render_ranking
    from tuner.reports.runbook import format_of, updated

    fmt = _format(format_, as_json=as_json)
    if fmt == "list":
        typer.echo("\n".join(_formats()))
        return
    if into is None and check:
        raise ConfigError("--check needs a runbook to look at", hint="Name it with --into RUNBOOK.md.")
    if into is not None and fmt is None:
        fmt = format_of(into)
    record, ranking = bootstrap.ranked(study, current=current, confidence=confidence)
    section = render_ranking(record, ranking, fmt or "markdown")
    if into is None:
        typer.echo(section, nl=False)
        return
    before = read_text(into)
    after = updated(before or "", section, service=record.service, fmt=fmt or "markdown", name=str(into))
    if before == after:
        typer.echo(f"{into} is up to date.", err=True)
        return
    if check:
        what = "does not exist" if before is None else f"does not show what {study} says"
        raise StaleReport(f"{into} {what}", hint=f"tuner export {study} --into {into}")
    replace_text(into, after)
    typer.echo(f"{into}: the section of {record.service} is written.", err=True)


def _formats() -> list[str]:
    from tuner.reports.formats import table_formats

    return sorted(["json", *table_formats()])


def _format(name: str | None, *, as_json: bool) -> str | None:
    if as_json and name not in (None, "json"):
        raise ConfigError(f"--json and --format {name} are two formats", hint="Keep one of them.")
    if as_json:
        return "json"
    if name is None or name == "list" or name in _formats():
        return name
    from difflib import get_close_matches

    near = get_close_matches(name, _formats(), n=1)
    hint = f"Did you mean {near[0]}?" if near else "`tuner export STUDY --format list` names them all."
    raise ConfigError(f"--format: no such format: {name!r}", hint=hint)
