"""The view of a study that runs: golden pictures, and what holds on every terminal."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from tuner.core.domain.limits import Verdict
from tuner.core.domain.strategy import Answer
from tuner.core.ranking.live_status import Board
from tuner.core.text.safe_text import printable
from tuner.reports.live.live import Look, live_lines
from tuner.reports.live.live_words import describe_place, describe_standing
from tuner.reports.text.cells import cut_cells, paint_line, plain, width

from ..printed import printed
from ..wording import wording
from . import boards

BOARDS = {
    "race": boards.race(),
    "at_rest": boards.race("at-rest"),
    "grid": boards.grid(),
    "over": boards.over(),
    "limits": boards.limited(),
    "hostile": boards.hostile(),
    "crowd": boards.crowd(),
    "fleet": boards.fleet(),
    "turns": boards.in_turns(),
}
GO_ON = "tuner grid --resume s.tuner.db"


@pytest.fixture(autouse=True)
def in_utc(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def shown(board: Board, columns: int = 80, lines: int = 23, *, unicode: bool = True) -> list[str]:
    look = Look(columns, lines, boards.NOW_S, unicode=unicode)
    return [
        paint_line(line, columns, unicode=unicode, colours=False)[0].rstrip()
        for line in live_lines(board, look, go_on=GO_ON)
    ]


@pytest.mark.parametrize("name", BOARDS)
def test_the_view_at_80_columns_is_as_it_was_approved(name: str) -> None:
    picture = "\n".join(shown(BOARDS[name])) + "\n"

    assert picture == printed("watch", f"{name}.txt")


def test_without_unicode_the_view_is_ascii() -> None:
    picture = "\n".join(shown(boards.race(), unicode=False)) + "\n"

    assert picture.isascii()
    assert picture == printed("watch", "ascii.txt")


@pytest.mark.parametrize("name", BOARDS)
@pytest.mark.parametrize("unicode", [True, False])
def test_no_line_is_wider_and_no_view_is_higher_than_its_terminal(name: str, unicode: bool) -> None:
    for columns in (20, 33, 40, 60, 79, 100, 133, 200):
        for lines in (1, 2, 3, 6, 10, 20, 50):
            look = Look(columns, lines, boards.NOW_S, unicode=unicode)
            drawn = live_lines(BOARDS[name], look, go_on=GO_ON)
            painted_lines = [paint_line(line, columns, unicode=unicode, colours=True) for line in drawn]

            assert len(drawn) <= lines
            assert max(cells for _, cells in painted_lines) <= columns
            for line in drawn:
                text = "".join(piece for piece, _ in line)
                assert not text or text.isprintable()


def test_what_runs_and_what_cannot_run_have_a_row_among_five_hundred() -> None:
    rows = shown(boards.crowd(), lines=20)

    assert any(row.startswith("▶ 7x1 ") for row in rows)
    assert any(wording("fleet.layout-cannot-run-no-file") in row for row in rows)
    assert any(row.startswith("  ... and 4") and "not measured yet" in row for row in rows)


def test_five_hundred_layouts_are_all_there_where_nothing_limits_the_height() -> None:
    rows = shown(boards.crowd(), lines=100_000)

    assert sum(row[1:2] == " " and row[2:3].isdigit() for row in rows) == 500


def test_a_layout_that_starts_says_for_how_long_though_nobody_has_told_anything_since() -> None:
    live = boards.live_of("6x4", phase="starting", window_s=None, elapsed_s=0.0, at_wall_s=boards.NOW_S - 60)
    text = "\n".join(shown(replace(boards.race(), live=live)))

    assert wording("watch.starting", lasts="60 s") in text
    assert wording("fleet.last-heard-of").split()[0] not in text


def test_a_word_that_is_old_says_how_old() -> None:
    look = Look(80, 20, boards.NOW_S + 299)

    assert any(wording("fleet.last-heard-of") in line for line in plain(live_lines(boards.race(), look)))


def test_no_layout_gives_way_to_a_blank_line() -> None:
    board = boards.race()
    by_height = [shown(board, lines=n) for n in range(10, 30)]

    for rows in by_height:
        assert not ("" in rows and any("... and" in row for row in rows) and len(rows) < 17)
    assert any("" not in rows and any("12x2" in row for row in rows) for rows in by_height)


def test_a_reason_continues_below_where_there_is_room_and_else_ends_where_it_must() -> None:
    board = replace(boards.race(), places=boards.race().places[4:6], live=None)
    long = replace(board.places[1], reason=f"{board.places[1].reason}; its log: {'x y ' * 40}z")
    board = replace(board, places=(board.places[0], long))

    wide, low = shown(board, lines=40), shown(board, lines=5)

    assert any("out of memory" in row for row in wide)
    assert sum(wording("watch.shares-of-a-picture") in row for row in wide) == 3
    assert wide[wide.index(next(row for row in wide if "cannot run" in row)) + 1].startswith(" " * 9)
    assert len(low) <= 5


def test_of_several_limits_that_are_open_none_is_named() -> None:
    memory, load = (boards.not_shown(name, 20.0, 19.0) for name in ("memory_bytes", "load"))
    both = Verdict("open", (*memory.findings, *load.findings))
    board = boards.limited()

    reported = [describe_place(replace(board.places[0], verdict=one), board) for one in (load, both)]

    assert reported == ["leads, load open", "leads, limits open"]


@pytest.mark.parametrize("board", [boards.race(), boards.grid()], ids=["race", "grid"])
def test_a_study_whose_windows_are_all_void_says_so(board: Board) -> None:
    void = tuple(boards.place(str(one.layout), "unseen", n=0, void=2) for one in board.places)

    lines = describe_standing(replace(board, places=void, answer=Answer(None, False, "none")))

    assert lines == wording("watch.no-window-counts-so-far", value=2 * len(void))


def test_a_launch_that_is_discarded_is_no_block() -> None:
    result = plain(
        live_lines(replace(boards.grid(), live=boards.live_of("4x6", block=-1)), Look(80, 30, boards.NOW_S))
    )

    assert any(wording("watch.now-first-launch") in line for line in result)


def test_text_is_cut_by_cells_and_keeps_nothing_that_steers() -> None:
    assert printable("a\x1b[31m\n\tb\u202e\x9bc") == "a?[31m b??c"
    assert (width("日本"), width("é"), width("e\u0301")) == (4, 1, 1)
    assert cut_cells("日本語", 4, unicode=True) == "日…"
    assert cut_cells("abcdef", 4, unicode=False) == "ab.."
    assert cut_cells("abc", 3, unicode=True) == "abc"


def test_a_study_in_which_nothing_keeps_the_limits_says_so() -> None:
    board = boards.limited()
    kept_out = tuple(replace(one, state="kept-out") for one in board.places[:2])
    lines = describe_standing(replace(board, places=kept_out, answer=Answer(None, False, "none")))

    load = wording("rank.limit", quantity="load", value=20)
    memory = wording("rank.limit", quantity="memory", value="8.59 GB")
    assert lines == wording("rank.no-layout-keeps", limits=f"{load} and {memory}")


def test_many_boxes_are_counted_by_what_they_do_and_leave_room_for_the_layouts() -> None:
    board = boards.fleet()
    assert board.live is not None
    many = tuple(boards.box_of(f"box-{n}", "4x6", "window" if n % 2 else "warming-up") for n in range(1000))
    lines = shown(replace(board, live=replace(board.live, boxes=many), n_boxes=1000), lines=24)

    assert len(lines) <= 24
    assert len([line for line in lines if line.startswith("now ")]) == 7
    assert wording("watch.more-boxes") in lines
    assert any("4x6" in line and "leads" in line for line in lines)


def test_every_layout_that_runs_on_some_box_is_marked() -> None:
    marked = [line.split()[1] for line in shown(boards.fleet(), lines=40) if line.startswith("▶ ")]

    assert marked == ["4x6", "6x4", "8x3", "1x24"]
