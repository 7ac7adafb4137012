"""At which rate a launch is to be sent requests, where that follows from what it can do."""

from __future__ import annotations

from collections.abc import Callable

from tuner.core.errors import MeasurementError
from tuner.core.pace import Pace, Share, Tried, WithinP95, found_ratio, next_ratio
from tuner.core.requests import Requests
from tuner.study.watching import RunningLayout

LOOK_S = 10.0  #: at a closed loop for its capacity, or at a rate for its p95
LONG_LOOK_S = 30.0  #: at the rate that looks have found
STEP_DOWN = 0.9  #: times the rate, where that does not keep the p95 for so long
_MOST_LONG_LOOKS = 6
_LONGEST_LOOK_S = 60.0  #: where so few requests end that they tell nothing
FEW = 100  #: requests: the capacity is known to a few percent
FEW_FOR_P95 = 200  #: of them 10 lie beyond the p95
_LONGEST_DRAIN_S = 30.0


def find_rate(running: RunningLayout, pace: Pace, stop_requested: Callable[[], bool]) -> None:
    """See what a launch that has warmed up in a closed loop can do, and go on at the rate that follows.

    Returns without one when a stop is requested.

    Raises:
        MeasurementError: nothing was answered, or what `RunningLayout.let_run` raises.
    """
    began_s = running.clock.monotonic_s()
    seen = _look(running, FEW, stop_requested)
    if stop_requested():
        return
    capacity_per_s = seen.latencies.n_recorded / (running.clock.monotonic_s() - began_s)
    if not capacity_per_s:
        raise MeasurementError(
            f"{running.layout} answered no request well in {_LONGEST_LOOK_S:g} s: its capacity, from which"
            " the rate follows, is not known"
        )
    match pace:
        case Share(ratio):
            running.feeder.go_on_at(ratio * capacity_per_s, capacity_per_s)
        case WithinP95(p95_s):
            _search(running, capacity_per_s, p95_s, stop_requested)


def _search(
    running: RunningLayout, capacity_per_s: float, p95_s: float, stop_requested: Callable[[], bool]
) -> None:
    """Go on at the highest rate that keeps the p95, also for longer than the looks that found it.

    Near the capacity a queue grows slowly: what ten seconds find there is too good.
    """
    worst_s = p95_s  # at the last rate that was tried: its requests are to be gone before the next look

    def keeps(ratio: float, look_s: float) -> bool:
        nonlocal worst_s
        running.feeder.go_on_at(ratio * capacity_per_s, capacity_per_s)
        running.let_run(min(max(1.0, 2 * worst_s), _LONGEST_DRAIN_S), stop_requested)
        found_s = _look(running, FEW_FOR_P95, stop_requested, look_s).latency_s(0.95)
        worst_s = max(p95_s, found_s or 0.0)
        return found_s is not None and found_s <= p95_s

    tried: list[Tried] = []
    while (ratio := next_ratio(tried)) is not None and not stop_requested():
        tried.append(Tried(ratio, kept=keeps(ratio, LOOK_S)))
    if stop_requested():
        return
    ratio = found_ratio(tried)
    if not any(one.kept for one in tried):
        running.feeder.go_on_at(ratio * capacity_per_s, capacity_per_s)
        return
    for _ in range(_MOST_LONG_LOOKS):
        if keeps(ratio, LONG_LOOK_S) or stop_requested():
            return
        ratio *= STEP_DOWN
    running.feeder.go_on_at(ratio * capacity_per_s, capacity_per_s)


def _look(
    running: RunningLayout, n_needed: int, stop_requested: Callable[[], bool], look_s: float = LOOK_S
) -> Requests:
    """The requests of some seconds, of more where so few ended."""
    earlier, began_s = _requests(running), running.clock.monotonic_s()
    running.let_run(look_s, stop_requested)
    seen = _requests(running).since(earlier)
    while (
        seen.n_total < n_needed
        and running.clock.monotonic_s() - began_s < _LONGEST_LOOK_S
        and not stop_requested()
    ):
        running.let_run(1.0, stop_requested)
        seen = _requests(running).since(earlier)
    return seen


def _requests(running: RunningLayout) -> Requests:
    seen = running.feeder.requests()
    assert seen is not None  # who has a pace knows of its requests
    return seen
