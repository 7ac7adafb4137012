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
from tuner.adapters.processes.signals import delay_signals, ending_in_words, exit_code_of
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
_FEEDER_ID = "TUNER_FEEDER_ID"  #: the variable that identifies all processes of one launch's feeder
_N_LINES = 3  #: lines of the command's output in an error


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
    """Runs one command during each launch; TUNER_LAYOUT, TUNER_PROCESSES and similar describe the layout
    to it.

    The command and all processes that it started end with the launch: SIGTERM, after 5 s SIGKILL. If tuner
    itself is killed, the kernel sends SIGTERM to the command, and the guardian ends the processes that it
    started. While the command does not run, the source counts as dry.
    """

    def __init__(
        self,
        command: Sequence[str],
        directory: Path | None = None,
        scratch: Path | None = None,
        descriptors: Sequence[int] = (),
    ) -> None:
        """Set up the feeder; *scratch* is the folder of its log (None: TMPDIR). The command inherits
        *descriptors*.
        """
        self._descriptors = tuple(descriptors)
        self._scratch = scratch
        self._command = tuple(command)
        self._directory = directory or Path.cwd()
        self._process: subprocess.Popen[bytes] | None = None
        self._log: Path | None = None
        self._marker = ""  #: a new value for each launch
        self._failed = ""  #: the failure of the command if it failed before it was stopped
        self._exit_code: int | None = None

    def prepare(self) -> None:
        """Check that the command exists."""
        self._program()

    @contextmanager
    def feeding(self, layout: Layout) -> Iterator[None]:
        """Run the command for *layout*; MeasurementError if it has failed by the end of the launch."""
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
                with delay_signals():
                    self._process = subprocess.Popen(
                        shim_command(str(job)), env={**os.environ, **carried}, pass_fds=self._descriptors
                    )
                try:
                    yield
                except MeasurementError as error:  # the feeder may have caused the error
                    if type(error) is MeasurementError and (failure := self._failure(log)):
                        raise MeasurementError(f"{error.problem}; {failure}") from error
                    raise
                if failure := self._failure(log):
                    raise MeasurementError(failure)
            finally:
                self._stop()

    def away(self) -> str:
        """Return no reason: only the command can query its source."""
        return ""

    def rest(self) -> None:
        """Do nothing: the command ends with the launch."""

    def end(self) -> None:
        """End the command before its launch ends, and keep the reason if it failed."""
        if self._log is not None:
            self._failed = self._failure(self._log)
        self._stop()

    def exit_code(self) -> int | None:
        """Exit code with which the last command ended on its own; None: tuner ended it."""
        return self._exit_code

    def is_dry(self) -> bool:
        """Return whether the command has ended, so that no items arrive any more. Called every second."""
        if self._log is not None:
            truncate_log(self._log)
        return self._process is None or exit_code_of(self._process) is not None

    def problem(self) -> str:
        """Return how the command failed, with its last lines of output; empty: it has not failed."""
        return "" if self._log is None else self._failure(self._log)

    def pids(self) -> frozenset[int]:
        """Return the pid of the command while it runs."""
        return frozenset() if self._process is None or self.is_dry() else frozenset({self._process.pid})

    def requests(self) -> None:
        """Return None: the command reports no requests."""

    @property
    def pace(self) -> None:
        """None: the pace does not change."""

    @property
    def can_pause(self) -> bool:
        """False: only the command could stop its supply."""
        return False

    def pause(self) -> None:
        """Raise ValueError: the feeder cannot pause."""
        raise ValueError("a feeder of the user's cannot pause")

    def resume(self) -> None:
        """Do nothing: the feeder never pauses."""

    def follow(self, workers: Callable[[], frozenset[int]]) -> None:  # the port's signature
        """Do nothing: the workers fetch the items themselves."""

    def go_on_at(self, rate_per_s: float, capacity_per_s: float) -> None:
        """Raise NotImplementedError: the feeder has no rate."""
        raise NotImplementedError

    def _failure(self, log: Path) -> str:
        """Return how the command failed; empty: it has not failed."""
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
        finally:  # a second Ctrl-C, or a process that cleared its environment
            with suppress(ProcessLookupError, PermissionError):  # it has ended, or became another user (sudo)
                os.killpg(process.pid, signal.SIGKILL)
            with suppress(PermissionError):
                process.kill()  # it has no process group yet
            with suppress(subprocess.TimeoutExpired):
                process.wait(_STOP_WAIT_S)
        left = list(swept.left)
        if process.returncode is None:
            left.append(f"{process.pid} {self._command[0]}")
        if left:
            raise MeasurementError(f"processes of the feeder could not be stopped: {', '.join(left)}")
