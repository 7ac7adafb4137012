"""Feeder that runs a user's command, which supplies items during a launch."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tuner.adapters.processes.log_tail import last_lines, truncate_log
from tuner.adapters.processes.signals import ending_in_words, exit_code_of, signals_held
from tuner.adapters.supervisord.config import Job, shim_command
from tuner.adapters.supervisord.sweep import started_ticks, sweep
from tuner.config.feeders import FeederSettings
from tuner.config.fields import Command
from tuner.config.kinds import FeederSurroundings
from tuner.core.domain.layout import Layout
from tuner.core.domain.service import layout_variables
from tuner.core.errors import ConfigError, MeasurementError
from tuner.core.text.safe_text import redact

if TYPE_CHECKING:
    from tuner.config.service import ScriptSettings

_STOP_WAIT_S = 5.0
_FEEDER_ID = "TUNER_FEEDER_ID"  #: the variable that one launch's feeder carries, and all it starts
_N_LINES = 3  #: of its output, told when it fails


class CommandFeederSettings(FeederSettings):
    """tuner runs a command that sends items."""

    kind: Literal["command"]  #: Kind of feeder
    command: Command  #: Command that tuner starts at the beginning of each launch, and stops at the end

    def describe(self) -> str:
        """See `FeederSettings`."""
        words = redact([str(word) for word in self.command])
        return f"the items that this command supplies: {shlex.join(words)}"

    def build(
        self, service: ScriptSettings, _layouts: Sequence[Layout], around: FeederSurroundings
    ) -> CommandFeeder:
        """See `FeederSettings`."""
        return CommandFeeder(self.command, service.directory, around.scratch)


class CommandFeeder:
    """Runs one command beside each launch; the layout reaches it as TUNER_LAYOUT, TUNER_PROCESSES ...

    It ends with the launch, and so does all that it started: TERM, after 5 s KILL. Should tuner itself be
    killed, the kernel sends it TERM, and the guardian ends what it started. While it does not run, the source
    counts as dry.
    """

    def __init__(
        self,
        command: Sequence[str],
        directory: Path | None = None,
        scratch: Path | None = None,
        descriptors: Sequence[int] = (),
    ) -> None:
        """*scratch* is where its log is kept; None: TMPDIR. The command inherits *descriptors*."""
        self._descriptors = tuple(descriptors)
        self._scratch = scratch
        self._command = tuple(command)
        self._directory = directory or Path.cwd()
        self._process: subprocess.Popen[bytes] | None = None
        self._log: Path | None = None
        self._marker = ""  #: another one for each launch
        self._failed = ""  #: how the command had failed before it was ended
        self._exit_code: int | None = None

    def prepare(self) -> None:
        """See that there is such a command."""
        self._program()

    @contextmanager
    def feeding(self, layout: Layout) -> Iterator[None]:
        """Start the command for *layout*; MeasurementError when it has failed by the end of the launch."""
        program = self._program()
        self._marker, self._failed, self._exit_code = uuid.uuid4().hex, "", None
        with tempfile.TemporaryDirectory(prefix="feeder-", dir=self._scratch) as folder:
            self._log = log = Path(folder) / "feeder.log"
            job = Path(folder) / "feeder.json"
            Job(
                process=-1,
                program=program,
                argv=self._command,
                directory=str(self._directory),
                output=str(log),
                environment=layout_variables(layout),
                own_session=True,
            ).write(job)
            carried = {"TUNER_PARENT_PID": str(os.getpid()), _FEEDER_ID: self._marker}
            try:
                with signals_held():
                    self._process = subprocess.Popen(
                        shim_command(str(job)), env={**os.environ, **carried}, pass_fds=self._descriptors
                    )
                try:
                    yield
                except MeasurementError as error:  # it may be the feeder that spoilt the launch
                    if type(error) is MeasurementError and (failure := self._failure(log)):
                        raise MeasurementError(f"{error.problem}; {failure}") from error
                    raise
                if failure := self._failure(log):
                    raise MeasurementError(failure)
            finally:
                self._stop()

    def away(self) -> str:
        """Nobody but the command knows its source."""
        return ""

    def rest(self) -> None:
        """It ends with the launch."""

    def end(self) -> None:
        """End the command before its launch ends; how it failed until then is kept."""
        if self._log is not None:
            self._failed = self._failure(self._log)
        self._stop()

    def exit_code(self) -> int | None:
        """With which the command of this launch, or the last one, ended by itself; None: it was ended."""
        return self._exit_code

    def is_dry(self) -> bool:
        """Whether the command has ended: nobody supplies items any more. Asked every second."""
        if self._log is not None:
            truncate_log(self._log)
        return self._process is None or exit_code_of(self._process) is not None

    def problem(self) -> str:
        """Return how the command failed, and its last words."""
        return "" if self._log is None else self._failure(self._log)

    def pids(self) -> frozenset[int]:
        """The command, while it runs."""
        return frozenset() if self._process is None or self.is_dry() else frozenset({self._process.pid})

    def requests(self) -> None:
        """The command does not tell."""

    @property
    def pace(self) -> None:
        """It goes on as it begins."""

    @property
    def can_pause(self) -> bool:
        """Only the command could stop its supply."""
        return False

    def pause(self) -> None:
        """It cannot."""
        raise ValueError("a feeder of the user's cannot pause")

    def resume(self) -> None:
        """It never pauses."""

    def follow(self, workers: Callable[[], frozenset[int]]) -> None:  # as the port has it
        """Whoever works finds the items."""

    def go_on_at(self, rate_per_s: float, capacity_per_s: float) -> None:
        """Nobody asks for it."""
        raise NotImplementedError

    def _failure(self, log: Path) -> str:
        """How the command failed; empty: it has not."""
        if self._process is None:
            return self._failed
        failed = exit_code_of(self._process)
        if not failed:
            return ""
        words = " | ".join(last_lines(log, _N_LINES, command=self._command)) or "it printed nothing"
        return f"the feeder {ending_in_words(failed)}: {words}"

    def _program(self) -> str:
        program = shutil.which(self._command[0])
        if program is None:
            raise ConfigError(
                f"the feeder's command {self._command[0]} is missing or not executable",
                hint="Name a program on the PATH, or its full path.",
            )
        return str(Path(program).absolute())

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        self._exit_code = exit_code_of(process)
        try:
            swept = sweep(
                self._marker,
                None,
                since=started_ticks(os.getpid()),
                variables=(_FEEDER_ID,),
                grace_s=_STOP_WAIT_S,
            )
        finally:  # a second Ctrl-C, and who threw away its environment
            with suppress(ProcessLookupError, PermissionError):  # it ended; it became another user (sudo)
                os.killpg(process.pid, signal.SIGKILL)
            with suppress(PermissionError):
                process.kill()  # it has no group of its own yet
            with suppress(subprocess.TimeoutExpired):
                process.wait(_STOP_WAIT_S)
        left = list(swept.left)
        if process.returncode is None:
            left.append(f"{process.pid} {self._command[0]}")
        if left:
            raise MeasurementError(f"processes of the feeder could not be stopped: {', '.join(left)}")
