"""The number of active tasks (running or uninterruptible, like the load average) and the time they take."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tuner.adapters.proc.process_tree import ProcessTable
from tuner.adapters.proc.sampled_file import TOO_MANY_FILES, SampledFile

# Detection of threads in state D that are starting a child, by the system call in which they wait.
#
# A parent that starts its child by vfork, as `subprocess` does, or by a similar clone, as `posix_spawn` does,
# waits in the kernel in state D until the child runs its program. /proc/PID/task/TID/syscall shows that, but
# only with permission to trace the process: as root, or as the same user if the host allows it (Yama's
# ptrace_scope of 1 allows it for descendants, and workers are descendants of tuner).

#: platform.machine() -> numbers of the calls that start a child: clone, vfork (if it is a call), clone3
STARTING_CALLS = {"x86_64": frozenset({56, 58, 435}), "aarch64": frozenset({220, 435})}


class WaitingCalls:
    """Reader of the system calls in which threads wait."""

    def __init__(self, proc: Path, machine: str) -> None:
        """Set up the reader; *machine* as in platform.machine(); if not in `STARTING_CALLS`: no data."""
        self._proc = str(proc)
        self._starting = STARTING_CALLS.get(machine)

    def is_starting_child(self, pid: int, thread: int) -> bool | None:
        """Return whether the thread waits in a call that starts a child.

        None if unknown: the file is not readable, the thread does not wait any more (then the file contains
        "running") or has ended, or the calls of this machine are unknown.
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


MOST_KEPT_OPEN = 256  #: open files; for further threads, files are opened each time, at twice the cost
MOST_ASKED = 64  #: threads in D whose call is read in one sample; 2 us each, about 10 us with cold caches
#: share of the time in D with unknown calls above which the time of child starts is not reported
MOST_UNKNOWN_RATIO = 0.1
_TRIES = 2


@dataclass(frozen=True, slots=True)
class StatesSeen:
    """Numbers of tasks by state, in one sample."""

    running: int = 0  #: tasks in R
    blocked: int = 0  #: tasks in D
    spawning: int = 0  #: tasks in D that are starting a child
    unknown: int = 0  #: tasks in D whose call is unknown


@dataclass(slots=True)
class StateTimes:
    """Time for which tasks were running (R) and uninterruptible (D): seconds x tasks, from samples.

    A sample is valid until the next one, so that totals grow evenly, and the difference between two moments
    depends only on the samples between them.
    """

    running_s: float = 0.0
    blocked_s: float = 0.0  #: time of all tasks in D, including those that start a child
    _known_spawning_s: float = 0.0
    _unknown_s: float = 0.0
    _seen: StatesSeen = StatesSeen()
    _at_s: float | None = None  #: time of the last sample; None: no sample yet

    @property
    def spawning_s(self) -> float | None:
        """The part of `blocked_s` in which children were started; None if too much of it is unknown."""
        return self._known_spawning_s if self._unknown_s <= MOST_UNKNOWN_RATIO * self.blocked_s else None

    def look(self, at_s: float, seen: StatesSeen) -> None:
        """Add the sample *seen*, taken at *at_s*."""
        self.advance(at_s)
        self._seen, self._at_s = seen, at_s

    def advance(self, at_s: float) -> None:
        """Advance the totals to *at_s*, with the last sample."""
        if self._at_s is None or at_s <= self._at_s:
            return
        elapsed_s = at_s - self._at_s
        self.running_s += self._seen.running * elapsed_s
        self.blocked_s += self._seen.blocked * elapsed_s
        self._known_spawning_s += self._seen.spawning * elapsed_s
        self._unknown_s += self._seen.unknown * elapsed_s
        self._at_s = at_s


class ActiveTasks:
    """Counter of the active tasks of the host, with exact counts for the followed processes.

    It counts the same tasks as the kernel's load average:

    - **running**: tasks running or waiting for a core, anywhere on the host (fourth field of /proc/loadavg),

      except the one that reads it;
    - **uninterruptible**: the larger of two numbers. (a) /proc/stat's procs_blocked: tasks anywhere on the
      host that wait for I/O. (b) Tasks in state D among the threads of the followed processes (the workers)
      and, if (a) is not 0, among the processes that these started. (b) includes tasks that (a) lacks: a
      thread in vfork until its child runs its program, and one that waits for a lock of the kernel.
    The count is too low if followed tasks are in D without I/O while other tasks wait for I/O (the smaller
    number is lost). Threads started after `follow`, and other tasks in D without I/O, are not counted. In a
    container, running tasks and procs_blocked are those of the host, like its load average: use `n_own`.
    For a followed thread in D, the call is read at once to detect the start of a child. If its wait has ended
    by then, at most 10 us later, it counts as not starting one: so much of each start is missed. Beyond 64
    threads in D the call is not read, and counts as unknown.
    """

    def __init__(self, proc: Path, machine: str | None = None) -> None:
        """Set up the counter; *machine* is as in platform.machine(), the default."""
        self.followed = StatesSeen()  #: threads of the followed processes at the last sample
        #: whether a followed thread has ended since `follow`, so that new threads may have replaced it
        self.has_lost = False
        self._proc = str(proc)
        self._table = ProcessTable(proc)
        self._calls = WaitingCalls(proc, platform.machine() if machine is None else machine)
        self._files: dict[tuple[int, int], SampledFile] = {}  # (pid, thread) -> its stat file
        self._buffer = bytearray(1 << 16)  # kept: a new one each second costs more than reading
        self._box = os.open(f"{proc}/stat", os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        """Close every file."""
        self.follow(())
        os.close(self._box)

    def follow(self, pids: Iterable[int]) -> None:
        """Count the current threads of *pids* from now on, and no others."""
        wanted = {(pid, thread) for pid in pids for thread in self._table.thread_ids(pid)}
        for gone in self._files.keys() - wanted:
            self._forget(gone)
        self.has_lost = False
        n_kept = sum(file.is_kept for file in self._files.values())
        for pid, thread in sorted(wanted - self._files.keys()):
            path = f"{self._proc}/{pid}/task/{thread}/stat"
            self._files[pid, thread] = file = SampledFile(path, keep=n_kept < MOST_KEPT_OPEN)
            n_kept += file.is_kept

    def n_active(self, n_running: int) -> int:
        """Return the number of active tasks; *n_running* (this task included) are runnable."""
        n_waiting = self._n_waiting_for_io()
        self.followed = self._look()
        n_uninterruptible = self.followed.blocked
        if n_waiting and n_uninterruptible:
            n_uninterruptible += self._n_children_in("D")
        return max(0, n_running - 1) + max(n_waiting, n_uninterruptible)

    def n_own(self) -> int:
        """Return the number of active tasks among the threads of the followed processes and descendants.

        Of descendants, only the main threads count.
        """
        self.followed = self._look()
        return self.followed.running + self.followed.blocked + self._n_children_in("RD")

    def _n_waiting_for_io(self) -> int:
        """Read procs_blocked, after lines whose length depends on cores and devices; 0 if it is missing."""
        while (length := os.preadv(self._box, [self._buffer], 0)) == len(self._buffer):
            self._buffer = bytearray(2 * len(self._buffer))
        at = self._buffer.find(b"procs_blocked ", 0, length)
        return int(self._buffer[at + 14 : self._buffer.find(b"\n", at)]) if at >= 0 else 0

    def _look(self) -> StatesSeen:
        n_running = n_blocked = n_spawning = n_unknown = 0
        for task in list(self._files):
            state = self._state(task)
            if state == b"R":
                n_running += 1
            elif state == b"D":
                n_blocked += 1
                is_spawning = self._is_spawning(task) if n_blocked <= MOST_ASKED else None
                n_spawning += is_spawning is True
                n_unknown += is_spawning is None
        return StatesSeen(n_running, n_blocked, n_spawning, n_unknown)

    def _is_spawning(self, task: tuple[int, int]) -> bool | None:
        """Return whether a task that was just in D starts a child; False if it is not in D any more."""
        for _ in range(_TRIES):
            is_starting = self._calls.is_starting_child(*task)
            if is_starting is not None:
                return is_starting
            if self._state(task) != b"D":
                return False
        return None

    def _n_children_in(self, states: str) -> int:
        found = 0
        self._table.refresh()
        waiting = [child for pid in {pid for pid, _ in self._files} for child in self._table.children(pid)]
        while waiting:
            child = waiting.pop()
            stat = self._table.stat(child)
            found += stat is not None and stat.state in states
            waiting.extend(self._table.children(child))
        return found

    def _state(self, task: tuple[int, int]) -> bytes:
        """Return the state letter, after the name, which may contain brackets; empty if ended or hidden."""
        try:
            line = self._files[task].read(512)
        except (ProcessLookupError, FileNotFoundError, PermissionError):
            self._forget(task)
            self.has_lost = True
            return b""
        except OSError as error:
            if error.errno not in TOO_MANY_FILES:
                raise
            return b""
        at = line.rfind(b")") + 2
        return line[at : at + 1]

    def _forget(self, task: tuple[int, int]) -> None:
        self._files.pop(task).close()
