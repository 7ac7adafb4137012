"""The user's commands: hooks at moments of a study, and commands that run repeatedly during a launch."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from tuner.adapters.processes.log_tail import truncate_open_log
from tuner.adapters.processes.signals import delay_signals, end_group, ending_in_words, run_in_process_group
from tuner.core.domain.safety_limits import CommandResult
from tuner.core.errors import ConfigError, MeasurementError
from tuner.core.messages.host import hook_failed
from tuner.core.text.figures import render_duration
from tuner.ports import Clock

_MOST_OUTPUT_BYTES = 4096
_SHOWN = 200


class RepeatedCommand:
    """A command (no shell) run every *every_s* seconds, one run at a time, with ``TUNER_...`` variables.

    Args:
        command: Exits with 0 to continue; otherwise the last line of its output is reported.
        timeout_s: Time after which a run is killed, which counts as a failure.

    Raises:
        ConfigError: the command does not exist.
    """

    def __init__(self, clock: Clock, command: Sequence[str], every_s: float, timeout_s: float) -> None:
        program = shutil.which(command[0])
        if program is None:
            raise ConfigError(
                f"the command of the safety limits, {command[0]}, is missing or not executable",
                hint="Name a program on the PATH, or its full path.",
            )
        self._program = str(Path(program).absolute())
        self._clock = clock
        self._command = tuple(command)
        self._every_s, self._timeout_s = every_s, timeout_s

    @contextmanager
    def asking(self, facts: Mapping[str, str]) -> Iterator[AskedCommand]:
        """Yield the runs of one launch; a run that lasts longer than the ``with`` block is killed."""
        data = {**os.environ, **{f"TUNER_{name.upper()}": value for name, value in facts.items()}}
        with tempfile.TemporaryFile() as output:
            fcntl.fcntl(output, fcntl.F_SETFL, fcntl.fcntl(output, fcntl.F_GETFL) | os.O_APPEND)
            asked = AskedCommand(self, data, output)
            try:
                yield asked
            finally:
                asked.close()

    def begin(
        self, environment: Mapping[str, str], output: IO[bytes]
    ) -> tuple[subprocess.Popen[bytes] | None, str]:
        """Start a run; return its process, or None and the reason of the failure.

        Its output goes to a file, because a child in the background might keep a pipe open for ever. Of
        endless output, the end is kept.
        """
        output.seek(0)
        output.truncate()
        try:
            return subprocess.Popen(
                self._command,
                executable=self._program,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=dict(environment),
                process_group=0,
            ), ""
        except OSError as error:
            return None, f"{self._command[0]} cannot be run: {error.strerror}"

    def now_s(self) -> float:
        """Return the monotonic time in seconds for results."""
        return self._clock.monotonic_s()

    def is_due(self, began_s: float) -> bool:
        """Return whether the next run may begin, after a run that began at *began_s*."""
        return self.now_s() >= began_s + self._every_s

    def is_late(self, began_s: float) -> bool:
        """Return whether a run that began at *began_s* has exceeded its time."""
        return self.now_s() >= began_s + self._timeout_s

    def too_late(self) -> str:
        """Return the message for a run that had to be killed."""
        return f"{self._command[0]} did not end within {render_duration(self._timeout_s)}"

    def refusal(self, code: int, output: IO[bytes]) -> str | None:
        """Return the message of a run that failed with *code*; None for code 0."""
        if code == 0:
            return None
        how = ending_in_words(code, ended="ended")
        said = _last_line(output)
        return f"{self._command[0]} {how}: {said}" if said else f"{self._command[0]} {how}"


class AskedCommand:
    """The runs of one launch. Each call of `answer` starts or ends runs as needed, without waiting."""

    def __init__(self, command: RepeatedCommand, environment: Mapping[str, str], output: IO[bytes]) -> None:
        self._command, self._environment, self._output = command, environment, output
        self._process: subprocess.Popen[bytes] | None = None
        self._began_s = float("-inf")
        self._answer: CommandResult | None = None

    def answer(self) -> CommandResult | None:
        """Return the latest result, or None if no run has ended yet."""
        command = self._command
        truncate_open_log(self._output.fileno())
        if self._process is not None:
            code = self._process.poll()
            if code is not None:
                self._process = None
                self._end(command.refusal(code, self._output))
            elif command.is_late(self._began_s):
                self.close()
                self._end(command.too_late())
        elif command.is_due(self._began_s):
            self._began_s = command.now_s()
            with delay_signals():
                self._process, problem = command.begin(self._environment, self._output)
            if self._process is None:
                self._end(problem)
        return self._answer

    def close(self) -> None:
        """Kill the current run with its processes, and reap it."""
        process, self._process = self._process, None
        if process is not None:
            end_group(process)

    def _end(self, refusal: str | None) -> None:
        self._answer = CommandResult(self._began_s, self._command.now_s(), refusal)


def _last_line(output: IO[bytes]) -> str:
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - _MOST_OUTPUT_BYTES))
    lines = output.read().decode("utf-8", "replace").split("\n")
    said = [" ".join(line.split()) for line in lines if line.strip()]
    return said[-1][-_SHOWN:] if said else ""


# The user's hooks: commands at certain moments of a study.


FINISHED = "finished"
_MOST_HOOK_BYTES = 16 * 1024  #: last part of each command's output that is read


class CommandHooks:
    """Hooks: commands by event, without a shell. Facts are TUNER_... variables; output goes to stderr."""

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
        """Run the commands of *event* in order; raise MeasurementError at a failure (`FINISHED`: warn)."""
        data = {"TUNER_EVENT": event, **{f"TUNER_{name.upper()}": value for name, value in facts.items()}}
        for command in self._commands.get(event, ()):
            problem = self._problem(event, list(command), {**os.environ, **data})
            if problem is None:
                continue
            if event != FINISHED:
                raise MeasurementError(f"the {event} hook {problem}")
            self._warn(*hook_failed(f"the {event} hook {problem}"))

    def _problem(self, event: str, command: list[str], environment: dict[str, str]) -> str | None:
        """Run one command; return a description of its failure, or None.

        Its output goes through a file, because a child in the background might keep a pipe open for ever.
        """
        with tempfile.TemporaryFile() as log:
            try:
                with run_in_process_group(
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
        log.seek(max(0, size - _MOST_HOOK_BYTES))
        with suppress(OSError):  # stderr is closed: no reason to stop measuring
            for line in log.read().decode("utf-8", "replace").splitlines():
                (self._output or sys.stderr).write(f"[{event}] {line}\n")
