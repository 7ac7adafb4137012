"""Sampling of a running layout every second: its warm-up and its windows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from tuner.core.domain.layout import Layout
from tuner.core.domain.records import LaunchRecord, StudyRecord
from tuner.core.domain.requests import Requests
from tuner.core.domain.safety_limits import Braked
from tuner.core.domain.window import Reading, Sample, Usage, VoidReason, Window
from tuner.core.errors import MeasurementError
from tuner.core.messages import invalid
from tuner.core.warmup import EarlierTransients, Seen, has_settled
from tuner.core.windows.layout_check import EXTRA
from tuner.core.windows.summary import window_from
from tuner.core.windows.validity import (
    find_lost_counts,
    foreign_limit_of,
    missing_threads,
    room_in,
    void_reasons,
)
from tuner.ports import BrakeWatch, Clock, Counting, Feeder, Launch, Watch

if TYPE_CHECKING:
    from tuner.study.launch.cross_check import SecondCounting

SAMPLE_EVERY_S = 1.0
#: samples between two readings of usage; reading a process tree costs more than a load average
USAGE_EVERY_N = 5


@dataclass(frozen=True, slots=True)
class Warmup:
    """The result of a warm-up."""

    lasted_s: float
    settled: bool | None  #: None: not judged, or interrupted
    counted: bool  #: whether any item was counted
    problem: str = ""  #: reason why none was counted, from the probe and the feeder


class _Look(NamedTuple):
    """The counts of one second of a launch."""

    at_s: float  #: moment at which the probe was read; its counts may be older
    reading: Reading
    sample: Sample  #: sampled before, with the counts of *reading*
    second: Sequence[Reading]  #: reading of the second probe; empty: no second probe


@dataclass(frozen=True, slots=True)
class _Moment:
    """Usage and requests at the start of a window and every few seconds."""

    n: int  #: index of the sample taken at the same time
    usage: Usage
    requests: Requests | None


@dataclass(slots=True)
class _Watched:
    """The data of a window that is being measured."""

    readings: list[Reading]
    samples: list[Sample]
    looked_s: list[float]  #: time of each reading; the probe's counts may be older
    moments: list[_Moment]
    second_readings: list[Reading]  #: readings of the second probe; empty: no second probe
    problems: Sequence[VoidReason] = ()
    dry: bool = False

    def add(self, look: _Look) -> None:
        self.looked_s.append(look.at_s)
        self.readings.append(look.reading)
        self.samples.append(look.sample)
        self.second_readings.extend(look.second)

    @property
    def n_done(self) -> int:
        return self.readings[-1].n_done_total - self.readings[0].n_done_total

    @property
    def probe_problem(self) -> str:
        """The latest problem that the probe reported; empty: none."""
        return next((reading.problem for reading in reversed(self.readings) if reading.problem), "")

    def items_per_s(self) -> list[float]:
        return [_rate(before, now) for before, now in pairwise(self.readings)]


@dataclass(frozen=True, slots=True)
class RunningLayout:
    """A running layout, with its probes, sampler and feeder."""

    layout: Layout
    study: StudyRecord
    clock: Clock
    launch: Launch
    counting: Counting
    watch: Watch
    feeder: Feeder
    second: SecondCounting | None = None  #: second probe, for the cross-check
    brake: BrakeWatch | None = None  #: None: no safety limits
    earlier: EarlierTransients | None = None  #: transients of earlier launches; None: they are not used
    in_slices: bool = False  #: whether it takes turns with other layouts
    #: receives the seconds since warm-up began and the items/s, during the search for a request rate
    report: Callable[[float, float | None], None] = lambda _elapsed_s, _items_per_s: None
    seen: Seen = field(default_factory=Seen)

    def warm_up(
        self,
        report: Callable[[float, float | None], None],
        stop_requested: Callable[[], bool],
        at_most_s: float = inf,
    ) -> Warmup:
        """Run until steady state, or for the configured time; *report* gets seconds and items/s.

        A warm-up whose end is detected lasts at most *at_most_s*.

        Raises:
            MeasurementError: a worker died, or the processes and threads at the end differ from the layout.
            Braked: a safety limit is passed.
        """
        began_s = self.clock.monotonic_s()
        cap_s = min(self.study.warmup_cap_s, at_most_s)
        lasts_s = cap_s if self.study.warmup_s is None else self.study.warmup_s
        self.seen.warm_up_again(began_s)
        _, begin, sample, _ = self._look()
        before = begin
        self.seen.unkept.append(sample)
        n_active: list[float | None] = []
        expected = None if self.earlier is None else self.earlier.expected(self.layout)
        settled: bool | None = None if self.study.warmup_s is not None else False
        for at_s, reading, sample, _ in self._looks(began_s, lasts_s):
            self._check(self.launch.problems(threads=False), "while it warmed up")
            if self.brake is not None and (passed := self.brake.passed(reading)):
                raise Braked(f"while it warmed up: {passed}")
            self.seen.unkept.append(sample)
            self.seen.add([_rate(before, reading)], [reading.at_s])
            n_active.append(None if self.in_slices else sample.n_active)  # others may come and go then
            before = reading
            report(at_s - began_s, self.seen.items_per_s[-1])
            if stop_requested():
                settled = None
                break
            if settled is False and has_settled(
                self.seen.items_per_s, n_active, self.study.window_s, expected
            ):
                settled = True
                break
        self._check(self.launch.problems(), "after its warm-up")
        counted = before.n_done_total + before.n_failed_total > begin.n_done_total + begin.n_failed_total
        problem = "" if counted else before.problem or self.feeder.problem()
        return Warmup(self.clock.monotonic_s() - began_s, settled, counted, problem)

    def let_run(self, lasts_s: float, stop_requested: Callable[[], bool]) -> None:
        """Sample the launch for *lasts_s*, as part of the warm-up; return early if a stop is requested.

        Raises:
            MeasurementError: a worker or the feeder has ended.
            Braked: a safety limit is passed.
        """
        for at_s, reading, sample, _ in self._looks(self.clock.monotonic_s(), lasts_s):
            self.report(at_s - (self.seen.running_s or at_s), None)
            self.seen.unkept.append(sample)
            self._check(self.launch.problems(threads=False), "before its windows")
            if self.brake is not None and (passed := self.brake.passed(reading)):
                raise Braked(f"before its windows: {passed}")
            if self.feeder.is_dry():
                raise MeasurementError(f"{self.layout} before its windows: the feeder has ended")
            if stop_requested():
                return

    def take_window(self, index: int, attempt: int, report: Callable[[float, Sample, float], None]) -> Window:
        """Measure one window; *report* gets the seconds, sample and items/s since the window began.

        A spoilt window (a worker died, the source ran dry, a safety limit was passed) ends at once, because
        its rest would be useless. If a window turns out to have begun before steady state, its head is moved
        to the warm-up and it runs longer, so the result has full length. It begins at the cap of the warm-up
        at the latest.
        """
        moments = [self._moment(0)]  # before the first reading; the last one is after the last
        first = self._look()
        # a count at the fixed moment at which the window begins would show always the same part of an item
        begin = replace(first.sample, n_active=None)
        window = _Watched([first.reading], [begin], [first.at_s], moments, [*first.second])
        self._go_on(window, report)
        while warming := self._warming_n(window):
            self._give_head_to_warmup(window, warming)
            self._go_on(window, report)
        requests = window.moments[0].requests, self.feeder.requests()
        closing = self.watch.usage(closing=True)
        usage = [*(moment.usage for moment in window.moments), closing]
        problems = [
            *(window.problems or missing_threads(self.layout, closing, window.readings[-1])),
            *find_lost_counts(window.readings[0], window.readings[-1]),
        ]
        void = void_reasons(
            window.samples,
            usage,
            problems,
            cores=self.study.box_cores,
            source_dry=window.dry,
            probe_problem=window.probe_problem,
            feeder_problem=self.feeder.problem() if window.dry or not window.n_done else "",
            foreign_limit=foreign_limit_of(self.study),
            room_cores=room_in(self.study),
            memory_pressure_limit=self.study.memory_pressure_limit_ratio,
            interval_s=SAMPLE_EVERY_S,
            looked_s=window.looked_s,
        ) + self._cross_check(window)
        if not void:
            self.seen.add_window(window.items_per_s(), [reading.at_s for reading in window.readings[1:]])
        readings = (window.readings[0], window.readings[-1])
        return window_from(
            self.layout,
            window.samples,
            usage,
            readings,
            void,
            index=index,
            attempt=attempt,
            requests=requests,
            in_slices=self.in_slices,
        )

    def unkept_warmup(self) -> Sequence[Sample]:
        """Return, and remove, the warm-up samples that are not stored yet, in time order."""
        samples = tuple(self.seen.unkept)
        self.seen.unkept.clear()
        return samples

    def judged(self, launch: LaunchRecord) -> LaunchRecord:
        """Return *launch* with the verdict on its steady state; it uses all samples once a window is valid.

        A warm-up of fixed length, or one that was stopped early, is not judged.
        """
        if launch.settled is None:
            return launch
        if not self.seen.window_starts:
            why = None if launch.settled else "late: throughput was still changing at the cap of its warm-up"
            return replace(launch, unsettled=why)
        if self.earlier is not None:
            self.earlier.learn(self.layout, self.seen.since_first_item())
        settling = self.seen.settling().over(launch.counted_ratio or 1.0)
        return replace(
            launch,
            warmup_s=None if launch.warmup_s is None else launch.warmup_s + self.seen.heads_s,
            settled=settling.settled,
            unsettled=settling.unsettled,
            steady_from_s=settling.steady_from_s,
            trend_ratio_per_h=settling.trend_ratio_per_h,
            trend_se_ratio_per_h=settling.trend_se_ratio_per_h,
        )

    def _looks(self, began_s: float, lasts_s: float) -> Iterator[_Look]:
        """Look each second after *began_s* and at the end, and skip missed seconds."""
        ends_s = began_s + lasts_s
        n = 0
        while (now_s := self.clock.monotonic_s()) < ends_s:
            n = max(n + 1, int((now_s - began_s) / SAMPLE_EVERY_S) + 1)
            due_s = min(began_s + n * SAMPLE_EVERY_S, ends_s)
            self.clock.sleep_until(self.watch.next_sample_s(now_s, due_s))
            sample = self._sample()
            if self.clock.monotonic_s() < due_s:
                self.clock.sleep_until(due_s)
            yield self._look(sample)

    def _go_on(self, window: _Watched, report: Callable[[float, Sample, float], None]) -> None:
        """Sample until *window* has its full length or is spoilt."""
        begin, began_s = window.readings[0], window.looked_s[0]
        window.dry = window.dry or self.feeder.is_dry()
        window.problems = self.launch.problems()
        already = len(window.samples) - 1
        for n, look in enumerate(self._looks(began_s, self.study.window_s), start=already + 1):
            window.add(look)
            window.problems = [*self.launch.problems(), *self._limit_reasons(look.reading)]
            window.dry = window.dry or self.feeder.is_dry()
            report(look.at_s - began_s, look.sample, _rate(begin, look.reading))
            if window.problems or window.dry:
                return
            if n % USAGE_EVERY_N == 0:
                moment = self._moment(n)
                window.moments.append(moment)
                window.problems = missing_threads(self.layout, moment.usage, look.reading)
                if window.problems:
                    return

    def _warming_n(self, window: _Watched) -> int:
        """Return the number of samples to move from the head of *window* to the warm-up."""
        if self.study.warmup_s is not None or window.problems or window.dry or self.seen.running_s is None:
            return 0
        latest_s = self.seen.running_s + self.study.warmup_cap_s
        warming = self.seen.warming_n(window.items_per_s())
        while warming and window.readings[warming].at_s > latest_s:
            warming -= 1
        return warming

    def _give_head_to_warmup(self, window: _Watched, warming_n: int) -> None:
        """Restart *window* at its first usage sample that is *warming_n* samples into it, or later."""
        if window.moments[-1].n < warming_n:
            window.moments.append(self._moment(len(window.samples) - 1))
        cut = next(moment.n for moment in window.moments if moment.n >= warming_n)
        ends_s = [reading.at_s for reading in window.readings[1 : cut + 1]]
        self.seen.add(window.items_per_s()[:cut], ends_s)
        self.seen.unkept.extend(window.samples[:cut])
        if not self.seen.window_starts:
            self.seen.heads_s += window.readings[cut].at_s - window.readings[0].at_s
        del window.readings[:cut], window.samples[:cut], window.looked_s[:cut], window.second_readings[:cut]
        window.moments = [replace(one, n=one.n - cut) for one in window.moments if one.n >= cut]

    def _look(self, sample: Sample | None = None) -> _Look:
        """Read the probes now; a probe without a new count repeats an older one and its time.

        *sample*: the sample of this second; None: it is taken now. The active tasks are counted before the
        probe reads: a server that has just answered the probe is an active task, too.
        """
        at_s = self.clock.monotonic_s()
        sample = sample or self._sample()
        self.feeder.follow(self.launch.worker_pids)
        reading = self.counting.read()
        second = () if self.second is None else (self.second.read(reading),)
        return _Look(at_s, reading, sample.with_counts(reading), second)

    def _sample(self) -> Sample:
        return self.watch.sample(Reading(self.clock.monotonic_s(), 0, 0))

    def _cross_check(self, window: _Watched) -> tuple[VoidReason, ...]:
        """Return the second probe's reasons against *window*; none if the window was cut short."""
        if self.second is None or window.problems or window.dry:
            return ()
        return self.second.verdict(
            self.layout, window.readings, window.second_readings, window.looked_s, SAMPLE_EVERY_S
        )

    def _limit_reasons(self, reading: Reading) -> Iterator[VoidReason]:
        if self.brake is not None and (passed := self.brake.passed(reading)):
            yield invalid.braked(passed)

    def _moment(self, n: int) -> _Moment:
        return _Moment(n, self.watch.usage(), self.feeder.requests())

    def _check(self, problems: Sequence[VoidReason], when: str) -> None:
        # a window with additional workers ends the study, with a clear error
        problems = [reason for reason in problems if reason.slug != EXTRA]
        if problems:
            seen = "; ".join(f"{reason.slug}: {reason.detail}" for reason in problems)
            raise MeasurementError(f"{self.layout} {when}: {seen}")


def _rate(before: Reading, now: Reading) -> float:
    elapsed_s = now.at_s - before.at_s
    return (now.n_done_total - before.n_done_total) / elapsed_s if elapsed_s > 0 else 0.0
