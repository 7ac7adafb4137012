"""The HTTP feeder beside a launch: what it sends, what it tells, and that it is gone afterwards."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import pytest

from tuner.adapters.feeders.http import HttpFeeder
from tuner.adapters.load.order import read_order
from tuner.adapters.load.totals import read_counts
from tuner.adapters.load.traffic import Traffic
from tuner.core.domain.layout import Layout
from tuner.core.domain.load import Share
from tuner.core.domain.requests import Requests, bucket_limits_ns
from tuner.core.errors import ConfigError, MeasurementError
from tuner.core.text.http_request import parse_url

from ..ports import free_port
from ..processes import is_running
from ..raising import raises
from ..wording import wording
from .http_service import PATIENCE_S, Service, answer, held_until, running, says

pytestmark = pytest.mark.integration


class Feeding:
    """A feeder with all that a test wants to see of it."""

    def __init__(self, folder: Path, url: str, *layouts: Layout, **traffic) -> None:
        self.warnings: list[tuple[str, str]] = []
        self.totals = folder / "load.totals"
        self.feeder = HttpFeeder(
            Traffic(parse_url(url), **traffic),
            layouts or [Layout(2, 3)],
            self.totals,
            folder,
            lambda slug, text: self.warnings.append((slug, text)),
        )

    def counts(self) -> tuple[int, int]:
        return read_counts(self.totals) if self.totals.exists() else (0, 0)


def wait_for(condition) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited {PATIENCE_S} s in vain"
        time.sleep(0.01)


def test_a_launch_is_fed_by_twice_as_many_connections_as_it_has_threads(tmp_path: Path) -> None:
    together = threading.Event()

    async def answering(service: Service, writer: asyncio.StreamWriter, number: int) -> bool:
        if number > 1:  # none of the others is answered before as many are there as may be
            if number == 1 + 12:
                together.set()
            while not together.is_set():
                await asyncio.sleep(0.01)
        writer.write(answer())
        return True

    with running(answering) as service:
        feeding = Feeding(tmp_path, service.url, headers={"X-Who": "tuner"})
        feeding.feeder.prepare()
        assert feeding.feeder.is_dry()
        with feeding.feeder.feeding(Layout(2, 3)):
            (pid,) = feeding.feeder.pids()
            wait_for(lambda: feeding.counts()[0] >= 20)
            assert not feeding.feeder.is_dry()
        n_connections = service.n_connections

    assert n_connections == 1 + 12
    assert all("\r\nX-Who: tuner\r\n" in head for head in service.heads)
    assert not is_running(pid)
    assert feeding.feeder.is_dry()
    assert feeding.feeder.pids() == frozenset()
    assert feeding.warnings == []
    assert list(tmp_path.iterdir()) == []


def test_it_waits_for_a_service_that_starts_later(tmp_path: Path) -> None:
    port = free_port()
    feeding = Feeding(tmp_path, f"http://127.0.0.1:{port}/")

    with feeding.feeder.feeding(Layout(1, 1)):
        wait_for(feeding.totals.exists)
        assert feeding.counts() == (0, 0)
        with running(says(answer()), port=port):
            wait_for(lambda: feeding.counts()[0] > 10)

    assert feeding.warnings == []  # that it is gone now is no failure of it


def test_a_service_that_never_answers_spoils_the_launch_and_says_what_came(tmp_path: Path) -> None:
    with running(says(b"SSH-2.0-OpenSSH\r\n", then_closes=True)) as service:
        feeding = Feeding(tmp_path, service.url, wait_s=0.3)
        with (
            raises(MeasurementError, wording("feeders.did-not-answer-but-said")),
            feeding.feeder.feeding(Layout(1, 1)),
        ):
            wait_for(feeding.feeder.is_dry)

    assert list(tmp_path.iterdir()) == []


def test_a_service_that_has_not_answered_yet_is_reported_of_with_what_came(tmp_path: Path) -> None:
    may_answer = threading.Event()

    async def answering(service: Service, writer: asyncio.StreamWriter, number: int) -> bool:
        if may_answer.is_set():
            writer.write(answer())
        return may_answer.is_set()

    with running(answering) as service:
        feeding = Feeding(tmp_path, service.url)
        with feeding.feeder.feeding(Layout(2, 3)):
            wait_for(feeding.feeder.problem)
            assert feeding.feeder.problem() == wording("feeders.it-closed-the-connection", url=service.url)

            may_answer.set()
            wait_for(lambda: feeding.counts()[0] > 0)
            wait_for(lambda: not feeding.feeder.problem())


def test_a_service_that_takes_a_connection_and_says_nothing_is_reported_of(tmp_path: Path) -> None:
    async def answering(service: Service, writer: asyncio.StreamWriter, number: int) -> bool:
        await asyncio.sleep(PATIENCE_S)
        return False

    with running(answering) as service:
        feeding = Feeding(tmp_path, service.url)
        with feeding.feeder.feeding(Layout(2, 3)):
            wait_for(feeding.feeder.problem)
            assert feeding.feeder.problem() == wording("feeders.not-answered-for-long", url=service.url)


def test_requests_that_failed_are_reported_by_kind_once_the_launch_is_over(tmp_path: Path) -> None:
    async def answering(service: Service, writer: asyncio.StreamWriter, number: int) -> bool:
        writer.write(answer(status="200 OK" if number % 2 else "503 Busy"))
        return True

    with running(answering) as service:
        feeding = Feeding(tmp_path, service.url)
        with feeding.feeder.feeding(Layout(1, 1)):
            wait_for(lambda: sum(feeding.counts()) > 50)
            assert feeding.warnings == []

    ((slug, text),) = feeding.warnings
    assert slug == "requests-failed"
    assert text.startswith("1x1: ")
    assert text.endswith(" 5xx (last status: 503)")


@pytest.mark.parametrize(
    ("status", "slugs"), [("302 Found", ["requests-redirected"]), ("304 Not Modified", [])]
)
def test_redirects_are_reported_because_they_count_as_items(
    tmp_path: Path, status: str, slugs: list[str]
) -> None:
    with running(says(answer(status=status))) as service:
        feeding = Feeding(tmp_path, service.url)
        with feeding.feeder.feeding(Layout(1, 1)):
            wait_for(lambda: feeding.counts()[0] > 50)

    assert [slug for slug, _ in feeding.warnings] == slugs
    assert all("(status 302)" in text for _, text in feeding.warnings)


def test_a_service_that_fails_always_is_reported_of_though_nothing_good_came_after(tmp_path: Path) -> None:
    with running(says(answer(status="404 Not Found"))) as service:
        feeding = Feeding(tmp_path, service.url)
        with feeding.feeder.feeding(Layout(1, 1)):
            wait_for(lambda: feeding.counts()[1] > 50)

    ((slug, _),) = feeding.warnings
    assert slug == "requests-failed"


def test_fewer_clients_than_threads_are_refused_before_the_study(tmp_path: Path) -> None:
    layouts = Layout(1, 4), Layout(4, 4), Layout(2, 2)
    feeding = Feeding(tmp_path, "http://127.0.0.1:1/", *layouts, clients=15)

    with raises(ConfigError, wording("feeders.connections-leave-threads", n=15, layout="4x4")):
        feeding.feeder.prepare()

    Feeding(tmp_path, "http://127.0.0.1:1/", *layouts, clients=16).feeder.prepare()


def test_a_file_of_requests_is_checked_before_the_study(tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_text("{}")

    with raises(ConfigError, wording("feeders.first-line-no-request")):
        Feeding(tmp_path, "http://127.0.0.1:1/", requests_file=tmp_path / "r.jsonl").feeder.prepare()


def test_it_tells_what_became_of_the_requests_and_how_long_the_good_ones_took(tmp_path: Path) -> None:
    async def answering(service: Service, writer: asyncio.StreamWriter, number: int) -> bool:
        if number > 1:
            await asyncio.sleep(0.05)
        writer.write(answer(status="200 OK" if number % 2 else "503 Busy"))
        return True

    with running(answering) as service:
        feeding = Feeding(tmp_path, service.url)
        assert feeding.feeder.requests() == Requests()
        with feeding.feeder.feeding(Layout(1, 1)):
            wait_for(lambda: sum(feeding.counts()) > 5)
            earlier = feeding.feeder.requests()
            wait_for(lambda: feeding.feeder.requests().since(earlier).n_total > 20)
            later = feeding.feeder.requests()

    meanwhile = later.since(earlier)
    assert meanwhile.n_total > 20
    assert meanwhile.failed_ratio == pytest.approx(0.5, abs=0.1)
    quickest, _ = bucket_limits_ns(min(meanwhile.latencies.n_by_bucket))
    assert quickest >= 49e6


def test_damaged_counts_spoil_the_launch(tmp_path: Path) -> None:
    feeding = Feeding(tmp_path, "http://127.0.0.1:1/")
    feeding.totals.write_bytes(b"x" * 500)

    with raises(MeasurementError, wording("feeders.holds-no-totals")):
        feeding.feeder.requests()


def test_at_a_pace_it_begins_in_a_closed_loop_and_continues_at_every_rate_that_it_is_reported(
    tmp_path: Path,
) -> None:
    with running(says(answer())) as service:
        feeding = Feeding(tmp_path, service.url, pace=Share(0.5), arrivals="even")
        with feeding.feeder.feeding(Layout(1, 1)):
            wait_for(lambda: feeding.counts()[0] >= 100)
            assert feeding.feeder.requests().rate_per_s is None
            feeding.feeder.go_on_at(20.0, 40.0)
            wait_for(lambda: grown_in(feeding, 0.5) <= 11)  # a closed loop answers hundreds
            seen = feeding.feeder.requests()
            feeding.feeder.go_on_at(500.0, 40.0)
            wait_for(lambda: grown_in(feeding, 0.5) >= 50)
            feeding.feeder.go_on_at(20.0, 40.0)
            wait_for(lambda: grown_in(feeding, 0.5) <= 11)
        with feeding.feeder.feeding(Layout(1, 1)):
            again = feeding.feeder.requests()

    assert (seen.rate_per_s, seen.capacity_per_s) == (20.0, 40.0)
    assert (again.rate_per_s, again.capacity_per_s) == (None, None)
    assert feeding.warnings == []
    assert list(tmp_path.iterdir()) == []


def test_requests_without_an_answer_are_reported_of_by_how_long_they_have_waited(tmp_path: Path) -> None:
    """The service answers one request, then none until it is let; with a rate of 0 no more become due."""
    let = threading.Event()

    with running(held_until(let)) as service:
        feeding = Feeding(tmp_path, service.url, pace=Share(0.5), clients=6, timeout_s=PATIENCE_S)
        with feeding.feeder.feeding(Layout(1, 1)):
            wait_for(lambda: feeding.feeder.requests().unfinished.n_recorded == 6)  # closed loop
            feeding.feeder.go_on_at(100.0, 200.0)
            wait_for(lambda: feeding.feeder.requests().unfinished.n_recorded >= 40)
            feeding.feeder.go_on_at(0.0, 200.0)
            time.sleep(0.5)
            seen = feeding.feeder.requests()
            time.sleep(0.5)
            later = feeding.feeder.requests()
            let.set()
            wait_for(lambda: not feeding.feeder.requests().unfinished.n_recorded)
            ended = feeding.feeder.requests()

    assert (seen.n_total, seen.rate_per_s) == (1, 0.0)
    assert later.unfinished.n_recorded == seen.unfinished.n_recorded  # none became due
    longest_s, longer_s = (one.unfinished.quantile(1.0) for one in (seen, later))
    assert longest_s.low_s > 0.5
    assert longer_s.high_s >= longest_s.low_s + 0.5
    assert ended.n_total == ended.latencies.n_recorded == 1 + seen.unfinished.n_recorded
    assert ended.latencies.quantile(1.0).high_s >= longer_s.low_s
    assert later.since(seen).latency_s(0.95) is None  # of those who came meanwhile: none


def grown_in(feeding: Feeding, seconds: float) -> int:
    before = feeding.counts()[0]
    time.sleep(seconds)
    return feeding.counts()[0] - before


def test_each_launch_has_arrivals_of_its_own_and_they_are_the_same_whenever_a_study_is_made(
    tmp_path: Path,
) -> None:
    with running(says(answer())) as service:
        seeds = []
        for _ in range(2):
            feeding = Feeding(tmp_path, service.url, rate_per_s=50.0, seed=7)
            for _ in range(2):
                with feeding.feeder.feeding(Layout(1, 1)):
                    wait_for(lambda: feeding.counts()[0] >= 1)  # noqa: B023  # called at once
                    (order,) = tmp_path.glob("load-*/order.json")
                    seeds.append(read_order(order).seed)

    assert seeds == [7, 8, 7, 8]


def test_a_feeder_without_a_pace_takes_no_rate(tmp_path: Path) -> None:
    feeding = Feeding(tmp_path, "http://127.0.0.1:1/")

    assert feeding.feeder.pace is None
    with raises(ValueError, wording("feeders.nothing-at-a-pace")):
        feeding.feeder.go_on_at(20.0, 40.0)
