"""The probe for a command of the user's that prints how many items were finished."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tuner.adapters.probes.polled import Counts, PolledCounting, Warn, polling
from tuner.core.durations import render_duration
from tuner.core.errors import ConfigError, MeasurementError
from tuner.core.layout import Layout
from tuner.core.service import layout_variables
from tuner.ports import Clock

_NUMBER = re.compile(rb"\s*([0-9]{1,18})\s*")
_MOST_BYTES = 4096  #: of its output; a number and a newline are meant
_SHOWN = 80


class CommandProbe:
    """Runs *command* (no shell) once per look; the layout reaches it as TUNER_LAYOUT, TUNER_PROCESSES ...

    Args:
        command: prints one whole number, the items finished up to now, and exits with 0.
        timeout_s: then it is killed, and the look is a gap.
        directory: where it runs; None: tuner's current folder.

    Raises:
        ConfigError: there is no such command.
    """

    def __init__(
        self, clock: Clock, command: Sequence[str], timeout_s: float, directory: Path | None, warn: Warn
    ) -> None:
        program = shutil.which(command[0])
        if program is None:
            raise ConfigError(
                f"the probe's command {command[0]} is missing or not executable",
                hint="Name a program on the PATH, or its full path.",
            )
        self._program = str(Path(program).absolute())
        self._clock = clock
        self._command = tuple(command)
        self._timeout_s = timeout_s
        self._directory = directory
        self._warn = warn

    @contextmanager
    def counting(self, layout: Layout) -> Iterator[PolledCounting]:
        """Watch one launch of *layout*."""
        facts = layout_variables(layout)
        asked = PolledCounting(self._clock, lambda: self._counts(facts), self._command[0], self._warn)
        with polling(asked) as counting:
            yield counting

    def _counts(self, facts: Mapping[str, str]) -> Counts:
        """Its output goes through files: a child that it leaves in the background may hold them for ever."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            try:
                process = subprocess.Popen(
                    self._command,
                    executable=self._program,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    cwd=self._directory,
                    env={**os.environ, **facts},
                    process_group=0,  # a Ctrl-C at the terminal is tuner's to handle
                )
            except OSError as error:
                raise MeasurementError(f"it cannot be run: {error.strerror}") from error
            try:
                code = process.wait(self._timeout_s)
            except subprocess.TimeoutExpired as error:
                took = f"it took longer than {render_duration(self._timeout_s)} and was killed"
                raise MeasurementError(took) from error
            finally:
                if process.returncode is None:
                    with suppress(ProcessLookupError):  # it may end meanwhile
                        os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
            out.seek(0)
            err.seek(0)
            return Counts({"the number": _number(code, out.read(_MOST_BYTES + 1), err.read(_MOST_BYTES))})


def _number(code: int, out: bytes, err: bytes) -> int:
    if code < 0:
        raise MeasurementError(f"it was killed by signal {-code}")
    if code:
        said = " ".join(err.decode("utf-8", "replace").split()) or "it said nothing"
        raise MeasurementError(f"it failed with exit code {code}: {said[-_SHOWN:]}")
    match = _NUMBER.fullmatch(out)
    if match is None or len(out) > _MOST_BYTES:
        shown = out.decode("utf-8", "replace").strip()[:_SHOWN]
        raise MeasurementError(f"it should print one whole number, and printed {shown!r}")
    return int(match[1])
