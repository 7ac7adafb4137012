"""The search for the highest rate that keeps a p95, on virtual time: queues that are known exactly."""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable
from itertools import count
from math import inf

import pytest

from tuner.adapters.virtual.box import VirtualBox, VirtualService, virtual_study
from tuner.core.domain.layout import Layout
from tuner.core.domain.load import WithinP95
from tuner.core.domain.requests import Latencies, Requests, bucket_of
from tuner.core.errors import MeasurementError
from tuner.study.launch.rate_search import find_rate
from tuner.study.launch.watching import RunningLayout

from ..raising import raises
from ..wording import wording

LAYOUT = Layout(1, 2)
SERVICE = VirtualService({LAYOUT: 10.0})
STUDY = virtual_study(SERVICE, window_s=5.0, n_blocks=1)
N_CONNECTIONS = 8


class Queue:
    """Servers that work off requests in the order in which they become due, given up ones too."""

    def __init__(self, n_servers: int, service_s: Callable[[float | None], float], now_s: float) -> None:
        """*service_s* gets the rate (None: closed loop)."""
        self._service_s = service_s
        self._free_s = [now_s] * n_servers
        self._ends: list[tuple[float, float]] = []  # heap: when each is done, and was due

    def ends_s(self, due_s: float, rate_per_s: float | None) -> float:
        """When a request that becomes due then will be answered."""
        ends_s = max(due_s, heapq.heappop(self._free_s)) + self._service_s(rate_per_s)
        heapq.heappush(self._free_s, ends_s)
        return ends_s


class QueueFeeder:
    """Sends to such a queue: a closed loop first, Poisson arrivals at each rate that it is told."""

    def __init__(self, box: VirtualBox, queue: Queue, timeout_s: float = 30.0) -> None:
        self._clock, self._queue, self._timeout_s = box.clock, queue, timeout_s
        now_s = box.clock.monotonic_s()
        self._due = [now_s] * N_CONNECTIONS  #: heap
        self._rate_per_s: float | None = None
        self._chance = random.Random(1)
        self._under_way: list[tuple[float, float, bool]] = []  # heap: when it ends, was due, is answered
        self._done: Counter[int] = Counter()  # bucket of what it took -> how many were answered
        self._n_failed = 0
        self.reported: list[
            tuple[float, int]
        ] = []  #: rates, and how many requests were under way when each began

    def follow(self, workers: object) -> None:
        pass

    def go_on_at(self, rate_per_s: float, capacity_per_s: float) -> None:
        under_way = self.requests().unfinished.n_recorded
        now_s = self._clock.monotonic_s()
        self._rate_per_s = rate_per_s
        self._due = [now_s + self._chance.expovariate(rate_per_s)] if rate_per_s else []
        if rate_per_s:
            self.reported.append((rate_per_s, under_way))

    def requests(self) -> Requests:
        now_s = self._clock.monotonic_s()
        while self._due and self._due[0] <= now_s:
            due_s = heapq.heappop(self._due)
            ends_s = self._queue.ends_s(due_s, self._rate_per_s)
            given_up_s = due_s + self._timeout_s
            sent = (min(ends_s, given_up_s), due_s, ends_s <= given_up_s)
            heapq.heappush(self._under_way, sent)
            if self._rate_per_s is None:
                heapq.heappush(self._due, sent[0])
            else:
                heapq.heappush(self._due, due_s + self._chance.expovariate(self._rate_per_s))
        while self._under_way and self._under_way[0][0] <= now_s:
            ends_s, due_s, is_answered = heapq.heappop(self._under_way)
            if is_answered:
                self._done[bucket_of(int((ends_s - due_s) * 1e9))] += 1
            else:
                self._n_failed += 1
        return Requests(
            Latencies(dict(sorted(self._done.items()))),
            n_failed=self._n_failed,
            rate_per_s=self._rate_per_s,
            unfinished=counted([now_s - due_s for _, due_s, _ in self._under_way]),
        )

    def away(self) -> str:
        return ""

    def rest(self) -> None:
        pass

    def is_dry(self) -> bool:
        return False


def counted(took_s: list[float]) -> Latencies:
    return Latencies(dict(sorted(Counter(bucket_of(int(one_s * 1e9)) for one_s in took_s).items())))


def searched(
    within_s: float,
    n_servers: int,
    service_s: Callable[[float | None], float],
    timeout_s: float = 30.0,
    feeders: list[QueueFeeder] | None = None,
) -> QueueFeeder:
    """The feeder after the search."""
    box = VirtualBox(SERVICE)
    with (
        box.running(LAYOUT, {}) as launch,
        box.counting(LAYOUT) as counting,
        box.watching(launch, frozenset()) as watch,
    ):
        feeder = QueueFeeder(box, Queue(n_servers, service_s, box.clock.monotonic_s()), timeout_s)
        if feeders is not None:
            feeders.append(feeder)
        running = RunningLayout(LAYOUT, STUDY, box.clock, launch, counting, watch, feeder)  # type: ignore[arg-type]
        find_rate(running, WithinP95(within_s), lambda: False)
    return feeder


def p95_s(rate_per_s: float, n_servers: int, takes_s: float) -> float:
    """Of M/D/c: from 60 000 requests."""
    queue, chance, due_s = Queue(n_servers, lambda _rate: takes_s, 0.0), random.Random(7), 0.0
    took_s = []
    for _ in range(60_000):
        due_s += chance.expovariate(rate_per_s)
        took_s.append(queue.ends_s(due_s, rate_per_s) - due_s)
    return sorted(took_s)[int(0.95 * len(took_s))]


@pytest.mark.parametrize(
    ("n_servers", "takes_s", "within_s"), [(1, 0.005, 0.015), (2, 0.0125, 0.025), (4, 0.025, 0.0375)]
)
def test_the_rate_that_is_found_is_near_the_highest_that_keeps_the_p95_of_a_queue(
    n_servers: int, takes_s: float, within_s: float
) -> None:
    """M/D/c. A look of 30 s cannot tell closer: it sees few of the times at which requests queue."""
    found_per_s, _ = searched(within_s, n_servers, lambda _rate: takes_s).reported[-1]

    assert p95_s(0.85 * found_per_s, n_servers, takes_s) <= within_s
    assert p95_s(1.2 * found_per_s, n_servers, takes_s) > within_s


def test_every_rate_begins_with_nothing_under_way_though_the_one_before_had_overloaded_the_service() -> None:
    """Beyond 20/s each request takes 0.4 s, in the closed loop 0.02 s: the capacity of 50/s is a fib."""
    result = searched(0.1, 1, lambda rate: 0.4 if rate is not None and rate > 20 else 0.02).reported

    assert max(rate for rate, _ in result) > 20
    assert result[-1][0] == pytest.approx(19.6, abs=0.9)  # 1/64 of 50 below 20
    assert {under_way for _, under_way in result} == {0}


def test_requests_that_were_given_up_are_waited_for_too_as_the_service_works_them_off() -> None:
    """Given up after 0.3 s, when the queue is 10 s long."""
    result = searched(
        0.1, 1, lambda rate: 0.4 if rate is not None and rate > 20 else 0.02, timeout_s=0.3
    ).reported

    assert result[-1][0] == pytest.approx(19.6, abs=0.9)


def test_a_layout_that_answers_few_at_once_and_the_others_not_at_all_does_not_look_fast() -> None:
    """Beyond 20/s nine of ten are never answered, and the tenth in 10 ms."""
    numbers = count()

    def service_s(rate: float | None) -> float:
        return 0.01 if rate is None or rate <= 20 or next(numbers) % 10 == 0 else 40.0

    result = searched(0.1, 500, service_s).reported

    assert result[-1][0] < 20


def test_a_layout_that_stops_answering_for_good_is_said_to() -> None:
    with raises(MeasurementError, wording("grid.has-stopped-answering")):
        searched(0.1, 1, lambda rate: 0.02 if rate is None else inf)


def test_a_queue_that_does_not_drain_is_said_to() -> None:
    with raises(MeasurementError, wording("grid.left-requests-unanswered")):
        searched(0.1, 1, lambda rate: 0.02 if rate is None else inf, timeout_s=300.0)
