"""Freezing and continuing the processes of a launch, except supervisord and the guardian.

With a cgroup of version 2, the service is moved into a child of the launch's cgroup at the first freeze,
because supervisord must not be frozen: it reaps children that die meanwhile. Children that these processes
start later are in it, too. Otherwise a cgroup of version 1 is used; the guardian makes it, because it has to
thaw it. Without either, processes are stopped by SIGSTOP, parents first, because a stopped parent cannot
start more children.
The guardian thaws all processes before it ends a launch, so none stays frozen if tuner is killed.
"""

from __future__ import annotations

import os
import signal
import time
from collections import deque
from contextlib import suppress
from pathlib import Path

from tuner.adapters.proc import launch_cgroup
from tuner.adapters.proc.process_tree import ProcessStat, ProcessTable
from tuner.adapters.supervisord.guardian import Guardian
from tuner.core.errors import MeasurementError

_WITHIN_S = 15.0  #: time for all processes to stop; a process in uninterruptible sleep stops after it
_ASK_AGAIN_S = 0.5  #: a process that starts a child can prevent a freeze; after this time, thaw and retry
_GOES_ON_S = 0.01
_LOOK_EVERY_S = 0.0005
_STOPPED, _GONE = "Tt", "ZX"


class Freezing:
    """The freezer of one launch."""

    def __init__(self, guardian: Guardian, supervisord_pid: int) -> None:
        self._guardian, self._supervisord_pid = guardian, supervisord_pid
        self._is_frozen = False
        self._cgroup: str | None = None  #: frozen cgroup; None: processes are stopped by signals
        self._launch_cgroup: str | None = None  #: with version 2, the parent of *_cgroup*
        self._has_looked = False  #: whether the search for a cgroup that can be frozen is done
        self._signals = _Signals(guardian.pid, supervisord_pid)

    def freeze(self) -> None:
        """See ``tuner.ports.Launch``."""
        if self._is_frozen:
            return
        self._is_frozen = True
        try:
            deadline = time.monotonic() + _WITHIN_S
            cgroup = self._freezable(deadline)
            if cgroup is None:
                self._signals.stop_all(deadline)
            else:
                self._freeze_cgroup(cgroup, deadline)
        except BaseException as error:
            self.thaw()
            if isinstance(error, OSError):
                raise MeasurementError(f"cannot freeze the service: {error}") from error
            raise

    def _freeze_cgroup(self, cgroup: str, deadline: float) -> None:
        launch_cgroup.freeze(cgroup)
        while not launch_cgroup.is_frozen(cgroup, _ASK_AGAIN_S):
            if time.monotonic() >= deadline:
                raise _late(launch_cgroup.members(cgroup))
            launch_cgroup.thaw_itself(cgroup)
            time.sleep(_GOES_ON_S)
            launch_cgroup.freeze(cgroup)

    @property
    def is_frozen(self) -> bool:
        """Whether the service is frozen now."""
        return self._is_frozen

    def thaw(self) -> None:
        """See ``tuner.ports.Launch``."""
        if not self._is_frozen:
            return
        if self._cgroup is not None:
            launch_cgroup.thaw_itself(self._cgroup)
        self._signals.continue_all()
        self._is_frozen = False

    def _freezable(self, deadline: float) -> str | None:
        """Return a cgroup that contains the whole service and can be frozen, or None."""
        if not self._has_looked:
            self._has_looked = True
            self._cgroup = self._child_of_launch(deadline) or self._of_version_1(deadline)
        elif self._cgroup is not None and self._launch_cgroup is not None:
            self._gather(self._launch_cgroup, self._cgroup, deadline)
        return self._cgroup

    def _child_of_launch(self, deadline: float) -> str | None:
        launch = self._guardian.cgroup
        if launch is None or not launch_cgroup.can_freeze(launch):
            return None
        child = os.path.join(launch, launch_cgroup.SERVICE)
        try:
            os.mkdir(child)
            self._gather(launch, child, deadline)
        except OSError:
            return None
        self._launch_cgroup = launch
        return child

    def _of_version_1(self, deadline: float) -> str | None:
        """Move the guardian's descendants except supervisord to a cgroup of version 1; None: impossible."""
        cgroup = self._guardian.freezer()
        if cgroup is None:
            return None
        try:
            while others := self._signals.service_pids() - launch_cgroup.members(cgroup):
                _raise_if_late(deadline, others)
                _move(others, cgroup)
        except OSError:
            return None
        return cgroup

    def _gather(self, launch: str, cgroup: str, deadline: float) -> None:
        """Move the processes in the cgroup *launch* itself, except supervisord, to *cgroup* below it."""
        while others := launch_cgroup.own_members(launch) - {self._supervisord_pid}:
            _raise_if_late(deadline, others)
            _move(others, cgroup)


class _Signals:
    """Stopping and continuing of the guardian's descendants, except supervisord, by signals."""

    def __init__(self, guardian_pid: int, supervisord_pid: int) -> None:
        self._guardian_pid, self._supervisord_pid = guardian_pid, supervisord_pid
        self._table = ProcessTable(Path("/proc"))
        self._stopped: dict[tuple[int, int], int] = {}  #: pid and start -> pidfd, in the order of stopping

    def service_pids(self) -> set[int]:
        """Return the pids of the service that are alive."""
        return {one.pid for one, _ in self._family()}

    def stop_all(self, deadline: float) -> None:
        """Stop all processes, and wait until they have stopped.

        Raises:
            MeasurementError: some have not stopped by *deadline*.
        """
        while running := self._stop_running():
            _raise_if_late(deadline, running)
            time.sleep(_LOOK_EVERY_S)

    def continue_all(self) -> None:
        """Continue children first, so that a master that checks its workers finds them running."""
        while self._stopped:
            _, descriptor = self._stopped.popitem()
            with suppress(OSError):  # it has ended meanwhile
                signal.pidfd_send_signal(descriptor, signal.SIGCONT)
            os.close(descriptor)

    def _stop_running(self) -> set[int]:
        """Send SIGSTOP to running processes; return their pids, which may still run at that moment."""
        running = set()
        for one, parent in self._family():
            if one.state not in _STOPPED:
                running.add(one.pid)
                if not self._is_awaited(one, parent):
                    self._stop(one)
        return running

    def _is_awaited(self, one: ProcessStat, parent: ProcessStat | None) -> bool:
        """Return whether *parent* waits in the kernel until *one* executes another program (vfork).

        If *one* were stopped now, its parent would be in uninterruptible sleep until it continues, and count
        as load.
        """
        if parent is None or not one.is_copy:
            return False
        if parent.n_threads == 1:
            return parent.state == "D"
        threads = self._table.thread_ids(parent.pid)
        return any(self._table.thread_state(parent.pid, thread) == "D" for thread in threads)

    def _stop(self, one: ProcessStat) -> None:
        key = one.pid, one.started_ticks
        with suppress(OSError):  # it has ended, or belongs to another user
            if key not in self._stopped:
                descriptor = os.pidfd_open(one.pid)
                again = self._table.stat(one.pid)
                if again is None or again.started_ticks != one.started_ticks:
                    os.close(descriptor)
                    return
                self._stopped[key] = descriptor
            signal.pidfd_send_signal(self._stopped[key], signal.SIGSTOP)

    def _family(self) -> list[tuple[ProcessStat, ProcessStat | None]]:
        """Return each living process with its parent, if that is in the service, parents before children."""
        self._table = ProcessTable(Path("/proc"))  # a new one, because a table may cache children
        found: list[tuple[ProcessStat, ProcessStat | None]] = []
        roots = self._guardian_pid, self._supervisord_pid
        todo: deque[tuple[int, ProcessStat | None]] = deque(
            (pid, None) for root in roots for pid in self._table.children(root)
        )
        while todo:
            pid, parent = todo.popleft()
            one = self._table.stat(pid)
            if pid == self._supervisord_pid or one is None:
                continue
            if one.state not in _GONE or one.n_threads > 1:  # else only its first thread has ended
                found.append((one, parent))
                todo += ((child, one) for child in self._table.children(pid, one.n_threads))
        return found


def _move(pids: set[int], cgroup: str) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):  # it has ended meanwhile
            launch_cgroup.join(cgroup, pid)


def _raise_if_late(deadline: float, pids: set[int]) -> None:
    if time.monotonic() > deadline:
        raise _late(pids)


def _late(pids: set[int]) -> MeasurementError:
    some = ", ".join(map(str, sorted(pids)[:5]))
    return MeasurementError(f"cannot freeze the service within {_WITHIN_S:g} s: pids {some}")
