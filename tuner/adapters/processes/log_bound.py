"""Keeps a log from filling the disk while somebody writes to it: what it began with is given back.

A hole is punched below the part that is kept. The writer goes on at its end and does not notice, nor does a
reader who is behind by less than that part. One who is further behind finds zeros in the hole: it has to go
on where data begins (SEEK_DATA), and has lost what was in between. The end of the log is there to be told.
"""

from __future__ import annotations

import ctypes
import errno
import os
from contextlib import suppress
from pathlib import Path

KEPT_BYTES = 16 << 20  #: the end of a log that is longer
_PUNCH_HOLE_KEEP_SIZE = 0x02 | 0x01
_BLOCK_BYTES = 4096
_STAT_BLOCK_BYTES = 512


def truncate_log(log: Path, kept_bytes: int = KEPT_BYTES) -> bool:
    """Give back all but the last *kept_bytes* of *log* once it takes twice as much; whether that was done.

    On a file system without holes (NFS before 4.2) it is cut to nothing: its writer must append.
    """
    with suppress(OSError):  # not there yet, or gone
        if not _is_long(os.stat(log), kept_bytes):
            return False
        descriptor = os.open(log, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            return truncate_open_log(descriptor, kept_bytes)
        finally:
            os.close(descriptor)
    return False


def truncate_open_log(descriptor: int, kept_bytes: int = KEPT_BYTES) -> bool:
    """As ``bound``, of a file that is open for writing."""
    with suppress(OSError):  # tried again at the next look
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
    # 32-bit glibc's fallocate takes 32 bits; musl (Alpine) may have that name alone, and takes 64
    fallocate = getattr(libc, "fallocate64", None) or getattr(libc, "fallocate", None)
    if fallocate is not None:
        if fallocate(*arguments) == 0:
            return
        if ctypes.get_errno() not in (errno.EOPNOTSUPP, errno.ENOSYS):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    os.ftruncate(descriptor, 0)
