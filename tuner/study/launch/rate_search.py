"""The rate of requests of a launch, if it depends on the throughput of the layout."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tuner.core.domain.load import (
    N_TRIED,
    P95,
    Pace,
    Share,
    TriedRate,
    WithinP95,
    found_ratio,
    next_ratio,
)
from tuner.core.domain.requests import Requests
from tuner.core.errors import MeasurementError
from tuner.core.text.figures import per_second, pluralize
from tuner.study.launch.watching import RunningLayout

LOOK_S = 10.0  #: length of a capacity measurement (closed loop), or of a p95 measurement at one rate
LONG_LOOK_S = 30.0  #: length of a measurement at the rate found
STEP = 0.9  #: ratio of each rate to the next higher one in the long measurements
_MOST_LONG_LOOKS = 6
#: longest measurement, for services with so few requests that a short one shows nothing
_LONGEST_LOOK_S = 60.0
FEW = 100  #: requests after which the capacity is known to a few percent
FEW_FOR_P95 = 200  #: requests for an estimate of the p95; 10 of them lie beyond it
_LONGEST_SETTLING_S = 30.0
LONGEST_DRAIN_S = 60.0  #: longest wait for the requests under way to end
_STEP_S = 1.0
_USUAL_LONG_LOOKS = 3


def usual_search_s(pace: Pace) -> float:
    """Return the usual duration of `find_rate`, in seconds."""
    if isinstance(pace, Share):
        return LOOK_S
    settling_s = min(max(_STEP_S, 2 * pace.p95_s), _LONGEST_SETTLING_S) + _STEP_S
    return LOOK_S + N_TRIED * (settling_s + LOOK_S) + _USUAL_LONG_LOOKS * (settling_s + LONG_LOOK_S)


def least_search_s(pace: Pace) -> float:
    """Return the least duration of `find_rate`, in seconds: too high a rate is detected at once."""
    return LOOK_S if isinstance(pace, Share) else LOOK_S + N_TRIED * 2 * _STEP_S + LONG_LOOK_S


def find_rate(running: RunningLayout, pace: Pace, stop_requested: Callable[[], bool]) -> None:
    """Measure the capacity of a launch that warmed up in a closed loop, and set the rate from it.

    Returns without setting a rate if a stop is requested.

    Raises:
        MeasurementError: no request was answered, the queue of a rate did not drain, or
            `RunningLayout.let_run` raised it.
    """
    began_s = running.clock.monotonic_s()
    seen = _look(running, FEW, stop_requested)
    if stop_requested():
        return
    looked_s = running.clock.monotonic_s() - began_s
    capacity_per_s = seen.latencies.n_recorded / looked_s
    if not capacity_per_s:
        raise MeasurementError(
            f"{running.layout} answered no request well in {looked_s:.0f} s: its capacity, from which"
            " the rate follows, is not known"
        )
    match pace:
        case Share(ratio):
            running.feeder.go_on_at(ratio * capacity_per_s, capacity_per_s)
        case WithinP95(p95_s):
            _RateSearch(running, capacity_per_s, p95_s, stop_requested).go_on_at_the_highest()


@dataclass(slots=True)
class _RateSearch:
    """A search for the highest rate that keeps a p95 latency limit."""

    running: RunningLayout
    capacity_per_s: float
    p95_s: float
    stop_requested: Callable[[], bool]
    rate_per_s: float | None = None  #: last rate tried; None: the closed loop
    before: Requests = field(default_factory=Requests)  #: totals at the start of that rate

    def go_on_at_the_highest(self) -> None:
        """Find that rate by short trials, confirm it by longer ones, and set it.

        Near the capacity a queue grows slowly, so a trial of ten seconds may accept too high a rate; because
        its p95 is that of few requests, it may also reject a good one. So the search steps up or down by a
        tenth, to the highest rate that keeps the p95 for longer.
        """
        tried: list[TriedRate] = []
        while (ratio := next_ratio(tried)) is not None and not self.stop_requested():
            tried.append(TriedRate(ratio, kept=self._keeps(ratio, LOOK_S)))
        ratio = found_ratio(tried) if tried else 0.0
        if any(one.kept for one in tried):
            ratio = self._made_sure_of(ratio)
        if not self.stop_requested():
            self._drain()
            self._go_on_at(ratio)

    def _made_sure_of(self, ratio: float) -> float:
        """Return the highest share of capacity near *ratio* that keeps the p95 for longer, else one less."""
        is_kept = self._keeps(ratio, LONG_LOOK_S)
        for _ in range(_MOST_LONG_LOOKS - 1):
            other = ratio / STEP if is_kept else ratio * STEP
            if other >= 1 or self.stop_requested():
                return ratio
            if self._keeps(other, LONG_LOOK_S) != is_kept:
                return ratio if is_kept else other
            ratio = other
        return ratio if is_kept else ratio * STEP

    def _keeps(self, ratio: float, look_s: float) -> bool:
        """Return whether this share of the capacity keeps the p95, after the earlier queue has drained.

        The trial ends as soon as too many requests were slow for the p95 to be kept, so that a shorter queue
        has to drain.
        """
        self._drain()
        self._go_on_at(ratio)
        settling_s = min(max(_STEP_S, 2 * self.p95_s), _LONGEST_SETTLING_S)
        self.running.let_run(settling_s, self.stop_requested)
        n_coming = max(FEW_FOR_P95, ratio * self.capacity_per_s * look_s)

        def is_lost(seen: Requests) -> bool:
            return seen.n_beyond(self.p95_s) > (1 - P95) * max(n_coming, seen.n_due)

        seen = _look(self.running, FEW_FOR_P95, self.stop_requested, look_s, is_lost)
        found_s = seen.latency_s(P95)
        return found_s is not None and found_s <= self.p95_s

    def _drain(self) -> None:
        """Wait until no request is under way, because a leftover queue would distort the next rate.

        Raises:
            MeasurementError: that took too long, or the service has stopped answering.
        """
        self._go_on_at(0.0)
        began_s = self.running.clock.monotonic_s()
        while (now := self._after_a_step()).unfinished.n_recorded:
            if self.stop_requested():
                return
            if self.running.clock.monotonic_s() - began_s >= LONGEST_DRAIN_S:
                left = pluralize(now.unfinished.n_recorded, "request")
                raise MeasurementError(
                    f"{self.running.layout} left {left}{self._at_rate()} without an answer for"
                    f" {LONGEST_DRAIN_S:g} s after the last was sent: behind these no other rate can be tried"
                )
        if now.since(self.before).n_failed:
            self._wait_for_a_good_answer()

    def _wait_for_a_good_answer(self) -> None:
        """Send a few requests until one is answered in time: the service may still work on timed-out ones.

        If only some requests are slow, this ends at once. If all are, the wait is as long as that for a
        queue.
        """
        lowest_per_s = max(1.0, self.capacity_per_s / 2**N_TRIED)
        began_s, before = self.running.clock.monotonic_s(), _requests(self.running)
        self.running.feeder.go_on_at(min(self.capacity_per_s / 2, lowest_per_s), self.capacity_per_s)
        while self.running.clock.monotonic_s() - began_s < LONGEST_DRAIN_S:
            seen = self._after_a_step().since(before)
            if self.stop_requested() or seen.latencies.n_within(self.p95_s):
                return
        if not seen.latencies.n_recorded:
            raise MeasurementError(
                f"{self.running.layout} has stopped answering{self._at_rate()}: of"
                f" {pluralize(seen.n_due, 'request')} in the {LONGEST_DRAIN_S:g} s after that none was "
                "answered"
            )

    def _after_a_step(self) -> Requests:
        self.running.let_run(_STEP_S, self.stop_requested)
        return _requests(self.running)

    def _at_rate(self) -> str:
        return "" if self.rate_per_s is None else f" at {per_second(self.rate_per_s)}"

    def _go_on_at(self, ratio: float) -> None:
        rate_per_s = ratio * self.capacity_per_s
        if rate_per_s:
            self.rate_per_s, self.before = rate_per_s, _requests(self.running)
        self.running.feeder.go_on_at(rate_per_s, self.capacity_per_s)


def _look(
    running: RunningLayout,
    n_needed: int,
    stop_requested: Callable[[], bool],
    look_s: float = LOOK_S,
    is_over: Callable[[Requests], bool] = lambda _seen: False,
) -> Requests:
    """Measure the requests of *look_s* seconds; longer if few came, shorter once *is_over* holds.

    Requests that are still under way at the end are included.
    """
    earlier, began_s = _requests(running), running.clock.monotonic_s()
    while True:
        running.let_run(_STEP_S, stop_requested)
        seen = _requests(running).since(earlier)
        looked_s = running.clock.monotonic_s() - began_s
        n_seen = seen.n_total if seen.rate_per_s is None else seen.n_due
        enough = looked_s >= look_s and (n_seen >= n_needed or looked_s >= _LONGEST_LOOK_S)
        if enough or is_over(seen) or stop_requested():
            return seen


def _requests(running: RunningLayout) -> Requests:
    seen = running.feeder.requests()
    assert seen is not None  # a feeder with a pace counts its requests
    return seen
