"""Which way this interpreter takes to start a child, and whether it holds the GIL meanwhile: seen, not told.

It decides how many threads a process can feed with children, so a study records it. Versions do not tell:
distributions patch theirs, and 3.13 prefers posix_spawn where an earlier Python would not.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import threading
import time
from statistics import median
from typing import Any, NamedTuple

_N_SPAWNS = 12
#: Folders that a child looks through for its program: it takes a millisecond or so until it has exec'ed.
_N_EMPTY_FOLDERS = 1000
_EFFECTS = {
    True: "other threads stand still until a child has exec'ed",
    False: "other threads run on while a child is started",
    None: "not seen: this interpreter starts children in a way unknown here",
}


class _Watched(NamedTuple):
    """What was seen of some spawns."""

    path: str
    held_the_gil: bool | None


def spawn_path() -> dict[str, Any]:
    """Facts for a study's record; takes about 0.3 s.

    Returns:
        ``interpreter``, ``implementation``, ``version``; ``path``: "vfork+exec", "fork+exec" or
        "posix_spawn"; ``holds_the_gil``: whether other threads stand still during a spawn, None when unknown;
        ``effect``: that in words; ``spawn_ms``: the median wall time until a child has exec'ed.
    """
    watched = _watched_spawns()
    return {
        "interpreter": sys.executable,
        "implementation": platform.python_implementation(),
        "version": platform.python_version(),
        "path": watched.path,
        "holds_the_gil": watched.held_the_gil,
        "effect": _EFFECTS[watched.held_the_gil],
        "spawn_ms": round(_spawn_ms(), 3),
    }


def spawns_hold_the_gil() -> bool | None:
    """Whether other Python threads stand still while a child is started as the processor starts it."""
    return _watched_spawns().held_the_gil


def _start_child(environment: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
    """As ``spawn.run_child`` starts one. With *environment* the program is looked for on its PATH."""
    program = sys.executable if environment is None else os.path.basename(sys.executable)
    nothing = subprocess.DEVNULL
    return subprocess.Popen(
        (program, "--version"),
        stdin=nothing,
        stdout=nothing,
        stderr=nothing,
        env=environment,
        process_group=0,
    )


def _spawn_ms() -> float:
    took_ms = []
    for _ in range(_N_SPAWNS):
        started_ns = time.perf_counter_ns()
        child = _start_child()
        took_ms.append((time.perf_counter_ns() - started_ns) / 1e6)
        child.wait()
    return median(took_ms)


def _watched_spawns() -> _Watched:
    """Start children while another thread counts, and see whether it could.

    The count is read just before and just after the one C function that forks, waits for the exec and
    returns. Meanwhile Python takes the GIL from nobody (a switch interval of hours) and the counting thread
    gives it away after each step: the count moves only if the C function let go of the GIL. Once is proof;
    never, in so many spawns of a millisecond each, means that it does not.
    """
    count = 0
    is_over = False
    moved: list[bool] = []
    fork_exec: Any = getattr(subprocess, "_fork_exec", None)

    def count_on() -> None:
        nonlocal count
        while not is_over:
            count += 1
            time.sleep(0)

    def watched(*arguments: Any) -> Any:
        before = count
        pid = fork_exec(*arguments)
        moved.append(count != before)
        return pid

    if fork_exec is None:
        return _Watched("unknown", None)
    folders = ["/0"] * _N_EMPTY_FOLDERS + [os.path.dirname(sys.executable)]
    environment = {**os.environ, "PATH": os.pathsep.join(folders)}
    thread = threading.Thread(target=count_on, name="counts", daemon=True)
    switch_interval_s = sys.getswitchinterval()
    sys.setswitchinterval(10_000)
    subprocess._fork_exec = watched  # type: ignore[attr-defined]
    thread.start()
    try:
        for _ in range(_N_SPAWNS):
            _start_child(environment).wait()
    finally:
        is_over = True
        thread.join()
        subprocess._fork_exec = fork_exec  # type: ignore[attr-defined]
        sys.setswitchinterval(switch_interval_s)
    if not moved:
        return _Watched("posix_spawn", True)  # os.posix_spawn never lets go of it
    has_vfork = getattr(subprocess, "_USE_VFORK", False)
    return _Watched("vfork+exec" if has_vfork else "fork+exec", not any(moved))
