"""How a study ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Answer
from tuner.core.errors import MeasurementError, TunerError
from tuner.core.messages.host import hook_failed
from tuner.ports import Hooks, Warn

DONE, NOTHING_MEASURED, WEAKER_THAN_ASKED, BRAKED, INTERRUPTED = 0, 3, 5, 6, 130


@dataclass(frozen=True, slots=True)
class StudyOutcome:
    """What was reached of what was asked for, over all sessions of the study."""

    answer: Answer
    n_blocks_done: int  #: every cell of these was tried to its end
    n_windows: int  #: that count
    n_void: int
    n_launches_failed: int
    left_out: tuple[Layout, ...]  #: cannot be run
    void_cells: tuple[tuple[int, Layout], ...]  #: block and layout of what was tried and has a window missing
    out_of_budget: bool
    braked: str | None  #: what passed a limit of the user's, and so stopped the study in this session
    interrupted: bool
    is_over: bool  #: there is nothing more to measure; else it can be resumed

    @property
    def exit_code(self) -> int:
        """130 interrupted; 3 nothing was measured; 6 the brake stopped it; 5 less than asked for; 0 done."""
        if self.interrupted:
            return INTERRUPTED
        if self.n_windows == 0:
            return NOTHING_MEASURED
        if self.braked is not None:
            return BRAKED
        return WEAKER_THAN_ASKED if self.left_out or not self._is_complete else DONE

    @property
    def _is_complete(self) -> bool:
        """A strategy that claims something is done with its answer, another one with its windows."""
        if self.answer.kind == "none":
            return not (self.out_of_budget or self.void_cells)
        return self.answer.reached


# The user's hooks around what a study does, on one box or on several.


@contextmanager
def around_hooks(hooks: Hooks, warn: Warn, what: str, facts: Mapping[str, str]) -> Iterator[None]:
    """Run the hooks before and after *what*; the latter in any case, and their failure only warns."""
    hooks.run(f"before_{what}", facts)
    try:
        yield
    finally:
        try:
            hooks.run(f"after_{what}", facts)
        except MeasurementError as error:
            warn(*hook_failed(error.problem))


@dataclass(slots=True)
class Ending:
    """How a study ends, for the hook after it."""

    exit_code: int = 1  #: that of a bug, until something else is known

    def at(self, outcome: StudyOutcome) -> StudyOutcome:
        """Note that the study ended with *outcome*, which is returned."""
        self.exit_code = outcome.exit_code
        return outcome


@contextmanager
def finishing(hooks: Hooks, facts: Mapping[str, str], n_windows: Callable[[], int]) -> Iterator[Ending]:
    """Run the hook ``finished`` at the end of a study, whatever ends it.

    Args:
        hooks: the user's.
        facts: for the hook, as they are at the end.
        n_windows: the number of valid windows by then.
    """
    ending = Ending()
    try:
        yield ending
    except TunerError as error:
        ending.exit_code = error.exit_code
        raise
    except KeyboardInterrupt:
        ending.exit_code = INTERRUPTED
        raise
    finally:
        hooks.run("finished", {**facts, "exit_code": str(ending.exit_code), "windows": str(n_windows())})
