"""The lock that allows one tuner per host: two studies at once would disturb each other.

The lock is flock(2) on a file that every user of the host can open. The guardian keeps the same file open, so
the host stays locked until the guardian of a killed tuner has cleaned up.
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

_CLEANING_PATIENCE_S = 15.0  #: a guardian takes 10 s at most after its tuner was killed
_RETRY_S = 0.1
Taken = Callable[[str, Path], ConfigError]


def in_use(holder: str, path: Path) -> ConfigError:
    """Return the error for a host that another tuner uses."""
    return ConfigError(
        f"this host is in use by another tuner: {holder}",
        hint=f"Wait for it or stop it: two studies would disturb each other ({path}).",
    )


def in_fleet(holder: str, path: Path) -> ConfigError:
    """Return the error for a host whose worker is in a fleet."""
    return ConfigError(
        f"this host is in a fleet already: {holder}",
        hint=f"Stop that one first: a host serves one study at a time ({path}).",
    )


@contextmanager
def hold_host(
    study: str, path: Path | None = None, *, taken: Taken = in_use, waits_s: float = 0.0
) -> Iterator[int]:
    """Lock the host for *study* inside the ``with`` block; yield the descriptor for the guardian to keep.

    It waits for a guardian that is still cleaning up, and for other holders up to *waits_s* seconds.

    Args:
        path: The lock file; None: TUNER_LOCK, else /run/lock/tuner-box.lock, else /tmp/tuner-box.lock.
        taken: Makes the error for a locked host, from the description of its holder.

    Raises:
        ConfigError: another process has locked the host, or the file cannot be used as a lock.
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
    """Return the default lock file of this host, the same for all its users."""
    if named := os.environ.get("TUNER_LOCK"):
        return Path(named)
    shared = Path("/run/lock")
    # only if every user can write there: else root and other users would lock different files
    everybody = shared.is_dir() and shared.stat().st_mode & stat.S_IWOTH
    return (shared if everybody else Path("/tmp")) / "tuner-box.lock"


def holder_of(path: Path, *, proc: Path = Path("/proc")) -> str:
    """Describe the holder of the lock at *path*; empty if it is free. Take no lock and make no file.

    It is read from the kernel's table of locks, which names a file by its device and inode.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:  # it does not exist, or is not readable: then a study reports the error
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
                # btrfs and overlays have another device there: then use the pid in the file
                is_told = "pid" in holder and _lives(holder["pid"])
                if inode == str(status.st_ino) and (locked == device or is_told):
                    return _describe(holder)
        return ""
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    """Open or create the lock file, never through a link, and without changing its content.

    O_CREAT is used only if the file does not exist: fs.protected_regular refuses it for files of other users
    in sticky folders. A file that another user made unwritable can still be locked.
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
        return os.open(path, os.O_RDWR | safely)  # another process has just made it
    os.fchmod(descriptor, 0o666)  # independent of the umask
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
    with suppress(OSError):  # not writable, or no space: the lock works without it
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(words).encode(), 0)


def _read_holder(descriptor: int) -> dict[str, object]:
    """Return the facts that the holder wrote into the file; empty if there are none yet, or invalid ones."""
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
        with suppress(ValueError, OverflowError, OSError):  # any user may have written it
            when = datetime.fromtimestamp(since).strftime("%Y-%m-%d %H:%M:%S")
    text = f"pid {holder['pid']} of user {holder.get('user')}, study {holder.get('study')}, since {when}"
    return replace_unprintable(text, "?")


def _lives(pid: object) -> bool:
    """Return whether the holder is alive; without a pid it is assumed to be.

    A pidfd works for processes of all users; /proc may hide those of other users (hidepid).
    """
    if not isinstance(pid, int) or pid < 1:
        return True
    try:
        descriptor = os.pidfd_open(pid)
    except (ProcessLookupError, OverflowError):  # no process has this pid, or it is no valid pid
        return False
    except OSError:  # unknown on this system
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
