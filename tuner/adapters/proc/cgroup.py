"""The cgroup of version 2 that this process is in, and whether launches can have some of their own."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tuner.adapters.proc.kernel_text import kernel_lines
from tuner.adapters.proc.launch_cgroup import is_of_a_launch


def own_cgroup(proc: Path = Path("/proc"), cgroup: Path = Path("/sys/fs/cgroup")) -> Path | None:
    """Its folder; None where no hierarchy of version 2 is mounted.

    In a container /proc may name the path as the host has it, while the mount begins at our own group: a
    path that is not there is the root of the mount.
    """
    path, root = _path(proc / "self"), _root(cgroup)
    if path is None or root is None:
        return None
    folder = root / path.lstrip("/")
    return root if ".." in folder.parts or not folder.is_dir() else folder


def launch_cgroup_of(pids: Iterable[int], proc: Path, cgroup: Path) -> Path | None:
    """The cgroup of a launch's own that one of *pids* (its supervisord) is in; None: there is none."""
    root = _root(cgroup)
    for pid in pids if root is not None else ():
        with suppress(FileNotFoundError, ProcessLookupError):
            path = _path(proc / str(pid))
            if root is not None and path is not None and is_of_a_launch(path.rpartition("/")[2]):
                folder = root / path.lstrip("/")
                return folder if folder.is_dir() else None
    return None


def _root(cgroup: Path) -> Path | None:
    """Where the hierarchy of version 2 is mounted."""
    for root in (cgroup, cgroup / "unified"):
        if (root / "cgroup.procs").is_file() and not (root / "tasks").exists():  # tasks: of version 1
            return root
    return None


def _path(process: Path) -> str | None:
    """Where a process is in the hierarchy of version 2, as its folder of /proc has it; None: nowhere."""
    for line in kernel_lines(process / "cgroup"):
        _, controllers, path = line.split(":", 2)
        if not controllers:
            return path
    return None


@dataclass(frozen=True, slots=True)
class LaunchCgroups:
    """Where the cgroups of launches can be made."""

    parent: Path | None  #: None: nowhere
    sentence: str  #: for people, and for a study's record


def launch_cgroups(
    proc: Path = Path("/proc"),
    cgroup: Path = Path("/sys/fs/cgroup"),
    systemd: Path = Path("/run/systemd/system"),
) -> LaunchCgroups:
    """Below our own cgroup, where it can be written and is ours to divide.

    Where systemd runs, that is what it delegates (``Delegate=yes``): it alone divides all others, even if
    root could.
    """
    own = own_cgroup(proc, cgroup)
    if own is None:
        return LaunchCgroups(None, "none: no cgroups of version 2 are mounted")
    if not (os.access(own, os.W_OK) and os.access(own / "cgroup.procs", os.W_OK)):
        return LaunchCgroups(None, "none: the cgroup of tuner cannot be written")
    if systemd.is_dir() and not _is_delegated(own):
        return LaunchCgroups(None, "none: systemd has not delegated the cgroup of tuner (Delegate=yes)")
    return LaunchCgroups(own, "of its own")


def _is_delegated(folder: Path) -> bool:
    for name in ("user.delegate", "trusted.delegate"):  # of systemd 251 and later; of those before, for root
        with suppress(OSError):
            if os.getxattr(folder, name) == b"1":
                return True
    return False
