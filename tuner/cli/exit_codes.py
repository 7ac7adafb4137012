"""What tuner's exit codes mean: this table is the one that docs/reference/exit-codes.md shows."""

from __future__ import annotations

from dataclasses import dataclass

EXIT_DONE = 0
EXIT_BUG = 1  #: Python's own, for a traceback
EXIT_INPUT = 2  #: input or environment
EXIT_NOTHING = 3  #: nothing could be measured
EXIT_STALE = 4  #: a runbook or choice is stale
EXIT_WEAKER = 5  #: an answer weaker than asked
EXIT_BRAKED = 6  #: the user's brake stopped the study
EXIT_INTERRUPTED = 130
CUT_OFF = (EXIT_BRAKED, EXIT_INTERRUPTED)  #: before it was done; it can be resumed


@dataclass(frozen=True, slots=True)
class ExitCode:
    """An exit code, for people."""

    code: int
    meaning: str
    then: str  #: what to do about it


EXIT_CODES = (
    ExitCode(EXIT_DONE, "done: what was asked for is there", "Go on."),
    ExitCode(EXIT_BUG, "a bug in tuner", "Tell us, with the traceback. What was measured by then is kept."),
    ExitCode(
        EXIT_INPUT,
        "the input or the environment: a word, a config, a file, or a disk that is full or cannot be written."
        " Of a study that had begun, what was finished is kept",
        "The first line says what and where, the second what to type next.",
    ),
    ExitCode(
        EXIT_NOTHING,
        "nothing could be measured: no layout gave a window that counts, or there is none to rank",
        "The warnings say why; see messages.md.",
    ),
    ExitCode(
        EXIT_STALE,
        "stale: a runbook does not show what its study says, or another layout is better by now",
        "Write the runbook again (`tuner export`); measure again (`tuner grid`).",
    ),
    ExitCode(
        EXIT_WEAKER,
        "weaker than asked: the budget ended before the answer was known, a layout has no valid window, no"
        " layout keeps the limits, a check cannot tell yet, or runs of the lab failed",
        "What is known is printed and kept. `--resume` goes on (in the lab `--results`); first-study.md says"
        " what helps.",
    ),
    ExitCode(
        EXIT_BRAKED,
        "the brake that the config sets stopped the study, which has windows",
        "See what uses the box; `--resume` goes on. See brake.md.",
    ),
    ExitCode(
        EXIT_INTERRUPTED,
        "interrupted, by Ctrl-C or SIGTERM",
        "What was measured is kept; `--resume` goes on (in the lab `--results`).",
    ),
)
