"""The host for a launch in a heat: its clock and totals include only its counted slices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any

from tuner.core.domain.layout import Layout
from tuner.core.domain.load import Pace
from tuner.core.domain.requests import Latencies, Requests
from tuner.core.domain.window import Reading, Sample, Usage
from tuner.core.errors import MeasurementError
from tuner.core.windows.slices import LoadInSlices
from tuner.ports import Box, Counting, CrossCheck, Feeder, Hooks, Launch, Probe, Sampler, Stop, Watch
from tuner.study.heat.turns import Resident

#: Largest age of counts at the edge of a slice, in seconds. Older counts would assign items to the wrong
#: slice.
MOST_AGE_S = 0.05
_TRIES = 10  #: attempts to read fresh counts, because a server may answer late
#: totals of lost or unreadable counts; a window in which they grow is invalid
_KEPT = ("n_lost_total", "n_unreadable_total")


def resident_box(box: Box, resident: Resident) -> Box:
    """Return the host of the launch that *resident* makes."""
    check = box.cross_check
    box = replace(box, feeder=box.feeder_in_turns or box.feeder)
    return replace(
        box,
        clock=resident.clock,
        feeder=_Feeder(box.feeder, resident),
        launcher=_Launcher(box, resident),
        probe=_Probe(box.probe, resident, _Counting),
        sampler=_Sampler(box.sampler, resident),
        noise_of_second=resident.noise_of_second,
        counted_ratio=resident.counted_ratio,
        hooks=_Hooks(box.hooks, resident),
        cross_check=None
        if check is None
        else CrossCheck(_Probe(check.probe, resident, _SecondCounting), check.within_ratio, check.names),
    )


@dataclass(frozen=True, slots=True)
class ResidentStop:
    """The request to end a resident launch; a cancelled heat ends it at once."""

    stop: Stop
    resident: Resident
    most_s: float  #: host's monotonic time (s) from which all launches of the heat are stopped
    is_cut_off: Callable[[], bool]  #: whether a safety limit or a lost source ends the study

    def requested(self) -> bool:
        """See `tuner.ports.Stop`.

        Raises:
            Cancelled: the heat is cancelled.
        """
        self.resident.check()
        is_late = self.resident.host_clock.monotonic_s() >= self.most_s
        return self.stop.requested() or is_late or self.is_cut_off()


@dataclass(frozen=True, slots=True)
class _Launcher:
    box: Box
    resident: Resident

    @contextmanager
    def running(self, layout: Layout, environment: Mapping[str, str]) -> Iterator[Launch]:
        resident, feeder = self.resident, self.box.feeder
        with self.box.launcher.running(layout, environment) as live:
            feeds = self.box.gate == "feed"
            resident.make_idle = feeder.pause if feeds else live.freeze
            resident.make_busy = feeder.resume if feeds else live.thaw
            try:
                yield live
            finally:
                resident.make_idle = resident.make_busy = lambda: None


@dataclass(frozen=True, slots=True)
class _Hooks:
    hooks: Hooks
    resident: Resident

    def run(self, event: str, facts: Mapping[str, str]) -> None:
        if event == "before_window":
            self.resident.await_others()
        self.hooks.run(event, facts)


@dataclass(frozen=True, slots=True)
class _Probe:
    probe: Probe
    resident: Resident
    metered: Callable[[Counting, Resident], _Counting]

    @contextmanager
    def counting(self, layout: Layout) -> Iterator[Counting]:
        with self.probe.counting(layout) as counting:
            metered = self.metered(counting, self.resident)
            self.resident.meters.append(metered)
            try:
                yield metered
            finally:
                self.resident.meters.remove(metered)


@dataclass(frozen=True, slots=True)
class _Sampler:
    sampler: Sampler
    resident: Resident

    def idle_fixed_work_cpu_s(self) -> float | None:
        return self.sampler.idle_fixed_work_cpu_s()

    def watching(self, launch: Launch, extra_pids: frozenset[int]) -> AbstractContextManager[Watch]:
        return self._watching(launch, extra_pids)

    @contextmanager
    def _watching(self, launch: Launch, extra_pids: frozenset[int]) -> Iterator[Watch]:
        with self.sampler.watching(launch, extra_pids) as watch:
            metered = _Watch(watch, self.resident)
            self.resident.meters.append(metered)
            try:
                yield metered
            finally:
                self.resident.meters.remove(metered)


class _Feeder:
    """A feeder whose counts exclude requests that ended outside the counted parts of slices."""

    def __init__(self, feeder: Feeder, resident: Resident) -> None:
        self._feeder, self._resident = feeder, resident
        self._counted = Requests()  #: requests counted in earlier slices
        self._went_on = Requests()  #: totals at the start of the present slice, or at the end of the last one

    @contextmanager
    def feeding(self, layout: Layout) -> Iterator[None]:
        with self._feeder.feeding(layout):
            self._resident.meters.append(self)
            try:
                yield
            finally:
                self._resident.meters.remove(self)

    def requests(self) -> Requests | None:
        now = self._feeder.requests()
        return None if now is None else self._in_slices(now)

    def stop(self) -> float:
        if (now := self._feeder.requests()) is not None:
            self._counted, self._went_on = self._in_slices(now), now
        return self._resident.host_clock.monotonic_s()

    def go_on(self) -> float:
        self._went_on = self._feeder.requests() or self._went_on
        return self._resident.host_clock.monotonic_s()

    def _in_slices(self, now: Requests) -> Requests:
        in_slices = now.since(self._went_on).merged(self._counted)
        return replace(in_slices, unfinished=now.unfinished, unfinished_before=Latencies())

    def begin_window(self) -> None:
        """Do nothing: a feeder counts requests, not time."""

    def at_half(self) -> None:
        """Nothing is to be compared."""

    @property
    def pace(self) -> Pace | None:
        return self._feeder.pace

    @property
    def can_pause(self) -> bool:
        return self._feeder.can_pause

    def go_on_at(self, rate_per_s: float, capacity_per_s: float) -> None:
        self._feeder.go_on_at(rate_per_s, capacity_per_s)

    def prepare(self) -> None:
        self._feeder.prepare()

    def away(self) -> str:
        return self._feeder.away()

    def rest(self) -> None:
        self._feeder.rest()

    def pause(self) -> None:
        self._feeder.pause()

    def resume(self) -> None:
        self._feeder.resume()

    def follow(self, workers: Callable[[], frozenset[int]]) -> None:
        self._feeder.follow(workers)

    def is_dry(self) -> bool:
        return self._feeder.is_dry()

    def problem(self) -> str:
        return self._feeder.problem()

    def pids(self) -> frozenset[int]:
        return self._feeder.pids()


class _Counting:
    """A probe whose totals exclude items finished outside the counted parts of slices."""

    def __init__(self, counting: Counting, resident: Resident) -> None:
        self._counting, self._resident = counting, resident
        self._left_out: dict[str, float] = {}
        self._stopped: Reading | None = None
        self._first: Reading | None = None  #: first reading of the warm-up
        self._went_on: Reading | None = None  #: reading at the start of the slice's counted part
        self._half: Reading | None = None  #: reading in the middle of the counted part

    @property
    def environment(self) -> Mapping[str, str]:
        return self._counting.environment

    def pids(self) -> frozenset[int]:
        return self._counting.pids()

    def read(self) -> Reading:
        reading = self._counting.read()
        if self._first is None:
            self._first = reading
        own_s = self._resident.own_from(reading.at_s)
        return replace(reading, at_s=own_s, **_less(reading, self._left_out))

    def stop(self) -> float:
        before, self._stopped = self._stopped, self._fresh()
        if before is None and self._first is not None:
            n_done = self._stopped.n_done_total - self._first.n_done_total
            lasted_s = self._stopped.at_s - self._first.at_s
            self._resident.residence_s = self._resident.layout.total_threads * lasted_s / max(n_done, 1)
            if self._stopped.python_cpu_ns_total:  # otherwise the worker counts items, but no times
                waited_ns = (self._stopped.waiting_ns_total or 0) - (self._first.waiting_ns_total or 0)
                self._resident.waiting_s = waited_ns / 1e9 / max(n_done, 1)
        if self._went_on is not None:
            self._resident.count_slice(_rate(self._went_on, self._stopped))
        if self._went_on is not None and self._half is not None:
            rates = _rate(self._went_on, self._half), _rate(self._half, self._stopped)
            self._resident.halves.append(rates)
        self._half = None
        return self._stopped.at_s

    def go_on(self) -> float:
        assert self._stopped is not None
        reading = self._fresh()
        _leave_out(self._left_out, self._stopped, reading, _KEPT)
        self._went_on = reading
        return reading.at_s

    def begin_window(self) -> None:
        """Do nothing: a probe counts items, not time."""

    def at_half(self) -> None:
        """Record the counts at the middle of the slice's counted part."""
        self._half = self._counting.read()

    def _fresh(self) -> Reading:
        for _ in range(_TRIES):
            reading = self._counting.read()
            age_s = self._resident.host_clock.monotonic_s() - reading.at_s
            if age_s <= MOST_AGE_S:
                return reading
        why = f": {reading.problem}" if reading.problem else ""
        raise MeasurementError(f"the probe's counts are {age_s:.2g} s old at the edge of a slice{why}")


class _SecondCounting(_Counting):
    """The same for the second probe of a cross-check, which is not used if its counts are old at an edge."""

    _oldest_s = 0.0  #: largest age of its counts at the edges so far

    def read(self) -> Reading:
        if self._oldest_s > MOST_AGE_S:
            raise MeasurementError(f"its counts are up to {self._oldest_s:.2g} s old at the edges of slices")
        return super().read()

    def stop(self) -> float:
        self._stopped = self._latest()
        return self._resident.host_clock.monotonic_s()

    def go_on(self) -> float:
        if self._stopped is not None and (reading := self._latest()) is not None:
            _leave_out(self._left_out, self._stopped, reading, _KEPT)
        return self._resident.host_clock.monotonic_s()

    def at_half(self) -> None:
        """Nothing is to be compared."""

    def _latest(self) -> Reading | None:
        try:
            reading = self._counting.read()
        except MeasurementError:  # the cross-check reads it again, and reports the problem
            return None
        age_s = self._resident.host_clock.monotonic_s() - reading.at_s
        self._oldest_s = max(self._oldest_s, age_s)
        return reading


class _Watch:
    """A sampler whose totals exclude the usage outside the counted parts of slices."""

    def __init__(self, watch: Watch, resident: Resident) -> None:
        self._watch, self._resident = watch, resident
        self._left_out: dict[str, float] = {}
        self._first: Usage | None = None  #: first usage of the warm-up
        self._stopped: Usage | None = None
        self._load = LoadInSlices(resident.own_s())

    def has_gil(self) -> bool | None:
        return self._watch.has_gil()

    def n_interpreters(self) -> int:
        return self._watch.n_interpreters()

    def next_sample_s(self, now_s: float, by_s: float) -> float:
        return self._watch.next_sample_s(now_s, by_s)

    def sample(self, reading: Reading) -> Sample:
        """Return a sample with the load average of the window's slices: the host's mixes all launches."""
        sample = self._watch.sample(reading)
        if self._first is None:
            self._first = self._watch.usage()
        if sample.n_active is None:
            return sample
        loads = self._load.advance(self._resident.own_s(), sample.n_active)
        load1, load5, load15 = (round(value, 2) for value in loads)
        return replace(sample, load1=load1, load5=load5, load15=load15)

    def usage(self, *, closing: bool = False, at_edge: bool = False) -> Usage:
        usage = self._watch.usage(closing=closing, at_edge=at_edge)
        own_s = self._resident.own_from(usage.at_s)
        # the slices of other launches are not a step of the wall clock
        wall_s = usage.wall_s - self._left_out.get("wall_s", 0.0)
        return replace(usage, at_s=own_s, wall_s=wall_s, **_less(usage, self._left_out))

    def stop(self) -> float:
        is_first, self._stopped = self._stopped is None, self._watch.usage(at_edge=True)
        if is_first and self._first is not None:
            used_s = self._stopped.service_cpu_s_total - self._first.service_cpu_s_total
            lasted_s = self._stopped.at_s - self._first.at_s
            self._resident.busy_cores = used_s / lasted_s if lasted_s > 0 else 0.0
        return self._stopped.at_s

    def go_on(self) -> float:
        assert self._stopped is not None
        usage = self._watch.usage(at_edge=True)
        _leave_out(self._left_out, self._stopped, usage)
        gone_s = usage.wall_s - self._stopped.wall_s
        self._left_out["wall_s"] = self._left_out.get("wall_s", 0.0) + gone_s
        return usage.at_s

    def begin_window(self) -> None:
        self._left_out["wall_s"] = 0.0
        self._load = LoadInSlices(self._resident.own_s())

    def at_half(self) -> None:
        """Nothing is to be compared."""


def _rate(begin: Reading, end: Reading) -> float:
    """Return the items per second between two readings; 0 if no time passed."""
    lasted_s = end.at_s - begin.at_s
    return (end.n_done_total - begin.n_done_total) / lasted_s if lasted_s > 0 else 0.0


def _totals(one: Any, kept: tuple[str, ...] = ()) -> dict[str, float]:
    """Return the known totals of *one*, a reading or usage, except those named in *kept*."""
    names = [field.name for field in fields(one) if field.name.endswith("_total") and field.name not in kept]
    values = {name: getattr(one, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def _less(one: Any, left_out: Mapping[str, float]) -> dict[str, Any]:
    return {name: value - left_out[name] for name, value in _totals(one).items() if name in left_out}


def _leave_out(left_out: dict[str, float], before: Any, after: Any, kept: tuple[str, ...] = ()) -> None:
    began = _totals(before, kept)
    for name, value in _totals(after, kept).items():
        if name in began:
            left_out[name] = left_out.get(name, 0) + value - began[name]
