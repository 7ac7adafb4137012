"""Text files that people also edit: read exactly, replaced completely or not at all."""

from __future__ import annotations

import contextlib
import os
import shlex
import stat
import tempfile
from pathlib import Path

from tuner.core.errors import ConfigError

LARGEST_BYTES = 16 << 20  #: limit for a text file


def read_text(path: Path) -> str | None:
    """Return the text of *path* with unchanged line ends, or None if there is no such file.

    Raises:
        ConfigError: it is unreadable, not UTF-8, or not a file (opening a pipe would wait for its writer).
    """
    try:
        found = _stat_or_none(path)
        _check_plain(path, found)
        if found is not None and found.st_size > LARGEST_BYTES:
            raise ConfigError(
                f"{path}: is larger than {LARGEST_BYTES >> 20} MiB", hint="Name a page for people to read."
            )
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path}: byte {error.start + 1} is not UTF-8", hint="Save the file as UTF-8."
        ) from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error


def replace_text(path: Path, text: str) -> None:
    """Replace the content of *path* by *text*; keep its owner and mode, and a symbolic link.

    A reader gets the old or the new text, never a part; on an error the old text stays.

    Raises:
        ConfigError: the folder or disk cannot be written, or *path* is not a regular file.
    """
    target = path.resolve()  # replace the target of a link, not the link
    temporary: str | None = None
    try:
        before = _stat_or_none(target)
        _check_plain(path, before)
        if before is not None and not os.access(target, os.W_OK):
            raise PermissionError(13, "no permission to write it")
        descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, stat.S_IMODE(before.st_mode) if before else 0o666 & ~_umask())
        if before is not None and (before.st_uid, before.st_gid) != (os.geteuid(), os.getegid()):
            with contextlib.suppress(PermissionError):  # only root may change the owner; the mode is kept
                os.chown(temporary, before.st_uid, before.st_gid)
        os.replace(temporary, target)
        temporary = None
    except OSError as error:
        is_missing = not target.parent.exists()
        raise ConfigError(
            f"{path}: cannot be written: {error.strerror}" + ("" if is_missing else "; it is unchanged"),
            hint=f"Make its folder first: mkdir -p {shlex.quote(str(target.parent))}" if is_missing else None,
        ) from error
    finally:
        if temporary is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)


def _check_plain(path: Path, found: os.stat_result | None) -> None:
    """Reject pipes, sockets and devices; opening a folder fails later with its own error."""
    if found is None or stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode):
        return
    kinds = (
        (stat.S_ISFIFO, "a pipe"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a device"),
        (stat.S_ISBLK, "a device"),
    )
    what = next((name for is_one, name in kinds if is_one(found.st_mode)), "something else")
    raise ConfigError(f"{path}: is {what}, not a file; nothing was written", hint="Name a file.")


def _stat_or_none(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
