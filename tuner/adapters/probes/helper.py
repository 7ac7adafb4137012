"""Client for a helper process, which answers each input line with a line of JSON during a launch."""

from __future__ import annotations

import json
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tuner.adapters.processes.signals import delay_signals, end_group, ending_in_words
from tuner.adapters.supervisord.config import User
from tuner.core.errors import ConfigError, MeasurementError
from tuner.core.text.figures import parse_json, render_duration

START_S = 60.0  #: time to load the user's code, also on a busy host
_LEAVING_S = 5.0  #: time to exit after its stdin was closed
_MOST_BYTES = 1 << 20  #: limit for one answer
_READ_BYTES = 4096  #: last bytes of its stderr that are read
_SHOWN = 200


@dataclass(frozen=True, slots=True)
class HelperStart:
    """Command, environment and user of a helper."""

    program: Path  #: file in ``probes/helpers``
    interpreter: Sequence[str]  #: Python interpreter of the service, with its options
    environment: Mapping[str, str]  #: the complete environment
    directory: str
    user: User | None = None  #: None: the user of tuner
    hide: Callable[[str], str] = str  #: removes secrets from its messages


class Helper:
    """One helper process; ``ask`` restarts it after it has ended, was killed or sent invalid output.

    It ends at the end of its stdin, so also when tuner is killed. Not thread-safe.

    Args:
        wanted: its first line, at every start. Secrets go this way, because all users can read command lines.
        timeout_s: limit for an answer, after which the helper is killed.
    """

    def __init__(self, start: HelperStart, wanted: Mapping[str, Any], timeout_s: float) -> None:
        self._start = start
        self.wanted = wanted
        self._timeout_s = timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._heard = b""
        #: its stderr; a file, so that the helper never blocks on it
        self._complaints: IO[bytes] | None = None
        self.n_starts = 0

    def pids(self) -> frozenset[int]:
        """Return the pid of the running helper."""
        process = self._process
        return frozenset() if process is None else frozenset({process.pid})

    def start(self) -> Mapping[str, Any]:
        """Start the helper and return its answer to ``wanted``.

        Raises:
            MeasurementError, ConfigError: as for ``ask``.
        """
        name = self._start.interpreter[0]
        user = self._start.user
        self._heard = b""
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115  # closed in _end()
        self.n_starts += 1
        # its user may have no access to tuner's folder, so it gets an open file descriptor
        with self._start.program.open("rb") as program, delay_signals():
            try:
                self._process = subprocess.Popen(
                    [*self._start.interpreter, f"/dev/fd/{program.fileno()}"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=self._complaints,
                    pass_fds=(program.fileno(),),
                    cwd=self._start.directory,
                    env=self._start.environment,
                    process_group=0,  # tuner handles a Ctrl-C at the terminal
                    user=None if user is None else user.uid,
                    group=None if user is None else user.gid,
                    extra_groups=None if user is None else user.groups,
                )
            except OSError as error:
                self._complaints.close()
                raise MeasurementError(f"{name} cannot be run: {error.strerror}") from error
        return self._answer(json.dumps(self.wanted), START_S)

    def ask(self) -> Mapping[str, Any]:
        """Return its next answer.

        Raises:
            MeasurementError: it has no count now, does not answer in time, ended, or sent an invalid answer.
            ConfigError: it reports a permanent error.
        """
        if self._process is None:
            self.start()
        return self._answer("", self._timeout_s)

    def close(self) -> None:
        """Close its stdin, and kill it after 5 s."""
        if self._process is None:
            return
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_LEAVING_S)
        self._end()

    def _answer(self, line: str, timeout_s: float) -> Mapping[str, Any]:
        answered = False
        try:
            answer = _parse(self._line(line, timeout_s), self._start.hide)
            answered = True
        finally:
            if not answered:
                self._end()
        if "wrong" in answer:
            raise ConfigError(self._start.hide(str(answer["wrong"])))
        if "error" in answer:
            raise MeasurementError(self._start.hide(str(answer["error"])))
        return answer

    def _line(self, line: str, timeout_s: float) -> bytes:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        deadline_s = time.monotonic() + timeout_s
        try:
            process.stdin.write(line.encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError as error:
            raise MeasurementError(self._describe_end()) from error
        while b"\n" not in self._heard:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                took = render_duration(timeout_s)
                raise MeasurementError(f"{self._name()} did not answer in {took} and was killed")
            if not self._hear(left_s):
                raise MeasurementError(self._describe_end())
            if len(self._heard) > _MOST_BYTES:
                raise MeasurementError(f"{self._name()} does not end its line")
        answer, _, self._heard = self._heard.partition(b"\n")
        return answer

    def _hear(self, wait_s: float) -> bool:
        """Read its next output; return whether more may follow."""
        assert self._process is not None
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        if not poll.poll(wait_s * 1000):
            return True
        part = os.read(descriptor, 65536)
        self._heard += part
        return part != b""

    def _name(self) -> str:
        return f"the helper {self._start.program.name}"

    def _describe_end(self) -> str:
        process, complaints = self._process, self._complaints
        assert process is not None
        assert complaints is not None
        with suppress(subprocess.TimeoutExpired):  # its stdout is closed, so it is about to end
            process.wait(_LEAVING_S)
        code = process.poll()
        how = "closed its stdout" if code is None else ending_in_words(code, ended="ended")
        complaints.seek(max(0, complaints.seek(0, os.SEEK_END) - _READ_BYTES))
        lines = complaints.read().decode("utf-8", "replace").strip().splitlines()
        said = self._start.hide(lines[-1].strip())[-_SHOWN:] if lines else "it printed nothing"
        return f"{self._name()} {how}: {said}"

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        end_group(process)
        assert self._complaints is not None
        self._complaints.close()


def _parse(line: bytes, hide: Callable[[str], str]) -> Mapping[str, Any]:
    try:
        answer = parse_json(line)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        shown = hide(line.decode("utf-8", "replace"))[:_SHOWN]
        raise MeasurementError(f"expected one line of JSON from the helper, got {shown!r}")
    return answer
