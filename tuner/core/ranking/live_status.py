"""The state of each layout of a running study, for the live view."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from tuner.core.defaults import TEN_MINUTES_S
from tuner.core.domain.layout import Layout
from tuner.core.domain.limits import Verdict
from tuner.core.domain.live import Live
from tuner.core.domain.records import LaunchRecord, StudyRecord, WindowRecord
from tuner.core.domain.safety_limits import over_limit, why_kept_out
from tuner.core.domain.strategy import Answer
from tuner.core.domain.window import Window
from tuner.core.ranking.overview import Overview
from tuner.core.ranking.ranked import RankedLayout, Ranking, value_beside
from tuner.core.stats.groups import OfBest, behind_by, of_value
from tuner.core.stats.interval import Estimate

State = Literal["leads", "tied", "open", "behind", "kept-out", "left-out", "failed", "unseen"]
Stage = Literal["running", "over", "at-rest"]

_ORDER: tuple[State, ...] = get_args(State)
_NAMES_ONE = ("race", "all")  #: strategies that name a best layout


@dataclass(frozen=True, slots=True)
class LayoutStatus:
    """State of one layout in a live view."""

    layout: Layout
    state: State
    value: Estimate  #: items per 10 minutes, or items per CPU second if that is the objective
    behind_ratio: float | None  #: least distance behind the leader, as a share; None: unknown
    n_windows: int  #: number of valid windows
    n_void: int
    reason: str | None = None  #: reason why it is kept out, left out, cannot run, or has no valid window
    #: whether it keeps the limits; None: there are no limits, or it is not known yet
    verdict: Verdict | None = None
    beside: Estimate | None = None  #: interval behind its state, in the unit of *value*; None: unknown


@dataclass(frozen=True, slots=True)
class Board:
    """State of a study in a live view."""

    study: StudyRecord
    stage: Stage
    places: tuple[LayoutStatus, ...]  #: leader first, layouts without a window last
    answer: Answer | None  #: None: the strategy names no layout
    live: Live | None = None
    last: WindowRecord | None = None  #: last window; None: there is none yet, or it is shown elsewhere
    rest_s: float | None = None  #: expected rest of a study that is not running, seconds; None: unknown
    is_spent: bool = False  #: whether the budget has no room for the next measurement
    n_boxes: int = 1  #: number of hosts that measure or measured it

    @property
    def n_windows(self) -> int:
        """Return the number of valid windows."""
        return sum(place.n_windows for place in self.places)

    @property
    def n_void(self) -> int:
        """Return the number of invalid windows."""
        return sum(place.n_void for place in self.places)


def board_of(overview: Overview) -> Board:
    """Return the board of a study file."""
    study, ranking = overview.study, overview.ranking
    claim = ranking.claim
    errors = {
        record.layout: record.error
        for _, record in overview.launches
        if record.error is not None and (claim is None or claim.answer.judges(record))
    }
    braked = over_limit(record for _, record in overview.launches)
    answer = claim.answer if claim is not None else _answer_by_rank(study, ranking)
    places = [_place(row, ranking, answer, errors, braked) for row in ranking.rows]
    return Board(
        study=study,
        stage="running" if overview.is_held else "over" if overview.is_over else "at-rest",
        places=_in_order(places, answer),
        answer=answer,
        live=overview.live,
        last=overview.windows[-1] if overview.windows else None,
        rest_s=overview.rest_s,
        is_spent=overview.is_spent,
        n_boxes=max(1, len({box.name for box in overview.boxes})),
    )


def _answer_by_rank(study: StudyRecord, ranking: Ranking) -> Answer | None:
    """Return the best measured layout of a study without a claim, with the layouts not ruled out."""
    if study.strategy not in _NAMES_ONE:
        return None
    tied = tuple(row.layout for row in ranking.of_group("best-or-tied"))
    open_ = tuple(row.layout for row in ranking.of_group("not-ruled-out"))
    return Answer(tied[0] if tied else None, False, "none", (*tied[1:], *open_), tied=tied[1:])


def _place(
    row: RankedLayout,
    ranking: Ranking,
    answer: Answer | None,
    errors: Mapping[Layout, str],
    braked: Mapping[Layout, str],
) -> LayoutStatus:
    value = row.throughput_per_10min if ranking.objective == "throughput" else row.items_per_cpu_s
    state: State
    if row.layout in braked:
        state = "left-out"
    elif row.is_kept_out and not _may_still_win(row, ranking):
        state = "kept-out"
    elif row.reason is not None and not row.is_kept_out:
        state = "failed" if row.n_windows or row.layout in errors else "unseen"
    else:
        state = _state(row.layout, answer)
    reason = braked.get(row.layout, row.reason)
    if state == "failed" and not row.n_windows:
        reason = errors[row.layout]
    if state == "unseen" and not row.n_void:
        reason = None
    value = value or Estimate(None)
    behind = None if row.of_best is None or state != "behind" else behind_by(row.of_best)
    beside = value_beside(row, ranking)
    return LayoutStatus(
        row.layout, state, value, behind, row.n_windows, row.n_void, reason, row.verdict, beside
    )


def _may_still_win(row: RankedLayout, ranking: Ranking) -> bool:
    """Return whether a race keeps the layout: only a layout shown to exceed a limit is out for that."""
    return ranking.claim is not None and row.verdict is not None and row.verdict.state == "open"


def _state(layout: Layout, answer: Answer | None) -> State:
    if answer is None or answer.layout is None:
        return "open"
    if layout == answer.layout:
        return "leads"
    if layout in answer.tied:
        return "tied"
    return "open" if layout in answer.ties else "behind"


def _in_order(places: Iterable[LayoutStatus], answer: Answer | None) -> tuple[LayoutStatus, ...]:
    named = None if answer is None else answer.layout

    def order(place: LayoutStatus) -> tuple[int, bool, float]:
        return _ORDER.index(place.state), place.layout != named, -(place.value.mean or 0.0)

    return tuple(sorted(places, key=order))


@dataclass(slots=True)
class _WindowSums:
    """Sums over the windows of one layout."""

    n_windows: int = 0
    n_void: int = 0
    n_done: int = 0
    length_s: float = 0.0


class BoardKeeper:
    """Board of a study that this process measures, built from the data of its strategy.

    A ranking takes some hundredths of a second; a strategy has its values in memory.
    """

    def __init__(self, study: StudyRecord, windows: Iterable[WindowRecord] = ()) -> None:
        """Begin with *windows*, which the file held before."""
        self._study = study
        self._seen = {layout: _WindowSums() for layout in study.layouts}
        for window in windows:
            self._add(window.layout, window.n_done, window.length_s, is_void=bool(window.void))

    def add(self, window: Window) -> None:
        """Take note of a window that was just taken."""
        self._add(window.layout, window.n_done, window.length_s, is_void=bool(window.void))

    def board(
        self,
        answer: Answer,
        estimates: Mapping[Layout, Estimate],
        failed: Sequence[Layout],
        launches: Callable[[], Iterable[LaunchRecord]],
        verdicts: Mapping[Layout, Verdict] | None = None,
        of_best: Mapping[Layout, OfBest] | None = None,
    ) -> Board:
        """Return the board by the values of the strategy; *launches* is called only if a layout *failed*."""
        compared = of_best or {}
        judged = verdicts or {}
        scale = TEN_MINUTES_S if self._study.objective == "throughput" else 1.0
        errors: dict[Layout, str] = {}
        braked: Mapping[Layout, str] = {}
        if failed:
            made = list(launches())
            errors = {record.layout: record.error for record in made if record.error is not None}
            braked = over_limit(made)
        knows_all = self._study.strategy in _NAMES_ONE and not (
            self._study.limits and self._study.strategy == "all"  # the full grid does not apply limits
        )
        if not knows_all:
            answer = Answer(None, False, "none")
        first = estimates.get(answer.layout) if answer.layout is not None else None
        places = []
        for layout, seen in self._seen.items():
            own = estimates.get(layout)
            state = _state(layout, answer)
            behind, reason = None, None
            if layout in failed:
                state = "left-out" if layout in braked else "failed"
                reason = braked.get(layout) or errors.get(layout) or "no valid window"
            elif not seen.n_windows or (own is None and not answer.counts_slices):
                state = "unseen"
                reason = f"no valid window, {seen.n_void} invalid" if seen.n_void else None
            elif layout in judged and judged[layout].state == "beyond":
                state, reason = "kept-out", why_kept_out(judged[layout])
            elif state == "behind" and layout in compared:
                behind = behind_by(compared[layout])
            # if slices do not count, a layout has no value until its first block without slices is complete
            value = Estimate(None) if state == "unseen" else self._value(seen, own, scale)
            known = (layout, state, value, behind, seen.n_windows, seen.n_void, reason)
            beside = None
            if layout in compared and first is not None and first.mean is not None:
                beside = of_value(compared[layout], first.mean * scale)
            places.append(LayoutStatus(*known, judged.get(layout) if seen.n_windows else None, beside))
        return Board(self._study, "running", _in_order(places, answer), answer if knows_all else None)

    def _value(self, seen: _WindowSums, own: Estimate | None, scale: float) -> Estimate:
        if own is not None and own.mean is not None:
            scaled = (None if x is None else x * scale for x in (own.mean, own.low, own.high))
            return Estimate(*scaled)
        if not seen.length_s or self._study.objective != "throughput":
            return Estimate(None)
        return Estimate(seen.n_done / seen.length_s * scale)  # its block is not complete: no interval yet

    def _add(self, layout: Layout, n_done: int, length_s: float, *, is_void: bool) -> None:
        seen = self._seen.setdefault(layout, _WindowSums())
        if is_void:
            seen.n_void += 1
            return
        seen.n_windows += 1
        seen.n_done += n_done
        seen.length_s += length_s
