"""tuner watch: the state of a study, while it runs or afterwards."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tuner.cli.rank import StudyFile
from tuner.cli.shared.options import AsJson
from tuner.core.errors import ConfigError

if TYPE_CHECKING:
    from tuner.core.domain.live import Live
    from tuner.core.ranking.live_status import Board

_EVERY_S = (0.5, 3600.0)  #: shortest and longest interval
_ALL_LINES = 100_000


def watch(
    study: StudyFile,
    once: Annotated[
        bool,
        typer.Option(
            "--once",
            metavar="",
            help="Print the state of the study once, then exit (default: update the screen).",
        ),
    ] = False,
    every: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            show_default=False,
            help="Time between two updates of the screen, at least 500ms (default: 2s).",
        ),
    ] = "2s",
    svg: Annotated[
        Path | None,
        typer.Option(
            "--svg", metavar="FILE", help="Save the state of the study once, as an SVG picture in this file."
        ),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Show the state of a study: throughput of each layout, dropped layouts, current launch and time left.

    You can run tuner watch in another terminal or as another user, also for a finished or interrupted study.
    The display ends when the study ends, or when you press q or Ctrl-C. If the output is not a terminal,
    tuner prints the state once.

    Example: tuner watch crash-processor.tuner.db
    """
    from tuner.bootstrap.progress_ui import is_terminal_screen, write_picture

    every_s = _seconds(every)
    look = _Look(study)
    if as_json:
        typer.echo(json.dumps(look.facts()))
    if svg is not None:
        write_picture(look.board, look.go_on, svg)
    if as_json or svg is not None:
        return 0
    if not once and look.board.stage == "running" and is_terminal_screen(sys.stdout):
        _watch(look, every_s)
    else:
        _print(look)
    return 0


class _Look:
    """State of a study file, computed again only after a new launch or window."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.board: Board = self._read_board()

    def renew(self) -> None:
        """Read the file again: cheap for the current launch, some hundredths of a second for all layouts."""
        from tuner.app import study_queries

        live, is_held = study_queries.live_now(self.file)
        before = self.board.live
        same = live is not None and before is not None and _change_key(live) == _change_key(before)
        if is_held and (same or study_queries.study_stamp(self.file) == self._stamp):
            self.board = replace(self.board, live=live)
            return
        self.board = self._read_board()

    def facts(self) -> dict[str, Any]:
        """Return the state as JSON facts."""
        from tuner.reports.live.live import live_facts

        return live_facts(self.file.name, self.board, self.go_on)

    @property
    def go_on(self) -> str | None:
        """The command that continues the study; None if it runs or is finished."""
        from tuner.app.session import going_on

        return going_on(self.board.study, self.file) if self.board.stage == "at-rest" else None

    def _read_board(self) -> Board:
        from tuner.app import study_queries
        from tuner.core.ranking.live_status import board_of

        self._stamp = study_queries.study_stamp(self.file)
        return board_of(study_queries.overview(self.file))


def _change_key(live: Live) -> tuple[object, ...]:
    """Return values that change with each new launch or window, valid or not."""
    return live.n_taken, live.n_void, live.layout, live.block


def _seconds(text: str) -> float:
    from tuner.app.session import naming_option
    from tuner.core.text.figures import parse_duration

    with naming_option("--every"):
        seconds = parse_duration(text)
    low, high = _EVERY_S
    if not low <= seconds <= high:
        raise ConfigError(f"--every {text}: should be from 500ms to 1h", hint="2s is the default.")
    return seconds


def _watch(look: _Look, every_s: float) -> None:
    from tuner.bootstrap import progress_ui

    sys.stdout.flush()
    screen = progress_ui.screen_on(sys.stdout)
    try:
        with progress_ui.read_keys() as typed:
            while look.board.stage == "running":
                columns, lines = screen.size()
                screen.show(progress_ui.render_board(look.board, sys.stdout, columns - 1, lines - 1))
                if typed.pressed(every_s) in ("q", "Q", "\x03", "\x04"):
                    break
                look.renew()
    except KeyboardInterrupt:
        pass  # the usual way to quit
    finally:
        screen.close()
    _print(look)  # leave the last state on the terminal


def _print(look: _Look) -> None:
    import shutil

    from tuner.bootstrap import progress_ui

    is_terminal = sys.stdout.isatty()
    colours = progress_ui.is_terminal_screen(sys.stdout)
    columns = shutil.get_terminal_size((80, 24)).columns - is_terminal
    for text, _ in progress_ui.render_board(
        look.board, sys.stdout, max(20, columns), _ALL_LINES, go_on=look.go_on, colours=colours
    ):
        typer.echo(text)
