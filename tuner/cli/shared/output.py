"""Where commands say what: results on stdout, the rest to the person at the terminal."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from tuner.core.domain.records import is_simulated, simulation_notes

if TYPE_CHECKING:
    from tuner.core.domain.records import StudyRecord


def echo(record: StudyRecord, text: str, facts: Mapping[str, Any], *, as_json: bool) -> None:
    """Print a result, *text* for people or *facts* for programs, and whether it was simulated."""
    if as_json:
        typer.echo(json.dumps({"simulated": is_simulated(record), **facts}))
        return
    for sentence in simulation_notes(record):
        typer.echo(f"{sentence}\n")
    show(text)


def show(text: str) -> None:
    """Print a result for people; tables that a terminal is too narrow for are folded."""
    from tuner.reports.text.cells import fold_tables

    if sys.stdout.isatty():
        text = fold_tables(text, shutil.get_terminal_size().columns)
    typer.echo(text, nl=False)


def echo_err(text: str) -> None:
    """Tell the person at the terminal; results go elsewhere."""
    typer.echo(text, err=True)
