"""Memory of a process tree, in which shared pages count once (PSS).

Each process is asked for its proportional set size (PSS): a page that n processes share counts 1/n in each.
The sum is what the tree occupies only if the same processes are there from the first question to the last: a
child that ends in between takes its part of the shared pages along, or leaves it to be counted twice. So they
are listed again afterwards, and where one came or went, all are asked again, a few times. Where they come and
go faster than that, the reading with the fewest changes is taken. One that ended before it was read counts as
those like it, of the same parent and name, do on average: with what is theirs alone, and half of their part
of the rest, as the other half is in what was read of others after its end. How many ended so is given.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from tuner.adapters.proc.process_tree import (
    TICKS_PER_S,
    ProcessStat,
    ProcessTable,
    parse_stat,
    read_once,
    read_shown,
)
from tuner.adapters.proc.task_states import WaitingCalls

TRIES = 4  #: of a reading in which processes come and go
_YOUNG_S = 2.0  #: a child of vfork runs its program long before

Members = Mapping[tuple[int, int], ProcessStat]  #: by pid and start
#: kB of processes: proportional, and the part that is theirs alone; None of one that ended before it was read
Sizes = dict[tuple[int, int], tuple[int, int] | None]


@dataclass(frozen=True, slots=True)
class PssSeen:
    """One reading."""

    pss_bytes: int
    n_read: int  #: processes that it is of
    n_missed: int = 0  #: that ended before they were read; those like them stand for them


class PssReader:
    """Reads the memory of processes below *proc*; *machine* as platform.machine() has it."""

    def __init__(self, proc: Path, machine: str) -> None:
        self._proc = str(proc)
        self._table = ProcessTable(proc)
        self._calls = WaitingCalls(proc, machine)

    def read(self, members: Callable[[], Iterable[ProcessStat]]) -> PssSeen | None:
        """The proportional set sizes of *members*, as they are listed before and after, together.

        A child of vfork shows its parent's memory as its own until it becomes another program, and is left
        out. None: a process belongs to somebody whose memory we may not see, or the kernel keeps no such
        account.
        """
        best: tuple[tuple[bool, int], PssSeen] | None = None
        before = _with_memory(members())
        for _ in range(TRIES):
            sizes = self._sizes(before)
            if sizes is None:
                return None
            after = _with_memory(members())
            n_changes, (seen, is_whole) = len(before.keys() ^ after.keys()), _add_up(before, sizes)
            if best is None or (not is_whole, n_changes) < best[0]:
                best = (not is_whole, n_changes), seen
            if not n_changes:
                break
            before = after
        assert best is not None
        return best[1]

    def _sizes(self, members: Members) -> Sizes | None:
        """Of each that has memory of its own; None: see `read`."""
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
            found[named] = _parse(text or b"")
        return found

    def _is_in_vfork(self, child: ProcessStat) -> bool:
        """Whether the parent waits for *child*, which has its memory: then a thread of it is in D."""
        for thread in self._table.thread_ids(child.parent):
            line = read_shown(f"{self._proc}/{child.parent}/task/{thread}/stat")
            if not line or parse_stat(line).state != "D":
                continue
            if self._calls.is_starting_child(child.parent, thread) is not False:
                return True
        return False


def _with_memory(members: Iterable[ProcessStat]) -> Members:
    """Those that have memory: a zombie has none."""
    return {(one.pid, one.started_ticks): one for one in members if one.state != "Z"}


def _parse(text: bytes) -> tuple[int, int] | None:
    """What smaps_rollup says of a process; None: it has ended."""
    of = {
        name: int(rest.split()[0])
        for name, _, rest in (line.partition(b":") for line in text.splitlines()[1:])
    }
    if b"Pss" not in of:
        return None
    return of[b"Pss"], of.get(b"Private_Clean", 0) + of.get(b"Private_Dirty", 0)


def _add_up(members: Members, sizes: Sizes) -> tuple[PssSeen, bool]:
    """The sum, and whether it is whole: for each one that was missed there are others that stand for it."""
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
