"""The end of a study: exit codes, failed hooks, and a source of items that stays away."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from tuner.core.domain.layout import Layout
from tuner.core.domain.records import LaunchRecord
from tuner.core.domain.safety_limits import parse_brake_error, was_stopped_by_brake
from tuner.core.domain.strategy import Answer
from tuner.core.errors import (
    EXIT_BRAKED,
    EXIT_BUG,
    EXIT_DONE,
    EXIT_INTERRUPTED,
    EXIT_NOTHING,
    EXIT_WEAKER,
    MeasurementError,
    SourceAway,
    TunerError,
)
from tuner.core.messages import Message
from tuner.core.messages.host import hook_failed
from tuner.core.messages.study import source_away, source_is_back, source_lost_often, source_stays_away
from tuner.ports import Clock, Feeder, Hooks, Warn


@dataclass(frozen=True, slots=True)
class StudyOutcome:
    """The results of a study over all sessions, compared with the request."""

    answer: Answer
    n_blocks_done: int  #: blocks whose cells were all tried to the end
    n_windows: int  #: valid windows
    n_void: int
    n_launches_failed: int
    left_out: tuple[Layout, ...]  #: layouts that cannot be run
    void_cells: tuple[tuple[int, Layout], ...]  #: block and layout of each tried cell that lacks a window
    out_of_budget: bool
    braked: str | None  #: safety limit that was passed and so stopped the study in this session
    interrupted: bool
    is_over: bool  #: whether nothing remains to be measured; otherwise the study can be resumed

    @property
    def exit_code(self) -> int:
        """130 interrupted; 3 nothing measured; 6 stopped by a safety limit; 5 less than requested; 0 done."""
        if self.interrupted:
            return EXIT_INTERRUPTED
        if self.n_windows == 0:
            return EXIT_NOTHING
        if self.braked is not None:
            return EXIT_BRAKED
        return EXIT_WEAKER if self.left_out or not self._is_complete else EXIT_DONE

    @property
    def _is_complete(self) -> bool:
        """Whether the study has its answer or, if the strategy makes no claim, all its windows."""
        if self.answer.kind == "none":
            return not (self.out_of_budget or self.void_cells)
        return self.answer.reached


# The user's hooks around a study, its launches and windows, on one host or on several.


@contextmanager
def around_hooks(hooks: Hooks, warn: Warn, what: str, facts: Mapping[str, str]) -> Iterator[None]:
    """Run the hooks before and after *what*; those after it always run, and their failure only warns."""
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
    """The exit code of a study, for the hook ``finished``."""

    exit_code: int = EXIT_BUG  #: exit code of a bug until the result is known

    def at(self, outcome: StudyOutcome) -> StudyOutcome:
        """Record the exit code of *outcome*, and return *outcome*."""
        self.exit_code = outcome.exit_code
        return outcome


@contextmanager
def finishing(hooks: Hooks, facts: Mapping[str, str], n_windows: Callable[[], int]) -> Iterator[Ending]:
    """Run the hook ``finished`` at the end of a study, also after an error.

    Args:
        hooks: the user's hooks.
        facts: the facts for the hook, as they are at the end.
        n_windows: returns the number of valid windows at the end.
    """
    ending = Ending()
    try:
        yield ending
    except TunerError as error:
        ending.exit_code = error.exit_code
        raise
    except KeyboardInterrupt:
        ending.exit_code = EXIT_INTERRUPTED
        raise
    finally:
        hooks.run("finished", {**facts, "exit_code": str(ending.exit_code), "windows": str(n_windows())})


# An unreachable source, such as a restarting broker: tuner waits for it and does not blame the layout.


#: prefix of the error of a launch that lost its source; such a launch does not count against its layout
AWAY = "source-away"
LONGEST_WAIT_S = 600.0  #: after this wait the study stops and can be resumed
MOST_LOST = 5  #: successive launches; a source lost that often is probably overloaded by the study
_FIRST_PAUSE_S = 1.0
_GROWS_BY = 1.5
_LONGEST_PAUSE_S = 15.0
_TOLD_EVERY_S = 30.0


def lost_source_reason(launch: LaunchRecord) -> str | None:
    """Return the reason why *launch* lost its source; None: it did not lose it."""
    return parse_brake_error(launch.error, AWAY)


def was_cut_off(launch: LaunchRecord) -> bool:
    """Return whether a safety limit or a lost source, and not the service, ended *launch*."""
    return was_stopped_by_brake(launch) or lost_source_reason(launch) is not None


def error_text(error: MeasurementError) -> str:
    """Return the text for *error* in the record of a launch."""
    return f"{AWAY}: {error.problem}" if isinstance(error, SourceAway) else error.problem


@dataclass(slots=True)
class SourceWatch:
    """A wait, between launches, for a lost source, with a limit after which the study stops."""

    clock: Clock
    feeder: Feeder
    warn: Callable[[str, str], None]
    stop_requested: Callable[[], bool]
    n_lost: int = 0  #: successive launches that lost the source
    gave_up: bool = False  #: whether the study must stop

    def after(self, launch: LaunchRecord) -> None:
        """Record the end of *launch*; return once its source is back or given up, or a stop is requested."""
        if lost_source_reason(launch) is None:
            self.n_lost = 0
        if lost_source_reason(launch) is None or self.gave_up:
            return
        self.n_lost += 1
        if self.n_lost >= MOST_LOST:
            self._give_up(source_lost_often(MOST_LOST))
            return
        began_s = self.clock.monotonic_s()
        told_s, pause_s = -_TOLD_EVERY_S, _FIRST_PAUSE_S
        while (why := self.feeder.away()) and not self.stop_requested():
            waited_s = self.clock.monotonic_s() - began_s
            if waited_s >= LONGEST_WAIT_S:
                self._give_up(source_stays_away(round(waited_s), why))
                return
            if waited_s - told_s >= _TOLD_EVERY_S:
                told_s = waited_s
                self.warn(*source_away(why, LONGEST_WAIT_S))
            self._sleep(min(pause_s, LONGEST_WAIT_S - waited_s))
            pause_s = min(pause_s * _GROWS_BY, _LONGEST_PAUSE_S)
        if not why:
            self.warn(*source_is_back(launch.layout))

    def _sleep(self, pause_s: float) -> None:
        ends_s = self.clock.monotonic_s() + pause_s
        while (now_s := self.clock.monotonic_s()) < ends_s and not self.stop_requested():
            self.clock.sleep_until(min(now_s + 1.0, ends_s))

    def _give_up(self, message: Message) -> None:
        self.gave_up = True
        self.warn(*message)
