"""The user's hooks around what a study does, on one box or on several."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from tuner.core.errors import MeasurementError, TunerError
from tuner.core.messages.host import hook_failed
from tuner.ports import Hooks, Warn
from tuner.study.launch.outcome import INTERRUPTED, StudyOutcome


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
