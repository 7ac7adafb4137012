"""Whether a thread in state D is starting a child: told by the system call that it waits in.

A parent that starts its child by vfork, as `subprocess` does, or by a clone like it, as `posix_spawn` does,
waits in the kernel until the child runs its program, in state D. /proc/PID/task/TID/syscall shows that, and
only to those who may trace the process: root, or a process of the same user as far as the box lets it
(Yama's ptrace_scope of 1 allows it for descendants, and workers are tuner's).
"""

from __future__ import annotations

import os
from pathlib import Path

#: platform.machine() -> numbers of the calls that start a child: clone, vfork (where it is a call), clone3
STARTING_CALLS = {"x86_64": frozenset({56, 58, 435}), "aarch64": frozenset({220, 435})}


class WaitingCalls:
    """Reads in which system call threads wait."""

    def __init__(self, proc: Path, machine: str) -> None:
        """*machine* as platform.machine() has it; of one that is not in `STARTING_CALLS` nothing is told."""
        self._proc = str(proc)
        self._starting = STARTING_CALLS.get(machine)

    def is_starting_child(self, pid: int, thread: int) -> bool | None:
        """Whether it waits in a call that starts a child.

        None: that is not known, because the file may not be read, the thread waits no longer (then it holds
        "running") or is gone, or the calls of this machine are not known.
        """
        if self._starting is None:
            return None
        try:
            file = os.open(f"{self._proc}/{pid}/task/{thread}/syscall", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            number, _, _ = os.read(file, 256).partition(b" ")
            return int(number) in self._starting
        except (OSError, ValueError):
            return None
        finally:
            os.close(file)
