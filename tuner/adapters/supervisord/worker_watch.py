"""The workers of one launch, watched without asking supervisord: pidfd for life, /proc for threads."""

from __future__ import annotations

import os
import select

_PROC_TASK_LINKS = 2  #: links of /proc/PID/task that are no threads


def n_threads_of(pid: int) -> int | None:
    """How many threads *pid* has now; None when it has just ended, or is hidden from us (hidepid)."""
    try:
        return os.stat(f"/proc/{pid}/task").st_nlink - _PROC_TASK_LINKS
    except (FileNotFoundError, PermissionError):
        return None


class WorkerWatch:
    """Processes by number in the layout, each held by a pidfd: a later process of that pid is another one."""

    def __init__(self) -> None:
        self._pids: dict[int, int] = {}  # process number -> pid
        self._descriptors: dict[int, int] = {}  # pidfd -> process number
        self._poll = select.poll()

    def add(self, process: int, pid: int) -> bool:
        """Watch *pid*; False when it has ended already."""
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            return False
        self._pids[process] = pid
        self._descriptors[descriptor] = process
        self._poll.register(descriptor, select.POLLIN)
        return True

    def __len__(self) -> int:
        return len(self._pids)

    def pid_of(self, process: int) -> int:
        """The pid that process number *process* has or had."""
        return self._pids[process]

    def alive(self) -> dict[int, int]:
        """Process number -> pid of those not seen dead; call ``newly_dead`` before."""
        return {process: self._pids[process] for process in self._descriptors.values()}

    def newly_dead(self, wait_s: float = 0.0) -> list[int]:
        """Numbers of those that died since the last call; waits up to *wait_s* for the first one."""
        dead = []
        for descriptor, _ in self._poll.poll(wait_s * 1000):
            self._poll.unregister(descriptor)
            os.close(descriptor)
            dead.append(self._descriptors.pop(descriptor))
        return sorted(dead)

    def close(self) -> None:
        """Let go of the pidfds; nothing is alive for it any more."""
        for descriptor in self._descriptors:
            self._poll.unregister(descriptor)
            os.close(descriptor)
        self._descriptors.clear()
