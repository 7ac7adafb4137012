"""Finding and ending every process of a launch, even hidden ones. Standard library only.

A process belongs to the launch if its environment contains the marker, if it is in the launch's cgroup, or if
it descends from the guardian, which is the subreaper of the launch. A daemon becomes its child, and a process
that overwrites its environment (setproctitle) is also found that way. Other processes of tuner (feeders,
hooks) must outlive a launch: they have the marker in another variable, which is only used after tuner's end.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tuner.adapters.proc import launch_cgroup

RUN_ID = "TUNER_RUN_ID"  #: the variable in every process of a launch
STUDY_ID = "TUNER_STUDY_ID"  #: the variable in every child of tuner
#: variable for every process of a launch. Without it, setproctitle (used by gunicorn, Celery, RQ and metricd
#: if installed) writes a title over the environment, in which the markers are searched.
KEEPS_MARKS = {"SPT_NOENV": "1"}
_PAUSE_S = 0.05
_KILL_PATIENCE_S = 4.0  #: a killed process may take a moment to end, for example in uninterruptible sleep
#: least number of rounds; on a host that stands still for seconds, time alone is not sufficient
_KILL_ROUNDS = 20


@dataclass(frozen=True, slots=True)
class Found:
    """A living process of the launch."""

    pid: int
    parent: int
    started: int  #: clock ticks since boot; unique together with the pid
    command: str
    is_stopped: bool = False  #: whether it was stopped by SIGSTOP, so that it would not handle other signals


@dataclass(frozen=True, slots=True)
class Swept:
    """Processes that a sweep found, killed, and could not end."""

    met: tuple[str, ...]  #: "PID COMMAND" of each process found
    killed: tuple[str, ...]  #: those that needed SIGKILL
    left: tuple[str, ...]  #: those that could not be ended


def started_ticks(pid: int) -> int:
    """Return the start of *pid* in clock ticks since boot; 0 if it has ended."""
    found = _look(pid)
    return found.started if found is not None else 0


def find(
    marker: str,
    ancestor: int | None,
    since: int = 0,
    variables: Sequence[str] = (RUN_ID,),
    cgroups: Sequence[str] = (),
) -> dict[int, Found]:
    """Return every living process with *marker*, in one of *cgroups*, or descended from *ancestor*, except
    this process and its ancestors.

    Args:
        variables: Environment variables in which the marker counts.
        since: Clock ticks since boot; the environment of older processes is not read. Usually all other
            processes are older than a launch, and reading one that is stuck in the kernel would block.
    """
    everyone = {found.pid: found for found in map(_look, _pids()) if found is not None}
    spared = _ancestors(os.getpid(), everyone)
    wanted = {f"{variable}={marker}".encode() for variable in variables}
    children: dict[int, list[int]] = {}
    for found in everyone.values():
        children.setdefault(found.parent, []).append(found.pid)
    ours: set[int] = set()
    todo = list(children.get(ancestor, ())) if ancestor is not None else []
    young = (pid for pid, one in everyone.items() if one.started >= since)
    todo += [pid for pid in young if not wanted.isdisjoint(_environment(pid))]
    todo += [pid for cgroup in cgroups for pid in launch_cgroup.members(cgroup) if pid in everyone]
    while todo:
        pid = todo.pop()
        if pid not in ours and pid not in spared:
            ours.add(pid)
            todo += children.get(pid, ())
    return {pid: everyone[pid] for pid in ours}


def sweep(
    marker: str,
    ancestor: int | None,
    *,
    since: int = 0,
    variables: Sequence[str] = (RUN_ID,),
    cgroups: Sequence[str] = (),
    first_signal: Callable[[Found], int] = lambda _: signal.SIGTERM,
    grace_s: float = 5.0,
    reap: Callable[[], object] = lambda: None,
) -> Swept:
    """End every process of the launch by *first_signal*, and after *grace_s* seconds by SIGKILL.

    The first signal is only sent to processes whose parent does not belong to the launch: a master stops its
    children itself, and some lose work if these also get the signal. Frozen and stopped processes are
    continued, so that they handle it.

    Args:
        cgroups: Cgroups of the launch; finally all processes in them are killed at once.
        reap: Called often; reaps the dead children of the caller.
    """
    met: dict[tuple[int, int], str] = {}
    deadline = time.monotonic() + grace_s
    signalled: set[tuple[int, int]] = set()
    while True:
        reap()
        found = find(marker, ancestor, since, variables, cgroups)
        met.update({(one.pid, one.started): f"{one.pid} {one.command}" for one in found.values()})
        if not found or time.monotonic() >= deadline:
            break
        if _continue(found, cgroups):
            time.sleep(_PAUSE_S)  # see launcher._stop
        for one in found.values():
            if one.parent not in found and (one.pid, one.started) not in signalled:
                signalled.add((one.pid, one.started))
                _send(one, first_signal(one))
        time.sleep(_PAUSE_S)
    killed: dict[tuple[int, int], str] = {}
    deadline = time.monotonic() + _KILL_PATIENCE_S
    n_rounds = 0
    while found and (n_rounds < _KILL_ROUNDS or time.monotonic() < deadline):
        n_rounds += 1
        for one in found.values():
            killed[one.pid, one.started] = f"{one.pid} {one.command}"
            _send(one, signal.SIGKILL)
        _continue(found, cgroups)  # a process frozen by a cgroup of version 1 does not end otherwise
        for cgroup in cgroups:
            launch_cgroup.kill(cgroup)
        reap()
        found = find(marker, ancestor, since, variables, cgroups)
        if found and set(killed) >= {(one.pid, one.started) for one in found.values()}:
            time.sleep(_PAUSE_S)  # all have got the signal; new children of one get it without a pause
    met.update(killed)
    left = tuple(f"{one.pid} {one.command}" for one in found.values())
    return Swept(tuple(met.values()), tuple(killed.values()), left)


def _continue(found: Mapping[int, Found], cgroups: Sequence[str]) -> bool:
    """Continue frozen and stopped processes; return whether there were any."""
    stopped = [one for one in found.values() if one.is_stopped]
    for one in stopped:
        _send(one, signal.SIGCONT)
    return bool(sum(launch_cgroup.thaw(cgroup) for cgroup in cgroups) or stopped)


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _look(pid: int) -> Found | None:
    """Return process *pid*, or None if it has ended or is a zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            head, _, tail = file.read().rpartition(b")")
    except OSError:
        return None
    fields = tail.split()
    if fields[0] in (b"Z", b"X") and int(fields[17]) <= 1:  # with more threads, only the first one has ended
        return None
    command = head.partition(b"(")[2].decode("utf-8", "replace")
    return Found(pid, int(fields[1]), int(fields[19]), command, fields[0] == b"T")


def _environment(pid: int) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []  # it has ended, or belongs to another user and so not to the launch


def _ancestors(pid: int, everyone: dict[int, Found]) -> set[int]:
    spared = set()
    while pid in everyone and pid not in spared:
        spared.add(pid)
        pid = everyone[pid].parent
    return spared


def _send(one: Found, number: int) -> None:
    """Send a signal by a pidfd, after checking the process again, so that a reused pid never gets it."""
    try:
        descriptor = os.pidfd_open(one.pid)
    except OSError:
        return
    again = _look(one.pid)
    if again is not None and again.started == one.started:
        with contextlib.suppress(OSError):  # it has ended, as intended
            signal.pidfd_send_signal(descriptor, number)
    os.close(descriptor)
