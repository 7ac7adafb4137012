"""tuner's side of the guardian process: starts it, sends requests, and detects its end.

If a guardian is killed, supervisord also ends (PR_SET_PDEATHSIG). The launch then reports it, tuner itself
ends the remaining processes, found by their marker, and the next launch starts another guardian.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tuner
from tuner.adapters.proc import launch_cgroup
from tuner.adapters.supervisord.config import shim_command
from tuner.adapters.supervisord.guardian_process import GRACE_S, remove_tree
from tuner.adapters.supervisord.sweep import STUDY_ID, Swept, started_ticks, sweep
from tuner.core.errors import ConfigError, MeasurementError

_ANSWER_TIMEOUT_S = 60.0  #: a sweep takes at most 9 s; the rest is for a host that swaps
_WORDS_BYTES = 4096  #: last part of stderr that is read
_CLOSE_TIMEOUT_S = 60.0
_BOOT = (
    "import sys; sys.path.append(sys.argv.pop(1));"
    " from tuner.adapters.supervisord.guardian_process import main; main()"
)


@contextlib.contextmanager
def children_marked(marker: str) -> Iterator[None]:
    """Mark processes started in the block (feeders, hooks), so that the guardian ends them if tuner dies."""
    before = os.environ.get(STUDY_ID)
    os.environ[STUDY_ID] = marker
    try:
        yield
    finally:
        if before is None:
            del os.environ[STUDY_ID]
        else:
            os.environ[STUDY_ID] = before


class Guardian:
    """One guardian process. Each launch is announced to it before it has files or processes."""

    def __init__(
        self,
        marker: str,
        held: Sequence[int] = (),
        scratch: Sequence[Path] = (),
        cgroups: Path | None = None,
        freezers: Path | None = None,
    ) -> None:
        """Start the process.

        Args:
            held: Descriptors that it keeps open during its life (the host lock).

            scratch: Folders that it removes if tuner ends without ``close()``.
            cgroups: Parent of a separate cgroup for each launch; None: no cgroups.
            freezers: Parent of a cgroup of version 1 for each launch to be frozen; None: none.

        Raises:
            MeasurementError: it ended at once, or does not answer.
        """
        self._marker = marker
        self._folder: Path | None = None
        self._cgroups = None if cgroups is None else str(cgroups)
        self._freezers = None if freezers is None else str(freezers)
        self._cgroup: str | None = None  #: cgroup of the present launch
        self._freezer: str | None = None  #: the same in version 1
        self.hindered: str | None = (
            None  #: reason why the last launch lacks its own cgroup; None: it has one or needs none
        )
        self._n_asked = 0
        self._heard = b""
        self._words = open(os.memfd_create("guardian"), "w+b", buffering=0)  # noqa: SIM115 - closed in close()
        self._control, theirs = socket.socketpair()
        self._control.settimeout(_ANSWER_TIMEOUT_S)
        argv = [sys.executable, "-I", "-S", "-c", _BOOT, str(Path(tuner.__file__).parent.parent), marker]
        with theirs:
            self._process = subprocess.Popen(
                [*argv, str(theirs.fileno()), str(os.getpid()), *map(str, held)],
                pass_fds=(theirs.fileno(), *held),
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._words,
            )
        self.pid = self._process.pid
        folders = [str(folder.absolute()) for folder in scratch]
        try:
            groups = {"cgroups": self._cgroups, "freezers": self._freezers}
            self._ask({"do": "inherit", "folders": folders, **groups})
        except BaseException:
            self.close()
            raise

    def alive(self) -> bool:
        """Return whether the process runs."""
        return self._process.poll() is None

    @property
    def cgroup(self) -> str | None:
        """The cgroup of the current launch, or None."""
        return self._cgroup

    def freezer(self) -> str | None:
        """Return the freezer cgroup of version 1 of the current launch, made at the first call.

        Returns:
            Its folder, without processes at first; None if it cannot be made.
        """
        if self._freezer is None and self._freezers is not None:
            with contextlib.suppress(MeasurementError):
                self._freezer = self._ask({"do": "freezer", "freezers": self._freezers})["freezer"]
        return self._freezer

    def expect(self, folder: Path, stop_signal: int) -> Swept:
        """Announce a launch that will use *folder* (not yet made); end the rest of earlier launches."""
        self._folder, self._freezer = folder, None
        request = {"do": "expect", "folder": str(folder), "stop_signal": stop_signal, "grace_s": GRACE_S}
        return _swept(self._ask(request))

    def start(self, job: Path) -> int:
        """Start the program of *job* as a child of the guardian; return its pid."""
        argv = shim_command(str(job))
        request = {"do": "start", "argv": argv, "environment": dict(os.environ), "cgroups": self._cgroups}
        answer = self._ask(request)
        self._cgroup, self.hindered = answer["cgroup"], answer["hindered"]
        return int(answer["pid"])

    def end(self, *, grace_s: float = GRACE_S) -> Swept:
        """End the rest of the launch and remove its folder; done in this process if the guardian is dead."""
        with contextlib.suppress(MeasurementError):
            return _swept(self._ask({"do": "end", "grace_s": grace_s}))
        began = started_ticks(os.getpid())
        cgroups = [one for one in (self._cgroup, self._freezer) if one is not None]
        swept = sweep(self._marker, None, since=began, cgroups=cgroups, grace_s=grace_s)
        for cgroup in cgroups:
            launch_cgroup.remove(cgroup)
        if self._folder is not None:
            remove_tree(str(self._folder))
        return swept

    def last_words(self) -> str:
        """Return the last line on stderr of the guardian, or of supervisord before it had a log; or ""."""
        # not at the offset of the descriptor, which is the position for writing
        words = os.pread(self._words.fileno(), _WORDS_BYTES, max(0, self._n_words() - _WORDS_BYTES))
        lines = words.decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else ""

    def close(self) -> None:
        """End it after it has cleaned up; scratch folders and processes left by hooks stay."""
        with contextlib.suppress(MeasurementError):
            self._ask({"do": "release"})
        self._control.close()
        try:
            self._process.wait(_CLOSE_TIMEOUT_S)
        except subprocess.TimeoutExpired:  # stuck in the kernel, or stopped: it would keep the host locked
            self._process.kill()
            self._process.wait()
        self._words.close()

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        self._n_asked += 1
        answer: dict[str, Any] = {}
        try:
            self._control.sendall(json.dumps({**request, "n": self._n_asked}).encode() + b"\n")
            while answer.get("n") != self._n_asked:  # skip the reply to an interrupted earlier request
                answer = json.loads(self._hear())
        except TimeoutError as error:
            raise MeasurementError(f"the guardian process {self.pid} does not answer") from error
        except OSError as error:
            said = f": {words}" if (words := self.last_words()) else ""
            raise MeasurementError(f"the guardian process {self.pid} is gone{said}") from error
        if "error" in answer:
            raise MeasurementError(f"the guardian process cannot {request['do']} a launch: {answer['error']}")
        return answer

    def _hear(self) -> bytes:
        while b"\n" not in self._heard:
            part = self._control.recv(1 << 16)
            if not part:
                raise ConnectionResetError
            self._heard += part
        line, _, self._heard = self._heard.partition(b"\n")
        return line

    def _n_words(self) -> int:
        return os.fstat(self._words.fileno()).st_size


def _swept(answer: dict[str, Any]) -> Swept:
    return Swept(tuple(answer["met"]), tuple(answer["killed"]), tuple(answer["left"]))


# Temporary folders: a private one of a launch with a short path, and scratch folders of a study.


#: a unix socket's path has at most 107 bytes, and supervisord first binds "SOCKET.PID" (up to 7 digits)
_LONGEST_SOCKET = 107 - 8


def new_run_folder(root: Path | None, socket_name: str) -> Path:
    """Return a new path for a launch's folder: below *root*, else TMPDIR, else a folder with a short path.

    Raises:
        ConfigError: no folder is writable, or *root* is too long or not writable.
    """
    name = f"tuner-{secrets.token_hex(4)}"
    refused = []
    for parent in [root] if root is not None else _usual_parents():
        folder = Path(os.path.abspath(parent)) / name
        if len(os.fsencode(folder / socket_name)) > _LONGEST_SOCKET:
            refused.append(f"{parent} has too long a path for a unix socket")
        elif not os.access(folder.parent, os.W_OK | os.X_OK):
            refused.append(f"{parent} cannot be written")
        else:
            return folder
    raise ConfigError(
        f"no folder can hold the files of a launch: {'; '.join(refused)}",
        hint="Set TMPDIR to a writable folder with a path of at most 80 characters.",
    )


def new_scratch_path(root: Path) -> Path:
    """Return a new path below *root*, not made yet, so that it can be announced to the guardian first."""
    return root / f"tuner-{secrets.token_hex(4)}"


@contextmanager
def scratch_folder(folder: Path, mode: int, owner: tuple[int, int] | None = None) -> Iterator[None]:
    """Make *folder* for the ``with`` block; *owner* is a user and group id, or None for tuner's.

    Raises:
        ConfigError: *folder* cannot be made.
    """
    try:
        folder.mkdir(0o700)
    except OSError as error:
        raise ConfigError(
            f"cannot make the folder {folder}: {error.strerror}",
            hint="Make room there, or set TMPDIR to another folder.",
        ) from error
    try:
        folder.chmod(mode)  # independent of the umask
        if owner is not None:
            os.chown(folder, *owner)
        yield
    finally:
        remove_tree(str(folder))


def _usual_parents() -> Iterator[Path]:
    yield Path(tempfile.gettempdir())
    yield from map(Path, ("/tmp", "/var/tmp"))
    if "XDG_RUNTIME_DIR" in os.environ:  # last, because it is in memory, and logs may be long
        yield Path(os.environ["XDG_RUNTIME_DIR"])
