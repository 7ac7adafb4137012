"""A cgroup of a test's own, whose processes have little memory: the kernel kills who asks for more."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .permitted import not_permitted

PATIENCE_S = 60.0


@contextmanager
def memory_cgroup(limit_bytes: int) -> Iterator[Path]:
    """Its file ``cgroup.procs``; skips where none can be made (it takes root)."""
    parent, limit_name = _own()
    folder = parent / f"tuner-test-{os.getpid()}-{time.monotonic_ns()}"
    try:
        folder.mkdir()
    except OSError as error:
        not_permitted("a cgroup with little memory", error)
    try:
        try:
            (folder / limit_name).write_text(str(limit_bytes))
        except OSError as error:
            not_permitted("a cgroup with little memory", error)
        yield folder / "cgroup.procs"
    finally:
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                folder.rmdir()
                break
            except OSError:  # the kernel is still taking the last process away
                assert time.monotonic() < deadline_s, f"{folder} cannot be removed"
                time.sleep(0.01)


def _own() -> tuple[Path, str]:
    """Our own cgroup, and what the file of its limit is called, in version 1 or 2."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            return _mounted(Path("/sys/fs/cgroup/memory"), path), "memory.limit_in_bytes"
    own = next(
        line[3:] for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::")
    )
    return _mounted(Path("/sys/fs/cgroup"), own), "memory.max"


def _mounted(root: Path, path: str) -> Path:
    """In a container the root that is mounted may be our own cgroup."""
    folder = root / path.lstrip("/")
    return folder if folder.is_dir() else root
