"""How long what is left will take, from what was taken so far; and what fits into the budget."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import fmean

from tuner.core.durations import render_duration
from tuner.core.errors import ConfigError
from tuner.core.layout import Layout
from tuner.core.records import LaunchRecord, StudyRecord, WindowRecord
from tuner.study.history import Cell

SETTLING_GUESS_S = 30.0  #: warm-up that is found, until one was: constant work settles after 10-25 s
START_AND_STOP_GUESS_S = 2.0


class Timetable:
    """Seconds spent per layout, launches that failed included, over all sessions."""

    def __init__(
        self,
        study: StudyRecord,
        launches: Sequence[tuple[int, LaunchRecord]],
        windows: Sequence[WindowRecord],
    ) -> None:
        self._study = study
        self.spent_s = 0.0  #: of the budget
        self._spent_s: dict[Layout, dict[int, float]] = defaultdict(lambda: defaultdict(float))
        seen_until = {w.launch_id: w.started_wall_s + w.length_s for w in windows}
        for launch_id, launch in launches:
            ended_wall_s = launch.ended_wall_s or seen_until.get(launch_id, launch.started_wall_s)
            self.add(launch, ended_wall_s - launch.started_wall_s)

    def add(self, launch: LaunchRecord, duration_s: float) -> None:
        """Take note of a launch from before it started until it was gone."""
        duration_s = max(0.0, duration_s)  # the wall clock may have been set meanwhile
        self.spent_s += duration_s
        if launch.block >= 0:
            self._spent_s[launch.layout][launch.block] += duration_s

    def expected_s(self, cells: Iterable[Cell]) -> float:
        """What *cells* will take: as long as their layouts took before, else as others took, else a guess."""
        usual_s = self._usual_s()
        return sum(
            fmean(self._spent_s[cell.layout].values()) if cell.layout in self._spent_s else usual_s
            for cell in cells
        )

    def renew_budget(self) -> None:
        """Begin to spend the budget anew."""
        self.spent_s = 0.0

    def fits(self, cells: Iterable[Cell]) -> bool:
        """Whether *cells* can be expected to end within the budget."""
        budget_s = self._study.budget_s
        return budget_s is None or self.spent_s + self.expected_s(cells) <= budget_s

    def _usual_s(self) -> float:
        known = [spent_s for blocks in self._spent_s.values() for spent_s in blocks.values()]
        return fmean(known) if known else START_AND_STOP_GUESS_S + _least_s(self._study, SETTLING_GUESS_S)


def check_budget(study: StudyRecord) -> None:
    """ConfigError when not even one block can fit into the budget; to be asked before a study is begun."""
    least_s = len(study.layouts) * _least_s(study, 0.0)
    if study.budget_s is not None and least_s > study.budget_s:
        raise ConfigError(
            f"one block of the {len(study.layouts)} layouts takes {render_duration(least_s)} at least,"
            f" the budget is {render_duration(study.budget_s)}",
            hint="Give it a longer --budget, a shorter --window or fewer --layouts.",
        )


def _least_s(study: StudyRecord, found_warmup_s: float) -> float:
    warmup_s = found_warmup_s if study.warmup_s is None else study.warmup_s
    return warmup_s + study.windows_per_launch * study.window_s
