"""A source that is gone for a while, as a broker that is restarted: waited for, and no fault of a layout."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tuner.core.domain.records import LaunchRecord
from tuner.core.errors import MeasurementError, SourceAway
from tuner.core.messages.catalogue import Message
from tuner.core.messages.study import source_away, source_is_back, source_lost_often, source_stays_away
from tuner.core.settings.safety_limits import parse_brake_error
from tuner.ports import Clock, Feeder

AWAY = "source-away"  #: a launch whose error begins so lost its source: it says nothing of its layout
LONGEST_WAIT_S = 600.0  #: then the study stops, to be resumed
MOST_LOST = 5  #: launches in a row: who goes away that often is driven away by the study
_FIRST_PAUSE_S = 1.0
_GROWS_BY = 1.5
_LONGEST_PAUSE_S = 15.0
_TOLD_EVERY_S = 30.0


def lost_source_reason(launch: LaunchRecord) -> str | None:
    """How *launch* lost its source; None: it did not."""
    return parse_brake_error(launch.error, AWAY)


def error_text(error: MeasurementError) -> str:
    """What the record of a launch says of *error*."""
    return f"{AWAY}: {error.problem}" if isinstance(error, SourceAway) else error.problem


@dataclass(slots=True)
class SourceWatch:
    """Between launches: waits for a source that was lost, and says when to give it up."""

    clock: Clock
    feeder: Feeder
    warn: Callable[[str, str], None]
    stop_requested: Callable[[], bool]
    n_lost: int = 0  #: launches in a row
    gave_up: bool = False  #: the study is to stop

    def after(self, launch: LaunchRecord) -> None:
        """Take note of how *launch* ended; returns once its source is there, is given up, or at a stop."""
        if lost_source_reason(launch) is None:
            self.n_lost = 0
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
