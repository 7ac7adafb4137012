"""From samples to a window, and from a window to the few numbers that a ranking needs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean

from tuner.core.domain.layout import Layout
from tuner.core.domain.records import WindowRecord
from tuner.core.domain.requests import Requests
from tuner.core.domain.settled_load import LEAST_FROM_LOAD1_S
from tuner.core.domain.window import (
    CLOCKS,
    Reading,
    Sample,
    Usage,
    VoidReason,
    Window,
    mean_active_from_load1,
)
from tuner.core.windows.slices import loads_in_slices

_THREE_LOOKS_S = 15.1  #: time in which the kernel updates load1 three times, in any phase


def window_from(
    layout: Layout,
    samples: Sequence[Sample],
    usage: Sequence[Usage],
    readings: tuple[Reading, Reading],
    void: Sequence[VoidReason] = (),
    *,
    index: int,
    attempt: int,
    requests: tuple[Requests | None, Requests | None] = (None, None),
    in_slices: bool = False,
) -> Window:
    """Build a window from its samples; its length is the time between the two readings of the probe.

    *requests* are the feeder's totals at its two edges.

    An invalid window with a single reading has the length from the first usage to the last.

    Counts that fell give 0 items, not fewer: `tuner.core.windows.validity` reports them.

    Raises:
        ValueError: the length of a valid window is not above 0.
    """
    first, last = readings
    length_s = last.at_s - first.at_s
    if length_s <= 0 and void:
        length_s = usage[-1].at_s - usage[0].at_s
    if length_s <= 0:
        raise ValueError(f"a window has a length; its readings are {length_s} s apart")
    begin, end = requests
    return Window(
        layout=layout,
        index=index,
        attempt=attempt,
        started_wall_s=usage[0].wall_s,
        length_s=length_s,
        n_done=max(0, last.n_done_total - first.n_done_total),
        n_failed=max(0, last.n_failed_total - first.n_failed_total),
        samples=tuple(samples),
        usage=tuple(usage),
        readings=readings,
        void=tuple(void),
        requests=None if begin is None or end is None else end.since(begin),
        in_slices=in_slices,
    )


def record_of(window: Window, *, launch_id: int, block: int, box: str) -> WindowRecord:
    """Return the record of the window, without its samples.

    Usage is taken a moment before the first reading and a moment after the last; CPU is scaled to the window.
    """
    first, last = window.usage[0], window.usage[-1]
    scale = window.length_s / (last.at_s - first.at_s) if last.at_s > first.at_s else 0.0
    loads = loads_of(window)
    return WindowRecord(
        launch_id=launch_id,
        block=block,
        layout=window.layout,
        box=box,
        index=window.index,
        attempt=window.attempt,
        started_wall_s=window.started_wall_s,
        length_s=window.length_s,
        n_done=window.n_done,
        n_failed=window.n_failed,
        load1_mean=fmean(loads),
        load1_max=max(loads),
        n_active_mean=mean_or_none([sample.n_active for sample in window.samples]),
        service_cpu_s=scale * (last.service_cpu_s_total - first.service_cpu_s_total),
        tuner_cpu_s=scale * (last.tuner_cpu_s_total - first.tuner_cpu_s_total),
        backend_cpu_s=scale * (last.backend_cpu_s_total - first.backend_cpu_s_total),
        foreign_cpu_s=scale * (last.foreign_cpu_s_total - first.foreign_cpu_s_total),
        steal_s=scale * (last.steal_s_total - first.steal_s_total),
        pss_bytes=mean_or_none([moment.pss_bytes for moment in window.usage]),
        void=window.void,
        n_active_from_load1=_active_from_load1(window),
        requests=window.requests,
        **_clocks(window, scale),
    )


def loads_of(window: Window) -> list[float]:
    """Return the 1-minute load averages whose mean and maximum are the load of the window.

    They are those of its samples; in slices, those of `loads_in_slices`, from the tasks in its slices. These
    are at least the cores that the service used: if all items take the same time, counts once a second may
    always find the same part of an item.
    """
    counts = [(one.at_s, one.n_active) for one in window.samples if one.n_active is not None]
    if window.in_slices and counts:
        first, last = window.usage[0], window.usage[-1]
        used_s, lasted_s = last.service_cpu_s_total - first.service_cpu_s_total, last.at_s - first.at_s
        least = used_s / lasted_s if lasted_s > 0 else 0.0
        return [max(load, least) for load in loads_in_slices(counts, window.samples[0].at_s)]
    return [sample.load1 for sample in window.samples]


def _clocks(window: Window, scale: float) -> dict[str, float | None]:
    """Return the growth of each clock: the host's between the usages, times *scale*, or the probe's."""
    first, last = window.usage[0], window.usage[-1]
    begin, end = window.readings
    grown = {}
    for clock in CLOCKS:
        if clock.of_reading is None:
            grown[clock.name] = _grown(getattr(first, clock.total), getattr(last, clock.total), scale)
        else:
            before, after = getattr(begin, clock.of_reading), getattr(end, clock.of_reading)
            grown[clock.name] = _grown(before, after, 1e-9)
    return grown


def _grown(before: float | None, after: float | None, scale: float) -> float | None:
    return None if before is None or after is None else scale * (after - before)


def mean_fixed_work_cpu_s(window: Window) -> float | None:
    """Return the mean CPU seconds of one unit of fixed work in the window; None if not measured."""
    first, last = window.usage[0], window.usage[-1]
    lasted_s = last.at_s - first.at_s
    grown = _grown(first.fixed_work_cpu_s_total, last.fixed_work_cpu_s_total, 1.0)
    return None if grown is None or lasted_s <= 0 else grown / lasted_s


def _active_from_load1(window: Window) -> float | None:
    """Return the active count derived from load1; None if load1 is not the kernel's, as in slices.

    None also: the window is too short. If tasks were counted, their mean is better in windows of minutes.
    """
    is_counted = any(sample.n_active is not None for sample in window.samples)
    if window.in_slices or window.length_s < (LEAST_FROM_LOAD1_S if is_counted else _THREE_LOOKS_S):
        return None
    return mean_active_from_load1(window.samples).mean


def mean_or_none(values: Sequence[float | None]) -> float | None:
    """Return the mean of the values that are not None; None if there are none."""
    seen = [value for value in values if value is not None]
    return fmean(seen) if seen else None


def items_per_s(samples: Sequence[Sample]) -> list[float]:
    """Return the items per second between consecutive samples; at most one value fewer than samples."""
    return [
        (later.n_done_total - earlier.n_done_total) / (later.at_s - earlier.at_s)
        for earlier, later in pairwise(samples)
        if later.at_s > earlier.at_s
    ]
