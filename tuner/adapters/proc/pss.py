"""Memory of a process tree, in which shared pages count once (PSS).

The proportional set size (PSS) of each process is read: a page that n processes share counts 1/n in each. The
sum is the memory of the tree only if the same processes exist from the first reading to the last: if a child
ends in between, its part of the shared pages is lost or counted twice. So the processes are listed again
afterwards, and if one started or ended, all are read again, a few times. If they change faster than that, the
reading with the fewest changes is used. A process that ended before its reading counts as the average of
those with the same parent and name: their private memory, and half of their shared part, because the other
half is in later readings of other processes. The number of such processes is returned.

While other layouts are started, their processes share pages of files (interpreter, libraries) with those of
the tree, and the PSS of the tree is too small. Then each page of a file counts once for the tree.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from tuner.adapters.proc.process_tree import (
    TICKS_PER_S,
    ProcessStat,
    ProcessTable,
    parse_stat,
    read_if_visible,
    read_once,
)
from tuner.adapters.proc.task_states import WaitingCalls

TRIES = 4  #: attempts at a reading, because processes may start or end during it
_YOUNG_S = 2.0  #: age after which a child of vfork certainly runs its own program

Members = Mapping[tuple[int, int], ProcessStat]  #: by pid and start time
#: kB of each process: PSS, and its private part; None: it ended before it was read
Sizes = dict[tuple[int, int], tuple[int, int] | None]


@dataclass(frozen=True, slots=True)
class PssSeen:
    """One reading of the memory of a process tree."""

    pss_bytes: int
    n_read: int  #: number of processes read
    n_missed: int = 0  #: number of processes that ended before they were read; similar ones represent them


class PssReader:
    """Reader of the memory of processes below *proc*; *machine* as in platform.machine()."""

    def __init__(self, proc: Path, machine: str, *, counts_files_once: bool = False) -> None:
        """Read below *proc*; *counts_files_once*: processes outside the tree do not share its files' pages.

        Kernels before 5.4 have no proportional size without files' pages, and then it has no effect.
        """
        self._proc = str(proc)
        has_size_without_files = b"Pss_Anon" in (read_once(f"{proc}/self/smaps_rollup") or b"")
        self._counts_files_once = counts_files_once and has_size_without_files
        self._table = ProcessTable(proc)
        self._calls = WaitingCalls(proc, machine)

    def read(self, members: Callable[[], Iterable[ProcessStat]]) -> PssSeen | None:
        """Return the sum of the proportional set sizes of *members*, which are listed before and after.

        A child of vfork reports its parent's memory until it executes another program, and is left out.
        None: a process's memory may not be read by this user, or the kernel keeps no such account.
        """
        best: tuple[tuple[bool, int], PssSeen] | None = None
        before = _with_memory(members())
        for _ in range(TRIES):
            sizes = self._sizes(before)
            if sizes is None:
                return None
            after = _with_memory(members())
            n_changes, (seen, is_whole) = len(before.keys() ^ after.keys()), _add_up(before, sizes)
            if self._counts_files_once:
                files_bytes = 1024 * self._files_kb(before)
                seen = replace(seen, pss_bytes=seen.pss_bytes + files_bytes)
            if best is None or (not is_whole, n_changes) < best[0]:
                best = (not is_whole, n_changes), seen
            if not n_changes:
                break
            before = after
        assert best is not None
        return best[1]

    def _sizes(self, members: Members) -> Sizes | None:
        """Return the sizes of each process that does not share its parent's memory; None: see `read`."""
        uptime = read_once(f"{self._proc}/uptime")
        if uptime is None:
            return None
        young_since = (float(uptime.split()[0]) - _YOUNG_S) * TICKS_PER_S
        found: Sizes = {}
        for named, process in members.items():
            if process.is_copy and process.started_ticks > young_since and self._is_in_vfork(process):
                continue
            folder = f"{self._proc}/{process.pid}"
            try:
                text = read_once(f"{folder}/smaps_rollup")
            except PermissionError:
                return None
            if text is None and not os.path.exists(f"{folder}/smaps_rollup") and os.path.exists(folder):
                return None
            found[named] = _parse(text or b"", with_files=not self._counts_files_once)
        return found

    def _files_kb(self, members: Members) -> int:
        """Return the kB of all files' pages in *members*, shared memory included, each once.

        That is the most that one process has of a mapping: processes of one tree have nearly the same pages
        of their interpreter and libraries.
        """
        most: dict[bytes, int] = {}
        for process in members.values():
            for mapping, kb in _file_mappings(read_once(f"{self._proc}/{process.pid}/smaps") or b""):
                most[mapping] = max(kb, most.get(mapping, 0))
        return sum(most.values())

    def _is_in_vfork(self, child: ProcessStat) -> bool:
        """Return whether the parent waits in vfork for *child*, which uses its memory: a thread is in D."""
        for thread in self._table.thread_ids(child.parent):
            line = read_if_visible(f"{self._proc}/{child.parent}/task/{thread}/stat")
            if not line or parse_stat(line).state != "D":
                continue
            if self._calls.is_starting_child(child.parent, thread) is not False:
                return True
        return False


def _with_memory(members: Iterable[ProcessStat]) -> Members:
    """Return the processes that have memory, which excludes zombies."""
    return {(one.pid, one.started_ticks): one for one in members if one.state != "Z"}


def _file_mappings(smaps: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield the device, inode and offset of each mapping of a file, and the kB of its pages in memory."""
    mapping, rss_kb = b"", 0
    for line in smaps.splitlines():
        name, _, rest = line.partition(b":")
        if name == b"Rss":
            rss_kb = int(rest.split()[0])
        elif name == b"Anonymous" and mapping:  # pages that were written are not the file's any more
            yield mapping, rss_kb - int(rest.split()[0])
        elif b"-" in name and b" " in name:
            _, _, offset, device, inode, *_ = line.split(None, 5)
            mapping = b"" if inode == b"0" else b"%b %b %b" % (device, inode, offset)


def _parse(text: bytes, *, with_files: bool = True) -> tuple[int, int] | None:
    """Return the proportional and the private size in kB from smaps_rollup; None: the process has ended.

    The proportional size is without the pages of files and shared memory if they are counted apart.
    """
    of = {
        name: int(rest.split()[0])
        for name, _, rest in (line.partition(b":") for line in text.splitlines()[1:])
    }
    if b"Pss" not in of:
        return None
    private_kb = of.get(b"Private_Clean", 0) + of.get(b"Private_Dirty", 0)
    pss_kb = of[b"Pss"] if with_files else of[b"Pss_Anon"]
    return pss_kb, min(private_kb, pss_kb)


def _add_up(members: Members, sizes: Sizes) -> tuple[PssSeen, bool]:
    """Return the sum, and whether it is complete: each missed process has similar ones to estimate it."""
    total_kb, n_missed, is_whole = 0.0, 0, True
    for named, size in sizes.items():
        if size is not None:
            total_kb += size[0]
            continue
        n_missed += 1
        alike = [
            (all_kb + own_kb) / 2
            for other, (all_kb, own_kb) in ((one, kb) for one, kb in sizes.items() if kb is not None)
            if _kind(members[other]) == _kind(members[named])
        ]
        total_kb += fmean(alike) if alike else 0.0
        is_whole = is_whole and bool(alike)
    return PssSeen(round(total_kb * 1024), len(sizes) - n_missed, n_missed), is_whole


def _kind(process: ProcessStat) -> tuple[int, str]:
    return process.parent, process.name
