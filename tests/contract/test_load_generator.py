"""The load generator beside a small real server: both must have counted the same."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tuner.adapters.load.order import Order, Request, read_order, write_workers
from tuner.adapters.load.totals import DamagedTotalsError, Totals, TotalsWriter, read_counts, read_totals
from tuner.core.domain.requests import ConnectionSpread

from ..ports import free_port
from ..wording import key_of, start_of, wording
from .http_service import PATIENCE_S, Answering, Service, answer, running, says

pytestmark = pytest.mark.integration
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"


def get(path: str = "/") -> Request:
    return Request("GET", f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())


def order(port: int, **more) -> Order:
    return replace(Order("127.0.0.1", port, (get(),), clients=4, n_requests=200), **more)


@contextmanager
def generator(asked: Order, folder: Path) -> Iterator[subprocess.Popen[str]]:
    asked.write(folder / "order.json")
    command = [sys.executable, "-m", "tuner.adapters.load", folder / "order.json", folder / "totals"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def sent(asked: Order, folder: Path) -> Totals:
    """What the generator counted, once it has sent all."""
    with generator(asked, folder) as process:
        said, _ = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, said) == (0, "")
    return read_totals(folder / "totals")


def wait_for(condition) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited {PATIENCE_S} s in vain"
        time.sleep(0.01)


def n_counted(folder: Path) -> int:
    return sum(read_counts(folder / "totals")) if (folder / "totals").exists() else 0


@pytest.mark.parametrize("wire", [answer(), CHUNKED, b"HTTP/1.1 204 No Content\r\n\r\n"])
def test_connections_are_kept_and_every_answer_is_counted(tmp_path: Path, wire: bytes) -> None:
    with running(says(wire)) as service:
        totals = sent(order(service.port), tmp_path)

    assert (totals.n_done, totals.n_failed) == (200, {})
    assert totals.n_done == service.n_requests
    assert service.n_connections == 1 + 4  # the first answer has one of its own
    assert totals.n_bytes == 200 * len(wire)
    assert totals.latencies.n_recorded == 200


def test_a_service_at_a_unix_socket_is_sent_to_as_well(tmp_path: Path) -> None:
    with running(says(answer()), path=Path(os.environ["TMPDIR"], "s")) as service:
        totals = sent(order(0, host=f"{os.environ['TMPDIR']}/s"), tmp_path)
        os.unlink(f"{os.environ['TMPDIR']}/s")

    assert (totals.n_done, totals.n_failed) == (200, {})
    assert (service.n_requests, service.n_connections) == (200, 1 + 4)


@pytest.mark.parametrize(
    "wire",
    [answer(headers="Connection: close\r\n"), b"HTTP/1.0 200 OK\r\n\r\nok", b"HTTP/1.1 200 OK\r\n\r\nok"],
)
def test_a_server_that_closes_after_each_answer_gets_a_connection_for_each(
    tmp_path: Path, wire: bytes
) -> None:
    with running(says(wire, then_closes=True)) as service:
        totals = sent(order(service.port), tmp_path)

    assert (totals.n_done, totals.n_failed) == (200, {})
    assert service.n_requests == service.n_connections == 200


def test_a_server_that_closes_without_a_word_costs_no_request(tmp_path: Path) -> None:
    with running(says(answer(), then_closes=True)) as service:
        totals = sent(order(service.port), tmp_path)

    assert (totals.n_done, totals.n_failed) == (200, {})
    assert service.n_requests == 200


def test_statuses_from_400_on_are_failures_and_reported_apart(tmp_path: Path) -> None:
    async def answering(service: Service, writer: asyncio.StreamWriter, number: int) -> bool:
        writer.write(answer(status=["200 OK", "302 Found", "404 Not Found", "503 Busy"][number % 4]))
        return True

    with running(answering) as service:
        totals = sent(order(service.port), tmp_path)

    assert (totals.n_done, totals.n_failed) == (100, {"4xx": 50, "5xx": 50})
    assert service.n_requests == 200
    assert totals.latencies.n_recorded == 100  # failing is often quicker than answering


def test_garbage_and_answers_that_break_off_are_failures_of_their_kind(tmp_path: Path) -> None:
    async def answering(service: Service, writer: asyncio.StreamWriter, number: int) -> bool:
        wires = [
            answer(),
            b"SSH-2.0-OpenSSH\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok",
            answer(),
        ]
        writer.write(wires[number % 4])
        return number % 4 in (0, 3)

    with running(answering) as service:
        # the first attempt for a first answer, number 1, is garbage, the second one breaks off: not counted
        totals = sent(order(service.port, clients=1, n_requests=21), tmp_path)

    assert service.n_requests == 23
    assert (totals.n_done, totals.n_failed) == (11, {"garbage": 5, "closed": 5})


def test_a_post_that_the_server_drops_is_not_sent_twice(tmp_path: Path) -> None:
    async def answering(service: Service, writer: asyncio.StreamWriter, number: int) -> bool:
        if number % 2:
            writer.write(answer())
        return bool(number % 2)

    post = Request("POST", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody")
    with running(answering) as service:
        totals = sent(order(service.port, requests=(post,), clients=1, n_requests=11), tmp_path)

    assert service.n_requests == 11
    assert (totals.n_done, totals.n_failed) == (6, {"closed": 5})


def test_an_answer_that_takes_too_long_is_given_up_and_its_connection_left(tmp_path: Path) -> None:
    async def answering(service: Service, writer: asyncio.StreamWriter, number: int) -> bool:
        if number % 5 == 0:
            await asyncio.sleep(PATIENCE_S)
        writer.write(answer())
        return True

    with running(answering) as service:
        totals = sent(order(service.port, clients=1, n_requests=11, timeout_s=2.0), tmp_path)

    assert service.n_requests == 11
    assert (totals.n_done, totals.n_failed) == (9, {"timeout": 2})


ENDS_WITH_ITS_CONNECTION = b"HTTP/1.0 200 OK\r\n\r\nok"


def never_ends_but_the_first(folder: Path) -> Answering:
    """Each answer would end with its connection, and only that of the first one ends."""

    async def answering(service: Service, writer: asyncio.StreamWriter, number: int) -> bool:
        writer.write(ENDS_WITH_ITS_CONNECTION)
        return n_counted(folder) > 0

    return answering


@pytest.mark.parametrize("rate_per_s", [None, 1000.0])
def test_an_answer_that_is_given_up_is_not_whole_because_its_connection_is_left(
    tmp_path: Path, rate_per_s: float | None
) -> None:
    with running(never_ends_but_the_first(tmp_path)) as service:
        asked = order(service.port, n_requests=9, timeout_s=0.5, rate_per_s=rate_per_s, arrivals="even")
        totals = sent(asked, tmp_path)

    assert (totals.n_done, totals.n_failed) == (1, {"timeout": 8})


def test_an_answer_that_the_end_cuts_off_counts_as_nothing(tmp_path: Path) -> None:
    with (
        running(never_ends_but_the_first(tmp_path)) as service,
        generator(order(service.port, n_requests=None, timeout_s=PATIENCE_S), tmp_path) as process,
    ):
        wait_for(lambda: service.n_requests == 1 + 4)
        process.send_signal(signal.SIGTERM)

        assert process.wait(PATIENCE_S) == 0

    assert read_counts(tmp_path / "totals") == (1, 0)


def test_requests_are_sent_in_turn_with_their_bodies(tmp_path: Path) -> None:
    post = Request("POST", b"POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n\xff\x00\r")
    with running(says(answer())) as service:
        sent(order(service.port, requests=(get("/a"), post), clients=1, n_requests=4), tmp_path)

    assert service.seen == 2 * [("GET /a HTTP/1.1", b""), ("POST /b HTTP/1.1", b"\xff\x00\r")]


def test_told_to_stop_it_lets_what_is_under_way_end_and_counts_it(tmp_path: Path) -> None:
    with (
        running(says(answer())) as service,
        generator(order(service.port, n_requests=None), tmp_path) as process,
    ):
        wait_for(lambda: n_counted(tmp_path) >= 100)
        process.send_signal(signal.SIGTERM)

        assert process.wait(PATIENCE_S) == 0

    assert read_counts(tmp_path / "totals") == (service.n_requests, 0)


def test_counts_grow_while_it_runs_and_refused_connections_are_counted_after_the_end(tmp_path: Path) -> None:
    with running(says(answer())) as service, generator(order(service.port, n_requests=None), tmp_path):
        wait_for(lambda: n_counted(tmp_path) >= 1)
        earlier = n_counted(tmp_path)
        wait_for(lambda: n_counted(tmp_path) > earlier)
    n_answered = service.n_requests

    port = free_port()
    (tmp_path / "again").mkdir()
    with generator(order(port, n_requests=None), tmp_path / "again") as process:
        with socket.create_server(("127.0.0.1", port)) as listening:
            connection, _ = listening.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(answer())
            wait_for(lambda: n_counted(tmp_path / "again") == 1)
        wait_for(lambda: read_totals(tmp_path / "again" / "totals").n_failed.get("refused", 0) > 4)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    totals = read_totals(tmp_path / "again" / "totals")

    assert n_answered >= earlier
    assert totals.n_done == 1
    assert totals.n_failed_since_done == totals.n_failed  # all of it after the service's end


@pytest.mark.parametrize(
    ("wire", "came"),
    [(b"", wording("feeders.closed-without-answer")), (b"SSH-2.0\r\n", wording("feeders.not-http"))],
    ids=key_of,
)
def test_a_service_that_never_answers_is_reported_with_what_came_instead(
    tmp_path: Path, wire: bytes, came: str
) -> None:
    with (
        running(says(wire, then_closes=True)) as service,
        generator(order(service.port, wait_s=2.0), tmp_path) as process,
    ):
        said, _ = process.communicate(timeout=PATIENCE_S)

    assert process.returncode == 3
    assert wording("feeders.service-did-not-answer", port=service.port, came=came) in start_of(said)
    assert read_counts(tmp_path / "totals") == (0, 0)


def test_a_try_that_the_wait_cuts_short_says_less_than_the_one_before(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with generator(order(port, wait_s=2.0), tmp_path) as process:
            connection, _ = listener.accept()
            connection.recv(1000)
            connection.close()  # all that come after it are never answered
            said, _ = process.communicate(timeout=PATIENCE_S)

    assert process.returncode == 3
    assert wording("feeders.closed-in-time") in said


def test_a_service_that_nobody_runs_is_reported_as_refused(tmp_path: Path) -> None:
    port = free_port()
    with generator(order(port, wait_s=0.3), tmp_path) as process:
        said, _ = process.communicate(timeout=PATIENCE_S)

    assert process.returncode == 3
    assert "refused" in said.lower() or "Connect call failed" in said


def test_it_can_be_reported_to_stop_while_it_waits_for_the_service(tmp_path: Path) -> None:
    async def never(service: Service, writer: asyncio.StreamWriter, number: int) -> bool:
        await asyncio.sleep(PATIENCE_S)
        return False

    with running(never) as service, generator(order(service.port), tmp_path) as process:
        wait_for(lambda: service.n_requests == 1)
        process.send_signal(signal.SIGTERM)

        assert process.wait(PATIENCE_S) == 0


# Open loop.

STALL_S = 1.0


async def stalls(service: Service, writer: asyncio.StreamWriter, number: int) -> bool:
    """One request at a time; each 200th one keeps all others waiting."""
    async with service.turn:
        if number % 200 == 100:
            await asyncio.sleep(STALL_S)
        writer.write(answer())
    return True


def test_at_a_rate_a_stall_is_seen_by_every_request_that_was_due_in_it(tmp_path: Path) -> None:
    with running(stalls) as service:
        asked = order(service.port, n_requests=400, rate_per_s=200.0, arrivals="even")
        totals = sent(asked, tmp_path)

    assert (totals.n_done, totals.n_failed) == (400, {})
    # 5 ms apart, the 100 requests after the stall began were due within its first half: each waited for the
    # rest of it. Two stalls: 200 of 400.
    assert totals.latencies.quantile(0.99).high_s >= 0.95 * STALL_S
    assert totals.latencies.quantile(0.52).high_s >= 0.45 * STALL_S


def test_a_closed_loop_hides_the_same_stall_from_all_requests_but_one(tmp_path: Path) -> None:
    with running(stalls) as service:
        totals = sent(order(service.port, n_requests=400, clients=1), tmp_path)

    assert totals.latencies.quantile(1.0).high_s >= STALL_S
    assert totals.latencies.quantile(0.99).low_s < STALL_S


def test_due_requests_beyond_those_that_may_be_outstanding_are_overdue_and_not_sent(tmp_path: Path) -> None:
    async def never(service: Service, writer: asyncio.StreamWriter, number: int) -> bool:
        if number > 1:
            await asyncio.sleep(PATIENCE_S)
        writer.write(answer())
        return True

    with running(never) as service:
        asked = order(
            service.port, n_requests=40, rate_per_s=1000.0, max_outstanding=10, timeout_s=5.0, arrivals="even"
        )
        totals = sent(asked, tmp_path)

    assert service.n_requests == 11
    assert (totals.n_done, totals.n_failed) == (1, {"timeout": 10, "overdue": 29})


@pytest.mark.parametrize("arrivals", ["poisson", "even"])
def test_no_more_requests_are_sent_than_the_rate_allows(tmp_path: Path, arrivals: str) -> None:
    with running(says(answer())) as service:
        began_s = time.monotonic()
        totals = sent(order(service.port, n_requests=101, rate_per_s=100.0, arrivals=arrivals), tmp_path)
        lasted_s = time.monotonic() - began_s

    assert (totals.n_done, totals.n_failed) == (101, {})
    assert lasted_s >= (0.99 if arrivals == "even" else 0.6)  # 99 gaps of 10 ms; Poisson's, of a fixed seed


# The files.


def test_an_order_is_read_back_as_it_was_written_and_by_nobody_else(tmp_path: Path) -> None:
    asked = order(80, requests=(Request("PUT", bytes(range(256))),), rate_per_s=2.5)

    asked.write(tmp_path / "order.json")

    assert read_order(tmp_path / "order.json") == asked
    assert (tmp_path / "order.json").stat().st_mode & 0o077 == 0
    assert json.loads((tmp_path / "order.json").read_text())["port"] == 80


@pytest.mark.parametrize("content", [b"", b"x" * 20, b"x" * 400_000])
def test_a_file_that_holds_no_totals_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "totals").write_bytes(content)

    with pytest.raises(DamagedTotalsError):
        read_counts(tmp_path / "totals")
    with pytest.raises(DamagedTotalsError):
        read_totals(tmp_path / "totals")


def test_a_failure_is_the_service_s_end_until_a_request_sent_after_it_is_done(tmp_path: Path) -> None:
    totals = TotalsWriter(tmp_path / "totals")
    totals.failed("refused", 10)
    totals.answered(503, 10, 5, 20)
    totals.failed("timeout", 30)
    totals.failed("closed", 50)
    totals.answered(200, 10, 5, 60)  # it was under way before anything failed: it tells nothing
    early = read_totals(tmp_path / "totals")
    totals.answered(200, 10, 40, 70)
    totals.answered(301, 10, 50, 80)
    totals.answered(304, 10, 50, 80)
    totals.answered(404, 10, 50, 80)
    totals.close()
    late = read_totals(tmp_path / "totals")

    assert early.n_failed_since_done == early.n_failed == {"refused": 1, "5xx": 1, "timeout": 1, "closed": 1}
    assert late.n_failed_since_done == {"closed": 1, "4xx": 1}
    assert late.n_failed == {**early.n_failed, "4xx": 1}
    assert (late.n_done, late.n_failed_total, late.n_bytes) == (4, 5, 60)
    assert (late.n_redirected, late.last_status) == (1, {3: 301, 4: 404, 5: 503})


# Connections.


@pytest.mark.parametrize(("reuse", "n_connections"), [(1, 1 + 200), (5, 1 + 40)])
def test_a_connection_takes_as_many_requests_as_asked_and_the_last_one_says_so(
    tmp_path: Path, reuse: int, n_connections: int
) -> None:
    with running(says(answer())) as service:
        totals = sent(order(service.port, clients=1, reuse=reuse, n_requests=201), tmp_path)

    assert (totals.n_done, totals.n_failed) == (201, {})
    assert service.n_connections == n_connections
    assert sum("connection: close" in head.lower() for head in service.heads) == 200 // reuse


#: Two processes at one socket. The first takes every connection until all are there; then both do.
TWO_WORKERS = """
import os, select, socket, sys, threading, time
listening = socket.create_server(("127.0.0.1", 0), backlog=64)
listening.setblocking(False)
ready = os.path.join(sys.argv[1], "all-accepted")
second = os.fork()
is_first = bool(second)
def serve(connection):
    connection.setblocking(True)
    while connection.recv(1000):
        time.sleep(0.02)
        connection.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok")
if is_first:
    print(listening.getsockname()[1], os.getpid(), second, flush=True)
else:
    while not os.path.exists(ready):
        time.sleep(0.01)
while True:
    select.select([listening], [], [])
    if is_first and os.path.exists(ready) and int(time.monotonic() * 200) % 2:
        time.sleep(0.005)
        continue
    try:
        connection, _ = listening.accept()
    except BlockingIOError:
        continue
    threading.Thread(target=serve, args=(connection,), daemon=True).start()
"""


@contextmanager
def two_workers(folder: Path) -> Iterator[tuple[int, tuple[int, ...]]]:
    """The port of a service, and its two processes."""
    process = subprocess.Popen(
        [sys.executable, "-c", TWO_WORKERS, folder], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        port, *pids = (int(word) for word in process.stdout.readline().split())
        yield port, tuple(pids)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.mark.parametrize(
    ("spreads", "per_worker", "starved"), [(True, (4.0, 4.0), 0.0), (False, (8.0, 0.0), 0.5)]
)
def test_connections_that_one_worker_took_are_spread_over_all_if_asked_and_counted_in_any_case(
    tmp_path: Path, spreads: bool, per_worker: tuple[float, ...], starved: float
) -> None:
    def now() -> ConnectionSpread:
        return read_totals(tmp_path / "totals").spread

    with two_workers(tmp_path) as (port, pids):
        workers = tmp_path / "workers"
        asked = order(
            port,
            clients=8,
            n_requests=None,
            processes=2,
            threads=2,
            workers_file=str(workers),
            spreads=spreads,
        )
        with generator(asked, tmp_path) as process:
            wait_for(lambda: n_counted(tmp_path) > 16)  # all 8 are with the first one
            write_workers(workers, pids)
            wait_for(lambda: now().seconds > 0)
            (tmp_path / "all-accepted").touch()
            before = now()

            def is_as_expected() -> bool:
                nonlocal before
                since, before = now().since(before), now()
                return since.seconds > 0 and since.per_worker == pytest.approx(per_worker, abs=0.01)

            wait_for(is_as_expected)
            early = now()
            wait_for(lambda: now().seconds > early.seconds + 1)
            seen = now().since(early)
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_S) == 0

    assert seen.per_worker == pytest.approx(per_worker, abs=0.01)
    assert seen.starved_ratio(4) == pytest.approx(starved, abs=0.01)
    assert read_totals(tmp_path / "totals").n_failed == {}
