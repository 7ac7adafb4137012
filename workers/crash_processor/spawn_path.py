"""Measurement of how this interpreter starts a child, and whether it holds the GIL meanwhile.

This determines for how many threads a process can start children, so a study records it. The version is not
sufficient: distributions patch it, and 3.13 prefers posix_spawn where an earlier Python would not.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any, NamedTuple

from .spawn import STARTS

_N_SPAWNS = 12
#: Number of PATH entries before the child's program, so that the child takes about 1 ms to exec.
_N_EMPTY_FOLDERS = 1000
_EFFECTS = {
    True: "other threads stand still until a child has exec'ed",
    False: "other threads run on while a child is started",
    None: "not seen: this interpreter starts children in a way unknown here",
}


class _Watched(NamedTuple):
    """Result of some observed spawns."""

    path: str
    held_the_gil: bool | None


def spawn_path(asked: str = "vfork") -> dict[str, Any]:
    """Return facts about the spawn path *asked* for a study's record; takes about 0.3 s.

    Returns:
        ``interpreter``, ``implementation``, ``version``; ``path``: "vfork+exec", "fork+exec" or
        "posix_spawn"; ``holds_the_gil``: whether other threads stop during a spawn, None if unknown;
        ``effect``: that in words; ``spawn_ms``: the median wall time until a child has called exec.
    """
    watched = _watched_spawns(asked)
    return {
        "interpreter": sys.executable,
        "implementation": platform.python_implementation(),
        "version": platform.python_version(),
        "path": watched.path,
        "holds_the_gil": watched.held_the_gil,
        "effect": _EFFECTS[watched.held_the_gil],
        "spawn_ms": round(_spawn_ms(asked), 3),
    }


def _start_child(asked: str, program: str) -> int:
    """Start a child like ``spawn.run_child``; return its pid."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    try:
        return STARTS[asked]((program, "--version"), nothing, nothing)
    finally:
        os.close(nothing)


def _spawn_ms(asked: str) -> float:
    took_ms = []
    for _ in range(_N_SPAWNS):
        started_ns = time.perf_counter_ns()
        pid = _start_child(asked, sys.executable)
        took_ms.append((time.perf_counter_ns() - started_ns) / 1e6)
        os.waitpid(pid, 0)
    return median(took_ms)


@contextmanager
def _long_path() -> Iterator[str]:
    """Set a long PATH within the block; yield the name of this interpreter, which is found late on it."""
    before = os.environ.get("PATH")
    os.environ["PATH"] = os.pathsep.join(["/0"] * _N_EMPTY_FOLDERS + [os.path.dirname(sys.executable)])
    try:
        yield os.path.basename(sys.executable)
    finally:
        if before is None:
            del os.environ["PATH"]
        else:
            os.environ["PATH"] = before


def _watched_spawns(asked: str) -> _Watched:
    """Start children while another thread counts, and check whether it could count meanwhile.

    The count is read just before and just after the C function that forks, waits for exec and returns.
    Meanwhile Python forces no thread to release the GIL (a switch interval of hours), and the counting thread
    releases it after each step: the count changes only if the C function released the GIL. One change is
    proof; none in all spawns of a millisecond each means that it does not.
    """
    count = 0
    is_over = False
    moved: list[bool] = []
    where: Any = os if asked == "posix_spawn" else subprocess
    name = "posix_spawnp" if asked == "posix_spawn" else "_fork_exec"
    start: Any = getattr(where, name, None)

    def count_on() -> None:
        nonlocal count
        while not is_over:
            count += 1
            time.sleep(0)

    def watched(*arguments: Any, **options: Any) -> Any:
        before = count
        pid = start(*arguments, **options)
        moved.append(count != before)
        return pid

    if start is None:
        return _Watched("unknown", None)
    thread = threading.Thread(target=count_on, name="counts", daemon=True)
    switch_interval_s = sys.getswitchinterval()
    sys.setswitchinterval(10_000)
    setattr(where, name, watched)
    thread.start()
    try:
        with _long_path() as program:
            for _ in range(_N_SPAWNS):
                os.waitpid(_start_child(asked, program), 0)
    finally:
        is_over = True
        thread.join()
        setattr(where, name, start)
        sys.setswitchinterval(switch_interval_s)
    if asked == "posix_spawn":
        return _Watched(asked, not any(moved))
    if not moved:
        return _Watched("posix_spawn", True)  # os.posix_spawn never releases it
    has_vfork = getattr(subprocess, "_USE_VFORK", sys.version_info >= (3, 14))  # always since 3.14
    return _Watched("vfork+exec" if has_vfork else "fork+exec", not any(moved))
