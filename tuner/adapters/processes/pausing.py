"""Pausing a feeder's process: requests and replies over a pair of sockets.

Standard library only, for the processes. Each word has a number, and its answer has the same: an answer that
comes after the feeder has given up is not taken for that of the next word.
"""

from __future__ import annotations

import select
import socket
import time
from typing import NamedTuple

from tuner.core.errors import MeasurementError

_BYTES = 64  #: more than a word with its number
_PAUSE, _RESUME = "pause", "resume"


class Asked(NamedTuple):
    """A word of the feeder."""

    number: int
    pauses: bool  #: False: it resumes


class PausedProcess:
    """The feeder's end. Use it in a ``with`` block; *descriptor* is for the process to inherit."""

    def __init__(self, process: str) -> None:
        """*process* is its name for people: "the load generator"."""
        self._name = process
        self._ours, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._n_asked = 0
        self._is_paused = False

    @property
    def is_paused(self) -> bool:
        """Whether it was asked to pause, and not yet to resume."""
        return self._is_paused

    @property
    def descriptor(self) -> int:
        """The end of the process."""
        return self._theirs.fileno()

    def started(self) -> None:
        """Let go of the end of the process, which has it by now: its own end is noticed then."""
        self._theirs.close()

    def close(self) -> None:
        """Let go of both ends."""
        self._ours.close()
        self._theirs.close()

    def pause(self, within_s: float) -> None:
        """Return once the process pauses.

        Raises:
            MeasurementError: it does not within so many seconds, or is gone.
        """
        self._is_paused = True
        self._ask(_PAUSE, within_s)

    def resume(self, within_s: float) -> None:
        """Return once the process continues; nothing if it does not pause. Raises as `pause`."""
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
    """The process' end."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._is_open = True

    def fileno(self) -> int:
        """The descriptor, which is readable once a word has come."""
        return self._socket.fileno()

    @property
    def is_open(self) -> bool:
        """Whether the feeder is there."""
        return self._is_open

    def hear(self, within_s: float = 0.0) -> Asked | None:
        """Return the word that comes within so many seconds; None: none does."""
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
        """It is done."""
        try:
            self._socket.send(str(asked.number).encode())
        except OSError:  # the feeder is gone
            self._is_open = False
