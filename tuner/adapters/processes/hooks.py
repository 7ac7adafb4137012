"""The user's own commands, run at certain moments of a study."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO

from tuner.adapters.processes.signals import ending_in_words, running_in_own_group
from tuner.core.errors import MeasurementError
from tuner.core.messages.host import hook_failed
from tuner.core.text.durations import render_duration

FINISHED = "finished"
_MOST_OUTPUT_BYTES = 16 * 1024  #: of each command, the end of it


class CommandHooks:
    """Argument lists by event; no shell. Facts are TUNER_... variables, output goes to stderr."""

    def __init__(
        self,
        commands: Mapping[str, Sequence[Sequence[str]]],
        timeout_s: float,
        warn: Callable[[str, str], None],
        output: IO[str] | None = None,
    ) -> None:
        self._commands = commands
        self._timeout_s = timeout_s
        self._warn = warn
        self._output = output

    def run(self, event: str, facts: Mapping[str, str]) -> None:
        """Run the commands of *event* one after the other; the first that fails ends it."""
        data = {"TUNER_EVENT": event, **{f"TUNER_{name.upper()}": value for name, value in facts.items()}}
        for command in self._commands.get(event, ()):
            problem = self._problem(event, list(command), {**os.environ, **data})
            if problem is None:
                continue
            if event != FINISHED:
                raise MeasurementError(f"the {event} hook {problem}")
            self._warn(*hook_failed(f"the {event} hook {problem}"))

    def _problem(self, event: str, command: list[str], environment: dict[str, str]) -> str | None:
        """Run one command; what went wrong, or None.

        Its output goes through a file: a child that it leaves in the background may hold it open for ever.
        """
        with tempfile.TemporaryFile() as log:
            try:
                with running_in_own_group(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
                ) as process:
                    code = process.wait(self._timeout_s)
            except subprocess.TimeoutExpired:
                how = "was killed" if process.returncode is not None else "continues: it is another user's"
                return f"{command[0]} took longer than {render_duration(self._timeout_s)} and {how}"
            except OSError as error:
                return f"{command[0]} cannot be run: {error.strerror}"
            finally:
                self._show(event, log)
        return f"{command[0]} {ending_in_words(code)}" if code else None

    def _show(self, event: str, log: IO[bytes]) -> None:
        size = log.seek(0, os.SEEK_END)
        log.seek(max(0, size - _MOST_OUTPUT_BYTES))
        with suppress(OSError):  # nobody reads any more: no reason to stop measuring
            for line in log.read().decode("utf-8", "replace").splitlines():
                (self._output or sys.stderr).write(f"[{event}] {line}\n")
