"""The times of a study: seconds since its first launch began, over all sessions."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from tuner.core.domain.records import LaunchRecord


class Timeline:
    """Conversion of the hosts' wall-clock times into study times that never go back on any host.

    Breaks between sessions are included, because the host's speed drifts meanwhile. If a clock was set back,
    time continues from the latest moment recorded on its host. All hosts share the beginning; each continues
    by its own clock. The result depends only on the recorded moments and their order on each host, so reading
    the file gives the same times as the run that wrote it.
    """

    def __init__(self) -> None:
        self._first_wall_s: float | None = None
        self._boxes: dict[str, _Clock] = {}

    def at(self, wall_s: float, lasted_s: float = 0.0, *, box: str = "") -> float:
        """Return the study time of an event that began at *wall_s* on host *box*; later calls for this host
        return no time before the event's end."""
        if self._first_wall_s is None:
            self._first_wall_s = wall_s
        clock = self._boxes.get(box)
        if clock is None:
            clock = self._boxes[box] = _Clock()
        began_s = wall_s - self._first_wall_s + clock.set_back_s
        if began_s < clock.latest_s:
            clock.set_back_s += clock.latest_s - began_s
            began_s = clock.latest_s
        clock.latest_s = began_s + lasted_s
        return began_s


@dataclass(slots=True)
class _Clock:
    set_back_s: float = 0.0
    latest_s: float = 0.0


@dataclass(slots=True)
class HeatRun:
    """Launches that took turns: they began before any of them had a window."""

    began_s: float  #: start in study time
    began_wall_s: float
    first_window_wall_s: float | None = None
    n_launches: int = 0


class HeatTimes:
    """The study times of launches that took turns: all windows of such a run share one time.

    A heat that was cut off, or in which launches failed, is run again with the missing launches. The run of a
    launch depends only on recorded moments, so it is the same when the file is read.
    """

    def __init__(self) -> None:
        self._runs: dict[tuple[int, int, str], list[HeatRun]] = defaultdict(list)

    def add_window(self, launch: LaunchRecord, started_wall_s: float) -> None:
        """Record a window of *launch*, which belongs to the latest run."""
        run = self._runs[_heat_of(launch)][-1]
        if run.first_window_wall_s is None or started_wall_s < run.first_window_wall_s:
            run.first_window_wall_s = started_wall_s

    def begin(self, launch: LaunchRecord, timeline: Timeline) -> HeatRun:
        """Return the run that *launch* joins or begins."""
        runs = self._runs[_heat_of(launch)]
        begins = not runs or (
            runs[-1].first_window_wall_s is not None and launch.started_wall_s > runs[-1].first_window_wall_s
        )
        if begins:
            began_s = timeline.at(launch.started_wall_s, box=launch.box)
            runs.append(HeatRun(began_s, launch.started_wall_s))
        runs[-1].n_launches += 1
        return runs[-1]


def _heat_of(launch: LaunchRecord) -> tuple[int, int, str]:
    assert launch.heat is not None
    return launch.block, launch.heat, launch.box
