"""tuner export: the ranking in other formats, a runbook page, settings of the best layout."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuner.cli.rank import (
    DEFAULT_COSTS,
    Confidence,
    Costs,
    Current,
    Horizon,
    MaxLoad,
    MaxMemory,
    MaxP95,
    Objective,
    Pareto,
    StudyFile,
    Within,
)
from tuner.cli.shared.options import formats
from tuner.core.errors import EXIT_WEAKER, ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.core.ranking.ranked import RankingOptions

_RUNBOOK = "Runbook"


def _names_formats(value: str | None) -> str | None:
    """Print the formats for `--format list` while options are parsed, because it needs no study."""
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
        help=(
            "Format of the output, such as markdown, csv, json, html, rst or jira. `--format list` prints "
            "all formats."
        ),
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
            help=(
                "Write a page for operators into this file. If the file already contains this page, tuner "
                "replaces the page, and keeps the rest of the file."
            ),
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            metavar="",
            rich_help_panel=_RUNBOOK,
            help=(
                "With --into, change nothing, but exit with code 4 if the page in the file is out of date."
            ),
        ),
    ] = False,
    page: Annotated[
        bool,
        typer.Option(
            "--page",
            metavar="",
            rich_help_panel=_RUNBOOK,
            help="Print the page for operators that --into writes to a file.",
        ),
    ] = False,
    repeat_after: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            rich_help_panel=_RUNBOOK,
            help="Age of a study at which the page for operators recommends to measure again (default: 90d).",
        ),
    ] = None,
    pictures: Annotated[
        bool,
        typer.Option(
            "--pictures",
            metavar="",
            rich_help_panel=_RUNBOOK,
            help="With --into, also write charts as SVG files next to the runbook.",
        ),
    ] = False,
    snippet: SnippetKind = None,
    layout: SnippetLayout = None,
    current: Current = None,
    confidence: Confidence = None,
    objective: Objective = None,
    max_load: MaxLoad = None,
    max_memory: MaxMemory = None,
    horizon: Horizon = None,
    max_p95: MaxP95 = None,
    pareto: Pareto = False,
    costs: Costs = None,
    within: Within = None,
    as_json: Annotated[
        bool, typer.Option("--json", metavar="", help="Print JSON (as `--format json`).")
    ] = False,
) -> int:
    """Print the ranking in another format, or write a page for operators into a runbook.

    The page names the layout to run and the reason, and the steps to apply the layout and to roll back. The
    page also names the conditions of the measurement, and the date to repeat it. In Markdown, the page stands
    between <!-- tuner:ranking:SERVICE begin --> and <!-- tuner:ranking:SERVICE end -->. The page stores the
    options of the command, and --check without options uses them again.

    --snippet prints settings for supervisor, systemd, Kubernetes and others, but does not apply them. If the
    study has no answer yet, the settings are those of the leading layout, and the exit code is 5. A full grid
    has an answer once all its layouts are measured, even if other layouts may be as good.

    Example: tuner export crash-processor.tuner.db --into RUNBOOK.md
    """
    from tuner.app.exporting import question_of, ranked_as, rendered_page, write_section
    from tuner.reports.ranking.ranking import render_ranking
    from tuner.reports.runbook.runbook import MadeWith

    fmt = parse_format(format_, as_json=as_json)
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
        horizon,
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
        asked = question_of(options)
        return print_snippet(study, snippet, layout=layout, confidence=confidence, question=asked)
    if layout is not None:
        raise ConfigError(
            "--layout needs --snippet", hint="Name the kind of the snippet with --snippet KIND."
        )
    if into is not None:
        if page:
            raise ConfigError("--page prints, and --into writes into a file", hint="Keep one of them.")
        typer.echo(write_section(study, into, fmt, options, check=check), err=True)
        return 0
    if check:
        raise ConfigError("--check needs a runbook to look at", hint="Name it with --into RUNBOOK.md.")
    if pictures:
        raise ConfigError(
            "--pictures needs --into: the pictures go into the folder of the runbook",
            hint="Name it with --into RUNBOOK.md.",
        )
    if page:
        typer.echo(rendered_page(study, fmt or "markdown", options), nl=False)
        return 0
    if repeat_after is not None:
        raise ConfigError("--repeat-after is for a page", hint="Add --page, or --into RUNBOOK.md.")
    record, ranking = ranked_as(study, options)
    typer.echo(render_ranking(record, ranking, fmt or "markdown"), nl=False)
    return 0


def _check_alone(others: Mapping[str, object]) -> None:
    """Reject options that do not apply to a snippet."""
    if named := [name for name, value in others.items() if value]:
        raise ConfigError(f"--snippet goes without {', '.join(named)}", hint="Leave one of them out.")


def _formats() -> list[str]:
    from tuner.reports.text.formats import table_formats

    return sorted(["json", *table_formats()])


def parse_format(name: str | None, *, as_json: bool) -> str | None:
    """Return the name of the format given by *name* or --json, or None if neither is given.

    Raises:
        ConfigError: the format is unknown.
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


# tuner export --snippet: settings of the winner, ready to apply, on stdout.


def _names_kinds(value: str | None) -> str | None:
    """Print the kinds for `--snippet list` while options are parsed, because it needs no study."""
    if value == "list":
        from tuner.reports.snippets import list_kinds

        typer.echo(list_kinds())
        raise typer.Exit
    return value


SnippetKind = Annotated[
    str | None,
    typer.Option(
        "--snippet",
        metavar="KIND",
        is_eager=True,
        callback=_names_kinds,
        rich_help_panel="Apply it",
        help=(
            "Print settings with which systemd, kubernetes or another program runs the best layout. "
            "`--snippet list` prints all kinds."
        ),
    ),
]
SnippetLayout = Annotated[
    str | None,
    typer.Option(
        "--layout",
        metavar="LAYOUT",
        rich_help_panel="Apply it",
        help="Layout in the settings that --snippet prints (default: the best layout).",
    ),
]


def print_snippet(
    study: Path, kind: str, *, layout: str | None, confidence: float | None, question: RankingOptions
) -> int:
    """Print the snippet; return the exit code, 5 if the study has no answer yet (leading layout)."""
    from tuner.app import rollouts
    from tuner.reports.snippets import check_kind, snippet

    check_kind(kind)
    rollout, is_answer = rollouts.rollout(study, layout=layout, confidence=confidence, question=question)
    typer.echo(snippet(kind, rollout), nl=False)
    return 0 if is_answer else EXIT_WEAKER
