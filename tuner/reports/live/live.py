"""Terminal view of a running study: the current launch, the leader, the time left and all layouts."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from tuner.core.domain.layout import Layout
from tuner.core.domain.live import BoxLive, Live
from tuner.core.domain.records import is_simulated, simulation_notes
from tuner.core.ranking.live_status import Board, LayoutStatus
from tuner.core.text.figures import pluralize, render_rest
from tuner.core.text.safe_text import printable
from tuner.reports.live.live_table import table_lines
from tuner.reports.live.live_words import (
    describe_end,
    describe_goal,
    describe_idle,
    describe_last_window,
    describe_phase,
    describe_remaining,
    describe_standing,
    format_head,
    format_rate,
)
from tuner.reports.text.cells import Line, Style, cut_cells, pad_cells, width, wrap_cells

#: news normally arrives every two seconds; if it is older than this, its age is printed
_SILENT_S = 15.0
_STARTING_SILENT_S = 120.0  #: the longest time without news while a layout starts


@dataclass(frozen=True, slots=True)
class Look:
    """The terminal that shows the view."""

    columns: int
    lines: int  #: largest number of lines
    now_wall_s: float
    unicode: bool = True  #: False: ASCII only


def live_lines(board: Board, look: Look, *, go_on: str | None = None, says: str | None = None) -> list[Line]:
    """Return the view in as many lines as the terminal has, none wider than the terminal.

    Args:
        board: state of the study.
        look: the terminal.
        go_on: the command that resumes an interrupted study.
        says: a further line at the end.
    """
    head: list[Line] = [
        *(
            line
            for reported in simulation_notes(board.study)
            for line in _wrap([(printable(reported), "doubtful")], look)
        ),
        *_wrap([(format_head(board), "bold")], look),
    ]
    first = [*_now(board, look), *_standing(board, look)]
    warnings: list[Line] = []
    if board.live is not None:
        for slug, text in board.live.warnings[-2:]:
            warnings += _hanging("warning ", f"{printable(slug)}: {printable(text)}", "doubtful", look)
    last: list[Line] = []
    if board.last is not None:
        last = _hanging(
            "last   ", describe_last_window(board.last, board.study, n_boxes=board.n_boxes), "dim", look
        )
    goal = _wrap([(describe_goal(board), "dim")], look)
    end = [] if board.stage == "over" else _wrap([(describe_end(board), "dim")], look, 4)
    command: list[Line] = []
    if board.stage == "at-rest" and go_on:
        command += _wrap([(f"Continue with: {printable(go_on)}", "bold")], look, 8)
    command += [] if says is None else [[(says, "bold")]]
    # The parts that fit, the most important first; with blank lines between them if there is room.
    room = look.lines - len(first) - len(command)
    for part in (head, warnings, end, goal, last):
        if room - len(part) < min(4, len(board.places) + 1):
            part.clear()
        room -= len(part)
    n_rows = len(board.places) + 1
    blanks = 2 if room >= n_rows + 2 or 12 <= room < n_rows else 0  # no layout is dropped for a blank line
    table = table_lines(board, look.columns, max(0, room - blanks), unicode=look.unicode)
    gap: list[Line] = [[("", "")]] if blanks else []
    below = [*last, *warnings, *goal, *end, *command]
    return [*head, *first, *gap, *table, *gap, *below][: look.lines]


# ---------------------------------------------------------------------- current launch, time left


def _now_lines(live: Live, look: Look) -> list[Line]:
    age_s = max(0.0, look.now_wall_s - live.at_wall_s)
    layout: Layout | None = live.layout
    which = f"block {live.block + 1}" if live.block >= 0 else "before block 1, not used"
    name = "nothing yet" if layout is None else f"{layout}, {which}"
    silent_s = _STARTING_SILENT_S if live.phase == "starting" else _SILENT_S
    elapsed_s = live.elapsed_s + min(age_s, silent_s)
    first: list[tuple[str, Style]] = [("now    ", "dim"), (f"{name}: ", "bold"), (describe_phase(live), "")]
    if live.window_s:
        elapsed_s = min(elapsed_s, live.window_s)
        first += [(" ", ""), *_fill(elapsed_s / live.window_s, 20, unicode=look.unicode)]
        first.append((f" {render_rest(elapsed_s)} of {render_rest(live.window_s)}", ""))
    elif layout is not None:
        first.append((f", {render_rest(elapsed_s)}", ""))
    second = [part for part in (format_rate(live), _describe_load(live)) if part]
    if age_s >= silent_s:
        second.append(f"last update {render_rest(age_s)} ago")
    lines: list[Line] = [first]
    if second:
        lines.append([("       ", ""), (", ".join(second), "")])
    if idle := describe_idle(live):
        lines.append([("       ", ""), (cut_cells(idle, look.columns - 7, unicode=look.unicode), "dim")])
    return lines


def _box_lines(live: Live, look: Look) -> list[Line]:
    """A line for each host of a fleet, in at most a third of the terminal, and the phases of the others."""
    age_s = max(0.0, look.now_wall_s - live.at_wall_s)
    most = max(2, look.lines // 3)
    shown = live.boxes if len(live.boxes) <= most else live.boxes[: most - 1]
    cells = min(12, max(width(printable(one.box)) for one in shown))
    lines: list[Line] = []
    for one in shown:
        name = pad_cells(cut_cells(printable(one.box), cells, unicode=look.unicode), cells)
        lines.append([("now    ", "dim"), (f"{name}  ", "bold"), *_of_box(one, age_s, look)])
    if rest := live.boxes[len(shown) :]:
        counts = Counter(describe_phase(one) for one in rest)
        kinds = ", ".join(f"{n} {kind}" for kind, n in counts.items())
        lines.append([(f"       ... and {pluralize(len(rest), 'more host')}: {kinds}", "dim")])
    if age_s >= _SILENT_S:
        lines.append([(f"       last update {render_rest(age_s)} ago", "")])
    return lines


def _of_box(one: BoxLive, age_s: float, look: Look) -> Line:
    if one.layout is None:
        return [("nothing yet", "dim")]
    which = f"block {one.block + 1}" if one.block >= 0 else "discarded"
    elapsed_s = one.elapsed_s + min(age_s, _SILENT_S)
    line: list[tuple[str, Style]] = [(f"{one.layout}, {which}: ", ""), (describe_phase(one), "")]
    if one.window_s:
        elapsed_s = min(elapsed_s, one.window_s)
        line += [(" ", ""), *_fill(elapsed_s / one.window_s, 5, unicode=look.unicode)]
        line.append((f" {render_rest(elapsed_s)} of {render_rest(one.window_s)}", ""))
    elif one.phase != "between":
        line.append((f", {render_rest(elapsed_s)}", ""))
    rate = format_rate(one, "/10 min")
    return [*line, (f", {rate}", "")] if rate else line


def _describe_load(live: Live) -> str:
    load = "" if live.load1 is None else f"load1 {live.load1:.2f}"
    active = "" if live.n_active is None else f"active {live.n_active}"
    return ", ".join(filter(None, [load, active]))


def _fill(share: float, cells: int, *, unicode: bool) -> Line:
    full = min(cells, max(0, int(share * cells)))
    done, left = ("█", "░") if unicode else ("#", ".")
    return [(done * full, "good"), (left * (cells - full), "dim")]


def _now(board: Board, look: Look) -> list[Line]:
    """The launch that runs now, a line for each host of a fleet."""
    if board.live is not None:
        return _box_lines(board.live, look) if board.live.boxes else _now_lines(board.live, look)
    return [[("Nothing is being measured.", "")]] if board.stage == "at-rest" else []


def _standing(board: Board, look: Look) -> list[Line]:
    """The leader, and the time left until there is an answer."""
    lines: list[Line] = []
    if sentences := describe_standing(board):
        lines += _hanging("best   ", sentences, "dim", look, 3)
    if board.stage != "over" and (rest := describe_remaining(board, look.now_wall_s)):
        lines += _hanging("left   ", rest, "dim", look)
    return lines


def _hanging(name: str, text: str, style: Style, look: Look, most: int = 2) -> list[Line]:
    """Return *text* next to its *name*, in at most *most* lines."""
    cells = max(1, look.columns - width(name))
    first, *further = wrap_cells(text, cells, most, unicode=look.unicode)
    blank = pad_cells("", width(name))
    lines: list[Line] = [[(name, style), (first, "")]]
    lines += [[(blank, ""), (part, "")] for part in further]
    return lines


def _wrap(line: Line, look: Look, most: int = 3) -> list[Line]:
    ((text, style),) = line
    return [[(part, style)] for part in wrap_cells(text, look.columns, most, unicode=look.unicode) if part]


# JSON fields of a running study; docs/watch.md lists them.


def live_facts(name: str, board: Board, go_on: str | None) -> dict[str, Any]:
    """Return the contents of the view of *board*; *name* is the study's file, *go_on* the command to
    resume it.
    """
    answer, study = board.answer, board.study
    return {
        "schema_version": 1,
        "simulated": is_simulated(study),
        "file": name,
        "service": study.service,
        "host": study.provenance.host,
        "strategy": study.strategy,
        "objective": study.objective,
        "cores": study.cores,
        "within": study.within_ratio,
        "confidence": study.confidence,
        "kind": study.kind,
        "stage": board.stage,
        "standing": describe_standing(board) or None,
        "leader": None if answer is None or answer.layout is None else str(answer.layout),
        "reached": answer is not None and answer.reached,
        "windows": board.n_windows,
        "void": board.n_void,
        "layouts": [_place(place) for place in board.places],
        "live": None if board.live is None else moment_facts(board.live),
        "rest_s": board.rest_s if board.live is None else board.live.remaining_s,
        "ends": describe_end(board),
        "go_on": go_on,
    }


def _place(place: LayoutStatus) -> dict[str, Any]:
    return {
        "layout": str(place.layout),
        "state": place.state,
        "value": asdict(place.value),
        "behind_ratio": place.behind_ratio,
        "n_windows": place.n_windows,
        "n_void": place.n_void,
        "reason": place.reason,
    }


def moment_facts(live: Live) -> dict[str, Any]:
    """Return what runs at this moment."""
    warnings = [{"slug": slug, "text": text} for slug, text in live.warnings]
    layout = None if live.layout is None else str(live.layout)
    facts = {**asdict(live), "layout": layout, "warnings": warnings}
    boxes = [{**asdict(box), "layout": None if box.layout is None else str(box.layout)} for box in live.boxes]
    del facts["boxes"], facts["started"]
    started = [str(one) for one in live.started]
    return {**facts, **({"started": started} if started else {}), **({"boxes": boxes} if boxes else {})}
