"""Printing: results to stdout, all other lines to stderr."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tuner.core.domain.records import is_simulated, resume_arguments, simulation_notes
from tuner.core.errors import EXIT_NOTHING

if TYPE_CHECKING:
    from tuner.bootstrap.wire import Session
    from tuner.core.domain.records import StudyRecord


def echo(record: StudyRecord, text: str, facts: Mapping[str, Any], *, as_json: bool) -> None:
    """Print a result as *text* or as JSON of *facts*, and whether it was simulated."""
    if as_json:
        typer.echo(json.dumps({"simulated": is_simulated(record), **facts}))
        return
    for sentence in simulation_notes(record):
        typer.echo(f"{sentence}\n")
    show(text)


def show(text: str) -> None:
    """Print a result as text; tables wider than the terminal are folded."""
    from tuner.reports.text.cells import fold_tables

    if sys.stdout.isatty():
        text = fold_tables(text, shutil.get_terminal_size().columns)
    typer.echo(text, nl=False)


def echo_err(text: str) -> None:
    """Print a message to stderr; stdout is for results."""
    typer.echo(text, err=True)


# Messages about the file of a measurement and how to continue it.


def print_kept_file(session: Session, outcome: tuple[int, bool], command: str, simulate: Path | None) -> bool:
    """Print the file with the windows of *command*, and how to continue; return False if it has no windows.

    *outcome* is the exit code, and whether the study is finished.
    """
    code, is_over = outcome
    if not session.file.exists() or code == EXIT_NOTHING:
        return False
    echo_err(f"Kept in {session.file}; see it again with: {command} {session.file}")
    if not is_over:
        go_on(session, command, simulate)
    return True


def go_on(session: Session, command: str, simulate: Path | None, where: Sequence[str] = ()) -> None:
    """Print how to continue a study begun with *command*; *where* has the options that name the hosts."""
    before, after = resume_arguments(session.record)
    beside = ["--simulate", str(simulate)] if simulate is not None else []
    words = [*command.split(), *before, "--resume", str(session.file), *where, *beside, *after]
    echo_err(f"Continue with: {shlex.join(words)}")
    if after:
        echo_err("The command and its settings (--set) have to be as before: their secrets are not kept.")
