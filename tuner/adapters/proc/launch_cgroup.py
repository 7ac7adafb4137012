"""The cgroup of one launch: processes started in it cannot leave it. Standard library only.

The guardian makes one per launch, below tuner's cgroup, starts supervisord in it, and finally removes it with
all remaining processes. No controller is turned on, so the distribution of resources does not change, and
tuner need not leave its own cgroup: only with controllers no process may stay in a parent cgroup.
The name contains the pid namespace, the guardian's pid and its start time, so that the next guardian finds
the cgroups of one that was killed.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import time
from collections.abc import Callable

#: child of a launch's cgroup with all processes except supervisord; it exists once the launch was frozen
SERVICE = "service"
#: file that freezes a cgroup, values that freeze and thaw it, and the file and line that confirm a freeze
_FREEZERS = (
    ("cgroup.freeze", b"1", b"0", "cgroup.events", "frozen 1"),  # version 2, since Linux 5.2
    ("freezer.state", b"FROZEN", b"THAWED", "freezer.state", "FROZEN"),  # version 1
)
_LOOK_EVERY_MS = {"cgroup.events": 20.0, "freezer.state": 1.0}
_NAME = re.compile(r"tuner-launch-(\d+)-(\d+)-(\d+)-[0-9a-f]+")
_REMOVE_PATIENCE_S = 2.0  #: time for the last member to leave
_KILL_PATIENCE_S = 0.5  #: time for killed members to leave
_PAUSE_S = 0.02


def is_of_a_launch(name: str) -> bool:
    """Return whether *name* is that of a cgroup made by tuner for a launch."""
    return _NAME.fullmatch(name) is not None


def guardian_of(name: str) -> int | None:
    """Return the pid of the guardian that made the cgroup *name*, or None if it is not one of a launch."""
    found = _NAME.fullmatch(name)
    return int(found[2]) if found is not None else None


def make_cgroup(parent: str, pid: int, started: int) -> str:
    """Make a cgroup below *parent* for the guardian *pid*, started at *started* ticks; return its folder.

    Raises:
        OSError: the cgroup cannot be made.
    """
    token = os.urandom(4).hex()
    folder = os.path.join(parent, f"tuner-launch-{_pid_namespace()}-{pid}-{started}-{token}")
    os.mkdir(folder)
    return folder


def join(folder: str, pid: int) -> None:
    """Move *pid* into the cgroup, and with it all processes that it starts from now on.

    Raises:
        OSError: *pid* may not be moved.
    """
    file = os.open(os.path.join(folder, "cgroup.procs"), os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(file, str(pid).encode())
    finally:
        os.close(file)


def members(folder: str) -> set[int]:
    """Return the processes in the cgroup and in those below it; empty if it does not exist."""
    found: set[int] = set()
    for each in _with_all_below(folder):
        with contextlib.suppress(OSError), open(os.path.join(each, "cgroup.procs"), encoding="ascii") as file:
            found.update(map(int, file.read().split()))
    return found


def own_members(folder: str) -> set[int]:
    """Return the processes in the cgroup, without those in cgroups below it.

    Raises:
        OSError: the cgroup cannot be read.
    """
    with open(os.path.join(folder, "cgroup.procs"), encoding="ascii") as file:
        return set(map(int, file.read().split()))


def can_freeze(folder: str) -> bool:
    """Return whether the kernel can freeze the cgroup, and this process has permission to do so."""
    return any(os.access(os.path.join(folder, name), os.W_OK) for name, *_ in _FREEZERS)


def freeze(folder: str) -> None:
    """Start freezing all processes in the cgroup and below it; `is_frozen` returns whether it is done.

    Raises:
        OSError: the cgroup cannot be frozen.
    """
    if not _write_freezer(folder, stops=True):
        raise FileNotFoundError(f"{folder} has no freezer")


def is_frozen(folder: str, within_s: float = 0.0) -> bool:
    """Wait up to *within_s* seconds until all processes in the cgroup are frozen; return whether they are.

    Raises:
        OSError: the cgroup does not exist.
    """
    deadline = time.monotonic() + within_s
    for name, _, _, said_in, said in _FREEZERS:
        if not os.path.exists(os.path.join(folder, name)):
            continue
        file, poll = os.open(os.path.join(folder, said_in), os.O_RDONLY | os.O_CLOEXEC), select.poll()
        if said_in != name:
            poll.register(file, select.POLLPRI)  # version 2 notifies of changes
        try:
            while said not in os.pread(file, 4096, 0).decode("ascii").splitlines():
                if time.monotonic() >= deadline:
                    return False
                poll.poll(_LOOK_EVERY_MS[said_in])
            return True
        finally:
            os.close(file)
    return False


def thaw_itself(folder: str) -> None:
    """Thaw the processes that `freeze` stopped; do nothing if the cgroup does not exist."""
    with contextlib.suppress(OSError):
        _write_freezer(folder, stops=False)


def thaw(folder: str) -> bool:
    """Thaw the cgroup and all below it; return whether one was frozen. It need not exist any more."""
    was_frozen = False
    for each in _with_all_below(folder):
        with contextlib.suppress(OSError):
            if _is_asked_to_freeze(each):
                was_frozen = True
                _write_freezer(each, stops=False)
    return was_frozen


def _is_asked_to_freeze(folder: str) -> bool:
    for name, _, continuing, _, _ in _FREEZERS:
        with contextlib.suppress(FileNotFoundError), open(os.path.join(folder, name), "rb") as file:
            return file.read().strip() != continuing
    return False


def _write_freezer(folder: str, *, stops: bool) -> bool:
    """Freeze (*stops*) or thaw the cgroup; return whether it has a freezer."""
    for name, stopping, continuing, _, _ in _FREEZERS:
        try:
            file = os.open(os.path.join(folder, name), os.O_WRONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        try:
            os.write(file, stopping if stops else continuing)
        finally:
            os.close(file)
        return True
    return False


def cpu_s(folder: str) -> float | None:
    """Return the CPU seconds of all processes ever in the cgroup, or None if unknown."""
    with contextlib.suppress(OSError), open(os.path.join(folder, "cpu.stat"), encoding="ascii") as file:
        for line in file:
            name, _, value = line.partition(" ")
            if name == "usage_usec":
                return int(value) / 1e6
    return None


def kill(folder: str) -> None:
    """Kill all processes in the cgroup at once, so that none can start another one; one by one before Linux
    5.14, which has no cgroup.kill."""
    try:
        file = os.open(os.path.join(folder, "cgroup.kill"), os.O_WRONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        kill_each(folder)
        return
    except OSError:
        return
    try:
        with contextlib.suppress(OSError):
            os.write(file, b"1")
    finally:
        os.close(file)


def kill_each(folder: str) -> None:
    """Send SIGKILL to the members until none is left, because a killed process may have started another one.
    Give up on processes that do not end because they wait in the kernel."""
    deadline = time.monotonic() + _KILL_PATIENCE_S
    reported: set[int] = set()
    while found := members(folder) - {0, os.getpid()}:  # 0: of another pid namespace
        if found <= reported:
            if time.monotonic() >= deadline:
                return
            time.sleep(_PAUSE_S)
        for pid in found:
            _kill_member(folder, pid)
        reported |= found


def _kill_member(folder: str, pid: int) -> None:
    """Kill *pid* by a pidfd, if it is still a member: a later process may have the same pid."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return
    try:
        if pid in members(folder):
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    finally:
        os.close(descriptor)


def remove(folder: str) -> bool:
    """Remove the cgroup as soon as it is empty; return False if a process remains in it."""
    deadline = time.monotonic() + _REMOVE_PATIENCE_S
    while True:
        for each in reversed(_with_all_below(folder)):
            with contextlib.suppress(OSError):
                os.rmdir(each)
        if not os.path.isdir(folder):
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(_PAUSE_S)


def remove_orphans(parent: str, began: Callable[[int], int]) -> list[str]:
    """Kill and remove the cgroups of guardians that have ended; return their folders.

    Args:
        began: Returns the start of a pid in clock ticks since boot; 0: it does not exist.
    """
    removed = []
    with contextlib.suppress(OSError):
        for name in os.listdir(parent):
            of = _NAME.fullmatch(name)
            if of is None or int(of[1]) != _pid_namespace() or began(int(of[2])) == int(of[3]):
                continue
            folder = os.path.join(parent, name)
            thaw(folder)  # nothing ends in a frozen cgroup of version 1
            kill(folder)
            if remove(folder):
                removed.append(folder)
    return removed


def _with_all_below(folder: str) -> list[str]:
    """Return the folder and all folders below it, parents before children."""
    return [each for each, _, _ in os.walk(folder)]


def _pid_namespace() -> int:
    """Return the inode of our pid namespace: in another one, the same pid is another process."""
    with contextlib.suppress(OSError):
        return os.stat("/proc/self/ns/pid").st_ino
    return 0
