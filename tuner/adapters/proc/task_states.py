"""The number of active tasks (running or uninterruptible, like the load average) and the time they take."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tuner.adapters.proc.process_tree import ProcessTable

# Whether a thread in state D is starting a child: told by the system call that it waits in.
#
# A parent that starts its child by vfork, as `subprocess` does, or by a clone like it, as `posix_spawn` does,
# waits in the kernel until the child runs its program, in state D. /proc/PID/task/TID/syscall shows that, and
# only to those who may trace the process: root, or a process of the same user as far as the box lets it
# (Yama's ptrace_scope of 1 allows it for descendants, and workers are tuner's).

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


MOST_KEPT_OPEN = 256  #: files; threads beyond are opened each time, at twice the cost
MOST_ASKED = 64  #: threads in D that a look asks for their call: 2 us each, some 10 us with cold caches
MOST_UNKNOWN_RATIO = 0.1  #: of the time in D: where more of it is not known, nothing is told of child starts
_TRIES = 2


@dataclass(frozen=True, slots=True)
class StatesSeen:
    """Tasks at one look."""

    running: int = 0  #: in R
    blocked: int = 0  #: in D
    spawning: int = 0  #: of these, that are starting a child
    unknown: int = 0  #: of these in D, of which nobody can tell whether they are


@dataclass(slots=True)
class StateTimes:
    """For how long tasks were running (R) and uninterruptible (D): seconds x tasks, from looks.

    A look stands until the next one, so that totals grow evenly, and what lies between two moments is what
    was seen between them.
    """

    running_s: float = 0.0
    blocked_s: float = 0.0  #: all in D, those that start a child included
    _known_spawning_s: float = 0.0
    _unknown_s: float = 0.0
    _seen: StatesSeen = StatesSeen()
    _at_s: float | None = None  #: of the last look; None: nobody looked yet

    @property
    def spawning_s(self) -> float | None:
        """The part of `blocked_s` that was the start of a child; None: for too much of it nobody can tell."""
        return self._known_spawning_s if self._unknown_s <= MOST_UNKNOWN_RATIO * self.blocked_s else None

    def look(self, at_s: float, seen: StatesSeen) -> None:
        """At *at_s* tasks are as *seen*."""
        self.advance(at_s)
        self._seen, self._at_s = seen, at_s

    def advance(self, at_s: float) -> None:
        """Bring the totals up to *at_s*, with what was seen last."""
        if self._at_s is None or at_s <= self._at_s:
            return
        elapsed_s = at_s - self._at_s
        self.running_s += self._seen.running * elapsed_s
        self.blocked_s += self._seen.blocked * elapsed_s
        self._known_spawning_s += self._seen.spawning * elapsed_s
        self._unknown_s += self._seen.unknown * elapsed_s
        self._at_s = at_s


class ActiveTasks:
    """Counts the active tasks of the box, and those of some processes with care.

    Counted is what the kernel's load average counts:

    - **running**: tasks running or waiting for a core, anywhere on the box (fourth field of /proc/loadavg),
      but for the one that reads it;
    - **uninterruptible**: whichever is larger of two views. (a) /proc/stat's procs_blocked: tasks anywhere
      on the box that wait for I/O. (b) Tasks in state D among the threads of the followed processes (the
      workers) and, when (a) sees any, among the processes these started. (b) is there for what (a) cannot
      see: a thread in vfork until its child runs its program, one that waits for a lock of the kernel.

    Too few are counted when followed tasks are in D without I/O while strangers wait for I/O (the smaller
    of the two numbers is lost); threads that started after `follow` and strangers in D without I/O are not
    seen. In a container the running tasks and procs_blocked are still the host's, as its load average is:
    there `n_own` is asked.

    A followed thread in D is asked at once whether it is starting a child. One whose wait is over by then,
    10 us later at most, counts as not starting one: so much of each start is missed. Of more than 64 threads
    in D the rest is not asked, and of these it is not known.
    """

    def __init__(self, proc: Path, machine: str | None = None) -> None:
        """*machine* as platform.machine() has it, and that is the default."""
        self.followed = StatesSeen()  #: threads of the followed processes, at the last look
        self.has_lost = False  #: a followed thread has ended since `follow`: others may run in its place
        self._proc = str(proc)
        self._table = ProcessTable(proc)
        self._calls = WaitingCalls(proc, platform.machine() if machine is None else machine)
        self._files: dict[
            tuple[int, int], int | None
        ] = {}  # (pid, thread) -> its stat file; None: not kept open
        self._buffer = bytearray(1 << 16)  # kept: a new one each second costs more than reading
        self._box = os.open(f"{proc}/stat", os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        """Close every file."""
        self.follow(())
        os.close(self._box)

    def follow(self, pids: Iterable[int]) -> None:
        """From now on look at the threads that *pids* have now, and at no others."""
        wanted = {(pid, thread) for pid in pids for thread in self._table.thread_ids(pid)}
        for gone in self._files.keys() - wanted:
            self._forget(gone)
        self.has_lost = False
        n_kept = sum(file is not None for file in self._files.values())
        for new in sorted(wanted - self._files.keys()):
            self._files[new] = self._open(new) if n_kept < MOST_KEPT_OPEN else None
            n_kept += 1

    def n_active(self, n_running: int) -> int:
        """Active tasks now, *n_running* of them (this one included) runnable."""
        n_waiting = self._n_waiting_for_io()
        self.followed = self._look()
        n_uninterruptible = self.followed.blocked
        if n_waiting and n_uninterruptible:
            n_uninterruptible += self._n_children_in("D")
        return max(0, n_running - 1) + max(n_waiting, n_uninterruptible)

    def n_own(self) -> int:
        """Active tasks now among the threads of the followed processes, and the processes these started.

        Of the latter their main threads only.
        """
        self.followed = self._look()
        return self.followed.running + self.followed.blocked + self._n_children_in("RD")

    def _n_waiting_for_io(self) -> int:
        """procs_blocked, which comes after lines that grow with cores and devices; 0 where it is not told."""
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
        """Of a task that was in D a moment ago; False also when it is no longer."""
        for _ in range(_TRIES):
            is_starting = self._calls.is_starting_child(*task)
            if is_starting is not None:
                return is_starting
            if self._state(task) != b"D":
                return False
        return None

    def _n_children_in(self, states: str) -> int:
        found = 0
        waiting = [child for pid in {pid for pid, _ in self._files} for child in self._table.children(pid)]
        while waiting:
            child = waiting.pop()
            stat = self._table.stat(child)
            found += stat is not None and stat.state in states
            waiting.extend(self._table.children(child))
        return found

    def _state(self, task: tuple[int, int]) -> bytes:
        """The letter after the name, which may hold brackets; empty when the task is gone or hidden."""
        file = self._files[task]
        try:
            line = self._read_once(task) if file is None else os.pread(file, 512, 0)
        except (ProcessLookupError, FileNotFoundError, PermissionError):
            self._forget(task)
            self.has_lost = True
            return b""
        at = line.rfind(b")") + 2
        return line[at : at + 1]

    def _path(self, task: tuple[int, int]) -> str:
        return f"{self._proc}/{task[0]}/task/{task[1]}/stat"

    def _read_once(self, task: tuple[int, int]) -> bytes:
        file = os.open(self._path(task), os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(file, 512)
        finally:
            os.close(file)

    def _open(self, task: tuple[int, int]) -> int | None:
        try:
            return os.open(self._path(task), os.O_RDONLY | os.O_CLOEXEC)
        except (ProcessLookupError, FileNotFoundError, PermissionError):
            return None

    def _forget(self, task: tuple[int, int]) -> None:
        file = self._files.pop(task)
        if file is not None:
            os.close(file)
