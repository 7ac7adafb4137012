"""Whether a launch that runs is ready to work: a program that is RUNNING may still be importing."""

from __future__ import annotations

import http.client
import re
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from tuner.adapters.processes.exit_codes import ending_in_words
from tuner.adapters.processes.own_group import running_in_own_group
from tuner.core.text.http_request import is_loopback

_TICK_S = 0.1
_ANSWER_S = 5.0  #: for one answer of a service, or of the user's command
_LOG_BYTES = 1 << 20  #: read at a time
_LONGEST_LINE = 1 << 16  #: of a log; what is longer is looked at in parts
_NO_ANSWER = 500  #: from this status on a server says that it cannot


class ReadyCheck(Protocol):
    """One look; it may remember what it has seen of this launch."""

    def lacks(self, logs: Sequence[Path]) -> str:
        """What is still missing, in words; empty: it is ready. *logs* are of the launch's programs."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """How a launch shows that it is ready to work."""

    check: ReadyCheck
    within_s: float  #: else the launch has failed


@dataclass(slots=True)
class LogLines:
    """So many lines of the programs' logs hold a pattern."""

    pattern: re.Pattern[bytes]
    count: int
    _n_found: int = 0
    _offsets: dict[Path, int] = field(default_factory=dict)

    def lacks(self, logs: Sequence[Path]) -> str:  # noqa: D102
        for path in logs:
            self._read_on(path)
        if self._n_found >= self.count:
            return ""
        return (
            f"{self._n_found} of {self.count} lines are logged that match {self.pattern.pattern.decode()!r}"
        )

    def _read_on(self, path: Path) -> None:
        """Count in the lines that were ended since the last look."""
        offset = self._offsets.get(path, 0)
        try:
            with path.open("rb") as file:
                file.seek(offset)
                part = file.read(_LOG_BYTES)
        except FileNotFoundError:
            return
        *lines, rest = part.split(b"\n")
        if len(rest) > _LONGEST_LINE:
            lines.append(rest)
            rest = b""
        ended = (line.removesuffix(b"\r") for line in lines)
        self._n_found += sum(self.pattern.search(line) is not None for line in ended)
        self._offsets[path] = offset + len(part) - len(rest)


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A url answers, with any status below 500."""

    url: str

    def lacks(self, logs: Sequence[Path]) -> str:  # noqa: ARG002, D102
        from tuner.adapters.load.final_answer import FinalResponse

        parts = urlsplit(self.url)
        connection = self._connection(parts.scheme, parts.hostname or "", parts.port)
        connection.response_class = FinalResponse
        try:
            connection.request("GET", (parts.path or "/") + (f"?{parts.query}" if parts.query else ""))
            status = connection.getresponse().status
        except (OSError, http.client.HTTPException) as error:
            return f"{self.url} does not answer: {error or type(error).__name__}"
        finally:
            connection.close()
        return f"{self.url} answers with status {status}" if status >= _NO_ANSWER else ""

    @staticmethod
    def _connection(scheme: str, host: str, port: int | None) -> http.client.HTTPConnection:
        if scheme != "https":
            return http.client.HTTPConnection(host, port, timeout=_ANSWER_S)
        from tuner.adapters.load.first_answer import tls_context

        context = tls_context(checks_certificate=not is_loopback(host))
        return http.client.HTTPSConnection(host, port, timeout=_ANSWER_S, context=context)


@dataclass(frozen=True, slots=True)
class TcpAnswer:
    """Somebody listens at an address."""

    host: str
    port: int

    def lacks(self, logs: Sequence[Path]) -> str:  # noqa: ARG002, D102
        try:
            socket.create_connection((self.host, self.port), timeout=_ANSWER_S).close()
        except OSError as error:
            return f"nobody listens at {self.host}:{self.port}: {error}"
        return ""


@dataclass(frozen=True, slots=True)
class CommandSucceeds:
    """A command of the user's ends with exit code 0."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    directory: Path | None = None

    def lacks(self, logs: Sequence[Path]) -> str:  # noqa: ARG002, D102
        try:
            with running_in_own_group(
                self.command,
                env=dict(self.environment),
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # no pipe: a child in the background might hold it for ever
                stderr=subprocess.DEVNULL,
            ) as process:
                code = process.wait(_ANSWER_S)
        except subprocess.TimeoutExpired:
            return f"{self.command[0]} did not end within {_ANSWER_S:g} s"
        except OSError as error:
            return f"{self.command[0]} cannot be run: {error.strerror}"
        return f"{self.command[0]} {ending_in_words(code, ended='ends')}" if code else ""


def await_ready(
    check: ReadyCheck, logs: Sequence[Path], patience_s: float, raise_if_dead: Callable[[], None]
) -> str:
    """What *check* still lacks after *patience_s*; empty, and sooner, when it lacks nothing.

    Raises:
        TunerError: what *raise_if_dead* raises meanwhile.
    """
    deadline = time.monotonic() + patience_s
    while lacking := check.lacks(logs):
        raise_if_dead()
        if time.monotonic() > deadline:
            return lacking
        time.sleep(_TICK_S)
    return ""
