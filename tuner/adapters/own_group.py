"""A program in a process group of its own, so that a Ctrl-C at the terminal is tuner's to handle."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from tuner.adapters.signals import signals_held


@contextmanager
def running_in_own_group(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Run *command* (no shell) for the block; *options* are those of `subprocess.Popen`.

    Where it has not ended by the end of the block it is killed with its group, and reaped; what one that
    ended by itself has left behind stays. An interrupt waits until it is known whom to end.

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


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill *process*, which nobody has waited for, with the group that it leads, and reap it."""
    with suppress(ProcessLookupError):  # it may end meanwhile
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with suppress(OSError):  # what was not written yet
                pipe.close()
