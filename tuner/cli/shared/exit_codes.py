"""The exit codes of tuner; docs/reference/exit-codes.md is generated from this table."""

from __future__ import annotations

from dataclasses import dataclass

EXIT_DONE = 0
EXIT_BUG = 1  #: Python's own, for a traceback
EXIT_INPUT = 2  #: input or environment
EXIT_NOTHING = 3  #: nothing could be measured
EXIT_STALE = 4  #: a runbook or choice is stale
EXIT_WEAKER = 5  #: an answer weaker than required
EXIT_BRAKED = 6  #: a safety limit stopped the study
EXIT_INTERRUPTED = 130
CUT_OFF = (EXIT_BRAKED, EXIT_INTERRUPTED)  #: before it was done; it can be resumed


@dataclass(frozen=True, slots=True)
class ExitCode:
    """An exit code, as documented."""

    code: int
    meaning: str
    then: str  #: what to do about it


EXIT_CODES = (
    ExitCode(EXIT_DONE, "success", "No action is needed."),
    ExitCode(
        EXIT_BUG,
        "a bug in tuner",
        "Report the bug with the traceback. tuner keeps the windows measured so far.",
    ),
    ExitCode(
        EXIT_INPUT,
        "invalid input or environment: an option, a config, a file, or a disk that is full or read-only."
        " tuner keeps the windows measured so far",
        "Read the error: the first line names the problem and the place, the second line the remedy.",
    ),
    ExitCode(
        EXIT_NOTHING,
        "no result, because no layout has a valid window or no layout can be ranked",
        "Read the warnings, which messages.md explains.",
    ),
    ExitCode(
        EXIT_STALE,
        "a stale result: a runbook differs from its study, or another layout is now better",
        "Write the runbook again (`tuner export`), or measure again (`tuner grid`).",
    ),
    ExitCode(
        EXIT_WEAKER,
        "a weaker result than required: the budget ended before the answer was known, a layout has no valid"
        " window, every layout exceeds a limit, a check is undecided, or runs of `tuner lab` failed",
        "tuner prints and keeps the result so far. Continue the study with `--resume` (`tuner lab`: with "
        "`--results`)."
        " first-study.md lists remedies.",
    ),
    ExitCode(
        EXIT_BRAKED,
        "a safety limit of the config stopped a study that has valid windows",
        "Find the programs that use the host, then continue the study with `--resume` (brake.md).",
    ),
    ExitCode(
        EXIT_INTERRUPTED,
        "interrupted by Ctrl-C or SIGTERM",
        "tuner keeps valid windows. Continue the study with `--resume` (`tuner lab`: with `--results`).",
    ),
)
