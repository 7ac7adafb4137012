"""Probe that runs a user's command, which prints the number of finished items."""

from __future__ import annotations

import os
import re
import select
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal

from tuner.adapters.probes.polled import Counts, PolledCounting, polling
from tuner.adapters.processes.signals import ending_in_words, run_in_process_group
from tuner.config.fields import Command, TimeLimit
from tuner.config.kinds import ProbeSettings, Surroundings
from tuner.core.domain.layout import Layout
from tuner.core.domain.service import layout_variables
from tuner.core.errors import ConfigError, MeasurementError
from tuner.core.text.figures import render_duration
from tuner.core.text.safe_text import hidden_in
from tuner.ports import Clock, Warn

if TYPE_CHECKING:
    from tuner.config.settings import Settings

# Run of a program that prints few bytes, with limits on its output and its time.

_PIPE_BYTES = 1 << 16  #: the most bytes in a pipe


@dataclass(frozen=True, slots=True)
class Printed:
    """Exit code and output of a program."""

    code: int
    out: bytes
    err: bytes  #: the last bytes of stderr


def run(
    command: Sequence[str],
    program: str,
    directory: Path | None,
    environment: Mapping[str, str],
    timeout_s: float,
    most_bytes: int,
) -> Printed:
    """Run *command* (no shell) to its end; kill it and its processes if it takes too long or prints too much.

    A child left in the background may hold the pipes open for ever, so this does not wait for their end.

    Raises:
        MeasurementError: it cannot be run, takes longer than *timeout_s* or prints more than *most_bytes*.
    """
    try:
        with run_in_process_group(
            command,
            executable=program,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=directory,
            env=dict(environment),
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            with process.stdout, process.stderr:
                out, err = _heard(process, process.stdout, process.stderr, timeout_s, most_bytes)
    except OSError as error:
        raise MeasurementError(f"it cannot be run: {error.strerror}") from error
    return Printed(process.returncode, out, err)


def _heard(
    process: subprocess.Popen[bytes], out: IO[bytes], err: IO[bytes], timeout_s: float, most_bytes: int
) -> tuple[bytes, bytes]:
    """Return both outputs when the process has ended; MeasurementError if they are too long or too late."""
    ends_s = time.monotonic() + timeout_s
    said = {out.fileno(): bytearray(), err.fileno(): bytearray()}
    ended = os.pidfd_open(process.pid)
    waiting = select.poll()
    waiting.register(ended, select.POLLIN)
    for descriptor in said:
        os.set_blocking(descriptor, False)
        waiting.register(descriptor, select.POLLIN)
    try:
        while True:
            left_s = ends_s - time.monotonic()
            if left_s <= 0:
                took = f"it took longer than {render_duration(timeout_s)} and was killed"
                raise MeasurementError(took)
            ready = {descriptor for descriptor, _ in waiting.poll(left_s * 1000)}
            # when it has ended, read the rest of both pipes; children that still run may write more, which is
            # ignored
            for descriptor in said if ended in ready else ready:
                part = _read_pipe(descriptor)
                said[descriptor] += part
                if not part:
                    with suppress(KeyError):  # closed before it ended
                        waiting.unregister(descriptor)
            if len(said[out.fileno()]) > most_bytes:
                raise MeasurementError(f"it printed more than {most_bytes} bytes")
            del said[err.fileno()][:-most_bytes]
            if ended in ready:
                process.wait()
                return bytes(said[out.fileno()]), bytes(said[err.fileno()])
    finally:
        os.close(ended)


def _read_pipe(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, _PIPE_BYTES)
    except BlockingIOError:
        return b""


_NUMBER = re.compile(rb"\s*([0-9]{1,18})\s*")
_MOST_BYTES = 4096  #: limit for its output, which should be a number and a newline
_SHOWN = 80


class CommandProbeSettings(ProbeSettings):
    """tuner runs a command that counts the items."""

    kind: Literal["command"]  #: Kind of probe
    command: Command  #: Command that prints the number of items finished so far
    timeout: TimeLimit = 2.0  #: Time after which tuner kills a run of `command`

    def build(self, settings: Settings, around: Surroundings) -> CommandProbe:
        """See `ProbeSettings`."""
        directory = settings.service.directory
        return CommandProbe(around.clock, self.command, self.timeout, directory, around.warn)


class CommandProbe:
    """Runs *command* (no shell) at each sample; TUNER_LAYOUT, TUNER_PROCESSES and similar describe the
    layout.

    Args:
        command: prints one whole number, the items finished so far, and exits with 0.
        timeout_s: time after which it is killed, and the sample is a gap.
        directory: its working directory; None: tuner's current folder.

    Raises:
        ConfigError: the command does not exist.
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
        """Count during one launch of *layout*."""
        facts = layout_variables(layout)
        asked = PolledCounting(self._clock, lambda: self._counts(facts), self._command[0], self._warn)
        with polling(asked) as counting:
            yield counting

    def _counts(self, facts: Mapping[str, str]) -> Counts:
        printed = run(
            self._command,
            self._program,
            self._directory,
            {**os.environ, **facts},
            self._timeout_s,
            _MOST_BYTES,
        )
        return Counts({"the number": _number(printed, self._without_secrets)})

    def _without_secrets(self, said: bytes) -> str:
        return hidden_in(said.decode("utf-8", "replace"), os.environ, self._command)


def _number(printed: Printed, shown: Callable[[bytes], str]) -> int:
    if printed.code < 0:
        raise MeasurementError(f"it {ending_in_words(printed.code)}")
    if printed.code:
        said = " ".join(shown(_without_cut_secret(printed.err)).split()) or "it printed nothing"
        raise MeasurementError(f"it {ending_in_words(printed.code)}: {said[-_SHOWN:]}")
    match = _NUMBER.fullmatch(printed.out)
    if match is None:
        said = shown(printed.out).strip()[:_SHOWN]
        raise MeasurementError(f"it should print one whole number, and printed {said!r}")
    return int(match[1])


def _without_cut_secret(end: bytes) -> bytes:
    """Return the *end* of the output without a word that was cut in two, because it may be half a secret."""
    if len(end) < _MOST_BYTES:
        return end
    whole = end.partition(b"\n")[2].strip() or end.partition(b" ")[2].strip()
    return whole or b"(a word of %d bytes or more)" % _MOST_BYTES
