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

#: message at the first Ctrl-C
FINISHING = "Finishing this window, if one has begun, then ranking. Ctrl-C again stops now."
_AT_ONCE = (signal.SIGTERM, signal.SIGHUP)


class SignalStop:
    """Stop by signals: the first Ctrl-C ends after the window; a second one, SIGTERM and SIGHUP end now.

    "Now" is a KeyboardInterrupt in the main thread: it ends a sleep, and ``with`` blocks stop the processes
    that they started. It is raised once; later signals are ignored, so that they cannot interrupt the
    stopping. With *at_once* the first Ctrl-C is like SIGTERM.
    """

    def __init__(self, *, at_once: bool = False) -> None:
        self._at_once = at_once
        self._terminals = [number for number in (1, 2) if os.isatty(number)]
        self._n_interrupts = 0
        self._raised = False

    def requested(self) -> bool:
        """Return whether a stop was requested, by the first Ctrl-C or a stronger signal."""
        return self._n_interrupts > 0 or self._raised

    def interrupted(self, number: int, _frame: FrameType | None) -> None:
        """Handle a signal."""
        if self._raised:
            return
        if number == signal.SIGINT and not self._at_once:
            self._n_interrupts += 1
            if self._n_interrupts == 1:
                with suppress(OSError):  # with `2>&1 | tee log`, tee got the Ctrl-C, too
                    os.write(2, b"\n" + FINISHING.encode() + b"\n")  # not print, which may be just running
                return
        self._raised = True
        for descriptor in self._terminals:
            if not os.isatty(descriptor):  # the terminal was closed: further output would raise errors
                os.dup2(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC), descriptor)
        raise KeyboardInterrupt


@contextmanager
def stopping_by_signal(*, at_once: bool = False) -> Iterator[SignalStop]:
    """Handle the signals inside the block only; an ignored signal stays ignored (nohup).

    Output after the block to a closed pipe is discarded without an error, to keep the study's exit code.
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
    """Redirect stdout and stderr to /dev/null if they are pipes whose reader has ended."""
    for number in (1, 2):
        poll = select.poll()
        poll.register(number, 0)
        if any(found & select.POLLERR for _, found in poll.poll(0)):
            with open(os.devnull, "wb") as nowhere:
                os.dup2(nowhere.fileno(), number)


@contextmanager
def delay_signals() -> Iterator[None]:
    """Delay the effect of signals in this process until the end of the block.

    A program is started and registered in such a block: an interrupt while `subprocess` starts it would
    leave an unknown process. A signal mask would also work, but programs inherit it. Only the main thread
    delays signals, because other threads are never interrupted.
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
    """Open /dev/null for standard streams that the parent closed (``2>&-``).

    Otherwise the next opened file, such as a study, gets the number, and messages are written into it.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number
    if sys.stdout is None:
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 - as long as the process
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115


# A program in a separate process group, so that only tuner handles a Ctrl-C at the terminal.

# Exit codes of programs that tuner ran, in words.


def ending_in_words(code: int, *, ended: str = "failed") -> str:
    """Describe the end of a program: "was killed by signal 9", or *ended* and "with exit code 2".

    *code* is the ``returncode`` of :class:`subprocess.Popen`: below 0 it is the number of a signal.
    """
    return f"was killed by signal {-code}" if code < 0 else f"{ended} with exit code {code}"


_LEAVING_S = 2.0


@contextmanager
def run_in_process_group(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Run *command* (no shell) for the block; *options* are those of `subprocess.Popen`.

    If it still runs at the end of the block, it is killed with its group, and reaped; children of a program
    that ended before are left. Signals are delayed until the process is known. A program of another user
    (sudo) may continue: then it has no ``returncode``.

    Raises:
        OSError: the command cannot be run.
    """
    process = None
    try:
        with delay_signals():
            process = subprocess.Popen(command, process_group=0, **options)
        yield process
    finally:
        if process is not None and process.returncode is None:
            end_group(process)


def exit_code_of(process: subprocess.Popen[bytes]) -> int | None:
    """Return the exit code of *process*, in the form of ``returncode``; None if it runs.

    It is not reaped, so that its pid and group id are not reused before it is waited for.
    """
    if process.returncode is not None:
        return process.returncode
    try:
        found = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:  # SIGCHLD is ignored, so exit codes are lost
        return process.poll()
    if found is None:
        return None
    return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill *process*, which must not be reaped yet, with its process group, and reap it.

    If all of it belongs to another user, so that it cannot be killed, wait a moment and leave it.
    """
    patience_s = None
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:  # it has ended
        pass
    except PermissionError:
        patience_s = _LEAVING_S
    with suppress(subprocess.TimeoutExpired):
        process.wait(patience_s)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with suppress(OSError):  # data that was not written yet
                pipe.close()
