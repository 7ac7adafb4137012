"""Active tasks, running or uninterruptible as the load average counts them: how many, and for how long."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tuner.adapters.process_tree import ProcessTable

MOST_KEPT_OPEN = 256  #: files; threads beyond are opened each time, at twice the cost


@dataclass(slots=True)
class StateTimes:
    """For how long tasks were running (R) and uninterruptible (D): seconds x tasks, from looks.

    A look stands until the next one, so that totals grow evenly, and what lies between two moments is what
    was seen between them.
    """

    running_s: float = 0.0
    blocked_s: float = 0.0
    _n_running: int = 0
    _n_blocked: int = 0
    _at_s: float | None = None  #: of the last look; None: nobody looked yet

    def look(self, at_s: float, n_running: int, n_blocked: int) -> None:
        """At *at_s* so many tasks are in R and in D."""
        self.advance(at_s)
        self._n_running, self._n_blocked, self._at_s = n_running, n_blocked, at_s

    def advance(self, at_s: float) -> None:
        """Bring the totals up to *at_s*, with what was seen last."""
        if self._at_s is None or at_s <= self._at_s:
            return
        elapsed_s = at_s - self._at_s
        self.running_s += self._n_running * elapsed_s
        self.blocked_s += self._n_blocked * elapsed_s
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
    seen. In a container the running tasks and procs_blocked are still the host's, as its load average is.
    """

    def __init__(self, proc: Path) -> None:
        self.n_followed_running = 0  #: threads of the followed processes in R, at the last look
        self.n_followed_blocked = 0  #: ... in D
        self._proc = str(proc)
        self._table = ProcessTable(proc)
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
        n_kept = sum(file is not None for file in self._files.values())
        for new in sorted(wanted - self._files.keys()):
            self._files[new] = self._open(new) if n_kept < MOST_KEPT_OPEN else None
            n_kept += 1

    def n_active(self, n_running: int) -> int:
        """Active tasks now, *n_running* of them (this one included) runnable."""
        n_waiting = self._n_waiting_for_io()
        states = Counter(self._state(task) for task in list(self._files))
        self.n_followed_running, self.n_followed_blocked = states[b"R"], states[b"D"]
        n_uninterruptible = self.n_followed_blocked
        if n_waiting and n_uninterruptible:
            n_uninterruptible += self._n_children_in_d()
        return max(0, n_running - 1) + max(n_waiting, n_uninterruptible)

    def _n_waiting_for_io(self) -> int:
        """procs_blocked, which comes after lines that grow with cores and devices; 0 where it is not told."""
        while (length := os.preadv(self._box, [self._buffer], 0)) == len(self._buffer):
            self._buffer = bytearray(2 * len(self._buffer))
        at = self._buffer.find(b"procs_blocked ", 0, length)
        return int(self._buffer[at + 14 : self._buffer.find(b"\n", at)]) if at >= 0 else 0

    def _n_children_in_d(self) -> int:
        found = 0
        waiting = [child for pid in {pid for pid, _ in self._files} for child in self._table.children(pid)]
        while waiting:
            child = waiting.pop()
            stat = self._table.stat(child)
            found += stat is not None and stat.state == "D"
            waiting.extend(self._table.children(child))
        return found

    def _state(self, task: tuple[int, int]) -> bytes:
        """The letter after the name, which may hold brackets; empty when the task is gone."""
        file = self._files[task]
        try:
            line = self._read_once(task) if file is None else os.pread(file, 512, 0)
        except (ProcessLookupError, FileNotFoundError):
            self._forget(task)
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
        except (ProcessLookupError, FileNotFoundError):
            return None

    def _forget(self, task: tuple[int, int]) -> None:
        file = self._files.pop(task)
        if file is not None:
            os.close(file)
