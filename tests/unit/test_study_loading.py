"""The search for the number of clients, on a virtual box with a feeder of known behaviour."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tuner.adapters.virtual.box import VirtualBox, VirtualService, virtual_study
from tuner.core.domain.layout import Layout
from tuner.core.domain.load import TriedClients
from tuner.core.domain.requests import Latencies, Requests
from tuner.core.errors import MeasurementError
from tuner.study.launch.client_search import LONGEST_LOOK_S, describe_search, find_clients

from ..wording import wording

SMALL, LARGE = Layout(1, 2), Layout(2, 2)
SERVICE = VirtualService({SMALL: 10.0, LARGE: 20.0})


class LoadFeeder:
    """Answers min(clients / wait, capacity) requests a second."""

    pace = None
    lacks_clients = True

    def __init__(
        self,
        box: VirtualBox,
        wait_s: float,
        capacity_per_s: float,
        *,
        timeout_s: float = 30.0,
        fails_from: int = 10**9,
    ) -> None:
        self._clock, self._wait_s, self._capacity_per_s = box.clock, wait_s, capacity_per_s
        self.timeout_s, self._fails_from = timeout_s, fails_from
        self.clients: list[int] = []
        self.layouts: list[Layout] = []
        self._began_s = 0.0

    def use_clients(self, n_clients: int) -> None:
        self.clients.append(n_clients)

    @contextmanager
    def feeding(self, layout: Layout) -> Iterator[None]:
        self.layouts.append(layout)
        self._began_s = self._clock.monotonic_s()
        yield

    def follow(self, workers: object) -> None:
        pass

    def away(self) -> str:
        return ""

    def rest(self) -> None:
        pass

    def is_dry(self) -> bool:
        return False

    def problem(self) -> str:
        return "the port is closed"

    def requests(self) -> Requests:
        n_clients = self.clients[-1]
        n = int(
            min(n_clients / self._wait_s, self._capacity_per_s) * (self._clock.monotonic_s() - self._began_s)
        )
        if n_clients >= self._fails_from:
            return Requests(n_failed=n)
        return Requests(Latencies({1000: n} if n else {}))


def found_by(feeder: LoadFeeder, box: VirtualBox):
    study = virtual_study(SERVICE, window_s=5.0)
    return find_clients(box.box(), feeder, study, lambda *_: None, lambda: False)


def test_an_event_loop_is_loaded_until_more_clients_bring_nothing() -> None:
    box = VirtualBox(SERVICE)
    feeder = LoadFeeder(box, wait_s=0.1, capacity_per_s=365.0)

    found = found_by(feeder, box)

    assert found is not None
    assert found.saturates
    assert [one.clients for one in found.tried] == [8, 16, 32, 64, 128]
    assert found.clients in (64, 128)
    assert set(feeder.layouts) == {LARGE}
    assert "more bring nothing" in describe_search(found)


def test_threads_are_loaded_by_two_clients_each_and_that_is_seen_at_once() -> None:
    box = VirtualBox(SERVICE)

    found = found_by(LoadFeeder(box, wait_s=0.1, capacity_per_s=40.0), box)

    assert found is not None
    assert [one.clients for one in found.tried] == [8, 16]
    assert [one.per_s for one in found.tried] == pytest.approx([40.0, 40.0], rel=0.01)


def test_it_ends_at_a_bound_where_throughput_never_stops_rising_and_says_so() -> None:
    box = VirtualBox(SERVICE)

    found = found_by(LoadFeeder(box, wait_s=0.1, capacity_per_s=1e9), box)

    assert found is not None
    assert not found.saturates
    assert found.clients == 1024
    assert found.why


def test_requests_are_never_sent_so_that_they_would_wait_nearly_as_long_as_their_timeout() -> None:
    box = VirtualBox(SERVICE)

    found = found_by(LoadFeeder(box, wait_s=1.0, capacity_per_s=4.0, timeout_s=10.0), box)

    assert found is not None
    assert [one.clients for one in found.tried] == [8]  # 16 would wait 4 s, and 2.5 are a quarter of it
    assert not found.saturates


def test_a_number_at_which_requests_fail_is_not_taken() -> None:
    box = VirtualBox(SERVICE)

    found = found_by(LoadFeeder(box, wait_s=0.1, capacity_per_s=1e9, fails_from=64), box)

    assert found is not None
    assert found.tried[-1] == TriedClients(32, pytest.approx(320.0, rel=0.01))
    assert (found.clients, found.saturates) == (32, False)


def test_a_service_that_answers_nothing_is_an_error() -> None:
    box = VirtualBox(SERVICE)

    with pytest.raises(MeasurementError):
        found_by(LoadFeeder(box, wait_s=0.1, capacity_per_s=100.0, fails_from=1), box)


def test_why_no_request_was_answered_is_reported() -> None:
    box = VirtualBox(SERVICE)

    with pytest.raises(MeasurementError) as caught:
        found_by(LoadFeeder(box, wait_s=0.1, capacity_per_s=0.0), box)

    seconds = LONGEST_LOOK_S
    assert str(caught.value).endswith(wording("grid.no-request-was-answered", seconds=f"{seconds:.0f}"))
