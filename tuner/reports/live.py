"""A study as it stands, for a terminal: every layout with its interval, what runs, what ends it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tuner.core.board import Board, Place, State
from tuner.core.durations import render_rest
from tuner.core.interval import Estimate
from tuner.core.layout import Layout
from tuner.core.overview import Live
from tuner.core.simulated import simulated_told
from tuner.reports.cells import Line, Style, cut, padded, printable, width, wrapped
from tuner.reports.live_words import (
    STATES,
    asked_told,
    end_told,
    head_told,
    last_told,
    phase_told,
    place_told,
    rate_told,
    rest_told,
    standing_told,
    value_told,
)

_SILENT_S = 15.0  #: what runs says something every other second, but while a layout starts or stops
_WIDEST_BAR, _NARROWEST_BAR, _WIDEST_STATE = 60, 8, 28
_STYLES: dict[State, Style] = {
    "leads": "good", "open": "", "behind": "dim", "kept-out": "doubtful", "left-out": "bad", "failed": "bad",
    "unseen": "dim",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Look:
    """The terminal that a board is shown on."""

    columns: int
    lines: int  #: so many at most are drawn
    now_wall_s: float
    unicode: bool = True  #: False: ASCII alone


def live_lines(board: Board, look: Look, *, go_on: str | None = None, says: str | None = None) -> list[Line]:
    """The board in so many lines as the terminal has, none wider than it is.

    Args:
        board: the study.
        look: where it is shown.
        go_on: the command that goes on with a study that was cut off.
        says: what else the reader should know, a line at the end.
    """
    head: list[Line] = [
        *(
            line
            for told in simulated_told(board.study)
            for line in _wrapped([(printable(told), "doubtful")], look, 2)
        ),
        *_wrapped([(head_told(board), "bold")], look, 2),
        *_wrapped([(asked_told(board), "dim")], look, 2),
    ]
    now = _now_lines(board.live, look) if board.live is not None else []
    warnings: list[Line] = []
    if board.live is not None:
        warnings = [_warning(slug, text) for slug, text in board.live.warnings[-2:]]
    last: list[Line] = [] if board.last is None else [[("last   ", "dim"), (last_told(board.last), "")]]
    end = [line for text in _end(board, look) for line in _wrapped([(text, "")], look, 2)]
    if board.stage == "at-rest" and go_on:
        end += _wrapped([(f"Go on with: {printable(go_on)}", "bold")], look, 8)
    end += [] if says is None else [[(says, "bold")]]
    # What fits, the dearest first; a blank line stands between the parts where there is room.
    fixed = [*now, *end]
    room = look.lines - len(fixed)
    for part in (head, last, warnings):
        if room - len(part) < min(4, len(board.places) + 1):
            part.clear()
        room -= len(part)
    blanks = 2 if room >= len(board.places) + 3 or room >= 8 else 0
    table = _table(board, look, max(0, room - blanks))
    gap: list[Line] = [[("", "")]] if blanks else []
    return [*head, *(gap if head else []), *table, *gap, *now, *last, *warnings, *end][: look.lines]


# ---------------------------------------------------------------------- the layouts


def _table(board: Board, look: Look, room: int) -> list[Line]:
    """The layouts in *room* lines at most, with a head where it fits; the most interesting ones first."""
    if room < 2 or not board.places:
        return []
    shown, rest = _chosen(board, room - 1)
    columns = _Columns.of(board, shown, look)
    lines: list[Line] = [[(columns.head(board), "dim")]]
    running = board.live.layout if board.live is not None else None
    lines += [columns.row(board, place, is_running=place.layout == running) for place in shown]
    if rest:
        lines.append([(_others_told(rest, board), "dim")])
    return lines


def _chosen(board: Board, room: int) -> tuple[list[Place], list[Place]]:
    """Those with a row, and the others; what runs has one, and one that cannot be run where there is room."""
    places = list(board.places)
    if len(places) <= room:
        return places, []
    n_shown = max(1, room - 1)
    shown, rest = places[:n_shown], places[n_shown:]
    wanted: list[Place] = []
    if n_shown >= 5:
        wanted += [place for place in rest if place.state in ("failed", "left-out", "kept-out")][:1]
    if board.live is not None:
        wanted += [place for place in rest if place.layout == board.live.layout and place not in wanted]
    if wanted and n_shown > len(wanted):
        kept = shown[: n_shown - len(wanted)]
        shown = [*kept, *(place for place in rest if place in wanted)]
        rest = [place for place in places if place not in shown]
    return shown, rest


def _others_told(rest: Sequence[Place], board: Board) -> str:
    counts = Counter(STATES[board.study.strategy == "race"][place.state] for place in rest)
    kinds = ", ".join(f"{n} {kind}" for kind, n in counts.items())
    return f"  ... and {len(rest)} {'other' if len(rest) == 1 else 'others'}: {kinds}"


@dataclass(frozen=True, slots=True)
class _Columns:
    """How wide each is, and the scale of the bars."""

    name: int
    value: int
    bar: int  #: 0: there is no room for one
    windows: int
    state: int
    low: float
    high: float
    unicode: bool

    @classmethod
    def of(cls, board: Board, shown: Sequence[Place], look: Look) -> _Columns:
        name = min(24, max(6, *(len(str(place.layout)) for place in shown)))
        value = max(12, *(width(value_told(place.value.mean, board)) for place in shown))
        windows = max(7, *(len(_windows_told(place)) for place in shown))
        told = (width(place_told(place, board)) for place in shown)
        state = max([11, *(cells for cells in told if cells <= _WIDEST_STATE)])
        scale = _scale(board.places)
        left = look.columns - (2 + name + 1 + value + 2 + windows + 2)
        bar = 0
        if scale is not None:
            bar = min(_WIDEST_BAR, left - 2 - state)
            bar = 0 if bar < _NARROWEST_BAR else bar
        low, high = scale or (0.0, 1.0)
        return cls(name, value, bar, windows, left - bar - 2 * bool(bar), low, high, look.unicode)

    def head(self, board: Board) -> str:
        unit = "items/10 min" if board.study.objective == "throughput" else "items/CPU s"
        first = padded("layout", self.name) + " " + padded(unit, self.value, right=True)
        bar = ""
        if self.bar:
            low, high = value_told(self.low, board), value_told(self.high, board)
            blanks = self.bar - len(low) - len(high)
            bar = f"  {low}{' ' * blanks}{high}" if blanks > 0 else " " * (self.bar + 2)
        return f"  {first}{bar}  {padded('windows', self.windows, right=True)}"

    def row(self, board: Board, place: Place, *, is_running: bool) -> Line:
        style = _STYLES[place.state]
        mark = ("▶ " if self.unicode else "> ") if is_running else "  "
        name = padded(cut(str(place.layout), self.name, unicode=self.unicode), self.name)
        told = place_told(place, board)
        windows = padded(_windows_told(place), self.windows, right=True)
        if place.value.mean is None:  # why it has no value may take the room of the value
            gap = self.value + 2 + (self.bar + 2 if self.bar else 0) + self.windows
            if width(told) > self.state:
                return [(mark, "bold"), (f"{name} ", style), (f"{told}", style)]
            blank = padded("", gap - self.windows)
            return [(mark, "bold"), (f"{name} {blank}{windows}  ", style), (told, style)]
        value = padded(value_told(place.value.mean, board), self.value, right=True)
        bar: Line = []
        if self.bar:
            drawn = _bar(place.value, self.low, self.high, self.bar, unicode=self.unicode)
            bar = [("  ", ""), (drawn, style)]
        return [
            (mark, "bold"), (f"{name} ", style or "bold"), (value, style), *bar, (f"  {windows}  ", style),
            (told, style),
        ]  # fmt: skip


def _windows_told(place: Place) -> str:
    return f"{place.n_windows}+{place.n_void} void" if place.n_void else f"{place.n_windows}"


def _scale(places: Sequence[Place]) -> tuple[float, float] | None:
    """What the bars reach from and to: all values, and their intervals within reason."""
    means = [place.value.mean for place in places if place.value.mean is not None]
    if not means:
        return None
    low, high = min(means), max(means)
    reach = max(high - low, 0.05 * abs(high)) or 1.0
    for place in places:
        if place.value.low is not None and place.value.high is not None:
            low = min(low, max(place.value.low, min(means) - reach / 2))
            high = max(high, min(place.value.high, max(means) + reach / 2))
    if high - low < 1e-9 * max(abs(high), 1e-300):
        low, high = low - reach / 2, high + reach / 2
    return max(0.0, low), high


def _bar(value: Estimate, low: float, high: float, cells: int, *, unicode: bool) -> str:
    """An interval with its middle, on a scale from *low* to *high*; arrows where it goes on."""
    line, dot, before, behind = ("─", "●", "◂", "▸") if unicode else ("-", "o", "<", ">")

    def at(x: float) -> int:
        share = (x - low) / (high - low)
        return min(cells - 1, max(0, round(share * (cells - 1))))

    drawn = [" "] * cells
    if value.low is not None and value.high is not None:
        for n in range(at(value.low), at(value.high) + 1):
            drawn[n] = line
        edge = (high - low) / (2 * cells)
        if value.low < low - edge:
            drawn[0] = before
        if value.high > high + edge:
            drawn[-1] = behind
    if value.mean is not None:
        drawn[at(value.mean)] = dot
    return "".join(drawn)


# ---------------------------------------------------------------------- what runs, what is left


def _now_lines(live: Live, look: Look) -> list[Line]:
    age_s = max(0.0, look.now_wall_s - live.at_wall_s)
    layout: Layout | None = live.layout
    name = "nothing yet" if layout is None else f"{layout}, block {live.block + 1}"
    elapsed_s = live.elapsed_s + min(age_s, _SILENT_S)
    first: list[tuple[str, Style]] = [("now    ", "dim"), (f"{name}: ", "bold"), (phase_told(live), "")]
    if live.window_s:
        elapsed_s = min(elapsed_s, live.window_s)
        first += [(" ", ""), *_filled(elapsed_s / live.window_s, 20, unicode=look.unicode)]
        first.append((f" {render_rest(elapsed_s)} of {render_rest(live.window_s)}", ""))
    elif layout is not None:
        first.append((f", {render_rest(elapsed_s)}", ""))
    second = [part for part in (rate_told(live), _load_told(live)) if part]
    if age_s >= _SILENT_S:
        second.append(f"last heard of {render_rest(age_s)} ago")
    return [first, [("       ", ""), (", ".join(second), "")]] if second else [first]


def _load_told(live: Live) -> str:
    load = "" if live.load1 is None else f"load {live.load1:.2f}"
    active = "" if live.n_active is None else f"active {live.n_active}"
    return ", ".join(filter(None, [load, active]))


def _filled(share: float, cells: int, *, unicode: bool) -> Line:
    full = min(cells, max(0, int(share * cells)))
    done, left = ("█", "░") if unicode else ("#", ".")
    return [(done * full, "good"), (left * (cells - full), "dim")]


def _warning(slug: str, text: str) -> Line:
    return [("warning ", "doubtful"), (f"{printable(slug)}: {printable(text)}", "")]


def _end(board: Board, look: Look) -> list[str]:
    told = [standing_told(board)]
    if board.stage == "over":
        return [text for text in told if text]
    rest = rest_told(board, look.now_wall_s)
    if board.stage == "at-rest":
        told.append(f"Nobody measures at the moment{f', {rest}' if rest else ''}.")
        told.append(end_told(board))
    else:
        told.append(" ".join(filter(None, [rest, end_told(board)])))
    return [text for text in told if text]


def _wrapped(line: Line, look: Look, most: int) -> list[Line]:
    ((text, style),) = line
    return [[(part, style)] for part in wrapped(text, look.columns, most, unicode=look.unicode) if part]
