"""The end of a log file, even if the file is huge, binary or still being written."""

from __future__ import annotations

import ctypes
import errno
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tuner.core.text.safe_text import redact, secrets_of, without

# Limits the disk space of a log that is still being written, by freeing its beginning.
#
# A hole is punched before the part that is kept. The writer continues at the end and is not affected, nor is
# a reader that is behind by less than this part. A reader that is further behind reads zeros in the hole: it
# has to continue where data begins (SEEK_DATA), and has lost the lines between. The end stays readable.

KEPT_BYTES = 16 << 20  #: size of the end of a log that is kept
_PUNCH_HOLE_KEEP_SIZE = 0x02 | 0x01
_BLOCK_BYTES = 4096
_STAT_BLOCK_BYTES = 512


def truncate_log(log: Path, kept_bytes: int = KEPT_BYTES) -> bool:
    """Free all but the last *kept_bytes* of *log* if it uses twice as much; return whether that was done.

    On a file system without holes (NFS before 4.2) it is truncated to 0 bytes, so its writer must append.
    """
    with suppress(OSError):  # it does not exist yet, or any more
        if not _is_long(os.stat(log), kept_bytes):
            return False
        descriptor = os.open(log, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            return truncate_open_log(descriptor, kept_bytes)
        finally:
            os.close(descriptor)
    return False


def truncate_open_log(descriptor: int, kept_bytes: int = KEPT_BYTES) -> bool:
    """Do the same as `truncate_log` for a file that is open for writing."""
    with suppress(OSError):  # tried again at the next call
        found = os.fstat(descriptor)
        if _is_long(found, kept_bytes):
            _give_back(descriptor, (found.st_size - kept_bytes) // _BLOCK_BYTES * _BLOCK_BYTES)
            return True
    return False


def _is_long(found: os.stat_result, kept_bytes: int) -> bool:
    return found.st_blocks * _STAT_BLOCK_BYTES > 2 * kept_bytes


def _give_back(descriptor: int, n_bytes: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    arguments = (descriptor, _PUNCH_HOLE_KEEP_SIZE, ctypes.c_int64(0), ctypes.c_int64(n_bytes))
    # fallocate of 32-bit glibc has 32-bit offsets; musl (Alpine) may have only this name, with 64 bits
    fallocate = getattr(libc, "fallocate64", None) or getattr(libc, "fallocate", None)
    if fallocate is not None:
        if fallocate(*arguments) == 0:
            return
        if ctypes.get_errno() not in (errno.EOPNOTSUPP, errno.ENOSYS):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    os.ftruncate(descriptor, 0)


_BEGINNING_BYTES = 1 << 20
_READ_BYTES = 1 << 16
_LONGEST_LINE_BYTES = 1 << 20
_LOOKED_AT_CHARACTERS = 4096  #: part of each line that is searched for secrets; far more than is printed
_LINE_CHARACTERS = 200
_TRACEBACK = "Traceback (most recent call last):"
#: the last line of a traceback; a line of a logger begins with a level
_EXCEPTION = re.compile(r"(?!(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\b)[A-Za-z_][\w.]*(?:: .*)?$", re.DOTALL)
#: exceptions by which programs stop others or themselves, which are not the cause of a failure
_ENDINGS = re.compile(r"(?:[\w.]+\.)?(?:SystemExit|KeyboardInterrupt|CancelledError|HaltServer)\b")


def beginning_of(path: Path) -> str:
    """Return the first MB of a log, or an empty text. Search it, but never print it: it may have secrets."""
    try:
        with path.open("rb") as file:
            return file.read(_BEGINNING_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def last_lines(
    path: Path, n_lines: int = 5, *, environment: Mapping[str, str] | None = None, command: Sequence[str] = ()
) -> list[str]:
    """Return the last *n_lines* that are not blank, printable and cut to 200 characters; empty without a log.

    The exception of the last traceback comes first if the program has logged its shutdown after it.
    The lines are printed and stored, so secrets are hidden: texts that look like one, and those of tuner's
    environment, of *command* and of *environment*, the program's additional variables.
    """
    try:
        text = _end_of(path)
    except OSError:
        return []
    # before splitting lines: a secret may have several lines, or unprintable characters
    text = without(text, secrets_of({**os.environ, **(environment or {})}, command))
    lines = (line.strip("\0")[:_LOOKED_AT_CHARACTERS] for line in text.split("\n"))
    said = [line for line in map(_printable, lines) if line]
    last, at = said[-n_lines:], _exception(said)
    if at is not None and at < len(said) - 1:
        last = said[at:] if at >= len(said) - n_lines else [said[at], "...", said[-1]]
    return [str(redact(line.strip()))[:_LINE_CHARACTERS] for line in last]


def _printable(line: str) -> str:
    return "".join(c if c.isprintable() else " " for c in line).rstrip()


def _exception(lines: Sequence[str]) -> int | None:
    """Return the index of the line that names the last exception; None: there is no traceback."""
    found, is_within = None, False
    for at, line in enumerate(lines):
        if line.startswith(_TRACEBACK):
            is_within = True
        elif is_within and _EXCEPTION.match(line):  # other processes may log in between
            is_within = False
            if not _ENDINGS.match(line):
                found = at
    return found


def _end_of(path: Path) -> str:
    """Return the last complete lines: a part of a secret in half a line would not be detected."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        n_bytes = _READ_BYTES
        while True:
            before = max(0, size - n_bytes)
            file.seek(before)
            text = file.read(size - before).decode("utf-8", "replace")
            if not before:
                return text
            whole = text.partition("\n")[2]
            if whole.strip():
                return whole
            if n_bytes >= _LONGEST_LINE_BYTES:
                return f"(a line of more than {_LONGEST_LINE_BYTES >> 20} MiB)"
            n_bytes *= 2
