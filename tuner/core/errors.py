"""Errors for users: a problem, and how to solve it."""

from __future__ import annotations

import errno


class TunerError(Exception):
    """One thing that stops a command, told in one line, with a hint what to type next.

    Only ``tuner.cli.main`` prints it. ``exit_code`` is the process's exit code.
    """

    exit_code = 2

    def __init__(self, problem: str, *, hint: str | None = None) -> None:
        super().__init__(problem)
        self.problem = problem  #: what is wrong, with the value that is
        self.hint = hint  #: what to do about it, or None when the problem says it


class ConfigError(TunerError):
    """Input or environment that tuner cannot work with (exit code 2)."""


class MissingToolError(ConfigError):
    """A program or package that is needed, and is not installed here (exit code 2)."""


class MeasurementError(TunerError):
    """A launch or window that could not be measured; the study goes on without it (3 when none could)."""

    exit_code = 3


class SourceAway(MeasurementError):
    """What supplies the service is gone for now (a broker that is restarted): no fault of the layout."""


class StaleReport(TunerError):
    """A runbook or a choice that no longer matches the study (exit code 4)."""

    exit_code = 4


# What the box ran out of, when that ends something: processes, open files, memory, room on a disk.


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
