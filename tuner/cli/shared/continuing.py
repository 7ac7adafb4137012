"""Where a measurement is kept and how to continue it, printed."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.cli.shared.exit_codes import EXIT_NOTHING
from tuner.cli.shared.output import echo_err
from tuner.core.domain.records import resume_arguments

if TYPE_CHECKING:
    from tuner.bootstrap.wire import Session


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
