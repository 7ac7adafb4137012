"""tuner export --snippet: settings of the winner, ready to apply, on stdout."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuner.cli.shared.exit_codes import EXIT_WEAKER

if TYPE_CHECKING:
    from tuner.core.ranking.ranked import RankingOptions


def _names_kinds(value: str | None) -> str | None:
    """`--snippet list` needs no study: it is answered while options are read."""
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
            "Print settings with which systemd, kubernetes or others run the best layout. `--snippet "
            "list` prints all kinds."
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
    """Print the snippet; 5 when the study has no answer, and this is of the layout that leads."""
    from tuner.app import rollouts
    from tuner.reports.snippets import check_kind, snippet

    check_kind(kind)
    rollout, is_answer = rollouts.rollout(study, layout=layout, confidence=confidence, question=question)
    typer.echo(snippet(kind, rollout), nl=False)
    return 0 if is_answer else EXIT_WEAKER
