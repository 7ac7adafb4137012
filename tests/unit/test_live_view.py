"""The view on a terminal, through a real one; what is seen is what an emulator makes of what was written."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import termios
import tty
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import pytest

from tuner.adapters.processes.signals import FINISHING
from tuner.adapters.terminal.live_view import LiveView
from tuner.adapters.terminal.progress import is_screen
from tuner.adapters.terminal.screen import Screen
from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Observed
from tuner.core.domain.window import Reading, Sample, Usage, VoidReason, Window
from tuner.core.ranking.live_status import Board
from tuner.core.search.racing import Race
from tuner.core.search.strategies.of_study import Followed, goal_of
from tuner.reports.live.live import Look, live_lines
from tuner.reports.text.cells import paint_line

from ..terminal_emulator import Emulator
from ..wording import wording
from . import boards

LAYOUT = Layout(4, 6)


@dataclass
class Terminal:
    """Both ends of one, 80 x 24; what nobody reads stays in its buffer of some KiB."""

    master: int
    slave: int

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def read(self) -> str:
        os.set_blocking(self.master, False)
        found = b""
        while True:
            try:
                found += os.read(self.master, 65536)
            except BlockingIOError:
                return found.decode()

    def seen(self) -> Emulator:
        emulator = Emulator()
        emulator.feed(self.read())
        return emulator


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    master, slave = pty.openpty()
    tty.setraw(slave)
    os.write(slave, b"")
    modes = termios.tcgetattr(slave)
    modes[1] |= termios.OPOST | termios.ONLCR
    termios.tcsetattr(slave, termios.TCSANOW, modes)
    found = Terminal(master, slave)
    found.resize(80, 24)
    yield found
    for descriptor in (master, slave):
        with suppress(OSError):
            os.close(descriptor)


def window(*, n_done: int = 2612, void: tuple[VoidReason, ...] = ()) -> Window:
    samples = (Sample(0, 0, 0, 18.0, 1.0, 1.0, 20), Sample(600, n_done, 0, 19.0, 1.0, 1.0, 22))
    usage = tuple(Usage(x, x, 0, 0, 0, 0, 0, 0, None, 4, 24, None, None, None) for x in (0, 600))
    readings = (Reading(0, 0, 0), Reading(600, n_done, 0))
    return Window(LAYOUT, 0, 1, 0.0, 600.0, n_done, 0, samples, usage, readings, void)


def view_on(terminal: Terminal, *, ends: list[bool] | None = None) -> tuple[LiveView, Followed]:
    study = boards.study_of(["4x6", "6x4", "1x24"])
    strategy = Followed(Race(goal_of(study), study.seed))

    def draw(board: Board, columns: int, lines: int, is_ending: bool) -> Sequence[tuple[str, int]]:
        look = Look(columns, lines, boards.NOW_S)
        says = "Finishing this window" if is_ending else None
        return [
            paint_line(x, columns, unicode=True, colours=True) for x in live_lines(board, look, says=says)
        ]

    return LiveView(Screen(terminal.slave), draw, study, strategy, lambda: bool(ends)), strategy


def test_layouts_what_runs_and_finished_windows_are_there_and_only_lines_stay(terminal: Terminal) -> None:
    view, strategy = view_on(terminal)
    with view.shown():
        view.begins((), tuple)
        view.launch_started(LAYOUT, 0, 0, 3600.0)
        view._drawn_at_s = 0.0
        view.sampled(LAYOUT, 300.0, 600.0, Sample(1, 3, 0, 17.5, 1.0, 1.0, 21), 4.35)
        view.window_taken(window(), 1, 3, 60.0)
        strategy.learn([Observed(LAYOUT, 4.35, 1, 0.0, 60.0, 600.0)], [Layout(1, 24)])
        view.launch_started(Layout(6, 4), 1, 0, 7200.0)
        view.warning("left-out", "[red]1x24\x1b[31m[/red] failed")
        drawn = terminal.read()

    emulator = Emulator()
    emulator.feed(drawn)
    shown = emulator.text()
    assert wording("watch.block-and-throughput") in shown
    assert wording("watch.hostile-layout-failed") in shown
    assert shown.count("crash-processor on stage-1") == 1  # drawn over, not below
    assert "  4x6           2 61" in shown
    assert wording("watch.layout-cannot-run") in shown
    assert "▶ 6x4" in shown
    assert wording("watch.windows-left") in shown
    emulator.feed(terminal.read())
    assert [row for row in emulator.rows if row and row[0] != "1" and row[0] != "2" and row[0] != "0"] == []
    assert emulator.unknown == []


def test_how_long_a_layout_is_starting_is_drawn_though_nobody_tells_anything(terminal: Terminal) -> None:
    view, _ = view_on(terminal)
    view.begins((), tuple)
    view.launch_started(LAYOUT, 0, 0, 3600.0)
    before = terminal.seen().text()
    view._now.since_s -= 20.0
    view.beat()
    too_soon = terminal.read()
    view._drawn_at_s -= 20.0
    view.beat()
    later = terminal.seen().text()

    assert wording("watch.starting", lasts="0 s") in before
    assert too_soon == ""
    assert wording("watch.starting", lasts="20 s") in later


def test_the_first_ctrl_c_is_reported_below_the_view_and_leaves_no_copy_of_it(terminal: Terminal) -> None:
    ends: list[bool] = []
    view, _ = view_on(terminal, ends=ends)
    with view.shown():
        view.begins((), tuple)
        view.launch_started(LAYOUT, 0, 0, 3600.0)
        os.write(terminal.slave, b"^C\n" + FINISHING.encode() + b"\n")
        ends.append(True)
        view.launch_started(LAYOUT, 0, 0, 3600.0)
        shown = terminal.seen().text()

    assert shown.count("crash-processor on stage-1") == 1
    assert shown.count("Finishing this window") == 1


def test_a_terminal_that_nobody_reads_is_never_waited_for(terminal: Terminal) -> None:
    view, _ = view_on(terminal)
    view.begins((), tuple)
    for n in range(400):  # some KiB each: far more than a terminal's buffer
        view.launch_started(LAYOUT, n, 0, 3600.0)
        view.warning("left-out", "4x6 failed " * 20)
    later = ""
    for _ in range(100):  # somebody reads again: what was kept comes first, then it goes on
        later += terminal.read()
        view.launch_started(LAYOUT, 1, 0, 3600.0)

    emulator = Emulator()
    emulator.feed(later)
    assert emulator.text().count("crash-processor on stage-1") == 1


def test_a_terminal_that_went_away_stops_no_study(terminal: Terminal) -> None:
    view, _ = view_on(terminal)
    with view.shown():
        view.begins((), tuple)
        view.launch_started(LAYOUT, 0, 0, 3600.0)
        os.close(terminal.master)
        view.launch_started(LAYOUT, 1, 0, 3600.0)
        view.window_taken(window(), 1, 3, 60.0)
        view.warning("left-out", "4x6 failed")


def test_a_narrower_terminal_shows_one_view(terminal: Terminal) -> None:
    view, _ = view_on(terminal)
    with view.shown():
        view.begins((), tuple)
        view.launch_started(LAYOUT, 0, 0, 3600.0)
        terminal.read()
        terminal.resize(40, 10)
        view.launch_started(LAYOUT, 0, 0, 3600.0)
        emulator = terminal.seen()

    assert max(map(len, emulator.rows)) < 40
    assert len(emulator.rows) <= 8
    assert "▶ 4x6" in emulator.text()


def test_a_fault_of_the_view_is_reported_once_and_costs_no_study(terminal: Terminal) -> None:
    def broken(board: Board, columns: int, lines: int, is_ending: bool) -> Sequence[tuple[str, int]]:
        raise ZeroDivisionError("nothing")

    study = boards.study_of(["4x6"])
    view = LiveView(Screen(terminal.slave), broken, study, Followed(Race(goal_of(study), 1)), lambda: False)
    with view.shown():
        view.begins((), tuple)
        for n in range(3):
            view.launch_started(LAYOUT, n, 0, 3600.0)
            view.window_taken(window(), n + 1, 3, 60.0)

    shown = terminal.seen().text()
    assert shown.count("view-failed") == 1
    assert "ZeroDivisionError('nothing')" in shown
    assert shown.count(wording("watch.throughput")) == 3


def test_only_a_terminal_that_can_move_its_cursor_gets_a_view(terminal: Terminal) -> None:
    with os.fdopen(os.dup(terminal.slave), "w") as stream, open(os.devnull, "w") as nothing:
        assert is_screen(stream, "xterm-256color")
        assert not any(is_screen(stream, term) for term in ("dumb", "", None, "unknown"))
        assert not is_screen(nothing, "xterm")
    assert not is_screen(stream, "xterm")  # closed


def test_scouts_are_no_windows_of_a_layout_and_a_grid_that_grew_is_shown_whole(terminal: Terminal) -> None:
    view, strategy = view_on(terminal)
    with view.shown():
        view.begins((), tuple)
        view.launch_started(LAYOUT, -1, 1, None)
        view.window_taken(window(), 0, None, None)
        scouted = view._worked_out()
        grown = boards.study_of(["4x6", "6x4", "1x24", "4x12"])
        strategy.follow(Race(goal_of(grown), grown.seed))
        view.grew(grown)
        after = view._worked_out()

    assert "4x6 before block 1: 2 612 items/10 min" in terminal.read()
    assert (scouted.n_windows, len(scouted.places)) == (0, 3)
    assert [str(place.layout) for place in after.places] == ["4x6", "6x4", "1x24", "4x12"]
