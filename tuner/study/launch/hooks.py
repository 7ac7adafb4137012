"""The user's hooks around what a study does, on one box or on several."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from tuner.core.errors import MeasurementError, TunerError
from tuner.core.messages.host import hook_failed
from tuner.ports import Hooks, Warn
from tuner.study.launch.outcome import INTERRUPTED, StudyOutcome


@contextmanager
def between(hooks: Hooks, warn: Warn, what: str, facts: Mapping[str, str]) -> Iterator[None]:
    """Run the hooks before and after *what*; the latter in any case, and their failure only warns."""
    hooks.run(f"before_{what}", facts)
    try:
        yield
    finally:
        try:
            hooks.run(f"after_{what}", facts)
        except MeasurementError as error:
            warn(*hook_failed(error.problem))


def led(
    hooks: Hooks,
    warn: Warn,
    facts: dict[str, str],
    measure: Callable[[], str | None],
    outcome: Callable[[], StudyOutcome],
    n_windows: Callable[[], int],
) -> StudyOutcome:
    """Measure between the hooks of a study; the last one is told how it ended, whatever ends it.

    Args:
        hooks: the user's.
        warn: told of a hook that failed after the study.
        facts: for the hooks.
        measure: gives what passed a limit of the user's, and so stopped it; None: nothing did.
        outcome: what was reached, asked for afterwards.
        n_windows: windows that count, by then.
    """
    exit_code = 1
    try:
        with between(hooks, warn, "study", facts):
            if (braked := measure()) is not None:
                facts["brake"] = braked  # for the hook after it too
        reached = outcome()
        exit_code = reached.exit_code
    except TunerError as error:
        exit_code = error.exit_code
        raise
    except KeyboardInterrupt:
        exit_code = INTERRUPTED
        raise
    finally:
        hooks.run("finished", {**facts, "exit_code": str(exit_code), "windows": str(n_windows())})
    return reached
