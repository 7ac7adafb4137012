"""A program that is run for the few bytes it prints: what it may print, and how long it may take."""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tuner.adapters.processes.own_group import running_in_own_group
from tuner.core.errors import MeasurementError
from tuner.core.text.durations import render_duration

_PIPE_BYTES = 1 << 16  #: the most that a pipe holds


@dataclass(frozen=True, slots=True)
class Printed:
    """How it ended, and what it said."""

    code: int
    out: bytes
    err: bytes  #: the end of it


def run(
    command: Sequence[str],
    program: str,
    directory: Path | None,
    environment: Mapping[str, str],
    timeout_s: float,
    most_bytes: int,
) -> Printed:
    """Run *command* (no shell) to its end; with all it started it is killed when it takes or prints too much.

    A child that it leaves in the background may hold its pipes for ever: nobody waits for their end.

    Raises:
        MeasurementError: it cannot be run, takes longer than *timeout_s* or prints more than *most_bytes*.
    """
    try:
        with running_in_own_group(
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
    """What it says until it has ended; MeasurementError when that is too long or too late."""
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
            # all that a pipe holds, when it has ended: what it left behind may go on, and is not heard
            for descriptor in said if ended in ready else ready:
                part = _read(descriptor)
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


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, _PIPE_BYTES)
    except BlockingIOError:
        return b""
