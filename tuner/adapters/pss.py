"""Memory of a process tree, shared pages counted once."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from tuner.adapters.process_tree import TICKS_PER_S, ProcessStat, read_once

_YOUNG_S = 2.0


def read_pss_bytes(proc: Path, processes: Iterable[ProcessStat]) -> int | None:
    """The proportional set sizes of *processes* together: each shared page counts once among its users.

    A child of vfork shows its parent's memory as its own until it becomes another program; so a copy
    younger than 2 s is left out. None when a process belongs to somebody whose memory we may not see, or
    the kernel keeps no such account.
    """
    uptime = read_once(f"{proc}/uptime")
    if uptime is None:
        return None
    now_ticks = float(uptime.split()[0]) * TICKS_PER_S
    total_kb = 0
    for process in processes:
        age_ticks = now_ticks - process.started_ticks
        if process.state == "Z" or (process.is_copy and age_ticks < _YOUNG_S * TICKS_PER_S):
            continue
        folder = f"{proc}/{process.pid}"
        try:
            text = read_once(f"{folder}/smaps_rollup")
        except PermissionError:
            return None
        if text is None and not os.path.exists(f"{folder}/smaps_rollup") and os.path.exists(folder):
            return None
        for line in (text or b"").splitlines():
            if line.startswith(b"Pss:"):
                total_kb += int(line.split()[1])
    return total_kb * 1024
