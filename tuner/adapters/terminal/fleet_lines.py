"""Progress of a study on several hosts, in lines on stderr."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import IO

from tuner.adapters.terminal.progress import UNTOLD_S, render_end, render_window
from tuner.core.domain.fleet import BoxFacts
from tuner.core.domain.layout import Layout
from tuner.core.domain.window import Sample, Window
from tuner.core.messages.fleet import box_gone
from tuner.core.text.figures import format_block, render_duration, render_rest
from tuner.ports import BoxwiseProgress, Clock, FleetProgress

# Progress of a study on several hosts, for observers of a single host: the live view and the live file.


class FleetTee:
    """A FleetProgress that names the host to each observer, and then reports to it as for a single host."""

    def __init__(self, reported: Sequence[BoxwiseProgress], beside: Sequence[FleetProgress] = ()) -> None:
        """Set up the tee; *beside* are observers of a fleet, which get the same calls."""
        self._observers, self._beside = tuple(reported), tuple(beside)

    def box_came(self, facts: BoxFacts) -> None:  # noqa: D102  (documented in ports.FleetProgress, as the others)
        self._on(facts.name)
        for one in self._beside:
            one.box_came(facts)

    def box_went(self, box: str, why: str) -> None:  # noqa: D102
        for reported in self._observers:
            reported.box_left(box)
            reported.warning(*box_gone(box, why))
        for one in self._beside:
            one.box_went(box, why)

    def launch_started(  # noqa: D102
        self, box: str, layout: Layout, block: int, remaining_s: float | None
    ) -> None:
        for observer in self._on(box):
            observer.launch_started(layout, block, 0, remaining_s)
        for one in self._beside:
            one.launch_started(box, layout, block, remaining_s)

    def sampled(  # noqa: D102
        self,
        box: str,
        layout: Layout,
        elapsed_s: float,
        window_s: float | None,
        items_per_s: float | None,
        sample: Sample | None,
    ) -> None:
        for observer in self._on(box):
            if window_s is None or sample is None or items_per_s is None:
                observer.warming_up(layout, elapsed_s, items_per_s)
            else:
                observer.sampled(layout, elapsed_s, window_s, sample, items_per_s)
        for one in self._beside:
            one.sampled(box, layout, elapsed_s, window_s, items_per_s, sample)

    def window_taken(  # noqa: D102
        self, box: str, window: Window, n_taken: int, n_planned: int | None, remaining_s: float | None
    ) -> None:
        for observer in self._on(box):
            observer.window_taken(window, n_taken, n_planned, remaining_s)
        for one in self._beside:
            one.window_taken(box, window, n_taken, n_planned, remaining_s)

    def launch_ended(self, box: str) -> None:  # noqa: D102
        for one in self._beside:
            one.launch_ended(box)

    def warning(self, slug: str, text: str) -> None:  # noqa: D102
        for observer in self._observers:
            observer.warning(slug, text)
        for one in self._beside:
            one.warning(slug, text)

    def _on(self, box: str) -> Sequence[BoxwiseProgress]:
        for observer in self._observers:
            observer.turn_to(box)
        return self._observers


_NAMED = 3  #: largest number of hosts in a line


def time_of_day() -> str:
    """Return the start of a line: the time of day."""
    return time.strftime("%H:%M:%S")


def simulated_time(clock: Clock) -> Callable[[], str]:
    """Return a function for the start of a line: the simulated time since now, by *clock*."""
    began_s = clock.monotonic_s()

    def stamp() -> str:
        minutes, seconds = divmod(int(clock.monotonic_s() - began_s), 60)
        return f"simulated {minutes // 60}:{minutes % 60:02}:{seconds:02}"

    return stamp


class FleetLines:
    """A FleetProgress: one line for each launch, window and warning, and for each host that joins or leaves.

    `beat` is called from another thread: it prints the state of the hosts after a while without a line.
    """

    def __init__(
        self,
        output: IO[str],
        *,
        is_race: bool = False,
        stamp: Callable[[], str] = time_of_day,
        patience_s: float | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Set up the output; *stamp* returns the start of each line.

        *patience_s*: time that a study waits for a host; None: it is simulated, and launches get no line.
        """
        self._output, self._is_race, self._stamp = output, is_race, stamp
        self._patience_s, self._now_s = patience_s, now_s
        self._lock = threading.RLock()
        self._blocks: dict[str, int] = {}  #: block by host
        self._there: set[str] = set()
        #: launches by host: layout, activity, start of the activity
        self._at: dict[str, tuple[str, str, float]] = {}
        self._reported_at_s = self._idle_since_s = now_s()

    def box_came(self, facts: BoxFacts) -> None:
        """Print a line."""
        self._there.add(facts.name)
        host = facts.name if facts.provenance.host is None else facts.provenance.host
        where = "" if host == facts.name else f" on {host}"
        self._line(f"{facts.name}{where} is there, with {facts.cores:g} cores")

    def box_went(self, box: str, why: str) -> None:
        """Print a line, and one more if no host is left."""
        self._there.discard(box)
        self.launch_ended(box)
        self._line(f"Warning: {box} is gone: {why} [box-gone]")
        if not self._there and self._patience_s is not None:
            self._line(f"no host is left; {self._waits()}")

    def launch_started(self, box: str, layout: Layout, block: int, remaining_s: float | None) -> None:
        """Print a line, unless the study is simulated."""
        self._blocks[box] = block
        with self._lock:
            self._at[box] = str(layout), "starting", self._now_s()
        if self._patience_s is not None:
            which = format_block(block) if block >= 0 else "before its first block, discarded"
            most = "at most " * self._is_race
            rest = "" if remaining_s is None else f" ({most}{render_end(remaining_s)})"
            self._line(f"{box}: {layout} {which}: starting{rest}")

    def sampled(
        self,
        box: str,
        layout: Layout,
        elapsed_s: float,
        window_s: float | None,
        items_per_s: float | None,  # noqa: ARG002
        sample: Sample | None,  # noqa: ARG002
    ) -> None:
        """Store the state for the next line of `beat`."""
        does = "warming up" if window_s is None else f"in a window of {render_duration(window_s)}"
        with self._lock:
            self._at[box] = str(layout), does, self._now_s() - elapsed_s

    def window_taken(
        self, box: str, window: Window, n_taken: int, n_planned: int | None, remaining_s: float | None
    ) -> None:
        """Print the window's figures, and the remaining windows and time."""
        block = self._blocks.get(box, 0)
        reported = render_window(
            window, block, n_taken, n_planned, remaining_s, is_race=self._is_race, box=box
        )
        self._line(reported)

    def launch_ended(self, box: str) -> None:
        """Store the end of a launch; print nothing."""
        with self._lock:
            self._at.pop(box, None)
            if not self._at:
                self._idle_since_s = self._now_s()

    def warning(self, slug: str, text: str) -> None:
        """Print the warning with its slug, to look up in docs/messages.md."""
        self._line(f"Warning: {text} [{slug}]")

    def beat(self) -> None:
        """Print the state of the hosts after a while without a line."""
        with self._lock:
            now_s = self._now_s()
            if now_s - self._reported_at_s < UNTOLD_S:
                return
            if self._at:
                at_work = [
                    f"{box}: {layout} {does}, {render_rest(now_s - since_s)}"
                    for box, (layout, does, since_s) in sorted(self._at.items())
                ]
                more = f"; and {len(at_work) - _NAMED} more" if len(at_work) > _NAMED else ""
                self._line(f"{'; '.join(at_work[:_NAMED])}{more}")
            else:
                self._line(f"no host measures for {render_rest(now_s - self._idle_since_s)}; {self._waits()}")

    def _waits(self) -> str:
        most = "" if self._patience_s is None else f" for at most {render_duration(self._patience_s)}"
        return f"waiting{most} for one (tuner box)"

    def _line(self, text: str) -> None:
        with self._lock, suppress(OSError, ValueError):  # the output is closed: no reason to stop measuring
            self._reported_at_s = self._now_s()
            self._output.write(f"{self._stamp()} {text}\n")
            self._output.flush()
