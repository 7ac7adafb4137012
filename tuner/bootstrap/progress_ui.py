"""The display of a running study: on a terminal, in a log, and in the live file."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from tuner.core.domain.records import WARMING_BLOCK, StudyRecord
from tuner.ports import Clock, FleetProgress, Progress, Store

if TYPE_CHECKING:
    from tuner.adapters.terminal.live_file import LiveFile
    from tuner.adapters.terminal.live_view import LiveView
    from tuner.adapters.terminal.progress import LineProgress
    from tuner.adapters.terminal.screen import Keys, Screen
    from tuner.core.ranking.live_status import Board
    from tuner.core.search.strategies.of_study import Followed, FollowedOnFleet

_ALL_LINES = 100_000
_SVG_COLUMNS = 96


@contextmanager
def showing(
    study: StudyRecord, strategy: Followed | FollowedOnFleet, is_ending: Callable[[], bool]
) -> Iterator[LineProgress | LiveView]:
    """Show a live view if stderr is a terminal, else plain lines; *is_ending*: whether the study must end."""
    if not is_terminal_screen(sys.stderr):
        from tuner.adapters.terminal.progress import BEATS_S, LineProgress, beating
        from tuner.core.domain.live import Leading
        from tuner.core.search.strategies.of_study import Followed

        leading = Leading(strategy, len(study.layouts))
        lines = LineProgress(sys.stderr, is_race=study.strategy == "race", leading=leading)
        if isinstance(strategy, Followed):
            with beating(BEATS_S, lines.beat):
                yield lines
        else:  # FleetLines prints the progress of a fleet
            yield lines
        return
    from tuner.adapters.processes.signals import FINISHING
    from tuner.adapters.terminal.live_view import LiveView

    def draw(board: Board, columns: int, lines: int, ends: bool) -> Sequence[tuple[str, int]]:
        return render_board(board, sys.stderr, columns, lines, says=FINISHING if ends else None)

    view = LiveView(screen_on(sys.stderr), draw, study, strategy, is_ending)
    with view.shown():
        yield view


def is_terminal_screen(stream: TextIO) -> bool:
    """Return whether *stream* is a terminal on which lines can be redrawn."""
    from tuner.adapters.terminal.progress import is_screen

    return is_screen(stream, os.environ.get("TERM"))


def screen_on(stream: TextIO) -> Screen:
    """Return a screen on the terminal behind *stream*; the caller closes it."""
    from tuner.adapters.terminal.screen import Screen

    return Screen(stream.fileno(), "utf-8" if takes_unicode(stream) else "ascii")


def read_keys() -> AbstractContextManager[Keys]:
    """Read single keys from the terminal inside the block; restore the terminal afterwards."""
    from tuner.adapters.terminal.screen import keys

    return keys()


def to_several(progress: Sequence[Progress]) -> Progress:
    """Return one Progress that forwards every call to each of *progress*."""
    from tuner.adapters.terminal.progress import ProgressTee

    return ProgressTee(progress)


def simulated_lines(elapsed_s: Callable[[], float]) -> Progress:
    """Return a line display on stderr for a simulated study; *elapsed_s* gives its simulated seconds."""
    from tuner.adapters.terminal.progress import SimulatedProgress

    return SimulatedProgress(sys.stderr, elapsed_s)


def simulated_fleet_lines(study: StudyRecord, clock: Clock) -> FleetProgress:
    """Return a line display on stderr for a study on several simulated hosts."""
    from tuner.adapters.terminal.fleet_lines import FleetLines, simulated_time

    return FleetLines(sys.stderr, is_race=study.strategy == "race", stamp=simulated_time(clock))


def live_file(file: Path, progress: Progress) -> LiveFile:
    """Return the writer of the live file of the study *file*; it warns *progress* if it cannot write."""
    from tuner.adapters.terminal.live_file import LiveFile

    return LiveFile(file, progress.warning)


@contextmanager
def attach(store: Store, view: LineProgress | LiveView, file: LiveFile) -> Iterator[None]:
    """Load the windows of *store* into *view* and the live *file*, which exists inside the block."""
    windows = [window for window in store.windows() if window.block != WARMING_BLOCK]
    view.begins(windows, lambda: [launch for _, launch in store.launches()])
    n_void = sum(bool(window.void) for window in windows)
    with file.written(len(windows) - n_void, n_void):
        yield


def render_board(
    board: Board,
    stream: TextIO,
    columns: int,
    lines: int,
    *,
    says: str | None = None,
    go_on: str | None = None,
    colours: bool = True,
) -> list[tuple[str, int]]:
    """Render *board* for the terminal behind *stream*: at most *lines* lines, each with its width in
    cells."""
    from tuner.reports.live.live import Look, live_lines
    from tuner.reports.text.cells import paint_line

    unicode = takes_unicode(stream)
    colours = colours and not os.environ.get("NO_COLOR")
    return [
        paint_line(line, columns, unicode=unicode, colours=colours)
        for line in live_lines(
            board, Look(columns, lines, time.time(), unicode=unicode), go_on=go_on, says=says
        )
    ]


def write_picture(board: Board, go_on: str | None, svg: Path) -> None:
    """Write *board* as an SVG picture; *go_on* is the command that continues the study, or None."""
    import io
    import re

    from rich.console import Console
    from rich.text import Text

    from tuner.adapters.text_file import replace_text

    utf8 = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    lines = render_board(board, utf8, _SVG_COLUMNS, _ALL_LINES, go_on=go_on)
    console = Console(
        record=True, width=_SVG_COLUMNS, file=io.StringIO(), force_terminal=True, color_system="standard"
    )
    for text, _ in lines:
        console.print(Text.from_ansi(text), soft_wrap=True)
    drawing = console.export_svg(title="tuner watch")
    # Remove web fonts, so that the picture loads nothing from other hosts; any monospaced font will do.
    replace_text(svg, re.sub(r"@font-face\s*{[^}]*}", "", drawing))


def takes_unicode(stream: TextIO) -> bool:
    """Return whether *stream* can show Unicode."""
    return (stream.encoding or "").lower().replace("-", "").replace("_", "") == "utf8"


@contextmanager
def showing_fleet(
    study: StudyRecord,
    file: Path,
    store: Store,
    strategy: FollowedOnFleet,
    is_ending: Callable[[], bool],
) -> Iterator[FleetProgress]:
    """Show the progress of a study on several hosts, and write its live file; *store* must be open."""
    from tuner.adapters.terminal.fleet_lines import FleetLines, FleetTee
    from tuner.adapters.terminal.live_view import LiveView
    from tuner.adapters.terminal.progress import BEATS_S, beating
    from tuner.study.fleet.roster import PATIENCE_S

    with showing(study, strategy, is_ending) as view:
        live = live_file(file, view)
        with attach(store, view, live):
            if isinstance(view, LiveView):
                yield FleetTee([view, live])
            else:
                lines = FleetLines(sys.stderr, is_race=study.strategy == "race", patience_s=PATIENCE_S)
                with beating(BEATS_S, lines.beat):
                    yield FleetTee([live], [lines])
