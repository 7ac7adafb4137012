"""Ctrl-C and its relatives, as the study's ``Stop``."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import FrameType

#: what the first Ctrl-C is answered with
FINISHING = "Finishing this window, if one has begun, then ranking. Ctrl-C again stops now."
_AT_ONCE = (signal.SIGTERM, signal.SIGHUP)


class SignalStop:
    """The first Ctrl-C asks for the end of this window; the second one, SIGTERM and SIGHUP end it now.

    "Now" is a KeyboardInterrupt in the main thread: it ends a sleep, and ``with`` blocks stop what they
    started. It comes once: what follows is not heard, or the stopping itself would be stopped. With
    *at_once* the first Ctrl-C is like SIGTERM, too.
    """

    def __init__(self, *, at_once: bool = False) -> None:
        self._at_once = at_once
        self._terminals = [number for number in (1, 2) if os.isatty(number)]
        self._n_interrupts = 0
        self._raised = False

    def requested(self) -> bool:
        """True after the first Ctrl-C, and after everything stronger."""
        return self._n_interrupts > 0 or self._raised

    def interrupted(self, number: int, _frame: FrameType | None) -> None:
        """What the signal handlers call."""
        if self._raised:
            return
        if number == signal.SIGINT and not self._at_once:
            self._n_interrupts += 1
            if self._n_interrupts == 1:
                with suppress(OSError):  # `2>&1 | tee log` has had the Ctrl-C, too
                    os.write(2, b"\n" + FINISHING.encode() + b"\n")  # not print: we may be within one
                return
        self._raised = True
        for descriptor in self._terminals:
            if not os.isatty(descriptor):  # it was closed: every further word would be an error
                os.dup2(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC), descriptor)
        raise KeyboardInterrupt


@contextmanager
def stopping_by_signal(*, at_once: bool = False) -> Iterator[SignalStop]:
    """Handle the signals inside the block only; one that is ignored stays so (nohup).

    What is said after it to whoever reads no more is lost, and no error: what was measured has its exit code.
    """
    fill_closed_streams()
    stop = SignalStop(at_once=at_once)
    numbers = [
        number for number in (signal.SIGINT, *_AT_ONCE) if signal.getsignal(number) is not signal.SIG_IGN
    ]
    before = {number: signal.signal(number, stop.interrupted) for number in numbers}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _leave_unread_streams()


def _leave_unread_streams() -> None:
    """Have stdout and stderr lead nowhere where they are pipes whose reader has ended."""
    for number in (1, 2):
        poll = select.poll()
        poll.register(number, 0)
        if any(found & select.POLLERR for _, found in poll.poll(0)):
            with open(os.devnull, "wb") as nowhere:
                os.dup2(nowhere.fileno(), number)


@contextmanager
def signals_held() -> Iterator[None]:
    """What a signal does in this process, it does at the end of the block.

    A program is started in such a block, and given to whoever ends it: an interrupt that comes while
    `subprocess` starts it leaves a process that nobody knows. Masking the signals would do, too, but programs
    inherit a mask. In other threads than the main one nothing is held: they are never interrupted.
    """
    came: list[int] = []
    with ExitStack() as restored:
        restored.callback(_deliver, came)
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, *_AT_ONCE):
                handler = signal.getsignal(number)
                if callable(handler):
                    restored.callback(signal.signal, number, handler)
                    signal.signal(number, lambda held, _frame: came.append(held))
        yield


def _deliver(came: list[int]) -> None:
    for number in came:
        signal.raise_signal(number)


def fill_closed_streams() -> None:
    """What was closed by whoever started us (``2>&-``) leads nowhere.

    Else the next file, a study's, takes its number, and what is said would be written into it.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    if sys.stdout is None:
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 - as long as the process
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
