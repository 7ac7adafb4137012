"""The cgroup of one launch: processes started in it cannot leave it. Standard library only.

The guardian makes one per launch, below the cgroup that tuner is in, starts supervisord in it, and removes it
with all that is left in it. No controller is turned on, so nothing is shared out otherwise than before, and
tuner need not leave its own cgroup: only where controllers are on may no process stay above them.

The name says whose it is (pid namespace, guardian, when that began): what a guardian that was killed left is
found by the next one.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import time
from collections.abc import Callable

SERVICE = "service"  #: below a launch's cgroup: all of the launch but supervisord, once it was to be frozen
#: file that freezes a cgroup, what stops and what continues all in it, file and line that say it has stopped
_FREEZERS = (
    ("cgroup.freeze", b"1", b"0", "cgroup.events", "frozen 1"),  # version 2, since Linux 5.2
    ("freezer.state", b"FROZEN", b"THAWED", "freezer.state", "FROZEN"),  # version 1
)
_LOOK_EVERY_MS = {"cgroup.events": 20.0, "freezer.state": 1.0}
_NAME = re.compile(r"tuner-launch-(\d+)-(\d+)-(\d+)-[0-9a-f]+")
_REMOVE_PATIENCE_S = 2.0  #: the last member may need a moment to go
_KILL_PATIENCE_S = 0.5  #: for those that were killed to go
_PAUSE_S = 0.02


def is_of_a_launch(name: str) -> bool:
    """Whether a cgroup of that name was made here."""
    return _NAME.fullmatch(name) is not None


def guardian_of(name: str) -> int | None:
    """The pid of the guardian that made a cgroup of that name; None: nobody made it here."""
    found = _NAME.fullmatch(name)
    return int(found[2]) if found is not None else None


def make_cgroup(parent: str, pid: int, started: int) -> str:
    """Make one below *parent* for the guardian *pid*, which began at *started*; gives its folder.

    Raises:
        OSError: it cannot be made.
    """
    token = os.urandom(4).hex()
    folder = os.path.join(parent, f"tuner-launch-{_pid_namespace()}-{pid}-{started}-{token}")
    os.mkdir(folder)
    return folder


def join(folder: str, pid: int) -> None:
    """Move *pid* there; whatever it starts from now on is there, too.

    Raises:
        OSError: it may not be moved.
    """
    file = os.open(os.path.join(folder, "cgroup.procs"), os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(file, str(pid).encode())
    finally:
        os.close(file)


def members(folder: str) -> set[int]:
    """The processes in it and in what they made below it; none when it is gone."""
    found: set[int] = set()
    for each in _with_all_below(folder):
        with contextlib.suppress(OSError), open(os.path.join(each, "cgroup.procs"), encoding="ascii") as file:
            found.update(map(int, file.read().split()))
    return found


def own_members(folder: str) -> set[int]:
    """The processes in it, without those below it.

    Raises:
        OSError: it cannot be read.
    """
    with open(os.path.join(folder, "cgroup.procs"), encoding="ascii") as file:
        return set(map(int, file.read().split()))


def can_freeze(folder: str) -> bool:
    """Whether the kernel can stop all that is in it at once, and we may ask for that."""
    return any(os.access(os.path.join(folder, name), os.W_OK) for name, *_ in _FREEZERS)


def freeze(folder: str) -> None:
    """Ask the kernel to stop all in it and below it; `is_frozen` returns whether that is done.

    Raises:
        OSError: it cannot be frozen.
    """
    if not _write_freezer(folder, stops=True):
        raise FileNotFoundError(f"{folder} has no freezer")


def is_frozen(folder: str, within_s: float = 0.0) -> bool:
    """Return whether all in it has stopped, once it has, or after so many seconds. An empty one counts, too.

    Raises:
        OSError: it is gone.
    """
    deadline = time.monotonic() + within_s
    for name, _, _, said_in, said in _FREEZERS:
        if not os.path.exists(os.path.join(folder, name)):
            continue
        file, poll = os.open(os.path.join(folder, said_in), os.O_RDONLY | os.O_CLOEXEC), select.poll()
        if said_in != name:
            poll.register(file, select.POLLPRI)  # version 2 gives notice
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
    """Continue all in it that `freeze` stopped; nothing where it is gone."""
    with contextlib.suppress(OSError):
        _write_freezer(folder, stops=False)


def thaw(folder: str) -> bool:
    """Continue all in it and below it, and return whether something of it was frozen; it may be gone."""
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
    """Whether there is a freezer to write to."""
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
    """CPU seconds of all that ever ran in it; None: the kernel does not tell, or it is gone."""
    with contextlib.suppress(OSError), open(os.path.join(folder, "cpu.stat"), encoding="ascii") as file:
        for line in file:
            name, _, value = line.partition(" ")
            if name == "usage_usec":
                return int(value) / 1e6
    return None


def kill(folder: str) -> None:
    """Send SIGKILL to all in it at once, so that none can start another; one by one where the kernel is older
    than 5.14, which has no cgroup.kill."""
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
    """Send SIGKILL to its members, again and again until none is left: who is killed may have started
    another just before. Gives up on those that do not go, and so are in the kernel."""
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
    """It is held, then looked for again: a later process of that pid is another one."""
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
    """Remove it, once it is empty; False: somebody stays in it."""
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
    """Kill and remove what guardians left that are no more; gives the folders.

    Args:
        began: when a pid started, in clock ticks since boot; 0: it is not there.
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
    """Parents before children."""
    return [each for each, _, _ in os.walk(folder)]


def _pid_namespace() -> int:
    """A number of the namespace that pids are of: in another one the same pid is somebody else."""
    with contextlib.suppress(OSError):
        return os.stat("/proc/self/ns/pid").st_ino
    return 0
