"""How long what is left will take, from what was taken so far; and what fits into the budget."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import fmean

from tuner.core.durations import render_duration
from tuner.core.errors import ConfigError
from tuner.core.figures import counted
from tuner.core.layout import Layout
from tuner.core.records import LaunchRecord, StudyRecord, WindowRecord
from tuner.core.strategy import Proposal

SETTLING_GUESS_S = 30.0  #: warm-up that is found, until one was: constant work settles after 10-25 s
START_AND_STOP_GUESS_S = 2.0

_Place = tuple[int, int]  # block and position


class Timetable:
    """Seconds spent per layout, over all sessions.

    What comes beside the windows that count (start, warm-up, stop, launches that failed, void windows) is
    expected to be as much per launch as it was.
    """

    def __init__(
        self,
        study: StudyRecord,
        launches: Sequence[tuple[int, LaunchRecord]],
        windows: Sequence[WindowRecord],
    ) -> None:
        self._study = study
        self.total_s = 0.0
        self._renewed_s = 0.0  # of the total: what an earlier budget paid for
        self._beside_s: dict[Layout, dict[_Place, float]] = defaultdict(lambda: defaultdict(float))
        seen_until: dict[int, float] = {}
        counted_s: dict[int, float] = defaultdict(float)
        for window in windows:
            seen_until[window.launch_id] = window.started_wall_s + window.length_s
            if not window.void:
                counted_s[window.launch_id] += window.length_s
        for launch_id, launch in launches:
            ended_wall_s = launch.ended_wall_s or seen_until.get(launch_id, launch.started_wall_s)
            self.add(launch, ended_wall_s - launch.started_wall_s, counted_s[launch_id])

    def add(self, launch: LaunchRecord, duration_s: float, counted_s: float) -> None:
        """Take note of a launch from before it started until it was gone; *counted_s* of it in windows."""
        duration_s = max(counted_s, duration_s)  # the wall clock may have been set meanwhile
        self.total_s += duration_s
        if launch.block >= 0 or launch.position > 0:  # a launch that only warms the page cache is no guide
            self._beside_s[launch.layout][launch.block, launch.position] += duration_s - counted_s

    def expected_s(self, launches: Iterable[Proposal]) -> float:
        """What *launches* will take: as their layouts took before, else as others took, else a guess."""
        known = [beside_s for places in self._beside_s.values() for beside_s in places.values()]
        usual_s = fmean(known) if known else START_AND_STOP_GUESS_S + _warmup_s(self._study, SETTLING_GUESS_S)
        beside_s = {layout: fmean(places.values()) for layout, places in self._beside_s.items()}
        return sum(beside_s.get(one.layout, usual_s) + one.n_windows * one.window_s for one in launches)

    def renew_budget(self) -> None:
        """Begin to spend the budget anew."""
        self._renewed_s = self.total_s

    def ran_side_by_side(self, covered_s: float) -> None:
        """Have the budget pay for the time that went by alone, *covered_s*, as several boxes measured."""
        self._renewed_s = self.total_s - covered_s

    @property
    def left_s(self) -> float | None:
        """What is left of the budget; None: it has no end."""
        budget_s = self._study.budget_s
        return None if budget_s is None else budget_s - (self.total_s - self._renewed_s)

    def fits(self, launches: Iterable[Proposal]) -> bool:
        """Whether *launches* can be expected to end within the budget."""
        return self.left_s is None or self.expected_s(launches) <= self.left_s


def check_budget(study: StudyRecord, block: Sequence[Proposal]) -> None:
    """ConfigError when not even *block*, the first one, can fit into the budget.

    To be asked before a study is begun.
    """
    layouts = frozenset(one.layout for one in block)
    least_s = sum(_warmup_s(study, 0.0) + one.n_windows * one.window_s for one in block)
    if study.budget_s is not None and least_s > study.budget_s:
        raise ConfigError(
            f"one block of the {counted(len(layouts), 'layout')} takes {render_duration(least_s)} at least,"
            f" the budget is {render_duration(study.budget_s)}",
            hint="Give it a longer --budget, a shorter --window or fewer --layouts."
            if study.strategy in ("race", "all")
            else "Give it a longer --budget or a shorter --window.",
        )


def _warmup_s(study: StudyRecord, found_s: float) -> float:
    return found_s if study.warmup_s is None else study.warmup_s
