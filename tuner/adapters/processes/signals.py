"""Ctrl-C and other signals, as the ``Stop`` of a study."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from types import FrameType
from typing import Any

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


# A program in a process group of its own, so that a Ctrl-C at the terminal is tuner's to handle.


# What the exit code of a program that tuner ran means, in words.


def ending_in_words(code: int, *, ended: str = "failed") -> str:
    """How a program ended, to follow its name: "was killed by signal 9", or *ended* "with exit code 2".

    *code* is as :class:`subprocess.Popen` has it: below 0 it is a signal's number.
    """
    return f"was killed by signal {-code}" if code < 0 else f"{ended} with exit code {code}"


_LEAVING_S = 2.0


@contextmanager
def running_in_own_group(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Run *command* (no shell) for the block; *options* are those of `subprocess.Popen`.

    Where it has not ended by the end of the block it is killed with its group, and reaped; what one that
    ended by itself has left behind stays. An interrupt waits until it is known whom to end. One that became
    another user (sudo) may go on: it has no ``returncode`` then.

    Raises:
        OSError: it cannot be run.
    """
    process = None
    try:
        with signals_held():
            process = subprocess.Popen(command, process_group=0, **options)
        yield process
    finally:
        if process is not None and process.returncode is None:
            end_group(process)


def exit_code_of(process: subprocess.Popen[bytes]) -> int | None:
    """How *process* ended, as its ``returncode`` has it; None: it runs.

    It is not reaped, so that its number, and that of its group, is nobody else's until it is waited for.
    """
    if process.returncode is not None:
        return process.returncode
    try:
        found = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:  # SIGCHLD is ignored: nobody is told how children end
        return process.poll()
    if found is None:
        return None
    return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill *process*, which nobody has waited for, with the group that it leads, and reap it.

    All of it may have become another user's, whom we may not kill: it is waited for a moment, and left.
    """
    patience_s = None
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:  # it may end meanwhile
        pass
    except PermissionError:
        patience_s = _LEAVING_S
    with suppress(subprocess.TimeoutExpired):
        process.wait(patience_s)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with suppress(OSError):  # what was not written yet
                pipe.close()
