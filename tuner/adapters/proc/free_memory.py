"""How much memory a service may still take, before tasks have to wait for memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tuner.adapters.proc.cores import groups_above

_ROOM = 0.8  #: of what is free: the page cache of what is measured needs some, too
_FILES = {2: ("memory.max", "memory.current"), 1: ("memory.limit_in_bytes", "memory.usage_in_bytes")}
_NO_LIMIT = 1 << 60  #: version 1 writes "none" as a number about that large


def free_memory_bytes(*, proc: Path = Path("/proc"), cgroup: Path = Path("/sys/fs/cgroup")) -> float | None:
    """What the host and each cgroup above us leave, less a fifth; None: nobody tells."""
    return min((_ROOM * free for free in _free(proc, cgroup)), default=None)


def _free(proc: Path, cgroup: Path) -> Iterator[float]:
    with suppress(OSError, ValueError, IndexError):
        for line in (proc / "meminfo").read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("MemAvailable:"):
                yield 1024.0 * int(line.split()[1])
    with suppress(OSError):
        for version, folder, _ in groups_above("memory", proc=proc, cgroup=cgroup):
            most, used = (_number(folder / name) for name in _FILES[version])
            if most is not None and used is not None and most < _NO_LIMIT:
                yield max(0.0, most - used + _reclaimable(folder))


def _reclaimable(folder: Path) -> int:
    """Files in the page cache that nobody used of late: the kernel drops them before anything waits."""
    with suppress(OSError, ValueError):
        data = dict(
            line.split() for line in (folder / "memory.stat").read_text(encoding="ascii").splitlines()
        )
        return int(data.get("total_inactive_file", data.get("inactive_file", 0)))
    return 0


def _number(file: Path) -> int | None:
    """None: it is not there, or says max."""
    with suppress(OSError, ValueError):
        return int(file.read_text(encoding="ascii"))
    return None
