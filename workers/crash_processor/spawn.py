"""Running of one child process with a time limit, and its CPU time.

The child leads a separate process group, so that a time limit also ends its children. Popen's
``process_group=0`` also makes CPython use its own vfork path, which lets other threads run until the child
has called exec; ``os.posix_spawn``, which CPython 3.13 prefers by default, holds the GIL until then
(8 threads: 600-900 spawns/s against 1350-1700). It can be chosen, to measure its cost.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from .stop_event import StopEvent

_CHUNK_BYTES = 1 << 16
_POLL_S = 0.002  # between checks of a child that closed its output, if the kernel has no pidfd


class Ended(NamedTuple):
    """Result of a child: exit code, output, CPU time."""

    exit_code: int  #: 0..255, or minus the number of the signal that ended it
    stdout: bytes
    stderr: bytes
    cpu_ns: int  #: user and system time of the child and of the children it waited for
    #: reason why the parent killed it ("kill_timeout", "stopping" or "too much output"); None: not killed
    killed: str | None

    def describe(self) -> str:
        """Return the end in words: ``exit code 1``, ``signal SIGSEGV``."""
        if self.exit_code >= 0:
            return f"exit code {self.exit_code}"
        try:
            return f"signal {signal.Signals(-self.exit_code).name}"
        except ValueError:
            return f"signal {-self.exit_code}"


def _vfork(command: Sequence[str], out: int, err: int) -> int:
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, process_group=0)
    child.returncode = 0  # keeps Popen from waiting for it: `_reap` does
    return child.pid


def _posix_spawn(command: Sequence[str], out: int, err: int) -> int:
    opened = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)]
    moved = [(os.POSIX_SPAWN_DUP2, out, 1), (os.POSIX_SPAWN_DUP2, err, 2)]
    return os.posix_spawnp(
        command[0],
        [*command],
        os.environ,
        file_actions=[*opened, *moved],
        setpgroup=0,
        setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],  # ignored by Python; Popen restores them, too
    )


#: functions that start a child, which leads its own process group and writes to two file descriptors, and
#: return its pid
STARTS: Mapping[str, Callable[[Sequence[str], int, int], int]] = {
    "vfork": _vfork,
    "posix_spawn": _posix_spawn,
}


def run_child(
    command: Sequence[str],
    *,
    timeout_s: float,
    stop: StopEvent,
    max_output_bytes: int = 64 << 20,
    spawn_path: str = "vfork",
) -> Ended:
    """Run *command* to its end and collect its output.

    After *timeout_s* seconds, or after the deadline of *stop*, its process group is killed. When this
    returns, no process of the group is left. *spawn_path* is one of STARTS.

    Raises:
        OSError: the command cannot be started.
    """
    with contextlib.ExitStack() as ours:
        out, err, pid = _start(STARTS[spawn_path], command, ours)
        deadline = _Deadline(time.monotonic() + timeout_s, stop)
        chunks: dict[int, list[bytes]] = {out: [], err: []}
        try:
            killed = _collect(chunks, deadline, max_output_bytes) or _wait_for_end(pid, deadline)
        except BaseException:
            killed = "interrupted"
            raise
        finally:
            status, cpu_ns = _reap(pid, killed)
    stdout, stderr = (b"".join(parts) for parts in chunks.values())
    return Ended(os.waitstatus_to_exitcode(status), stdout, stderr, cpu_ns, killed)


def _start(
    start: Callable[[Sequence[str], int, int], int], command: Sequence[str], ours: contextlib.ExitStack
) -> tuple[int, int, int]:
    """Start a child; return the descriptors of its stdout and stderr, closed with *ours*, and its pid."""
    with contextlib.ExitStack() as theirs:
        pipes = []
        for _ in range(2):
            read, write = os.pipe()
            ours.callback(os.close, read)
            theirs.callback(os.close, write)
            pipes.append((read, write))
        (out, out_end), (err, err_end) = pipes
        return out, err, start(command, out_end, err_end)


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
        """Return which of the two has passed, or None."""
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
    """Read until every pipe is closed; return None, or the reason to kill the child."""
    is_open = set(chunks)
    poller = _poller(deadline, list(is_open))
    room_bytes = max_output_bytes
    while is_open:
        for fd, _ in poller.poll(deadline.remaining_ms()):
            if fd not in chunks:
                poller.unregister(fd)  # a stop was requested: from now on the deadline may be earlier
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
    """Wait for the end of a child that closed its output, without reaping; return a reason to kill it."""
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


def _reap(pid: int, killed: str | None) -> tuple[int, int]:
    """Kill the rest of the child's group, while its pid is reserved; return its status and CPU time."""
    if killed is None:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    _, status, usage = os.wait4(pid, 0)
    return status, int((usage.ru_utime + usage.ru_stime) * 1e9)
