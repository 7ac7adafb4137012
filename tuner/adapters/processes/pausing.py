"""Pausing a feeder's process: requests and replies over a pair of sockets.

Standard library only, for the processes. Each request has a number, and its reply has the same number, so
that a reply after the timeout is not mistaken for the reply to the next request.
"""

from __future__ import annotations

import select
import socket
import time
from typing import NamedTuple

from tuner.core.errors import MeasurementError

_BYTES = 64  #: more than the longest message, a word with its number
_PAUSE, _RESUME = "pause", "resume"


class Asked(NamedTuple):
    """A request of the feeder."""

    number: int
    pauses: bool  #: False: the request is to resume


class PausedProcess:
    """The feeder's end of the connection; its process inherits `descriptor`."""

    def __init__(self, process: str) -> None:
        """Make the sockets; *process* is the name in errors, such as "the load generator"."""
        self._name = process
        self._ours, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._n_asked = 0
        self._is_paused = False

    @property
    def is_paused(self) -> bool:
        """Whether a pause was requested, and not yet a resume."""
        return self._is_paused

    @property
    def descriptor(self) -> int:
        """Descriptor of the process's end."""
        return self._theirs.fileno()

    def started(self) -> None:
        """Close the process's end here after its start, so that the end of the process is detected."""
        self._theirs.close()

    def close(self) -> None:
        """Close both ends."""
        self._ours.close()
        self._theirs.close()

    def pause(self, within_s: float) -> None:
        """Pause the process, and wait until it does.

        Raises:
            MeasurementError: it does not pause within *within_s* seconds, or has ended.
        """
        self._is_paused = True
        self._ask(_PAUSE, within_s)

    def resume(self, within_s: float) -> None:
        """Resume the process, if it is paused, and wait until it does. Raise the errors of `pause`."""
        if self._is_paused:
            self._ask(_RESUME, within_s)
            self._is_paused = False

    def _ask(self, word: str, within_s: float) -> None:
        self._n_asked += 1
        deadline = time.monotonic() + within_s
        try:
            self._ours.send(f"{self._n_asked} {word}".encode())
            while True:
                self._ours.settimeout(max(0.001, deadline - time.monotonic()))
                answer = self._ours.recv(_BYTES)
                if not answer:
                    raise ConnectionResetError
                if int(answer) == self._n_asked:
                    return
        except TimeoutError:
            raise MeasurementError(f"{self._name} does not {word} within {within_s:g} s") from None
        except OSError as error:
            raise MeasurementError(f"{self._name} cannot {word}: it has ended") from error


class PausingProcess:
    """The process's end of the connection."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._is_open = True

    def fileno(self) -> int:
        """Return the descriptor, which is readable if there is a request."""
        return self._socket.fileno()

    @property
    def is_open(self) -> bool:
        """Whether the feeder has not closed the connection."""
        return self._is_open

    def hear(self, within_s: float = 0.0) -> Asked | None:
        """Return the request that arrives within *within_s* seconds, or None."""
        poll = select.poll()
        if self._is_open:
            poll.register(self._socket, select.POLLIN)
        if not poll.poll(within_s * 1000):
            return None
        try:
            number, _, word = self._socket.recv(_BYTES).decode().partition(" ")
        except OSError:
            number, word = "", ""
        if not number:
            self._is_open = False
            return None
        return Asked(int(number), word == _PAUSE)

    def answer(self, asked: Asked) -> None:
        """Reply that the request is done."""
        try:
            self._socket.send(str(asked.number).encode())
        except OSError:  # the feeder has ended
            self._is_open = False
