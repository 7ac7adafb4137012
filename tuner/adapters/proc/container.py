"""Whether /proc tells of a host of which this is only a container, and what tells of the container itself."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tuner.adapters.proc.cgroup import own_cgroup
from tuner.adapters.proc.host_times import read_box_times
from tuner.adapters.proc.kernel_text import kernel_lines
from tuner.core.messages.catalogue import Message
from tuner.core.messages.host import container_load

_FIRST_PID_NAMESPACE = "pid:[4026531836]"  #: PROC_PID_INIT_INO in the kernel's include/linux/proc_ns.h


@dataclass(frozen=True, slots=True)
class Container:
    """A container, seen from within."""

    cgroup: Path | None  #: the folder of its cgroup, of version 2; None: it cannot be seen
    cpus: frozenset[int]  #: that its processes may run on
    strangers_hidden: str = ""  #: why nobody can tell what others use of these; empty: it can be seen

    @property
    def warning(self) -> Message:
        """The warning that load and pressure here are not those of the host."""
        has_cgroup = self.cgroup is not None
        return container_load(len(self.cpus), has_cgroup=has_cgroup, hidden=self.strangers_hidden)


def container_here(
    proc: Path = Path("/proc"),
    cgroup: Path = Path("/sys/fs/cgroup"),
    affinity: frozenset[int] | None = None,
) -> Container | None:
    """The container that we are in; None: processes are seen as the host sees them, and so is its load.

    A pid namespace of our own tells: whoever lives in one sees a part of the host's processes, while
    loadavg, stat and pressure of /proc are all of the host's. (Also with lxcfs, which may mend loadavg: a
    load of the service alone is right there, too.)
    """
    try:
        namespace = os.readlink(proc / "self" / "ns" / "pid")
    except OSError:  # a kernel that has none, or a sandbox that is no Linux
        return None
    if namespace == _FIRST_PID_NAMESPACE:
        return None
    cpus = frozenset(os.sched_getaffinity(0)) if affinity is None else affinity
    return Container(own_cgroup(proc, cgroup), cpus, _strangers_hidden(proc, cpus))


def _strangers_hidden(proc: Path, cpus: frozenset[int]) -> str:
    """lxcfs numbers the CPUs of a container anew in /proc/stat: cpu1 there may be CPU 5 of its affinity."""
    if _is_fuse(proc, "/proc/stat"):
        return "/proc/stat is made for this container (lxcfs), its CPUs are numbered anew"
    n_found = read_box_times(proc, cpus).n_cpus
    if n_found < len(cpus):
        return f"/proc/stat has {n_found} of the {len(cpus)} CPUs that it may run on"
    return ""


def _is_fuse(proc: Path, point: str) -> bool:
    """Whether a program, not the kernel, gives what is read at *point*."""
    try:
        mounts = kernel_lines(proc / "self" / "mountinfo")
    except OSError:
        return False
    for mount in mounts:
        fields, _, of = mount.partition(" - ")
        if of.startswith("fuse") and point in fields.split(" ")[4:5]:
            return True
    return False
