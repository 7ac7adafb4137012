"""Runs one child to its end, with a time limit, and says what it cost.

``process_group=0`` is pinned, for two reasons. It lets a time limit reach whatever the child started. And it
keeps CPython on its own vfork path, which lets other threads run until the child has exec'ed;
``os.posix_spawn``, which CPython 3.13 prefers by default, holds the GIL that long (8 threads: 600-900
spawns/s against 1350-1700).
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from typing import NamedTuple

from .stop_event import StopEvent

_CHUNK_BYTES = 1 << 16
_POLL_S = 0.002  # between looks at a child that closed its output, where the kernel has no pidfd


class Ended(NamedTuple):
    """How a child ended."""

    exit_code: int  #: 0..255, or minus the signal that ended it
    stdout: bytes
    stderr: bytes
    cpu_ns: int  #: user and system time of the child and of what it waited for
    killed: str | None  #: why we killed it: "kill_timeout", "stopping", "too much output"; None: we did not

    def describe(self) -> str:
        """For a note: ``exit code 1``, ``signal SIGSEGV``."""
        if self.exit_code >= 0:
            return f"exit code {self.exit_code}"
        try:
            return f"signal {signal.Signals(-self.exit_code).name}"
        except ValueError:
            return f"signal {-self.exit_code}"


def run_child(
    command: Sequence[str], *, timeout_s: float, stop: StopEvent, max_output_bytes: int = 64 << 20
) -> Ended:
    """Run *command* to its end and collect what it prints.

    After *timeout_s*, or when *stop*'s deadline has passed, its process group is killed. Nothing of the group
    is left when this returns.

    Raises:
        OSError: it cannot be started.
    """
    child = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0
    )
    assert child.stdout is not None
    assert child.stderr is not None
    deadline = _Deadline(time.monotonic() + timeout_s, stop)
    chunks: dict[int, list[bytes]] = {child.stdout.fileno(): [], child.stderr.fileno(): []}
    try:
        killed = _collect(chunks, deadline, max_output_bytes) or _wait_for_end(child.pid, deadline)
    except BaseException:
        killed = "interrupted"
        raise
    finally:
        status, cpu_ns = _reap(child, killed)
        child.stdout.close()
        child.stderr.close()
    stdout, stderr = (b"".join(parts) for parts in chunks.values())
    return Ended(os.waitstatus_to_exitcode(status), stdout, stderr, cpu_ns, killed)


class _Deadline:
    """The earlier of the child's own time limit and the end of the processor's grace."""

    def __init__(self, at_s: float, stop: StopEvent) -> None:
        self._at_s = at_s
        self.stop = stop

    def remaining_ms(self) -> float:
        at_s = self._at_s
        stop_at_s = self.stop.deadline_s()
        if stop_at_s is not None:
            at_s = min(at_s, stop_at_s)
        return max(0.0, (at_s - time.monotonic()) * 1000)

    def reason(self) -> str | None:
        """Which of the two has passed."""
        now_s = time.monotonic()
        if now_s >= self._at_s:
            return "kill_timeout"
        stop_at_s = self.stop.deadline_s()
        return "stopping" if stop_at_s is not None and now_s >= stop_at_s else None


def _poller(deadline: _Deadline, fds: Sequence[int]) -> select.poll:
    poller = select.poll()
    for fd in fds:
        poller.register(fd, select.POLLIN)
    if not deadline.stop.is_set():
        poller.register(deadline.stop.fileno(), select.POLLIN)
    return poller


def _collect(chunks: dict[int, list[bytes]], deadline: _Deadline, max_output_bytes: int) -> str | None:
    """Read until every pipe is closed; else the reason to kill the child."""
    is_open = set(chunks)
    poller = _poller(deadline, list(is_open))
    room_bytes = max_output_bytes
    while is_open:
        for fd, _ in poller.poll(deadline.remaining_ms()):
            if fd not in chunks:
                poller.unregister(fd)  # asked to stop: from now on the deadline may be an earlier one
                continue
            chunk = os.read(fd, _CHUNK_BYTES)
            chunks[fd].append(chunk)
            room_bytes -= len(chunk)
            if not chunk:
                is_open.discard(fd)
                poller.unregister(fd)
            elif room_bytes < 0:
                return "too much output"
        if is_open and (reason := deadline.reason()):
            return reason
    return None


def _wait_for_end(pid: int, deadline: _Deadline) -> str | None:
    """Wait for a child that has closed its output to end; else the reason to kill it. It is not reaped."""
    if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
        return None
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:  # an old kernel, or no file descriptor left
        return _look_until_end(pid, deadline)
    try:
        poller = _poller(deadline, [pidfd])
        while True:
            for fd, _ in poller.poll(deadline.remaining_ms()):
                if fd == pidfd:
                    return None
                poller.unregister(fd)
            if reason := deadline.reason():
                return reason
    finally:
        os.close(pidfd)


def _look_until_end(pid: int, deadline: _Deadline) -> str | None:
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if reason := deadline.reason():
            return reason
        time.sleep(_POLL_S)
    return None


def _reap(child: subprocess.Popen[bytes], killed: str | None) -> tuple[int, int]:
    """Take the child's status and CPU time; before that, while its pid is ours, end what it left behind."""
    if killed is None:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)  # or Popen would wait for it again
    return status, int((usage.ru_utime + usage.ru_stime) * 1e9)
