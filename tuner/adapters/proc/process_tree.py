"""Processes and their children from /proc: parents, children and CPU time.

The CPU of a tree is that of its living members and, through each one's cutime and cstime, of every child
that was reaped. The kernel scales utime + stime to the scheduler's nanoseconds, so sums are exact however
short the children live; only their print is coarse (10 ms, cut off, the same at both edges of a window).
Not seen: a child whose parent ignores SIGCHLD (the kernel then adds its CPU to nobody but its cgroup), and
what a process that left the tree (double fork) used after it was last looked at.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tuner.core.errors import ConfigError

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_FORKED_NO_EXEC = 0x40  # PF_FORKNOEXEC in the kernel's include/linux/sched.h
_TRIES = 3


class ProcessStat(NamedTuple):
    """One line of /proc/PID/stat; ticks are `TICKS_PER_S` to a second."""

    pid: int
    name: str  #: at most 15 characters
    state: str  #: R, S, D, Z ...
    parent: int
    flags: int
    own_ticks: int  #: utime + stime of all its threads, ended ones included
    reaped_ticks: int  #: cutime + cstime: of children that it waited for, and theirs
    n_threads: int
    started_ticks: int  #: since boot; with the pid, it names a process for good

    @property
    def is_copy(self) -> bool:
        """Forked, and has not yet become another program."""
        return bool(self.flags & _FORKED_NO_EXEC)


def parse_stat(line: bytes) -> ProcessStat:
    """Read a line of /proc/PID/stat; the name may hold spaces and brackets, so the last bracket ends it."""
    opening, closing = line.index(b"("), line.rindex(b")")
    fields = line[closing + 2 :].split()
    return ProcessStat(
        pid=int(line[:opening]),
        name=line[opening + 1 : closing].decode("utf-8", "replace"),
        state=fields[0].decode(),
        parent=int(fields[1]),
        flags=int(fields[6]),
        own_ticks=int(fields[11]) + int(fields[12]),
        reaped_ticks=int(fields[13]) + int(fields[14]),
        n_threads=int(fields[17]),
        started_ticks=int(fields[19]),
    )


def read_once(path: str) -> bytes | None:
    """The content of a file of /proc; None when its process has ended."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, ProcessLookupError):
        return None
    try:
        parts = []
        while part := os.read(file, 65536):  # /proc hands out long files in pieces
            parts.append(part)
        return b"".join(parts)
    except ProcessLookupError:
        return None
    finally:
        os.close(file)


def read_shown(path: str) -> bytes | None:
    """The same; None also of a process that /proc does not show to us, another user's (hidepid)."""
    try:
        return read_once(path)
    except PermissionError:
        return None


@dataclass(slots=True)
class Tree:
    """Processes that were found together, parents before children."""

    members: dict[int, ProcessStat]
    ticks: int  #: own and reaped of all of them, nothing twice


class ProcessTable:
    """Reads processes below *proc*; those that are hidden from us (hidepid) are as good as gone."""

    def __init__(self, proc: Path) -> None:
        self._proc = str(proc)
        self._by_parent: dict[int, list[int]] | None = None

    def stat(self, pid: int) -> ProcessStat | None:
        """The process, or None when it is gone."""
        line = read_shown(f"{self._proc}/{pid}/stat")
        return parse_stat(line) if line else None

    def pids(self) -> list[int]:
        """Every process of the box that is listed; of some there may be no more to see."""
        return [int(name) for name in os.listdir(self._proc) if name.isdigit()]

    def thread_ids(self, pid: int) -> list[int]:
        """The threads of a process; none when it is gone."""
        try:
            return [int(name) for name in os.listdir(f"{self._proc}/{pid}/task")]
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            return []

    def thread_state(self, pid: int, thread: int) -> str | None:
        """The state of one thread of a process; None when it is gone."""
        line = read_shown(f"{self._proc}/{pid}/task/{thread}/stat")
        return parse_stat(line).state if line else None

    def children(self, pid: int, n_threads: int | None = None) -> list[int]:
        """The children of a process, zombies included; quicker when it is known to have 1 thread."""
        found: list[int] = []
        for thread in [pid] if n_threads == 1 else self.thread_ids(pid):
            line = read_shown(f"{self._proc}/{pid}/task/{thread}/children")
            if line is None:  # the thread ended, or the kernel has no such file
                if os.path.exists(f"{self._proc}/{pid}/task/{thread}/stat"):
                    return self._children_by_parent(pid)
                continue
            found.extend(map(int, line.split()))
        return found

    def command_line(self, pid: int) -> list[str]:
        """The words that a process was started with; none when it is gone."""
        line = read_shown(f"{self._proc}/{pid}/cmdline") or b""
        return [os.fsdecode(word) for word in line.split(b"\0")[:-1]]

    def trees(self, roots: Iterable[int]) -> Tree:
        """*roots* and everything below them."""
        self._by_parent = None
        whole = Tree({}, 0)
        for root in roots:
            if root not in whole.members:
                tree = self._tree(root, whole.members)
                whole.members.update(tree.members)
                whole.ticks += tree.ticks
        return whole

    def _tree(self, root: int, known: Container[int]) -> Tree:
        """Read again when somebody was reaped meanwhile: else he would count twice, or not at all."""
        tree = Tree({}, 0)
        for _ in range(_TRIES):
            before = self.stat(root)
            if before is None:
                return Tree({}, 0)
            tree = Tree({root: before}, 0)
            complete = True
            for child in self.children(root, before.n_threads):
                if child not in known:
                    below = self._tree(child, known)
                    complete = complete and bool(below.members)
                    tree.members.update(below.members)
                    tree.ticks += below.ticks
            if (
                len(tree.members) == 1 and complete and not before.reaped_ticks
            ):  # most are: short-lived leaves
                tree.ticks = before.own_ticks
                break
            after = self.stat(root)
            if after is None:
                return Tree({}, 0)
            tree.ticks += after.own_ticks + after.reaped_ticks
            if complete and before.reaped_ticks == after.reaped_ticks:
                break
        return tree

    def _children_by_parent(self, pid: int) -> list[int]:
        """Without CONFIG_PROC_CHILDREN every process is asked for its parent, once per call of `trees`."""
        if self._by_parent is None:
            self._by_parent = {}
            for stat in filter(None, map(self.stat, self.pids())):
                self._by_parent.setdefault(stat.parent, []).append(stat.pid)
        return self._by_parent.get(pid, [])


# What the whole box did, from /proc/stat, and who waited, from /proc/pressure or a cgroup.


@dataclass(frozen=True, slots=True)
class BoxTimes:
    """Totals since boot."""

    n_cpus: int  #: online now, of those asked for
    idle_s: float  #: over these, waiting for disks included
    steal_s: float
    n_context_switches: int  #: of the whole box


def read_box_times(proc: Path, cpus: Container[int] | None = None) -> BoxTimes:
    """Read /proc/stat for the times that can be trusted, of *cpus*; None: of all.

    user, system and the like are sampled at the timer tick, so work that comes in bursts shorter than 4 ms
    is missed or seen twice: up to 0.06 of 0.5 core missed here. idle and iowait are clocked (NO_HZ), and so
    what is not idle and not stolen was used: within 0.01 core of the sum of all processes, and of
    cpuacct.usage.
    """
    path = f"{proc}/stat"
    text = read_once(path)
    if text is None:
        raise ConfigError(f"{path} cannot be read", hint="tuner measures on Linux, with /proc mounted.")
    n_cpus, idle, steal, switches = 0, 0, 0, 0
    for line in text.splitlines():
        if line.startswith(b"cpu"):
            name, *fields = line.split()
            is_total = name == b"cpu"
            is_asked = cpus is None or (not is_total and int(name[3:]) in cpus)
            n_cpus += is_asked and not is_total
            if is_asked and is_total is (cpus is None):
                idle += int(fields[3]) + int(fields[4])
                steal += int(fields[7])
        elif line.startswith(b"ctxt "):
            switches = int(line.split()[1])
    return BoxTimes(n_cpus, idle / TICKS_PER_S, steal / TICKS_PER_S, switches)


def read_pressure_s(proc: Path, resource: str) -> float | None:
    """Seconds since boot in which at least one task waited for *resource* (cpu, memory, io).

    None when the kernel keeps no such account (no CONFIG_PSI, or booted with psi=0).
    """
    return _pressure_s(f"{proc}/pressure/{resource}")


def read_cgroup_pressure_s(cgroup: Path, resource: str) -> float | None:
    """The same of the tasks in *cgroup*, a folder of version 2, since it was made."""
    return _pressure_s(f"{cgroup}/{resource}.pressure")


def _pressure_s(path: str) -> float | None:
    try:
        text = read_once(path)
    except OSError:  # psi=0: the file is there, and reading it fails
        return None
    for line in (text or b"").splitlines():
        if line.startswith(b"some "):
            return int(line.rpartition(b"total=")[2]) / 1e6
    return None
