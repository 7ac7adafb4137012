"""The live view of a study on a terminal; finished windows scroll above it.

It must not disturb the measurement: it is drawn every other second, from a board that is computed once per
window, and never waits for the terminal.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from tuner.adapters.terminal.live_file import Follower
from tuner.adapters.terminal.progress import beating, render_window
from tuner.adapters.terminal.screen import Screen
from tuner.core.domain.layout import Layout
from tuner.core.domain.live import Leading
from tuner.core.domain.records import FIRST_LOOK, WARMING_BLOCK, LaunchRecord, StudyRecord, WindowRecord
from tuner.core.domain.window import Window
from tuner.core.messages.host import view_failed
from tuner.core.ranking.live_status import Board, BoardKeeper
from tuner.core.search.strategies.of_study import Followed, FollowedOnFleet
from tuner.core.text.safe_text import replace_unprintable

EVERY_S = 2.0  #: interval of drawing; bench/overhead.py --bars measures the cost of one
_ASIDE = 4  #: lines of the terminal left for the window lines above
_SIGNAL_WROTE = 2  #: lines that `adapters.signals` prints at the first Ctrl-C

#: arguments: board, columns, lines, whether the study is ending; returns lines, each with its width
Draw = Callable[[Board, int, int, bool], Sequence[tuple[str, int]]]


class LiveView(Follower):
    """A Progress that draws on a terminal; leader and intervals come from *strategy*."""

    def __init__(
        self,
        screen: Screen,
        draw: Draw,
        study: StudyRecord,
        strategy: Followed | FollowedOnFleet,
        is_ending: Callable[[], bool],
    ) -> None:
        super().__init__()
        self._screen, self._draw, self._study, self._strategy = screen, draw, study, strategy
        self._is_ending = is_ending
        self._was_ending = False
        self._position = 0  #: position of the present launch in its block
        self._leading = Leading(strategy, len(study.layouts))
        self._keeper = BoardKeeper(study)
        self._launches: Callable[[], Iterable[LaunchRecord]] = tuple
        self._board: Board | None = None  #: None: it must be computed again because of a change
        self._drawn_at_s = -math.inf
        self._gave_up = False
        self._lock = threading.RLock()  #: protects the screen, because `beat` runs in another thread

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Draw within the block; afterwards only the lines above the view stay."""
        try:
            with beating(EVERY_S, self.beat):
                yield
        finally:
            self._screen.close()

    def beat(self) -> None:
        """Draw again after a time without progress calls, while a layout starts or stops.

        Called from another thread, so it does not use the strategy, which may be running.
        """
        with self._lock:
            if self._board is not None and time.monotonic() - self._drawn_at_s >= EVERY_S:
                self._drawn_at_s = time.monotonic()
                self._screen.show(self._lines())

    def begins(self, windows: Sequence[WindowRecord], launches: Callable[[], Iterable[LaunchRecord]]) -> None:
        """Set the *windows* of the study file; *launches* returns its launches at any later time."""
        windows = [window for window in windows if window.block != WARMING_BLOCK]
        n_void = sum(bool(window.void) for window in windows)
        self._begins(len(windows) - n_void, n_void)
        self._keeper, self._launches = BoardKeeper(self._study, windows), launches

    def grew(self, study: StudyRecord) -> None:
        """Use *study*, whose grid has grown before its first block."""
        with self._lock:  # `beat` uses these in another thread
            self._study, self._keeper, self._board = study, BoardKeeper(study), None
        self._leading.grew(len(study.layouts))

    def launch_started(  # noqa: D102  (documented in ports.Progress, as the others)
        self, layout: Layout, block: int, position: int, remaining_s: float | None
    ) -> None:
        with self._lock:
            self._board, self._position = None, position
        if (standing := self._leading.at(block)) is not None:
            self.say(standing)
        super().launch_started(layout, block, position, remaining_s)

    def window_taken(  # noqa: D102
        self, window: Window, n_taken: int, n_planned: int | None, remaining_s: float | None
    ) -> None:
        if self.live().block != WARMING_BLOCK:  # windows before block 1 do not count for a layout
            self._keeper.add(window)
        with self._lock:
            self._board = None
        self._drawn_at_s = time.monotonic()  # draw once, below the line of the window
        super().window_taken(window, n_taken, n_planned, remaining_s)
        block, box, is_race = self.live().block, self._box or "", self._study.strategy == "race"
        is_first_look = self._position >= FIRST_LOOK
        self.say(
            render_window(
                window,
                block,
                n_taken,
                n_planned,
                remaining_s,
                is_race=is_race,
                box=box,
                is_first_look=is_first_look,
            )
        )

    def warning(self, slug: str, text: str) -> None:  # noqa: D102
        self._drawn_at_s = time.monotonic()
        super().warning(slug, text)
        self.say(f"Warning: {text} [{slug}]")

    def _show_change(self, *, at_once: bool) -> None:
        with self._lock:
            now_s = time.monotonic()
            if not at_once and now_s - self._drawn_at_s < EVERY_S:
                return
            self._drawn_at_s = now_s
            self._screen.show(self._lines())

    def say(self, text: str) -> None:
        """Print *text* above the view."""
        one_line = replace_unprintable(" ".join(text.splitlines()), "?")
        with self._lock:
            self._screen.say(f"{time.strftime('%H:%M:%S')} {one_line}", self._lines())

    def _lines(self) -> Sequence[tuple[str, int]]:
        if self._gave_up:
            return ()
        if self._is_ending() and not self._was_ending:
            self._was_ending = True
            self._screen.others_wrote(_SIGNAL_WROTE)
        try:
            if self._board is None:
                self._board = self._worked_out()
            columns, lines = self._screen.size()
            # Warnings are already printed above.
            board = replace(self._board, live=replace(self.live(), warnings=()))
            return self._draw(board, columns - 1, max(1, lines - _ASIDE), self._was_ending)
        except Exception as error:  # an error of the view must not end the study
            self._gave_up = True
            self.warning(*view_failed(error))
            return ()

    def _worked_out(self) -> Board:
        strategy = self._strategy
        return self._keeper.board(
            strategy.answer(),
            strategy.estimates(),
            strategy.failed,
            self._launches,
            strategy.verdicts(),
            strategy.of_best(),
        )
