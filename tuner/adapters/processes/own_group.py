"""A program in a process group of its own, so that a Ctrl-C at the terminal is tuner's to handle."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from tuner.adapters.processes.signals import signals_held

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
