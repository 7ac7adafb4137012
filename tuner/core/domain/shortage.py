"""What the box ran out of, when that ends something: processes, open files, memory, room on a disk."""

from __future__ import annotations

import errno

_LACKING = {
    errno.EAGAIN: ("no further process can be started", "Raise `ulimit -u`, or end some of this user's."),
    errno.EMFILE: ("too many open files", "Raise `ulimit -n` (LimitNOFILE= in a systemd unit)."),
    errno.ENFILE: ("too many open files on the whole host", "Find processes with many: lsof, fs.file-nr."),
    errno.ENOMEM: ("out of memory", "Free some memory, or use a larger host."),
    errno.ENOSPC: ("no space left on the device", "Make room there."),
    errno.EDQUOT: ("this user's quota of the disk is used up", "Make room there."),
    errno.EROFS: ("the file system is read-only", "Read the kernel's log; a disk may have failed."),
}  # fmt: skip


def shortage(error: BaseException) -> tuple[str, str] | None:
    """What lacked when *error* came, and what to do about it; None: nothing that is known, so it is a bug.

    The file is told where the error has it. A thread is a process to the kernel.
    """
    if isinstance(error, MemoryError):
        return _LACKING[errno.ENOMEM]
    if isinstance(error, RuntimeError) and str(error) == "can't start new thread":
        return "no further thread can be started", _LACKING[errno.EAGAIN][1]
    if not isinstance(error, OSError) or error.errno not in _LACKING:
        return None
    if isinstance(error, BlockingIOError) and hasattr(error, "characters_written"):
        return None  # of a pipe that takes no more, not of a process
    what, hint = _LACKING[error.errno]
    return (what if error.filename is None else f"{what}: {error.filename}"), hint
