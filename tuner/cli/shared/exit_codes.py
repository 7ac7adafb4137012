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
        "Read the warnings (see messages.md for their meaning).",
    ),
    ExitCode(
        EXIT_STALE,
        "an outdated result: a runbook differs from its study, or another layout is now better",
        "Write the runbook again (`tuner export`), or measure the service again (`tuner grid`).",
    ),
    ExitCode(
        EXIT_WEAKER,
        "a weaker result than required. The budget ended before the answer was known, a layout was "
        "never measured successfully, or every layout exceeds a limit. `tuner check` also ends with 5 "
        "if its result is not clear, and `tuner lab` if a run failed",
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
