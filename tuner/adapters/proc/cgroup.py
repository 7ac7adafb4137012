"""The cgroup (version 2) of this process, and whether launches can have cgroups below it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tuner.adapters.proc.launch_cgroup import is_of_a_launch
from tuner.adapters.proc.process_tree import read_box_times
from tuner.core.messages import Message
from tuner.core.messages.host import container_load

# Number of processes that the kernel killed for lack of memory, on the host or in one of its cgroups.


def n_oom_kills(proc: Path = Path("/proc")) -> int | None:
    """Return the number of OOM kills since boot, or None before Linux 4.13."""
    try:
        lines = (proc / "vmstat").read_text().splitlines()
    except OSError:
        return None
    counts = [int(line.split()[1]) for line in lines if line.startswith("oom_kill ")]
    return counts[0] if counts else None


# Text files of the kernel, in /proc and in cgroups.


def kernel_lines(path: Path) -> list[str]:
    """Return the lines of *path* that are not empty.

    Only LF ends a line, because names may contain any other character; text mode and ``splitlines`` also
    split at CR, FF and others. Bytes that are not UTF-8 become surrogates, as in paths.

    Raises:
        OSError: *path* cannot be read.
    """
    return [line for line in os.fsdecode(path.read_bytes()).split("\n") if line]


def own_cgroup(proc: Path = Path("/proc"), cgroup: Path = Path("/sys/fs/cgroup")) -> Path | None:
    """Return the folder of this process's cgroup, or None if no hierarchy of version 2 is mounted.

    In a container, /proc may have the host's path while the mount begins at our own cgroup: a path that
    does not exist stands for the root of the mount.
    """
    path, root = _path(proc / "self"), _root(cgroup)
    if path is None or root is None:
        return None
    folder = root / path.lstrip("/")
    return root if ".." in folder.parts or not folder.is_dir() else folder


def launch_cgroup_of(pids: Iterable[int], proc: Path, cgroup: Path) -> Path | None:
    """Return the cgroup of the launch that contains one of *pids* (its supervisord), or None."""
    root = _root(cgroup)
    for pid in pids if root is not None else ():
        with suppress(FileNotFoundError, ProcessLookupError):
            path = _path(proc / str(pid))
            if root is not None and path is not None and is_of_a_launch(path.rpartition("/")[2]):
                folder = root / path.lstrip("/")
                return folder if folder.is_dir() else None
    return None


def _root(cgroup: Path) -> Path | None:
    """Return the mount point of the hierarchy of version 2."""
    for root in (cgroup, cgroup / "unified"):
        if (root / "cgroup.procs").is_file() and not (root / "tasks").exists():  # tasks: of version 1
            return root
    return None


def _path(process: Path) -> str | None:
    """Return the path of a process in the hierarchy of version 2, read from its /proc folder, or None."""
    for line in kernel_lines(process / "cgroup"):
        _, controllers, path = line.split(":", 2)
        if not controllers:
            return path
    return None


@dataclass(frozen=True, slots=True)
class LaunchCgroups:
    """The folder in which cgroups of launches can be made, or the reason why there is none."""

    parent: Path | None  #: None: no such folder
    sentence: str  #: sentence for reports and for the record of a study


def launch_cgroups(
    proc: Path = Path("/proc"),
    cgroup: Path = Path("/sys/fs/cgroup"),
    systemd: Path = Path("/run/systemd/system"),
) -> LaunchCgroups:
    """Return our own cgroup for the cgroups of launches, if it is writable and delegated to tuner.

    With systemd, tuner may only divide cgroups that systemd delegates (``Delegate=yes``), even as root.
    """
    own = own_cgroup(proc, cgroup)
    if own is None:
        return LaunchCgroups(None, "none: no cgroups of version 2 are mounted")
    if not (os.access(own, os.W_OK) and os.access(own / "cgroup.procs", os.W_OK)):
        return LaunchCgroups(None, "none: the cgroup of tuner cannot be written")
    if systemd.is_dir() and not _is_delegated(own):
        return LaunchCgroups(None, "none: systemd has not delegated the cgroup of tuner (Delegate=yes)")
    return LaunchCgroups(own, "of its own")


def own_freezer(proc: Path = Path("/proc"), cgroup: Path = Path("/sys/fs/cgroup")) -> Path | None:
    """Return our own cgroup of the freezer of version 1, below which each launch can have another one.

    None where there is none, or where it cannot be written.
    """
    for line in kernel_lines(proc / "self" / "cgroup"):
        _, controllers, path = line.split(":", 2)
        if "freezer" not in controllers.split(","):
            continue
        for root in dict.fromkeys((cgroup / controllers, cgroup / "freezer")):
            folder = root / path.lstrip("/")
            if ".." in folder.parts or not folder.is_dir():
                folder = root
            if (folder / "tasks").is_file() and os.access(folder, os.W_OK):
                return folder
    return None


def _is_delegated(folder: Path) -> bool:
    for name in ("user.delegate", "trusted.delegate"):  # of systemd 251 and later; of those before, for root
        with suppress(OSError):
            if os.getxattr(folder, name) == b"1":
                return True
    return False


# Detection of a container, in which /proc describes the host, and of the figures of the container.

#: inode of the host's pid namespace: PROC_PID_INIT_INO in the kernel's include/linux/proc_ns.h
_FIRST_PID_NAMESPACE = "pid:[4026531836]"


@dataclass(frozen=True, slots=True)
class Container:
    """The container in which tuner runs."""

    cgroup: Path | None  #: folder of its cgroup (version 2); None: it is not visible
    cpus: frozenset[int]  #: CPUs on which its processes may run
    strangers_hidden: str = ""  #: reason why the CPU use of other processes is unknown; empty: it is known

    @property
    def warning(self) -> Message:
        """The warning that load and pressure here are not those of the host."""
        has_cgroup = self.cgroup is not None
        return container_load(len(self.cpus), has_cgroup=has_cgroup, hidden=self.strangers_hidden)


def find_container(
    proc: Path = Path("/proc"),
    cgroup: Path = Path("/sys/fs/cgroup"),
    affinity: frozenset[int] | None = None,
) -> Container | None:
    """Return the container in which tuner runs, or None on the host itself.

    A separate pid namespace shows it: only a part of the host's processes is visible, but loadavg, stat and
    pressure of /proc describe the whole host. (Also with lxcfs, which may correct loadavg: a load of the
    service alone is right there, too.)
    """
    try:
        namespace = os.readlink(proc / "self" / "ns" / "pid")
    except OSError:  # a kernel without namespaces, or a sandbox that is not Linux
        return None
    if namespace == _FIRST_PID_NAMESPACE:
        return None
    cpus = frozenset(os.sched_getaffinity(0)) if affinity is None else affinity
    return Container(own_cgroup(proc, cgroup), cpus, _why_stat_unusable(proc, cpus))


def _why_stat_unusable(proc: Path, cpus: frozenset[int]) -> str:
    """Return why /proc/stat of *cpus* is unusable, or "".

    lxcfs renumbers CPUs (cpu1 may be CPU 5). In gVisor all CPU times are 0, so all time would count as used.
    """
    if _is_fuse(proc, "/proc/stat"):
        return "/proc/stat is made for this container (lxcfs), its CPUs are numbered anew"
    n_found = read_box_times(proc, cpus).n_cpus
    if n_found < len(cpus):
        return f"/proc/stat has {n_found} of the {len(cpus)} CPUs that it may run on"
    if not read_box_times(proc).idle_s:
        return "/proc/stat has no CPU times (gVisor)"
    return ""


def _is_fuse(proc: Path, point: str) -> bool:
    """Return whether *point* is served by a program (FUSE) instead of the kernel."""
    try:
        mounts = kernel_lines(proc / "self" / "mountinfo")
    except OSError:
        return False
    for mount in mounts:
        fields, _, of = mount.partition(" - ")
        if of.startswith("fuse") and point in fields.split(" ")[4:5]:
            return True
    return False
