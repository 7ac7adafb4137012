"""Terminal table of the layouts of a running study: a row each, with an interval bar and a status."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass

from tuner.core.domain.layout import Layout
from tuner.core.ranking.live_status import Board, LayoutStatus, State
from tuner.core.stats.interval import Estimate
from tuner.reports.live.live_words import STATES, describe_place, format_value
from tuner.reports.text.cells import Line, Style, cut_cells, pad_cells, width, wrap_cells

_WIDEST_BAR, _NARROWEST_BAR, _WIDEST_STATE = 60, 8, 30
_MOST_FURTHER = 3  #: largest number of lines of a reason after its first one, if there is room
_STYLES: dict[State, Style] = {
    "leads": "good", "tied": "good", "open": "", "behind": "dim", "kept-out": "doubtful", "left-out": "bad",
    "failed": "bad", "unseen": "dim",
}  # fmt: skip


def table_lines(board: Board, cells: int, room: int, *, unicode: bool) -> list[Line]:
    """Return the layouts in *room* lines of *cells* cells, below a header, the most relevant ones first."""
    if room < 2 or not board.places:
        return []
    shown, rest = _choose_rows(board, room - 1)
    columns = _Columns.of(board, shown, cells, unicode=unicode)
    lines: list[Line] = [[(columns.head(board), "dim")]]
    running = _running(board)
    spare = room - 1 - len(shown) - bool(rest)
    for place in shown:
        row = columns.rows(board, place, spare, is_running=place.layout in running)
        spare -= len(row) - 1
        lines += row
    if rest:
        lines.append([(_describe_rest(rest, board), "dim")])
    return lines


def _running(board: Board) -> Set[Layout | None]:
    """Return the layouts that run on any host."""
    if board.live is None:
        return frozenset()
    return {one.layout for one in board.live.boxes or (board.live,)}


def _choose_rows(board: Board, room: int) -> tuple[list[LayoutStatus], list[LayoutStatus]]:
    """Return the layouts with a row, and the others; running layouts have one, failing ones if there is
    room.
    """
    places = list(board.places)
    if len(places) <= room:
        return places, []
    n_shown = max(1, room - 1)
    shown, rest = places[:n_shown], places[n_shown:]
    wanted: list[LayoutStatus] = []
    if n_shown >= 5:
        wanted += [place for place in rest if place.state in ("failed", "left-out", "kept-out")][:1]
    if board.live is not None:
        running = _running(board)
        wanted += [place for place in rest if place.layout in running and place not in wanted]
    if wanted and n_shown > len(wanted):
        kept = shown[: n_shown - len(wanted)]
        shown = [*kept, *(place for place in rest if place in wanted)]
        rest = [place for place in places if place not in shown]
    return shown, rest


def _describe_rest(rest: Sequence[LayoutStatus], board: Board) -> str:
    counts = Counter(STATES[board.study.strategy == "race"][place.state] for place in rest)
    kinds = ", ".join(f"{n} {kind}" for kind, n in counts.items())
    return f"  ... and {len(rest)} {'other' if len(rest) == 1 else 'others'}: {kinds}"


@dataclass(frozen=True, slots=True)
class _Columns:
    """Width of each column, and the scale of the bars."""

    name: int
    value: int
    bar: int  #: width in characters; 0: no room for a bar
    windows: int
    state: int
    low: float
    high: float
    unicode: bool

    @classmethod
    def of(cls, board: Board, shown: Sequence[LayoutStatus], cells: int, *, unicode: bool) -> _Columns:
        name = min(24, max(6, *(len(str(place.layout)) for place in shown)))
        value = max(12, *(width(format_value(place.value.mean, board)) for place in shown))
        windows = max(7, *(len(_describe_windows(place)) for place in shown))
        # A reason without a value next to it takes the whole line, so its width does not count.
        reported = [(width(describe_place(place, board)), place.value.mean is not None) for place in shown]
        state = max([11, *(min(one, _WIDEST_STATE) for one, has in reported if has or one <= _WIDEST_STATE)])
        scale = _scale(board.places)
        left = cells - (2 + name + 1 + value + 2 + windows + 2)
        bar = 0
        if scale is not None:
            bar = min(_WIDEST_BAR, left - 2 - state)
            bar = 0 if bar < _NARROWEST_BAR else bar
        low, high = scale or (0.0, 1.0)
        return cls(name, value, bar, windows, left - bar - 2 * bool(bar), low, high, unicode)

    def head(self, board: Board) -> str:
        unit = "items/10 min" if board.study.objective == "throughput" else "items/CPU s"
        first = pad_cells("layout", self.name) + " " + pad_cells(unit, self.value, right=True)
        bar = ""
        if self.bar:
            low, high = format_value(self.low, board), format_value(self.high, board)
            blanks = self.bar - len(low) - len(high)
            bar = f"  {low}{' ' * blanks}{high}" if blanks > 0 else " " * (self.bar + 2)
        return f"  {first}{bar}  {pad_cells('windows', self.windows, right=True)}"

    def rows(self, board: Board, place: LayoutStatus, spare: int, *, is_running: bool) -> list[Line]:
        """Return its line, and up to *spare* more for a long reason."""
        style = _STYLES[place.state]
        mark = ("▶ " if self.unicode else "> ") if is_running else "  "
        name = pad_cells(cut_cells(str(place.layout), self.name, unicode=self.unicode), self.name)
        lines = describe_place(place, board)
        windows = pad_cells(_describe_windows(place), self.windows, right=True)
        if place.value.mean is None:  # the reason may take the room of the value
            gap = self.value + 2 + (self.bar + 2 if self.bar else 0) + self.windows
            if width(lines) > self.state:
                own: Line = [(mark, "bold"), (f"{name} ", style)]
                return self._beside(own, lines, style, gap + 2 + self.state, spare)
            blank = pad_cells("", gap - self.windows)
            return [[(mark, "bold"), (f"{name} {blank}{windows}  ", style), (lines, style)]]
        value = pad_cells(format_value(place.value.mean, board), self.value, right=True)
        bar: Line = []
        if self.bar:
            drawn = _bar(place.beside or place.value, self.low, self.high, self.bar, unicode=self.unicode)
            bar = [("  ", ""), (drawn, style)]
        own = [
            (mark, "bold"), (f"{name} ", style or "bold"), (value, style), *bar, (f"  {windows}  ", style),
        ]  # fmt: skip
        return self._beside(own, lines, style, self.state, spare)

    def _beside(self, own: Line, sentence: str, style: Style, cells: int, spare: int) -> list[Line]:
        """Return *sentence* in the last *cells* of a line that begins with *own*, and of the following
        lines.
        """
        first, *further = wrap_cells(
            sentence, max(1, cells), 1 + max(0, min(spare, _MOST_FURTHER)), unicode=self.unicode
        )
        blank = pad_cells("", sum(width(text) for text, _ in own))
        return [[*own, (first, style)], *([(blank, ""), (part, style)] for part in further)]


def _describe_windows(place: LayoutStatus) -> str:
    return f"{place.n_windows}+{place.n_void} invalid" if place.n_void else f"{place.n_windows}"


def _scale(places: Sequence[LayoutStatus]) -> tuple[float, float] | None:
    """Return the range of the bars: all values, and their intervals within reason."""
    means = [place.value.mean for place in places if place.value.mean is not None]
    if not means:
        return None
    low, high = min(means), max(means)
    reach = max(high - low, 0.05 * abs(high)) or 1.0
    for place in places:
        drawn = place.beside or place.value
        if drawn.low is not None and drawn.high is not None:
            low = min(low, max(drawn.low, min(means) - reach / 2))
            high = max(high, min(drawn.high, max(means) + reach / 2))
    if high - low < 1e-9 * max(abs(high), 1e-300):
        low, high = low - reach / 2, high + reach / 2
    return max(0.0, low), high


def _bar(value: Estimate, low: float, high: float, cells: int, *, unicode: bool) -> str:
    """Return an interval with its middle, on a scale from *low* to *high*; arrows where it extends beyond."""
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
