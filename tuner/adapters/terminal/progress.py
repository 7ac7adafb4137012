"""Progress of a study in lines on stderr, for logs and above the live view."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING

from tuner.core.defaults import TEN_MINUTES_S
from tuner.core.domain.layout import Layout
from tuner.core.domain.records import FIRST_LOOK, LaunchRecord, StudyRecord, WindowRecord
from tuner.core.domain.settled_load import settled_load
from tuner.core.domain.window import Sample, Window
from tuner.core.text.figures import format_block, render_duration, render_rest, until
from tuner.core.windows.summary import record_of
from tuner.ports import Progress

if TYPE_CHECKING:
    from tuner.core.domain.live import Leading, Phase


# Progress for several observers: the terminal, the live file, metrics.


class ProgressTee:
    """A Progress that passes each call to several others, in order."""

    def __init__(self, observers: Sequence[Progress]) -> None:
        self._observers = tuple(observers)

    def launch_started(  # noqa: D102  (documented in ports.Progress, as the others)
        self, layout: Layout, block: int, position: int, remaining_s: float | None
    ) -> None:
        for one in self._observers:
            one.launch_started(layout, block, position, remaining_s)

    def in_turns(self, started: Sequence[Layout], works: Layout | None) -> None:  # noqa: D102
        for one in self._observers:
            one.in_turns(started, works)

    def warming_up(self, layout: Layout, elapsed_s: float, items_per_s: float | None) -> None:  # noqa: D102
        for one in self._observers:
            one.warming_up(layout, elapsed_s, items_per_s)

    def sampled(  # noqa: D102
        self, layout: Layout, elapsed_s: float, window_s: float, sample: Sample, items_per_s: float
    ) -> None:
        for one in self._observers:
            one.sampled(layout, elapsed_s, window_s, sample, items_per_s)

    def window_taken(  # noqa: D102
        self, window: Window, n_taken: int, n_planned: int | None, remaining_s: float | None
    ) -> None:
        for one in self._observers:
            one.window_taken(window, n_taken, n_planned, remaining_s)

    def warning(self, slug: str, text: str) -> None:  # noqa: D102
        for one in self._observers:
            one.warning(slug, text)


SILENT_S = 25.0  #: time without a line after which the next event prints the present activity
UNTOLD_S = 27.0  #: time without a line after which `beat` prints one, even without an event
BEATS_S = 2.5


class LineProgress:
    """A Progress: a line for each phase of a launch, each window and each warning, at least every 30 s.

    `beat` is called from another thread, because there are no calls while a layout starts or stops.
    """

    def __init__(
        self,
        output: IO[str],
        *,
        is_race: bool = False,
        leading: Leading | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._output, self._is_race, self._leading, self._now_s = output, is_race, leading, now_s
        self._lock = threading.RLock()
        self._block = self._position = 0
        self._what = "tuner"  #: layout and block of the present events
        self._phase: Phase = "between"
        self._in_window: set[Layout] = set()  #: layouts with a window in progress
        self._since_s = self._reported_at_s = now_s()

    def launch_started(  # noqa: D102  (documented in ports.Progress, as the others)
        self,
        layout: Layout,
        block: int,
        position: int,
        remaining_s: float | None,
    ) -> None:
        self._block, self._position = block, position
        if self._leading is not None and (standing := self._leading.at(block)) is not None:
            self._line(standing)
        self._turn_to(layout)
        most = "at most " * self._is_race
        rest = "" if remaining_s is None else f" ({most}{render_end(remaining_s)})"
        self._enters("starting", f"starting{rest}")

    def in_turns(self, started: Sequence[Layout], works: Layout | None) -> None:
        """Print nothing: a line for each turn would be too much."""

    def warming_up(self, layout: Layout, elapsed_s: float, items_per_s: float | None) -> None:  # noqa: ARG002, D102
        if self._phase != "warming-up":
            since = render_rest(self._now_s() - self._since_s)
            is_new = self._phase == "starting"  # else its source had no items, and it warms up again
            self._enters("warming-up", f"ready after {since}, warming up" if is_new else "warming up again")
        elif self._is_silent():
            rate = "" if items_per_s is None else f", {render_rate(items_per_s)}"
            self._of_it(f"still warming up, {render_rest(elapsed_s)}{rate}")

    def sampled(  # noqa: D102
        self,
        layout: Layout,
        elapsed_s: float,
        window_s: float,
        sample: Sample,  # noqa: ARG002
        items_per_s: float,
    ) -> None:
        self._turn_to(layout)  # with layouts that take turns, it may differ from the last started one
        if layout not in self._in_window:
            self._in_window.add(layout)
            self._enters("window", f"window of {render_duration(round(window_s, 0 if window_s >= 5 else 1))}")
        elif self._is_silent():
            gone = f"{render_rest(elapsed_s)} of {render_rest(window_s)}"
            self._of_it(f"window, {gone}, {render_rate(items_per_s)}")

    def window_taken(  # noqa: D102
        self, window: Window, n_taken: int, n_planned: int | None, remaining_s: float | None
    ) -> None:
        self._phase, self._since_s = "between", self._now_s()
        self._in_window.discard(window.layout)
        self._line(
            render_window(
                window,
                self._block,
                n_taken,
                n_planned,
                remaining_s,
                is_race=self._is_race,
                is_first_look=self._position >= FIRST_LOOK,
            )
        )

    def warning(self, slug: str, text: str) -> None:
        """Print the warning with its slug, to look up in docs/messages.md."""
        self._line(f"Warning: {text} [{slug}]")

    def say(self, text: str) -> None:
        """Print *text* as a line."""
        self._line(text)

    def begins(self, windows: Sequence[WindowRecord], launches: Callable[[], Iterable[LaunchRecord]]) -> None:
        """Ignore the content of the file: lines do not show it."""

    def grew(self, study: StudyRecord) -> None:
        """Use *study*, whose grid has grown."""
        if self._leading is not None:
            self._leading.grew(len(study.layouts))

    def beat(self) -> None:
        """Print the state after a while without a line."""
        with self._lock:
            if not self._is_silent(UNTOLD_S):
                return
            lasts = render_rest(self._now_s() - self._since_s)
            self._of_it(
                f"still starting, {lasts}" if self._phase == "starting" else f"nothing new for {lasts}"
            )

    def _turn_to(self, layout: Layout) -> None:
        self._what = f"{layout} {_which(self._block, self._position)}"

    def _is_silent(self, since_s: float = SILENT_S) -> bool:
        return self._now_s() - self._reported_at_s >= since_s

    def _enters(self, phase: Phase, text: str) -> None:
        self._phase, self._since_s = phase, self._now_s()
        self._of_it(text)

    def _of_it(self, text: str) -> None:
        self._line(f"{self._what}: {text}")

    def _line(self, text: str) -> None:
        with self._lock, suppress(OSError, ValueError):  # the output is closed: no reason to stop measuring
            self._reported_at_s = self._now_s()
            self._output.write(f"{time.strftime('%H:%M:%S')} {text}\n")
            self._output.flush()


def _which(block: int, position: int) -> str:
    if block >= 0:
        return format_block(block)
    if not position:
        return "before block 1, discarded"
    what = "a first look" if position >= FIRST_LOOK else "a look at the edge of the grid"
    return f"before block 1, {what}"


def render_window(
    window: Window,
    block: int,
    n_taken: int,
    n_planned: int | None,
    remaining_s: float | None,
    *,
    is_race: bool = False,
    box: str = "",
    is_first_look: bool = False,
) -> str:
    """Return a line about a window: host, layout, block, figures, and the remaining time (race: at most)."""
    where = f"{box + ': ' if box else ''}{window.layout} {format_block(block)}"
    if window.void:
        reasons = "; ".join(f"{reason.slug}: {reason.detail}" for reason in window.void)
        return f"{where}: invalid window, {reasons}"
    record = record_of(window, launch_id=0, block=block, box=box)
    load = settled_load(record, is_of_host=False)  # load1 would be mostly that of the previous layout
    parts = [f"{where}: {render_rate(window.throughput_per_s)}", f"load {load:.2f}"]
    if window.n_failed:
        parts.append(f"{window.n_failed} failed")
    most = "at most " if is_race else ""
    end = "" if remaining_s is None else f", {most}{render_end(remaining_s)}"
    length = _round(window.length_s)
    if block < 0:
        what = "a first look" if is_first_look else "a look at the edge of the grid"
        return f"{', '.join(parts)} ({what}, {length})"
    counted = f"window {n_taken}, of" if n_planned is None else f"{n_taken} of {most}{n_planned} windows of"
    return f"{', '.join(parts)} ({counted} {length}{end})"


def _round(length_s: float) -> str:
    """Return the length of a window in full seconds: it ends with a sample, some milliseconds late."""
    return render_duration(round(length_s) if length_s >= 1 else length_s)


def render_rate(items_per_s: float) -> str:
    """Return a throughput in items per ten minutes."""
    return f"{items_per_s * TEN_MINUTES_S:,.0f} items/10 min".replace(",", " ")


def render_end(remaining_s: float) -> str:
    """Return the remaining time, and the time of day of the end."""
    now_s = time.time()
    return f"{render_rest(remaining_s)} left{until(now_s + remaining_s, now_s)}"


# Progress of a simulated study: one marked line per window, with the simulated time.


class SimulatedProgress:
    """A Progress for simulated studies: lines, also on terminals, without the time of day."""

    def __init__(self, output: IO[str], elapsed_s: Callable[[], float]) -> None:
        """Set up the output; *elapsed_s* returns the simulated time since the start of the study."""
        self._output, self._elapsed_s = output, elapsed_s
        self._block = 0

    def launch_started(  # noqa: D102  (documented in ports.Progress, as the others)
        self,
        layout: Layout,  # noqa: ARG002
        block: int,
        position: int,  # noqa: ARG002
        remaining_s: float | None,  # noqa: ARG002
    ) -> None:
        self._block = block

    def in_turns(self, started: Sequence[Layout], works: Layout | None) -> None:  # noqa: D102
        pass

    def warming_up(self, layout: Layout, elapsed_s: float, items_per_s: float | None) -> None:  # noqa: D102
        pass

    def sampled(  # noqa: D102
        self, layout: Layout, elapsed_s: float, window_s: float, sample: Sample, items_per_s: float
    ) -> None:
        pass

    def window_taken(  # noqa: D102
        self,
        window: Window,
        n_taken: int,
        n_planned: int | None,
        remaining_s: float | None,  # noqa: ARG002  (in no time at all)
    ) -> None:
        self._line(render_window(window, self._block, n_taken, n_planned, None))

    def warning(self, slug: str, text: str) -> None:  # noqa: D102
        self._line(f"Warning: {text} [{slug}]")

    def _line(self, text: str) -> None:
        minutes, seconds = divmod(int(self._elapsed_s()), 60)
        hours, minutes = divmod(minutes, 60)
        with suppress(OSError, ValueError):  # the output is closed: no reason to stop
            self._output.write(f"simulated {hours}:{minutes:02}:{seconds:02} {text}\n")
            self._output.flush()


def is_screen(stream: IO[str] | None, term: str | None) -> bool:
    """Return whether *stream* is a terminal that can move its cursor; *term* is the value of ``TERM``."""
    try:
        return stream is not None and stream.isatty() and term not in (None, "", "dumb", "unknown")
    except ValueError:  # closed
        return False


@contextmanager
def beating(every_s: float, beat: Callable[[], None]) -> Iterator[None]:
    """Call *beat* every *every_s* seconds from a separate thread within the block."""
    over = threading.Event()

    def run() -> None:
        while not over.wait(every_s):
            beat()

    thread = threading.Thread(target=run, name="beat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
