"""The guardian: a small process that starts supervisord, and ends all processes of a launch if tuner dies.

It is the parent of supervisord and the subreaper of all its descendants, in a separate session. It ignores
Ctrl-C, TERM and HUP, and sleeps in poll() until an event:
- tuner sends a request (a JSON line on a socket, with one line as reply);
- supervisord ends without a request: the rest of the launch is ended, and its socket removed;
- tuner ends: the same, and the guardian ends, too. If tuner did not announce its end, it was killed: then
  its folders are removed, and the processes of its feeder and hooks are ended as well.

Standard library only, started with ``-I -S``: about 10 MB and no CPU while it waits.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import stat
import sys
from typing import Any

from tuner.adapters.proc import launch_cgroup
from tuner.adapters.supervisord.sweep import RUN_ID, STUDY_ID, Found, Swept, started_ticks, sweep

_PR_SET_CHILD_SUBREAPER = 36
_DEAF_TO = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE)
GRACE_S = 5.0  #: time between the first signal and SIGKILL
_EXEC_PATIENCE_S = 10.0  #: time for a child to execute supervisord; a slower one is checked by tuner
_PARENT = "TUNER_PARENT_PID"  #: variable by which the shim checks its parent


class GuardianProcess:
    """One tuner's guardian: at most one launch at a time."""

    def __init__(self, marker: str, control: socket.socket, tuner_pid: int) -> None:
        self._marker = marker
        self._tuner_pid = tuner_pid
        self._since = started_ticks(tuner_pid)  #: start of tuner; older processes cannot have its marker
        self._control = control
        self._heard = b""
        self._folder: str | None = None
        self._cgroup: str | None = None  #: cgroup of the launch, once it exists
        self._freezer: str | None = None  #: the same in version 1, if the launch is to be frozen
        self._scratch: list[str] = []  #: folders that tuner normally removes itself
        self._variables = [RUN_ID]  #: variables in which the marker is searched
        self._released = False  #: whether tuner has ended normally
        self._supervisord: int | None = None  #: pid of supervisord while it runs
        self._stop_signal: int = signal.SIGTERM
        self._met: set[str] = set()  #: processes found by sweeps since the launch began, as "PID COMMAND"
        self._killed: set[str] = set()
        self._wake = _wake_descriptor()

    def serve(self) -> None:
        """Execute the requests of tuner until it has ended, then clean up."""
        tuner = os.pidfd_open(self._tuner_pid)
        if os.getppid() != self._tuner_pid:
            return  # tuner ended before pidfd_open; nothing has been started
        poll = select.poll()
        for descriptor in (tuner, self._control.fileno(), self._wake):
            poll.register(descriptor, select.POLLIN)
        gone = False
        while not gone:
            ready = {descriptor for descriptor, _ in poll.poll()}
            if self._wake in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake, 4096)
            had = self._supervisord
            self._reap()
            if had is not None and self._supervisord is None:
                self._sweep(grace_s=GRACE_S)
            if self._control.fileno() in ready:
                gone = not self._listen()
            gone = gone or tuner in ready
        if not self._released:
            self._variables.append(STUDY_ID)
        self._sweep(grace_s=GRACE_S)
        self._remove_cgroups()
        self._remove_folder()
        for folder in () if self._released else self._scratch:
            remove_tree(folder)

    def _listen(self) -> bool:
        """Execute and answer the requests of tuner; return False if it has closed its end."""
        with contextlib.suppress(ConnectionError):
            received = self._control.recv(1 << 16)
            self._heard += received
            while b"\n" in self._heard:
                line, _, self._heard = self._heard.partition(b"\n")
                request = json.loads(line)
                answer = {**self._answer(request), "n": request["n"]}
                self._control.sendall(json.dumps(answer).encode() + b"\n")
            return bool(received)
        return False

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            if request["do"] == "inherit":
                self._scratch = request["folders"]
                for parent in (request["cgroups"], request["freezers"]):
                    if parent is not None:
                        launch_cgroup.remove_orphans(parent, started_ticks)
                return {}
            if request["do"] == "freezer":
                if self._freezer is None:
                    self._freezer = self._make_cgroup(request["freezers"])
                return {"freezer": self._freezer}
            if request["do"] == "release":
                self._released = True
                return {}
            if request["do"] == "start":
                return self._start(request["argv"], request["environment"], request["cgroups"])
            swept = self._sweep(grace_s=request["grace_s"])
            data = {"met": sorted(self._met), "killed": sorted(self._killed), "left": swept.left}
            self._met, self._killed = set(), set()
            self._remove_cgroups()
            self._remove_folder()
            if request["do"] == "expect":
                self._folder, self._stop_signal = request["folder"], request["stop_signal"]
            return data
        except OSError as error:
            return {"error": str(error)}

    def _start(self, argv: list[str], environment: dict[str, str], cgroups: str | None) -> dict[str, Any]:
        """Start supervisord in a new cgroup below *cgroups*; return pid, cgroup, and why there is no cgroup.

        Raises:
            OSError: supervisord cannot be executed.
        """
        environment = {**environment, _PARENT: str(os.getpid())}
        waiting, going = os.pipe()
        failing, failed = os.pipe()
        pid = os.fork()  # posix_spawn would leave glibc's signals 32 and 33 ignored in every worker
        if pid == 0:
            try:
                os.close(going)
                os.read(waiting, 1)  # wait until it is in the cgroup, which only new children inherit
                os.execve(argv[0], argv, environment)
            except OSError as error:
                os.write(failed, f"cannot run {argv[0]}: {error.strerror}".encode())
            finally:
                os._exit(127)
        self._supervisord = pid
        os.close(waiting)
        os.close(failed)
        hindered = None
        try:
            if cgroups is not None:
                self._cgroup = self._make_cgroup(cgroups)
                launch_cgroup.join(self._cgroup, pid)
        except OSError as error:
            hindered = str(error)
            self._remove_cgroups()
        finally:
            os.close(going)
        if words := _last_words(failing):
            raise OSError(words)
        return {"pid": pid, "cgroup": self._cgroup, "hindered": hindered}

    def _make_cgroup(self, parent: str) -> str:
        return launch_cgroup.make_cgroup(parent, os.getpid(), started_ticks(os.getpid()))

    def _sweep(self, grace_s: float) -> Swept:
        swept = sweep(
            self._marker,
            os.getpid(),
            since=self._since,
            variables=self._variables,
            cgroups=[one for one in (self._cgroup, self._freezer) if one is not None],
            first_signal=self._first_signal,
            grace_s=grace_s,
            reap=self._reap,
        )
        self._met.update(swept.met)
        self._killed.update(swept.killed)
        if self._folder is not None:
            _unlink_sockets(self._folder)
        return swept

    def _first_signal(self, one: Found) -> int:
        """Return TERM for supervisord, which sends workers their stop signal; HUP would restart them."""
        return signal.SIGTERM if one.pid == self._supervisord else self._stop_signal

    def _reap(self) -> None:
        """Reap dead children; supervisord may be one of them."""
        with contextlib.suppress(ChildProcessError):
            while pid := os.waitpid(-1, os.WNOHANG)[0]:
                if pid == self._supervisord:
                    self._supervisord = None

    def _remove_cgroups(self) -> None:
        """Remove the cgroups of a finished launch; one that is not empty is left for the next guardian."""
        for folder in (self._cgroup, self._freezer):
            if folder is not None:
                launch_cgroup.remove(folder)
        self._cgroup = self._freezer = None

    def _remove_folder(self) -> None:
        if self._folder is not None:
            remove_tree(self._folder)
            self._folder = None


def main() -> None:
    """Run with ``MARKER CONTROL_FD TUNER_PID [FD ...]``; further descriptors (host lock) are kept open."""
    marker, control, tuner_pid = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    for number in _DEAF_TO:
        signal.signal(number, signal.SIG_IGN)
    for descriptor in (control, *map(int, sys.argv[4:])):
        os.set_inheritable(descriptor, False)
    os.chdir("/")
    if ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError("prctl(PR_SET_CHILD_SUBREAPER) failed")
    GuardianProcess(marker, socket.socket(fileno=control), tuner_pid).serve()


def _last_words(failing: int) -> str:
    """Return the error of a child that cannot be executed; empty if it is, because exec closes its end."""
    poll = select.poll()
    poll.register(failing, select.POLLIN)
    try:
        return os.read(failing, 4096).decode() if poll.poll(_EXEC_PATIENCE_S * 1000) else ""
    finally:
        os.close(failing)


def _wake_descriptor() -> int:
    """Return a descriptor that becomes readable when a child ends."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    return reading


def _unlink_sockets(folder: str) -> None:
    with contextlib.suppress(OSError):
        for entry in list(os.scandir(folder)):
            if stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode):
                os.unlink(entry.path)


def remove_tree(folder: str) -> None:
    """Remove *folder* without following links; entries that cannot be removed stay."""
    with contextlib.suppress(OSError):
        for entry in list(os.scandir(folder)):
            if entry.is_dir(follow_symlinks=False):
                remove_tree(entry.path)
            else:
                with contextlib.suppress(OSError):
                    os.unlink(entry.path)
        os.rmdir(folder)


if __name__ == "__main__":
    main()
