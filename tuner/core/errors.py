"""Errors for users (a problem, and how to solve it), and the exit codes of tuner."""

from __future__ import annotations

import errno
from dataclasses import dataclass

EXIT_DONE = 0
EXIT_BUG = 1  #: exit code of Python after a traceback
EXIT_INPUT = 2  #: invalid input or environment
EXIT_NOTHING = 3  #: nothing could be measured
EXIT_STALE = 4  #: a runbook or choice is stale
EXIT_WEAKER = 5  #: the answer is weaker than required
EXIT_BRAKED = 6  #: a safety limit stopped the study
EXIT_INTERRUPTED = 130
CUT_OFF = (EXIT_BRAKED, EXIT_INTERRUPTED)  #: codes of a study that stopped early; it can be resumed


class TunerError(Exception):
    """Error that stops a command: the problem in one line, and a hint with the next command to type.

    Only ``tuner.cli.main`` prints it. ``exit_code`` is the process's exit code.
    """

    exit_code = EXIT_INPUT

    def __init__(self, problem: str, *, hint: str | None = None) -> None:
        super().__init__(problem)
        self.problem = problem  #: description of the problem, with the wrong value
        self.hint = hint  #: instruction to solve the problem; None: the problem is enough


class ConfigError(TunerError):
    """Input or environment that tuner cannot work with (exit code 2)."""


class OptionsError(ConfigError):
    """Options that tuner cannot work with (exit code 2); the hint is the help of the command."""


class MissingToolError(ConfigError):
    """A required program or package is not installed on this host (exit code 2)."""


class MeasurementError(TunerError):
    """A launch or window could not be measured; the study continues (exit code 3 if none could)."""

    exit_code = EXIT_NOTHING


class SourceAway(MeasurementError):
    """The source of the service's work (such as a broker that restarts) is gone: not the layout's fault."""


class StaleReport(TunerError):
    """A runbook or a stored choice no longer matches the study (exit code 4)."""

    exit_code = EXIT_STALE


# Exhausted resources of the host: processes, open files, memory, disk space.


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
    """Return the exhausted resource that caused *error*, and a hint; None: another cause, so it is a bug.

    The resource includes the file name if the error has one. The kernel counts a thread as a process.
    """
    if isinstance(error, MemoryError):
        return _LACKING[errno.ENOMEM]
    if isinstance(error, RuntimeError) and str(error) == "can't start new thread":
        return "no further thread can be started", _LACKING[errno.EAGAIN][1]
    if not isinstance(error, OSError) or error.errno not in _LACKING:
        return None
    if isinstance(error, BlockingIOError) and hasattr(error, "characters_written"):
        return None  # a full non-blocking pipe, not a lack of processes
    what, hint = _LACKING[error.errno]
    return (what if error.filename is None else f"{what}: {error.filename}"), hint


# The table of exit codes; docs/reference/exit-codes.md is generated from it.


@dataclass(frozen=True, slots=True)
class ExitCode:
    """An exit code, as documented."""

    code: int
    meaning: str
    then: str  #: instruction to solve the problem


EXIT_CODES = (
    ExitCode(
        EXIT_DONE,
        "success. With `--strategy all`, a study requires no certainty, so `tuner grid` and "
        "`tuner export --snippet` also end with 0 if other layouts may be as good as the best one. "
        "`tuner rank` also ends with 0 if a race has no answer yet",
        "No action is needed.",
    ),
    ExitCode(
        EXIT_BUG,
        "a bug in tuner",
        "Report the bug with the traceback.",
    ),
    ExitCode(
        EXIT_INPUT,
        "invalid input or environment, for example an invalid option or config, or a full disk",
        "The first line of the error names the problem and the place, the second line the remedy.",
    ),
    ExitCode(
        EXIT_NOTHING,
        "no result, because no layout was measured successfully or no layout can be ranked",
        "Read the warnings that the command printed (see messages.md for their meaning).",
    ),
    ExitCode(
        EXIT_STALE,
        "an outdated result: a runbook (page for operators) differs from its study, or another layout is "
        "now better",
        "Write the runbook again (`tuner export`), or measure the service again (`tuner grid`).",
    ),
    ExitCode(
        EXIT_WEAKER,
        "a weaker result than required. The budget ended before the answer was known, a layout was "
        "never measured successfully, or every layout exceeds a limit. `tuner check` also ends with 5 "
        "if its result is not clear, `tuner export --snippet` if the study has no answer yet, and "
        "`tuner lab` if a run failed",
        "Continue the study with `--resume`, and `tuner lab` with `--results`. See first-study.md for "
        "other remedies.",
    ),
    ExitCode(
        EXIT_BRAKED,
        "a safety limit of the config stopped the study, which has some results",
        "Find the programs that use the host, then continue the study with `--resume` (see brake.md).",
    ),
    ExitCode(
        EXIT_INTERRUPTED,
        "interrupted by Ctrl-C or SIGTERM",
        "Continue the study with `--resume`, and `tuner lab` with `--results`.",
    ),
)
