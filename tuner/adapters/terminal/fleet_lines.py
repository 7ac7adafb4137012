"""How a study on several boxes goes, in lines; everything goes to stderr."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import IO

from tuner.adapters.terminal.progress import render_window
from tuner.core.domain.fleet import BoxFacts
from tuner.core.domain.layout import Layout
from tuner.core.domain.window import Sample, Window
from tuner.ports import Clock


def time_of_day() -> str:
    """What a line begins with, unless it is simulated."""
    return time.strftime("%H:%M:%S")


def simulated_time(clock: Clock) -> Callable[[], str]:
    """What a line begins with where *clock* is a simulation's: the time since it began."""
    began_s = clock.monotonic_s()

    def stamp() -> str:
        minutes, seconds = divmod(int(clock.monotonic_s() - began_s), 60)
        return f"simulated {minutes // 60}:{minutes % 60:02}:{seconds:02}"

    return stamp


class FleetLines:
    """A FleetProgress: one line for each window, each warning, and each box that comes or goes."""

    def __init__(
        self, output: IO[str], *, is_race: bool = False, stamp: Callable[[], str] = time_of_day
    ) -> None:
        """*stamp* gives what each line begins with."""
        self._output, self._is_race, self._stamp = output, is_race, stamp
        self._blocks: dict[str, int] = {}  #: by box

    def box_came(self, facts: BoxFacts) -> None:
        """A line."""
        host = facts.provenance.get("host", facts.name)
        where = "" if host == facts.name else f" on {host}"
        self._line(f"{facts.name}{where} is there, with {facts.cores:g} cores")

    def box_went(self, box: str, why: str) -> None:
        """A line."""
        self._line(f"Warning: {box} is gone: {why} [box-gone]")

    def launch_started(
        self,
        box: str,
        layout: Layout,  # noqa: ARG002
        block: int,
        remaining_s: float | None,  # noqa: ARG002
    ) -> None:
        """Remembered for the window's line."""
        self._blocks[box] = block

    def sampled(
        self,
        box: str,
        layout: Layout,
        elapsed_s: float,
        window_s: float | None,
        items_per_s: float | None,
        sample: Sample | None,
    ) -> None:
        """Not a line's worth."""

    def window_taken(
        self, box: str, window: Window, n_taken: int, n_planned: int | None, remaining_s: float | None
    ) -> None:
        """The window's figures, and what is left."""
        block = self._blocks.get(box, 0)
        told = render_window(window, block, n_taken, n_planned, remaining_s, is_race=self._is_race, box=box)
        self._line(told)

    def launch_ended(self, box: str) -> None:
        """Not a line's worth."""

    def warning(self, slug: str, text: str) -> None:
        """With its slug, to look up in docs/messages.md."""
        self._line(f"Warning: {text} [{slug}]")

    def _line(self, text: str) -> None:
        with suppress(OSError, ValueError):  # nobody reads any more: no reason to stop measuring
            self._output.write(f"{self._stamp()} {text}\n")
            self._output.flush()
