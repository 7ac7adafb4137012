"""Ready check that passes when a user's command exits with code 0."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from tuner.adapters.processes.signals import ending_in_words, run_in_process_group
from tuner.config.fields import Command
from tuner.config.kinds import ReadySettings
from tuner.core.domain.layout import Layout
from tuner.core.domain.service import layout_variables

_ANSWER_S = 5.0  #: time limit for one run


class CommandReady(ReadySettings):
    """The service is ready when a command succeeds."""

    condition: ClassVar[str] = "command"
    kind: Literal["command"]  #: Kind of check
    command: Command  #: Command that tuner repeats until its exit code is 0

    def build(self, layout: Layout, directory: Path | None) -> CommandSucceeds:
        """See `ReadySettings`."""
        return CommandSucceeds(self.command, {**os.environ, **layout_variables(layout)}, directory)


@dataclass(frozen=True, slots=True)
class CommandSucceeds:
    """Passes when a user's command ends with exit code 0."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    directory: Path | None = None

    def lacks(self, logs: Sequence[Path]) -> str:  # noqa: ARG002, D102
        try:
            with run_in_process_group(
                self.command,
                env=dict(self.environment),
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # no pipe: a child in the background might hold it open for ever
                stderr=subprocess.DEVNULL,
            ) as process:
                code = process.wait(_ANSWER_S)
        except subprocess.TimeoutExpired:
            return f"{self.command[0]} did not end within {_ANSWER_S:g} s"
        except OSError as error:
            return f"{self.command[0]} cannot be run: {error.strerror}"
        return f"{self.command[0]} {ending_in_words(code, ended='ends')}" if code else ""
