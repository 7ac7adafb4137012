"""The HTTP feeder pauses: connections stay open, nothing is sent, and nothing is made up for afterwards."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from tuner.core.domain.layout import Layout
from tuner.core.errors import MeasurementError

from ..raising import raises
from ..wording import wording
from .http_service import PATIENCE_S, Service, answer, held_until, running, says
from .test_http_feeder import Feeding, wait_for

pytestmark = pytest.mark.integration


def ports_of(service: Service) -> set[int]:
    """The far ends of the connections that are open: the generator's sockets."""
    return {
        writer.get_extra_info("peername")[1]
        for writer in service._serving.values()
        if not writer.is_closing()
    }


def test_while_it_pauses_nothing_is_sent_and_the_same_connections_stay_open(tmp_path: Path) -> None:
    with running(says(answer())) as service:
        feeding = Feeding(tmp_path, service.url)
        with feeding.feeder.feeding(Layout(2, 3)):
            wait_for(lambda: feeding.counts()[0] >= 100 and service.n_connections == 1 + 12)
            for _ in range(3):
                feeding.feeder.pause()
                n_requests, n_connections, ports = (
                    service.n_requests,
                    service.n_connections,
                    ports_of(service),
                )
                assert feeding.counts() == (n_requests, 0)
                assert feeding.feeder.requests().unfinished.n_recorded == 0
                time.sleep(0.5)
                assert (service.n_requests, ports_of(service)) == (n_requests, ports)
                assert not feeding.feeder.is_dry()

                feeding.feeder.resume()
                wait_for(lambda: service.n_requests > n_requests + 100)  # noqa: B023  # called at once
                assert (service.n_connections, ports_of(service)) == (n_connections, ports)

    assert n_connections == 1 + 12
    assert feeding.counts() == (0, 0)
    assert feeding.warnings == []


def test_it_pauses_once_the_requests_under_way_are_answered(tmp_path: Path) -> None:
    let = threading.Event()

    with running(held_until(let)) as service:
        feeding = Feeding(tmp_path, service.url, clients=6)
        with feeding.feeder.feeding(Layout(1, 1)):
            wait_for(lambda: service.n_requests == 1 + 6)
            pausing = threading.Thread(target=feeding.feeder.pause)
            pausing.start()
            pausing.join(0.3)
            was_waiting = pausing.is_alive()
            let.set()
            pausing.join(PATIENCE_S)
            counts = feeding.counts()

    assert was_waiting
    assert counts == (1 + 6, 0)
    assert service.n_requests == 1 + 6


def test_a_rate_goes_on_after_a_pause_as_if_there_had_been_none(tmp_path: Path) -> None:
    with running(says(answer())) as service:
        feeding = Feeding(tmp_path, service.url, rate_per_s=200.0, arrivals="even")
        with feeding.feeder.feeding(Layout(1, 1)):
            wait_for(lambda: feeding.counts()[0] >= 50)
            feeding.feeder.pause()
            before = feeding.counts()
            time.sleep(1.0)  # of 200 requests
            assert feeding.counts() == before

            began_s = time.monotonic()
            feeding.feeder.resume()
            wait_for(lambda: feeding.counts()[0] >= before[0] + 100)
            took_s = time.monotonic() - began_s
            failed = feeding.counts()[1]

    assert took_s > 0.4  # at 200 a second half a second; a backlog would be sent at once
    assert failed == 0


def test_a_service_that_closes_connections_meanwhile_gets_new_ones_and_no_request_fails(
    tmp_path: Path,
) -> None:
    async def closing(service: Service, writer: asyncio.StreamWriter, number: int) -> bool:
        writer.write(answer())
        await writer.drain()
        return number % 7 != 0

    with running(closing) as service:
        feeding = Feeding(tmp_path, service.url, clients=4)
        with feeding.feeder.feeding(Layout(1, 1)):
            for n in range(1, 6):
                wait_for(lambda: feeding.counts()[0] >= 50 * n)  # noqa: B023  # called at once
                feeding.feeder.pause()
                feeding.feeder.resume()
            wait_for(lambda: feeding.counts()[0] >= 300)
            failed = feeding.counts()[1]

    assert failed == 0


def test_a_generator_that_was_killed_cannot_pause_and_says_so(tmp_path: Path) -> None:
    with running(says(answer())) as service:
        feeding = Feeding(tmp_path, service.url)
        with pytest.raises(MeasurementError) as spoilt, feeding.feeder.feeding(Layout(1, 1)):  # noqa: PT012
            wait_for(lambda: feeding.counts()[0] >= 10)
            (pid,) = feeding.feeder.pids()
            os.kill(pid, signal.SIGKILL)
            wait_for(feeding.feeder.is_dry)
            with raises(MeasurementError, wording("feeders.cannot-pause-ended")):
                feeding.feeder.pause()

    assert spoilt.value.problem


def test_nothing_pauses_where_nothing_is_fed(tmp_path: Path) -> None:
    feeding = Feeding(tmp_path, "http://127.0.0.1:1/")

    assert feeding.feeder.can_pause
    with raises(ValueError, wording("feeders.nothing-is-fed")):
        feeding.feeder.pause()
    with raises(ValueError, wording("feeders.nothing-is-fed")):
        feeding.feeder.resume()
