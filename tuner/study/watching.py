"""Looking at a running layout, second by second: its warm-up, and its windows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tuner.core.errors import MeasurementError
from tuner.core.layout import Layout
from tuner.core.records import StudyRecord
from tuner.core.summary import window_from
from tuner.core.validity import missing_threads, void_reasons
from tuner.core.warmup import has_settled
from tuner.core.window import Reading, Sample, VoidReason, Window
from tuner.ports import Clock, Counting, Feeder, Launch, Watch

SAMPLE_EVERY_S = 1.0
USAGE_EVERY_N = 5  #: samples; reading a process tree costs more than a load average


@dataclass(frozen=True, slots=True)
class Warmup:
    """How a warm-up went."""

    lasted_s: float
    settled: bool | None  #: None: not judged, or broken off
    counted: bool  #: some item was


@dataclass(frozen=True, slots=True)
class RunningLayout:
    """A layout that runs, with everything that looks at it."""

    layout: Layout
    study: StudyRecord
    clock: Clock
    launch: Launch
    counting: Counting
    watch: Watch
    feeder: Feeder

    def warm_up(
        self, told: Callable[[float, float | None], None], stop_requested: Callable[[], bool]
    ) -> Warmup:
        """Let it run until it has settled, or for as long as was asked; *told* gets seconds and items/s.

        Raises:
            MeasurementError: a worker died, or what runs at the end is not the layout.
        """
        began_s = self.clock.monotonic_s()
        lasts_s = self.study.warmup_cap_s if self.study.warmup_s is None else self.study.warmup_s
        begin = before = self.counting.read()
        items_per_s: list[float] = []
        n_active: list[float | None] = []
        settled: bool | None = None if self.study.warmup_s is not None else False
        for at_s in self._ticks(began_s, lasts_s):
            reading, sample = self._look()
            self._check(self.launch.problems(threads=False), "while it warmed up")
            items_per_s.append(_rate(before, reading))
            n_active.append(sample.n_active)
            before = reading
            told(at_s - began_s, items_per_s[-1])
            if stop_requested():
                settled = None
                break
            if settled is False and has_settled(items_per_s, n_active):
                settled = True
                break
        self._check(self.launch.problems(), "after its warm-up")
        counted = before.n_done_total + before.n_failed_total > begin.n_done_total + begin.n_failed_total
        return Warmup(self.clock.monotonic_s() - began_s, settled, counted)

    def take_window(self, index: int, attempt: int, told: Callable[[float, Sample, float], None]) -> Window:
        """Watch it for one window; *told* gets seconds, sample and items/s since the window began.

        A window that is spoilt (a worker died, the source ran dry) ends at once: waiting would gain nothing.
        """
        usage = [self.watch.usage()]
        begin, sample = self._look()
        samples = [sample]
        end, dry, problems = begin, self.feeder.is_dry(), self.launch.problems()
        for n, at_s in enumerate(self._ticks(begin.at_s, self.study.window_s), start=1):
            end, sample = self._look()
            samples.append(sample)
            problems, dry = self.launch.problems(), dry or self.feeder.is_dry()
            told(at_s - begin.at_s, sample, _rate(begin, end))
            if problems or dry:
                break
            if n % USAGE_EVERY_N == 0:
                usage.append(self.watch.usage())
                if missing_threads(self.layout, usage[-1], end):
                    break
        usage.append(self.watch.usage(closing=True))
        problems = problems or missing_threads(self.layout, usage[-1], end)
        void = void_reasons(
            samples,
            usage,
            problems,
            cores=self.study.box_cores,
            source_dry=dry,
            foreign_limit=self.study.foreign_limit_cores,
            memory_pressure_limit=self.study.memory_pressure_limit_ratio,
            interval_s=SAMPLE_EVERY_S,
        )
        return window_from(self.layout, samples, usage, (begin, end), void, index=index, attempt=attempt)

    def _ticks(self, began_s: float, lasts_s: float) -> Iterator[float]:
        """Sleep to each second after *began_s* and to the end; seconds slept through are left out."""
        ends_s = began_s + lasts_s
        n = 0
        while (now_s := self.clock.monotonic_s()) < ends_s:
            n = max(n + 1, int((now_s - began_s) / SAMPLE_EVERY_S) + 1)
            self.clock.sleep_until(min(began_s + n * SAMPLE_EVERY_S, ends_s))
            yield self.clock.monotonic_s()

    def _look(self) -> tuple[Reading, Sample]:
        reading = self.counting.read()
        return reading, self.watch.sample(reading)

    def _check(self, problems: Sequence[VoidReason], when: str) -> None:
        if problems:
            seen = "; ".join(f"{reason.slug}: {reason.detail}" for reason in problems)
            raise MeasurementError(f"{self.layout} {when}: {seen}")


def _rate(before: Reading, now: Reading) -> float:
    elapsed_s = now.at_s - before.at_s
    return (now.n_done_total - before.n_done_total) / elapsed_s if elapsed_s > 0 else 0.0
