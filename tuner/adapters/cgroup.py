"""The cgroup of version 2 that this process is in."""

from __future__ import annotations

from pathlib import Path


def own_cgroup(proc: Path = Path("/proc"), cgroup: Path = Path("/sys/fs/cgroup")) -> Path | None:
    """Its folder; None where no hierarchy of version 2 is mounted.

    In a container /proc may name the path as the host has it, while the mount begins at our own group: a
    path that is not there is the root of the mount.
    """
    path = own_path(proc)
    if path is None:
        return None
    for root in (cgroup, cgroup / "unified"):
        if (root / "cgroup.procs").is_file() and not (root / "tasks").exists():  # tasks: of version 1
            folder = root / path.lstrip("/")
            return root if ".." in folder.parts or not folder.is_dir() else folder
    return None


def own_path(proc: Path = Path("/proc")) -> str | None:
    """Where we are in the hierarchy of version 2, as /proc has it; None: nowhere."""
    for line in (proc / "self" / "cgroup").read_text(encoding="utf-8", errors="replace").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            return path
    return None
