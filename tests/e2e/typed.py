"""Typing `tuner ...` in this process: no Python starts for each command."""

from __future__ import annotations

import io
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

from tuner.cli import run


class Done(NamedTuple):
    """What a command gave."""

    returncode: int
    stdout: str
    stderr: str


class Typed:
    """Types `tuner ...` in *folder*."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, *arguments: str | Path, terminal: io.StringIO | None = None) -> Done:
        """*terminal* is where stderr goes, for who wants to see it come."""
        out, err = io.StringIO(), terminal or io.StringIO()
        with chdir(self.folder), redirect_stdout(out), redirect_stderr(err):
            code = run([*map(str, arguments)])
        return Done(code, out.getvalue(), err.getvalue())
