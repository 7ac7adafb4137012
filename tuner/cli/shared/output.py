"""Printing: results to stdout, all other lines to stderr; exit codes."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tuner.core.domain.records import is_simulated, resume_arguments, simulation_notes

if TYPE_CHECKING:
    from tuner.bootstrap.wire import Session
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


# Where a measurement is kept and how to continue it, printed.


def kept(session: Session, outcome: tuple[int, bool], command: str, simulate: Path | None) -> bool:
    """Print where the windows of *command* are kept, and how to continue; False: there are none to show.

    *outcome* is what `measured` gave.
    """
    code, is_over = outcome
    if not session.file.exists() or code == EXIT_NOTHING:
        return False
    echo_err(f"Kept in {session.file}; see it again with: {command} {session.file}")
    if not is_over:
        go_on(session, command, simulate)
    return True


def go_on(session: Session, command: str, simulate: Path | None, where: Sequence[str] = ()) -> None:
    """Print how to continue; *command* has begun it, *where* has the options that name the hosts."""
    before, after = resume_arguments(session.record)
    beside = ["--simulate", str(simulate)] if simulate is not None else []
    words = [*command.split(), *before, "--resume", str(session.file), *where, *beside, *after]
    echo_err(f"Continue with: {shlex.join(words)}")
    if after:
        echo_err("The command and its settings (--set) have to be as before: their secrets are not kept.")


# The exit codes of tuner; docs/reference/exit-codes.md is generated from this table.


EXIT_DONE = 0
EXIT_BUG = 1  #: Python's own, for a traceback
EXIT_INPUT = 2  #: input or environment
EXIT_NOTHING = 3  #: nothing could be measured
EXIT_STALE = 4  #: a runbook or choice is stale
EXIT_WEAKER = 5  #: an answer weaker than required
EXIT_BRAKED = 6  #: a safety limit stopped the study
EXIT_INTERRUPTED = 130
CUT_OFF = (EXIT_BRAKED, EXIT_INTERRUPTED)  #: before it was done; it can be resumed


@dataclass(frozen=True, slots=True)
class ExitCode:
    """An exit code, as documented."""

    code: int
    meaning: str
    then: str  #: what to do about it


EXIT_CODES = (
    ExitCode(EXIT_DONE, "success", "No action is needed."),
    ExitCode(
        EXIT_BUG,
        "a bug in tuner",
        "Report the bug with the traceback.",
    ),
    ExitCode(
        EXIT_INPUT,
        "invalid input or environment, for example an invalid option or config, or a full disk",
        "The first line of the error names the problem and the place, the second line the remedy.",
    ),
    ExitCode(
        EXIT_NOTHING,
        "no result, because no layout was measured successfully or no layout can be ranked",
        "Read the warnings (messages.md explains each warning).",
    ),
    ExitCode(
        EXIT_STALE,
        "a stale (outdated) result: a runbook differs from its study, or another layout is now better",
        "Write the runbook again (`tuner export`), or measure the service again (`tuner grid`).",
    ),
    ExitCode(
        EXIT_WEAKER,
        "a weaker result than required. The budget ended before the answer was known, a layout was never"
        " measured successfully, or every layout exceeds a limit. `tuner check` also ends with 5 if it cannot"
        " decide, and `tuner lab` if a run failed",
        "Continue the study with `--resume`, and `tuner lab` with `--results` (remedies: first-study.md).",
    ),
    ExitCode(
        EXIT_BRAKED,
        "a safety limit of the config stopped the study, which has some results",
        "Find the programs that use the host, then continue the study with `--resume` (brake.md).",
    ),
    ExitCode(
        EXIT_INTERRUPTED,
        "interrupted by Ctrl-C or SIGTERM",
        "Continue the study with `--resume`, and `tuner lab` with `--results`.",
    ),
)
