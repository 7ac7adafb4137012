"""What a study on several boxes has measured, shown to its strategy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tuner.core.domain.fleet import Done, Place
from tuner.core.domain.layout import Layout
from tuner.core.domain.strategy import Comparing, Proposal, RemainingTime
from tuner.core.search.fleet_strategy import SpreadingStrategy
from tuner.core.stats.groups import OfBest
from tuner.ports import Store
from tuner.study.fleet.roster import covered_s
from tuner.study.history import History, Launched
from tuner.study.launch.plan_cells import Cell
from tuner.study.strategy_driver import Failing, Recalled
from tuner.study.timetable import Timetable


def show_history(
    history: History, failing: Failing, strategy: SpreadingStrategy
) -> Sequence[tuple[Place, Cell]]:
    """Show *strategy*, which has seen nothing yet, all that *history* holds, in the order in which it ended.

    A place that was not tried to its end is shown as one that was given up. Gives what was shown.
    """
    found = []
    places = sorted(history.places(), key=_ended_s)
    left_out = failing.leave_out(history.over_limit) if places else []  # told with the first place
    for box, cell, _ in places:
        place = Place(cell.block, cell.position, box, cell.asked)
        failing.add([cell])
        is_whole = not failing.is_open(cell)
        failed = [*left_out, *(failing.end([cell]) if is_whole else [])]
        left_out = []
        strategy.learn(done_of(place, cell, failed, is_whole=is_whole))
        found.append((place, cell))
    return found


def done_of(place: Place, cell: Cell, failed: Sequence[Layout], *, is_whole: bool) -> Done:
    """What is told of a place that is over, or was given up: then it may be made to its end yet."""
    windows = sorted(cell.kept.values(), key=lambda seen: seen.began_s)
    return Done(place, windows if is_whole else (), is_whole, failed)


def replay_fleet(store: Store, strategy: SpreadingStrategy) -> Recalled:
    """Show *strategy*, which has seen nothing yet, every window of *store*."""
    study, launches, windows = store.study(), store.launches(), store.windows()
    history, failing = History(study, launches, windows), Failing(study.max_attempts)
    show_history(history, failing, strategy)
    timetable = Timetable(study, launches, windows)
    timetable.ran_side_by_side(covered_s([launch for _, launch in launches]))
    boxes = sorted({launch.box for _, launch in launches})
    rest = strategy.expected_rest([])
    return Recalled(
        study=study,
        strategy=_AsOne(strategy, boxes),
        failed=tuple(failing.failed),
        otherwise=(),
        n_windows=history.n_windows,
        spent_s=timetable.total_s,
        rest=None
        if rest is None
        else RemainingTime(sum(one.n_windows for one in rest), timetable.expected_s(rest)),
        timetable=timetable,
    )


class _AsOne:
    """A strategy of several boxes, for whoever only asks what is known and whether anything is left."""

    def __init__(self, strategy: SpreadingStrategy, boxes: Sequence[str]) -> None:
        self._strategy, self._boxes = strategy, boxes
        self.answer, self.estimates = strategy.answer, strategy.estimates

    def beside(self, layout: Layout | None = None) -> Mapping[Layout, OfBest]:
        """As the strategy; none where that claims nothing."""
        return self._strategy.beside(layout) if isinstance(self._strategy, Comparing) else {}

    def propose(self) -> Sequence[Proposal]:
        """A launch that any of the boxes would make next."""
        for box in self._boxes:
            place = self._strategy.next_for(box, [], self._boxes)
            if place is not None:
                return [place.asked]
        return []

    def learn(self, windows: object, failed: object = ()) -> None:
        """Nobody measures."""
        raise NotImplementedError


def _ended_s(found: tuple[str, Cell, Sequence[Launched]]) -> tuple[float, float]:
    """When the last launch of a place ended, as far as that is known."""
    launches = [one.launch for one in found[2]]
    last = launches[-1]
    return (last.ended_wall_s or last.started_wall_s, last.started_wall_s)
