"""The rate that a launch is sent, on virtual time: a service whose p95 is known at every rate."""

from __future__ import annotations

import pytest

from tuner.adapters.virtual.box import VirtualBox, VirtualService, virtual_study
from tuner.core.domain.layout import Layout
from tuner.core.domain.load import Pace, Share, WithinP95
from tuner.core.domain.requests import Latencies, Requests, bucket_of
from tuner.core.errors import MeasurementError
from tuner.study.launch.rate_search import find_rate
from tuner.study.launch.watching import RunningLayout

from ..raising import raises
from ..wording import wording

LAYOUT = Layout(1, 2)
SERVICE = VirtualService({LAYOUT: 10.0})
STUDY = virtual_study(SERVICE, window_s=5.0, n_blocks=1)


class KnownQueue:
    """A feeder whose every request takes 0.1 s / (1 - rate / capacity): one server's queue."""

    def __init__(self, box: VirtualBox, pace: Pace, capacity_per_s: float) -> None:
        self._clock, self.pace, self._capacity_per_s = box.clock, pace, capacity_per_s
        self.reported: list[float] = []
        self.refuses = False  #: each request is answered badly
        self.tires = False  #: after 20 s at a rate above half the capacity it takes 9 s
        self._told_s = box.clock.monotonic_s()
        self.ends_s: float | None = None  #: when it dies
        self._since_s = box.clock.monotonic_s()
        self._n_by_bucket: dict[int, float] = {}
        self._pauses = False

    def follow(self, workers: object) -> None:
        pass

    def go_on_at(self, rate_per_s: float, capacity_per_s: float) -> None:
        self._count()
        self._pauses = not rate_per_s
        if not rate_per_s:
            return
        self.reported.append(rate_per_s / capacity_per_s)
        self._told_s = self._clock.monotonic_s()

    def requests(self) -> Requests:
        self._count()
        if self.refuses:
            return Requests(n_failed=int(sum(self._n_by_bucket.values())))
        latencies = Latencies({bucket: int(n) for bucket, n in self._n_by_bucket.items()})
        return Requests(latencies, rate_per_s=self.reported[-1] if self.reported else None)

    def away(self) -> str:
        return ""

    def rest(self) -> None:
        pass

    def is_dry(self) -> bool:
        return self.ends_s is not None and self._clock.monotonic_s() >= self.ends_s

    def _count(self) -> None:
        now_s = self._clock.monotonic_s()
        ratio = self.reported[-1] if self.reported else None
        took_s = 0.5 if ratio is None else 0.1 / (1 - ratio)
        if self.tires and ratio is not None and ratio > 0.5 and now_s - self._told_s > 20:
            took_s = 9.0
        per_s = self._capacity_per_s * (1.0 if ratio is None else ratio)
        bucket = bucket_of(int(took_s * 1e9))
        n = 0.0 if self._pauses else per_s * (now_s - self._since_s)
        self._n_by_bucket = dict(
            sorted({**self._n_by_bucket, bucket: self._n_by_bucket.get(bucket, 0.0) + n}.items())
        )
        self._since_s = now_s


def paced(
    pace: Pace,
    capacity_per_s: float = 80.0,
    dies_after_s: float | None = None,
    *,
    tires: bool = False,
    refuses: bool = False,
) -> tuple[KnownQueue, float]:
    """The feeder after the search, and how long that took."""
    box = VirtualBox(SERVICE)
    with (
        box.running(LAYOUT, {}) as launch,
        box.counting(LAYOUT) as counting,
        box.watching(launch, frozenset()) as watch,
    ):
        feeder = KnownQueue(box, pace, capacity_per_s)
        feeder.tires, feeder.refuses = tires, refuses
        if dies_after_s is not None:
            feeder.ends_s = box.clock.monotonic_s() + dies_after_s
        running = RunningLayout(LAYOUT, STUDY, box.clock, launch, counting, watch, feeder)  # type: ignore[arg-type]
        began_s = box.clock.monotonic_s()
        find_rate(running, pace, lambda: False)
        assert len(running.unkept_warmup()) >= 10  # the store gets what was seen meanwhile
        return feeder, box.clock.monotonic_s() - began_s


def test_a_share_is_of_what_ten_seconds_of_a_closed_loop_answered() -> None:
    feeder, lasted_s = paced(Share(0.7))

    assert feeder.reported == [pytest.approx(0.7)]
    assert lasted_s == pytest.approx(10.0)


def test_the_look_continues_where_few_requests_end() -> None:
    _, lasted_s = paced(Share(0.7), capacity_per_s=4.0)
    _, longest_s = paced(Share(0.7), capacity_per_s=0.5)

    assert lasted_s == pytest.approx(26.0, abs=1.1)  # 100 of 4 a second
    assert longest_s == pytest.approx(60.0, abs=1.1)


def test_a_service_that_answers_nothing_has_no_capacity() -> None:
    with raises(MeasurementError, wording("grid.answered-no-request-well", layout="1x2", seconds=60)):
        paced(Share(0.7), capacity_per_s=0.0)


def test_a_service_that_refuses_all_requests_is_reported_to_have_done_so_for_as_long_as_was_looked() -> None:
    with raises(MeasurementError, wording("grid.answered-no-request-well", layout="1x2", seconds=10)):
        paced(Share(0.7), refuses=True)


def test_a_feeder_that_dies_meanwhile_spoils_the_launch() -> None:
    with raises(MeasurementError, wording("grid.feeder-has-ended")):
        paced(Share(0.7), dies_after_s=3.0)


def test_the_highest_rate_that_keeps_a_p95_is_found_and_gone_on_with() -> None:
    """0.1 s / (1 - x) is 0.4 s at x = 0.75."""
    feeder, _ = paced(WithinP95(0.401))

    assert feeder.reported[:3] == [pytest.approx(0.5), pytest.approx(0.75), pytest.approx(0.875)]
    assert feeder.reported[6:] == [pytest.approx(0.75), pytest.approx(0.75 / 0.9), pytest.approx(0.75)]


def test_a_rate_that_keeps_it_for_ten_seconds_only_is_stepped_down_from() -> None:
    feeder, _ = paced(WithinP95(0.401), tires=True)

    assert feeder.reported[6:] == [
        pytest.approx(0.75),
        *(pytest.approx(0.75 * 0.9**n) for n in (1, 2, 3)),
        *[pytest.approx(0.75 * 0.9**4)] * 2,  # once to be sure, and then with nothing left of that
    ]
    assert feeder.reported[-1] < 0.5


def test_where_no_rate_keeps_it_the_lowest_that_was_tried_is_gone_on_with() -> None:
    feeder, _ = paced(WithinP95(0.05))

    assert feeder.reported[-1] == pytest.approx(1 / 64)
