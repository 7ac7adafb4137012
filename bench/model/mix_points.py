"""Measurements: a point per valid window, and the means of a layout."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from mix_active import Looks, mean_active, read_looks
from mix_measuring import looks_file
from mix_registry import Mix, mix_of

from tuner.bootstrap import stores
from tuner.core.domain.layout import Layout
from tuner.core.domain.records import StudyRecord, WindowRecord
from tuner.core.domain.window import Sample, mean_active_from_load1
from tuner.core.model.calibration.clocks import Clocks, clocks_of
from tuner.core.model.calibration.left_out import launch_noise_sd
from tuner.core.model.profile import ProfileNoise
from tuner.core.windows.validity import FOREIGN_FLOOR_CORES


@dataclass(frozen=True)
class Point:
    """One window. Loads are those of the service, without other processes and tuner."""

    layout: Layout
    clocks: Clocks
    throughput_per_s: float
    load: float | None  #: mean active count, from ten looks a second; None: nobody looked
    load_of_kernel: float | None  #: from load1, turned back into what it averages
    others_cores: float  #: CPU of strangers, tuner, backends and the hypervisor


@dataclass(frozen=True)
class Measured:
    """A layout: means over its windows."""

    layout: Layout
    n: int
    throughput_per_s: float
    load: float | None
    load_of_kernel: float | None
    others_cores: float


@dataclass(frozen=True)
class MixRun:
    """All that a study of a mix gave."""

    mix: Mix
    record: StudyRecord
    file: Path
    points: tuple[Point, ...]  #: those that count
    n_void: int  #: left out

    def measured(self) -> dict[Layout, Measured]:
        """By layout, those with a point only, in the study's order."""
        found = {}
        for layout in self.record.layouts:
            mine = [point for point in self.points if point.layout == layout]
            if mine:
                found[layout] = Measured(
                    layout,
                    len(mine),
                    fmean(point.throughput_per_s for point in mine),
                    _mean([point.load for point in mine]),
                    _mean([point.load_of_kernel for point in mine]),
                    fmean(point.others_cores for point in mine),
                )
        return found

    def clocks_of(self, layouts: Collection[Layout]) -> list[Clocks]:
        return [point.clocks for point in self.points if point.layout in layouts]

    def noise_of(self, layouts: Collection[Layout]) -> ProfileNoise:
        """How windows of a layout scatter, one to a launch, as *layouts* show it together."""
        groups = {layout: self.clocks_of({layout}) for layout in layouts}
        return ProfileNoise(window_sd=0.0, launch_sd=launch_noise_sd(groups))


def read_run(file: Path, foreign_limit: float = FOREIGN_FLOOR_CORES) -> MixRun:
    """The study in *file*, and the looks beside it, where there are any.

    Windows count that tuner calls valid, with strangers using at most *foreign_limit* cores.

    Raises:
        ConfigError: it is no study of a mix, or cannot be read.
    """
    with stores.open_store(file, read_only=True) as store:
        record = store.study()
        mix = mix_of(record)
        beside = looks_file(file.parent, mix.name)
        looks = read_looks(beside) if beside.exists() else []
        windows = store.windows()
        points = [
            point_of(one, store.samples(one.launch_id, one.index, one.attempt), looks)
            for one in windows
            if does_count(one, foreign_limit)
        ]
    return MixRun(mix, record, file, tuple(points), len(windows) - len(points))


def does_count(window: WindowRecord, foreign_limit: float) -> bool:
    """Return whether the window is valid, with at most *foreign_limit* cores for other processes."""
    return not window.void and window.n_done > 0 and window.foreign_cpu_s <= foreign_limit * window.length_s


def point_of(window: WindowRecord, samples: Sequence[Sample], looks: Sequence[Looks]) -> Point:
    """*window* with its one-second *samples*, and of *looks* those that were taken in it."""
    clocks = clocks_of(window, samples)
    foreign_cores = window.foreign_cpu_s / window.length_s
    tuner_cores = window.tuner_cpu_s / window.length_s
    active = None
    if result := mean_active(looks, window.started_wall_s, window.started_wall_s + window.length_s):
        # so many looks as tuner's own sampler takes in some minutes: a window of mixes is short
        active, n_looks = result
        clocks = replace(clocks, n_active=active, n_active_looks=n_looks)
    of_kernel = window.n_active_from_load1  # the study has it of long windows only
    if of_kernel is None:
        of_kernel = mean_active_from_load1(samples).mean
    return Point(
        layout=window.layout,
        clocks=clocks,
        throughput_per_s=clocks.throughput_per_s,
        load=_less(active, foreign_cores),  # the one that looks is tuner, and not counted
        load_of_kernel=_less(of_kernel, foreign_cores + tuner_cores),
        others_cores=clocks.foreign_cores,
    )


def _less(active: float | None, others: float) -> float | None:
    return None if active is None else max(0.0, active - others)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
