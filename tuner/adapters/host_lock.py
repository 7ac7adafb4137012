"""The lock that allows one tuner per host: two studies at once would disturb each other.

The lock is flock(2) on a file that every user of the box can open. The guardian holds the same open file, so
the box stays taken until a tuner that was killed has been cleaned up after.
"""

from __future__ import annotations

import fcntl
import json
import os
import pwd
import select
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from tuner.core.errors import ConfigError
from tuner.core.text.safe_text import replace_unprintable

_CLEANING_PATIENCE_S = 15.0  #: a guardian needs 10 s at most after its tuner was killed
_RETRY_S = 0.1
Taken = Callable[[str, Path], ConfigError]


def in_use(holder: str, path: Path) -> ConfigError:
    """What is said of a box that another tuner has."""
    return ConfigError(
        f"this host is in use by another tuner: {holder}",
        hint=f"Wait for it or stop it: two studies would disturb each other ({path}).",
    )


def in_fleet(holder: str, path: Path) -> ConfigError:
    """What is said of a box that has its worker in a fleet."""
    return ConfigError(
        f"this host is in a fleet already: {holder}",
        hint=f"Stop that one first: a host serves one study at a time ({path}).",
    )


@contextmanager
def box_held(
    study: str, path: Path | None = None, *, taken: Taken = in_use, waits_s: float = 0.0
) -> Iterator[int]:
    """Hold the box for *study* inside the ``with`` block; gives the descriptor for the guardian to hold, too.

    Waits for a guardian that is still cleaning up; for others as long as *waits_s*.

    Args:
        path: the lock file; None: TUNER_LOCK, else /run/lock/tuner-box.lock, else /tmp/tuner-box.lock.
        taken: what is said when somebody else has it, and who that is.

    Raises:
        ConfigError: somebody else has the box (and who that is), or the file cannot be used as a lock.
    """
    path = path or usual_path()
    descriptor = _open(path)
    try:
        _take(descriptor, path, taken, waits_s)
        _write_holder(descriptor, study)
        try:
            yield descriptor
        finally:
            with suppress(OSError):
                os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def usual_path() -> Path:
    """The lock of this box, the same for all its users."""
    if named := os.environ.get("TUNER_LOCK"):
        return Path(named)
    shared = Path("/run/lock")
    # only where every user can: else root and others would lock different files
    everybody = shared.is_dir() and shared.stat().st_mode & stat.S_IWOTH
    return (shared if everybody else Path("/tmp")) / "tuner-box.lock"


def holder_of(path: Path, *, proc: Path = Path("/proc")) -> str:
    """Who holds the lock at *path*, in words; empty: nobody. Takes no lock and makes no file.

    The kernel's table of locks tells, which names a file by its device and inode.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:  # nobody has made it yet, or it is not for us to read: then a study says so
        return ""
    try:
        status = os.fstat(descriptor)
        device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
        with suppress(OSError):
            for line in (proc / "locks").read_text(encoding="ascii", errors="replace").splitlines():
                words = line.split()  # 1: FLOCK ADVISORY WRITE PID MAJOR:MINOR:INODE 0 EOF; -> waits for it
                if words[1:2] != ["FLOCK"] or len(words) < 6:
                    continue
                locked, _, inode = words[5].rpartition(":")
                holder = _read_holder(descriptor)
                # btrfs and overlays call a file's device otherwise there: then the holder's word counts
                is_told = "pid" in holder and _lives(holder["pid"])
                if inode == str(status.st_ino) and (locked == device or is_told):
                    return _describe(holder)
        return ""
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    """Open the lock file, or make it; never through a link, and without touching what it says.

    O_CREAT only when it is not there: fs.protected_regular refuses it for other users' files in sticky
    folders. A file that another user made unwritable can still be locked.
    """
    safely = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        try:
            descriptor = os.open(path, os.O_RDWR | safely)
        except FileNotFoundError:
            descriptor = _make(path, safely)
        except PermissionError:
            descriptor = os.open(path, os.O_RDONLY | safely)
    except OSError as error:
        raise ConfigError(
            f"cannot open the lock of this host, {path}: {error.strerror}",
            hint="Remove it if nobody needs it, or set TUNER_LOCK to another file, the same for all users.",
        ) from error
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
        os.close(descriptor)
        raise ConfigError(
            f"the lock of this host, {path}, is not a plain file with one link", hint="Remove it."
        )
    return descriptor


def _make(path: Path, safely: int) -> int:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | safely, 0o666)
    except FileExistsError:
        return os.open(path, os.O_RDWR | safely)  # somebody made it this moment
    os.fchmod(descriptor, 0o666)  # whatever the umask
    return descriptor


def _take(descriptor: int, path: Path, taken: Taken, waits_s: float) -> None:
    began_s = time.monotonic()
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            holder = _read_holder(descriptor)
            patience_s = waits_s if _lives(holder.get("pid")) else max(waits_s, _CLEANING_PATIENCE_S)
            if time.monotonic() - began_s >= patience_s:
                raise taken(_describe(holder), path) from None
            time.sleep(_RETRY_S)
        except OSError as error:
            raise ConfigError(
                f"cannot lock {path}: {error.strerror}", hint="Set TUNER_LOCK to a local file."
            ) from error


def _write_holder(descriptor: int, study: str) -> None:
    words = {"pid": os.getpid(), "user": _user(), "study": study, "since_s": time.time()}
    with suppress(OSError):  # not ours to write, or no room: the lock holds all the same
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(words).encode(), 0)


def _read_holder(descriptor: int) -> dict[str, object]:
    """What the holder wrote of itself; empty while it has not yet, or when it is something else."""
    with suppress(OSError, ValueError):
        words = json.loads(os.pread(descriptor, 4096, 0))
        if isinstance(words, dict):
            return words
    return {}


def _describe(holder: dict[str, object]) -> str:
    if "pid" not in holder:
        return "it has not written its name"
    since, when = holder.get("since_s"), "?"
    if isinstance(since, float):
        with suppress(ValueError, OverflowError, OSError):  # anybody may have written it
            when = datetime.fromtimestamp(since).strftime("%Y-%m-%d %H:%M:%S")
    text = f"pid {holder['pid']} of user {holder.get('user')}, study {holder.get('study')}, since {when}"
    return replace_unprintable(text, "?")


def _lives(pid: object) -> bool:
    """Whether the holder itself lives; one that has not said its pid yet does.

    A pidfd tells of every user's process; /proc may hide those of others (hidepid).
    """
    if not isinstance(pid, int) or pid < 1:
        return True
    try:
        descriptor = os.pidfd_open(pid)
    except (ProcessLookupError, OverflowError):  # nobody has that pid, or nobody can
        return False
    except OSError:  # it cannot be told here
        return True
    try:
        ended = select.poll()
        ended.register(descriptor, select.POLLIN)
        return not ended.poll(0)  # a zombie has ended, too
    finally:
        os.close(descriptor)


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
