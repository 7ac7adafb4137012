"""Processes and their children from /proc: parents, children and CPU time.

The CPU of a tree is that of its living members and, through each one's cutime and cstime, of every child
that was reaped. The kernel scales utime + stime to the scheduler's nanoseconds, so sums are exact however
short the children live; only their print is coarse (10 ms, cut off, the same at both edges of a window).
Not counted: a child whose parent ignores SIGCHLD (the kernel adds its CPU only to its cgroup), and the CPU of
a process that left the tree (double fork) after its last reading.
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
    own_ticks: int  #: utime + stime of all its threads, ended threads included
    reaped_ticks: int  #: cutime + cstime: ticks of the children it waited for, and of theirs
    n_threads: int
    started_ticks: int  #: ticks since boot; together with the pid, it identifies a process uniquely

    @property
    def is_copy(self) -> bool:
        """Whether it was forked and has not yet executed another program."""
        return bool(self.flags & _FORKED_NO_EXEC)


def parse_stat(line: bytes) -> ProcessStat:
    """Parse /proc/PID/stat; the name may contain spaces and brackets, so the last bracket ends it."""
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
    """Return the content of a file of /proc, or None if its process has ended."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, ProcessLookupError):
        return None
    try:
        parts = []
        while part := os.read(file, 65536):  # /proc returns long files in pieces
            parts.append(part)
        return b"".join(parts)
    except ProcessLookupError:
        return None
    finally:
        os.close(file)


def read_if_visible(path: str) -> bytes | None:
    """Return the content of a file of /proc; None also if it belongs to another user's hidden process."""
    try:
        return read_once(path)
    except PermissionError:
        return None


@dataclass(slots=True)
class Tree:
    """Processes read together, parents before children."""

    members: dict[int, ProcessStat]
    ticks: int  #: own and reaped ticks of all of them, each counted once


class ProcessTable:
    """Reader of processes below *proc*; hidden ones (hidepid) count as ended."""

    def __init__(self, proc: Path) -> None:
        self._proc = str(proc)
        self._by_parent: dict[int, list[int]] | None = None

    def stat(self, pid: int) -> ProcessStat | None:
        """Return the process, or None if it has ended."""
        line = read_if_visible(f"{self._proc}/{pid}/stat")
        return parse_stat(line) if line else None

    def pids(self) -> list[int]:
        """Return every listed process of the host; some of them may not be readable."""
        return [int(name) for name in os.listdir(self._proc) if name.isdigit()]

    def thread_ids(self, pid: int) -> list[int]:
        """Return the threads of a process; empty if it has ended."""
        try:
            return [int(name) for name in os.listdir(f"{self._proc}/{pid}/task")]
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            return []

    def thread_state(self, pid: int, thread: int) -> str | None:
        """Return the state of one thread of a process, or None if it has ended."""
        line = read_if_visible(f"{self._proc}/{pid}/task/{thread}/stat")
        return parse_stat(line).state if line else None

    def children(self, pid: int, n_threads: int | None = None) -> list[int]:
        """Return the children of a process, zombies included; faster if *n_threads* is 1.

        Without CONFIG_PROC_CHILDREN, they are the children at the first call since `refresh` or `trees`.
        """
        found: list[int] = []
        for thread in [pid] if n_threads == 1 else self.thread_ids(pid):
            line = read_if_visible(f"{self._proc}/{pid}/task/{thread}/children")
            if line is None:  # the thread ended, or the kernel has no such file
                if os.path.exists(f"{self._proc}/{pid}/task/{thread}/stat"):
                    return self._children_by_parent(pid)
                continue
            found.extend(map(int, line.split()))
        return found

    def command_line(self, pid: int) -> list[str]:
        """Return the command line of a process as words; empty if it has ended."""
        line = read_if_visible(f"{self._proc}/{pid}/cmdline") or b""
        return [os.fsdecode(word) for word in line.split(b"\0")[:-1]]

    def refresh(self) -> None:
        """Discard the parents of all processes, which `children` reads on kernels without children files."""
        self._by_parent = None

    def trees(self, roots: Iterable[int]) -> Tree:
        """Return *roots* and all their descendants."""
        self.refresh()
        whole = Tree({}, 0)
        for root in roots:
            if root not in whole.members:
                tree = self._tree(root, whole.members)
                whole.members.update(tree.members)
                whole.ticks += tree.ticks
        return whole

    def _tree(self, root: int, known: Container[int]) -> Tree:
        """Return a tree; read it again if a child was reaped, which would count twice or not at all."""
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
            if len(tree.members) == 1 and complete and not before.reaped_ticks:  # usual: a short-lived leaf
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
        """Return children without CONFIG_PROC_CHILDREN: read all parents once after each `refresh`."""
        if self._by_parent is None:
            self._by_parent = {}
            for stat in filter(None, map(self.stat, self.pids())):
                self._by_parent.setdefault(stat.parent, []).append(stat.pid)
        return self._by_parent.get(pid, [])


# CPU times of the whole host from /proc/stat, and pressure from /proc/pressure or a cgroup.


@dataclass(frozen=True, slots=True)
class BoxTimes:
    """CPU totals of the host since boot."""

    n_cpus: int  #: number of the requested CPUs that are online
    idle_s: float  #: idle time of these CPUs, waits for disks included
    steal_s: float
    n_context_switches: int  #: of the whole host
    #: time of interrupts, if the kernel does not charge it to the processes that they interrupt; else 0
    interrupts_s: float = 0.0

    def used_since(self, before: BoxTimes, elapsed_s: float) -> float:
        """Return the CPU time that processes used in the *elapsed_s* seconds since *before*."""
        not_theirs_s = (
            (self.idle_s - before.idle_s)
            + (self.steal_s - before.steal_s)
            + (self.interrupts_s - before.interrupts_s)
        )
        return elapsed_s * self.n_cpus - not_theirs_s


def read_box_times(proc: Path, cpus: Container[int] | None = None) -> BoxTimes:
    """Read the reliable times of *cpus* (None: all) from /proc/stat.

    user, system and others are sampled at the timer tick, so work in bursts shorter than 4 ms is missed or
    counted twice: up to 0.06 of 0.5 core missed here. idle and iowait are measured by a clock (NO_HZ), so the
    used time is the rest without stolen time: within 0.01 core of the sum of all processes, and of
    cpuacct.usage.

    A kernel with CONFIG_IRQ_TIME_ACCOUNTING measures the time of interrupts (irq, softirq) by a clock, and
    charges it to no process. Without it, irq stays 0, and softirq is part of the time of processes.
    """
    path = f"{proc}/stat"
    text = read_once(path)
    if text is None:
        raise ConfigError(f"{path} cannot be read", hint="tuner measures on Linux, with /proc mounted.")
    n_cpus, idle, steal, switches, hard, soft = 0, 0, 0, 0, 0, 0
    for line in text.splitlines():
        if line.startswith(b"cpu"):
            name, *fields = line.split()
            is_total = name == b"cpu"
            is_asked = cpus is None or (not is_total and int(name[3:]) in cpus)
            n_cpus += is_asked and not is_total
            if is_asked and is_total is (cpus is None):
                idle += int(fields[3]) + int(fields[4])
                hard, soft = hard + int(fields[5]), soft + int(fields[6])
                steal += int(fields[7])
        elif line.startswith(b"ctxt "):
            switches = int(line.split()[1])
    interrupts_s = (hard + soft) / TICKS_PER_S if hard else 0.0
    return BoxTimes(n_cpus, idle / TICKS_PER_S, steal / TICKS_PER_S, switches, interrupts_s)


def read_pressure_s(proc: Path, resource: str) -> float | None:
    """Return the seconds since boot in which at least one task waited for *resource* (cpu, memory, io).

    None if the kernel keeps no such account (no CONFIG_PSI, or booted with psi=0).
    """
    return _pressure_s(f"{proc}/pressure/{resource}")


def read_cgroup_pressure_s(cgroup: Path, resource: str) -> float | None:
    """Return the same as `read_pressure_s` for the tasks in *cgroup* (version 2), since its creation."""
    return _pressure_s(f"{cgroup}/{resource}.pressure")


def _pressure_s(path: str) -> float | None:
    try:
        text = read_once(path)
    except OSError:  # psi=0: the file exists, but reading it fails
        return None
    for line in (text or b"").splitlines():
        if line.startswith(b"some "):
            return int(line.rpartition(b"total=")[2]) / 1e6
    return None
