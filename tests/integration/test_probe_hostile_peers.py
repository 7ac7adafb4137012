"""Probes whose peers lie: the launch ends with a cause, soon, and memory stays bounded."""

from __future__ import annotations

import gzip
import os
import re
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tuner.adapters.clock import SystemClock
from tuner.adapters.probes import polled, statsd
from tuner.adapters.probes.log import FollowedLog
from tuner.adapters.probes.mmap_counter import CounterProbe
from tuner.adapters.probes.postgres_database import PostgresDatabase
from tuner.adapters.probes.prometheus import Metric, PrometheusProbe
from tuner.adapters.probes.redis import RedisProbe, Term
from tuner.adapters.probes.sql import SqliteDatabase, SqlProbe
from tuner.adapters.probes.statsd import StatsdCounting, StatsdProbe
from tuner.adapters.probes.uwsgi import UwsgiProbe
from tuner.core.domain.layout import Layout
from tuner.core.errors import MeasurementError
from tuner.core.windows.validity import find_lost_counts
from tuner.ports import Counting, Probe
from tuner.probe.counter import open_counter

from ..answering_server import Send, dripping, endlessly, page, sending, server
from ..apart import print_with_growth, run_apart
from ..raising import raises
from ..wording import Wording, wording

pytestmark = pytest.mark.integration
CLOCK = SystemClock()
HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
PATIENCE_S = 60.0
SOON_S = 1.0  #: time limit of a probe whose peer would hold it
LONG_S = 30.0  #: of one whose peer lies at once


def no_warning(slug: str, text: str) -> None:
    pytest.fail(f"{slug}: {text}")


@pytest.fixture(autouse=True)
def _fails_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.adapters.probes.polled.MOST_FAILURES_AT_FIRST", 1)
    monkeypatch.setattr("tuner.adapters.probes.polled.MOST_FAILURES", 1)


def read_until_patience_ends(counting: Counting) -> None:
    ends_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < ends_s:
        counting.read()


def error_of(probe: Probe) -> str:
    with probe.counting(Layout(1, 1)) as counting, pytest.raises(MeasurementError) as caught:
        read_until_patience_ends(counting)
    return caught.value.problem


def prometheus(port: int, timeout_s: float = LONG_S) -> PrometheusProbe:
    url = f"http://127.0.0.1:{port}/metrics"
    return PrometheusProbe(CLOCK, url, Metric("items"), None, timeout_s, no_warning)


def redis(port: int, timeout_s: float = LONG_S, command: str = "get", protocol: int = 2) -> RedisProbe:
    url = f"redis://127.0.0.1:{port}/0?protocol={protocol}"
    return RedisProbe(CLOCK, url, [Term(command, "key", "field")], [], timeout_s, no_warning)


def redis_2(port: int, timeout_s: float) -> RedisProbe:
    """Greets by two commands, which ``talking`` says yes to."""
    return redis(port, timeout_s, protocol=2)


def uwsgi(port: int, timeout_s: float) -> UwsgiProbe:
    return UwsgiProbe(CLOCK, f"127.0.0.1:{port}", timeout_s, no_warning)


def postgres(port: int, timeout_s: float) -> SqlProbe:
    url = f"postgresql://me@127.0.0.1:{port}/db?sslmode=disable&gssencmode=disable"
    return SqlProbe(CLOCK, lambda: PostgresDatabase(url, timeout_s), "select 1", None, no_warning)


def talking(answer: bytes) -> Send:
    """Yes to greetings, *answer* to a transaction, and to a scan that there is more; until it is left."""

    def send(connection: socket.socket) -> None:
        while heard := connection.recv(65536):
            if b"MULTI" in heard:
                connection.sendall(b"+OK\r\n+QUEUED\r\n" + answer)
            elif b"SSCAN" in heard:
                connection.sendall(b"*2\r\n$1\r\n1\r\n*0\r\n")
            else:
                connection.sendall(b"+OK\r\n" * heard.count(b"CLIENT"))

    return send


#: which bound is met first depends on the box
TOO_LONG = "larger than [0-9]+ MiB|Timeout|no whole (page|answer) in 1s|did not answer within|timeout"
PROMETHEUS: list[tuple[bytes | Send, str]] = [
    (endlessly(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), TOO_LONG),
    (endlessly(CHUNKED + b"8\r\nitems 5\n\r\n0\r\n", b"X: y\r\n"), TOO_LONG),
    (dripping(b"HTTP/1.1 200"), TOO_LONG),
    (dripping(HEAD + b"A: "), TOO_LONG),
    (dripping(CHUNKED + b"8\r\nitems 5\n\r\n"), TOO_LONG),
    (CHUNKED + b"-5\r\nitems 5\n", "no page"),
    (CHUNKED + b"f" * 60_000 + b"\r\nitems 5\n", "no page"),
    (HEAD + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\nitems 5", wording("probes.page-breaks-off", n=7)),
    (
        HEAD + b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(b"#" * 10_000_000),
        wording("probes.page-packed"),
    ),
    (page(b"items NaN\n"), wording("probes.no-count", value="NaN")),
    (page(b"items -1\n"), wording("probes.no-count", value="-1")),
    (page(b"items 1e308\n"), wording("probes.no-count", value="1e308")),
    (page(b"items 1\nitems 2\n"), wording("probes.sample-twice")),
    (page(b'items{a="1"} 1\nitems{a="1"} 1\n'), wording("probes.sample-twice")),
    (page(b"<html>items are here</html>\n"), wording("probes.page-without-sample")),
    (b"HTTP/1.1 \x1b[31m\r\n\r\n", "no page"),
    (b"HTTP/1.1 500 " + b"x" * 60_000 + b"\r\n\r\n", wording("probes.no-page-because", status="500 xxx")),
]
REDIS: list[tuple[bytes | Send, str]] = [
    (b":abc\r\n", "Redis"),
    (b":" + b"9" * 5000 + b"\r\n", "Redis"),
    (b"$99999999999\r\nabc", "Redis"),
    (endlessly(b"$99999999999\r\n", b"x" * 65536), TOO_LONG),
    (endlessly(b"*999999999\r\n", b":1\r\n" * 16384), TOO_LONG),
    (endlessly(b"+", b"x" * 65536), TOO_LONG),
    (b"*1\r\n" * 100_000, "RecursionError"),
    (b"HTTP/1.1 400 Bad Request\r\n\r\n", "Protocol Error"),
    (dripping(b"$10000\r\n"), TOO_LONG),
]
REDIS_2: list[tuple[bytes | Send, str]] = [
    (talking(b"*1\r\n+\xff\xfe\r\n"), wording("probes.no-whole-number")),
    (talking(b"*1\r\n*1\r\n:5\r\n"), "is no whole number: .5"),
    (talking(b"*1\r\n:-5\r\n"), wording("probes.minus-is-no-count")),
    (talking(b"*1\r\n$19\r\n9999999999999999999\r\n"), wording("probes.count-too-large")),
    (talking(b"*2\r\n:1\r\n:2\r\n"), "Wrong number of response items"),
    (talking(b":7\r\n"), wording("probes.none-of-redis")),
    (talking(b"*1\r\n:%b\r\n" % (b"9" * 5000)), wording("probes.none-of-redis")),
    (talking(b"*1\r\n" * 100_000), "RecursionError"),
]
UWSGI: list[tuple[bytes | Send, str]] = [
    (b"[" * 4_000_000, wording("probes.nested-too-deeply")),
    (endlessly(b'{"workers": [', b'{"a":[],"b":{}},' * 4096), TOO_LONG),
    (b'{"workers": [{"id": 1, "id": 2}]}', wording("probes.id-stands-twice")),
    (
        b'{"workers": [{"id": 1, "requests": 1e308, "exceptions": 0}]}',
        wording("probes.worker-without-count"),
    ),
    (
        b'{"workers": [{"id": 1, "requests": %b, "exceptions": 0}]}' % (b"9" * 4000),
        wording("probes.count-too-large"),
    ),
    (dripping(b"{"), TOO_LONG),
]


def packet(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack(">i", len(body) + 4) + body


GREETING = packet(b"R", bytes(4)) + packet(b"Z", b"I")
ROW = packet(b"T", struct.pack(">h", 1) + b"n\0" + struct.pack(">ihihih", 0, 0, 25, -1, -1, 0))
BEFORE = packet(b"1", b"") + packet(b"2", b"") + ROW
SET = packet(b"1", b"") + packet(b"2", b"") + packet(b"n", b"") + packet(b"C", b"SET\0") + packet(b"Z", b"I")
POSTGRES: list[tuple[bytes | Send, str]] = [
    (b"HTTP/1.1 400 Bad Request\r\n\r\n", "PostgreSQL reports"),
    (GREETING + b"\xff" * 1000, "PostgreSQL"),
    (endlessly(GREETING, packet(b"N", b"SNOTICE\0Mx\0\0") * 1000), TOO_LONG),
    (
        endlessly(
            GREETING + SET + SET + BEFORE + b"D" + struct.pack(">ihi", 1 << 30, 1, 1 << 29), b"x" * 65536
        ),
        TOO_LONG,
    ),
]
PEERS = [
    *((prometheus, *case) for case in PROMETHEUS),
    *((redis, *case) for case in REDIS),
    *((redis_2, *case) for case in REDIS_2),
    *((uwsgi, *case) for case in UWSGI),
    *((postgres, *case) for case in POSTGRES),
]


HELD = [case for case in PEERS if case[2] == TOO_LONG]
LIED_TO = [case for case in PEERS if case[2] != TOO_LONG]


def named(cases: Sequence[tuple[Callable[..., Probe], bytes | Send, str]]) -> list[str]:
    return [f"{probe.__name__}-{n}" for n, (probe, _, _) in enumerate(cases)]


@pytest.mark.parametrize(("probe", "answer", "said"), LIED_TO, ids=named(LIED_TO))
def test_a_peer_that_lies_ends_the_launch_with_a_cause_in_one_short_line(
    probe: Callable[..., Probe], answer: bytes | Send, said: str
) -> None:
    send = sending(answer) if isinstance(answer, bytes) else answer
    with server(send, http=probe not in (uwsgi, redis_2)) as (_, port):
        error = error_of(probe(port, LONG_S))

    if isinstance(said, Wording):
        assert said in error
    else:
        assert re.search(said, error), error
    assert error.isprintable()
    assert len(error) < 500


@pytest.mark.full
@pytest.mark.parametrize(("probe", "answer", "said"), HELD, ids=named(HELD))
def test_a_peer_that_never_ends_its_answer_is_left(
    probe: Callable[..., Probe], answer: Send, said: str
) -> None:
    with server(answer, http=probe is not uwsgi) as (_, port):
        error = error_of(probe(port, SOON_S))

    if isinstance(said, Wording):
        assert said in error
    else:
        assert re.search(said, error), error


def test_a_redirection_is_not_followed_anywhere() -> None:
    asked: list[bytes] = []

    def elsewhere(connection: socket.socket) -> None:
        asked.append(connection.recv(100))
        connection.sendall(page(b"items 5\n"))

    with server(elsewhere) as (_, port):
        for place in (f"http://127.0.0.1:{port}/", "file:///etc/passwd"):
            with server(sending(b"HTTP/1.1 302 Go\r\nLocation: %b\r\n\r\n" % place.encode()), http=True) as (
                _,
                here,
            ):
                assert wording("probes.no-page-because", status="302 Go") in error_of(prometheus(here))

    assert asked == []


def test_a_redis_before_version_6_is_not_greeted_with_hello() -> None:
    heard: list[bytes] = []

    def old(connection: socket.socket) -> None:
        while words := connection.recv(65536):
            heard.append(words)
            if b"MULTI" in words:
                connection.sendall(b"+OK\r\n+QUEUED\r\n*1\r\n$1\r\n5\r\n")
            else:
                connection.sendall(b"-ERR unknown command\r\n" * words.count(b"*"))

    with server(old) as (_, port):
        probe = RedisProbe(
            CLOCK, f"redis://127.0.0.1:{port}/0", [Term("get", "done")], [], LONG_S, no_warning
        )
        probe.check()

    assert heard
    assert not any(b"HELLO" in words for words in heard)


@pytest.mark.full
def test_members_of_a_set_that_never_end_are_not_waited_for() -> None:
    with server(talking(b"")) as (_, port):
        error = error_of(redis(port, SOON_S, "smembers_hget", protocol=2))

    assert re.search(TOO_LONG, error), error


def test_a_pipe_in_the_place_of_a_database_or_a_log_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    link = tmp_path / "link"
    link.symlink_to(path)
    for place in (path, link):
        sql = SqlProbe(CLOCK, lambda place=place: SqliteDatabase(place, 30.0), "select 1", None, no_warning)  # type: ignore[misc]
        assert wording("probes.no-file-of-sqlite", place=place) in error_of(sql)


def test_a_counter_that_claims_what_no_worker_counts_is_refused(tmp_path: Path) -> None:
    probe = CounterProbe(CLOCK, tmp_path)
    with probe.counting(Layout(1, 1)) as counting:
        folder = Path(counting.environment["TUNER_COUNTER_DIR"])
        open_counter(str(folder)).slot().done()
        (path,) = folder.iterdir()
        with path.open("r+b") as file:
            file.seek(64)
            file.write(b"\xff" * 8)

        with raises(MeasurementError, wording("probes.counters-damaged")):
            counting.read()


def test_counts_that_add_up_to_no_number_of_items_are_refused_by_statsd() -> None:
    with StatsdProbe(CLOCK, "all", None, no_warning).counting(Layout(1, 1)) as counting:
        send_to(counting, b"all:999999999999999|c|@0.000000000000001")

        with raises(MeasurementError, wording("probes.no-count-of-items")):
            counting.read()


def test_lost_packets_void_the_window_in_which_they_were_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.adapters.probes.statsd._BUFFER_BYTES", 4096)
    warned: list[str] = []
    with StatsdProbe(CLOCK, "all", None, lambda slug, _: warned.append(slug)).counting(
        Layout(1, 1)
    ) as counting:
        before = counting.read()
        with counting._receiving:
            for _ in range(100):
                send_to(counting, b"all:1|c\n" + b"x" * 1000 + b":1|c")
        after = counting.read()
        later = counting.read()

    (reason,) = find_lost_counts(before, after)
    assert reason.slug == "packets-lost"
    assert after.n_done_total + after.n_lost_total == 100
    assert find_lost_counts(after, later) == ()
    assert warned == ["packets-lost"]


def test_a_look_takes_what_waits_however_long_the_receiving_thread_had_its_turn() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver, ThreadPoolExecutor() as beside:
        receiver.bind(("127.0.0.1", 0))
        counting = StatsdCounting(CLOCK, receiver, "all", None, failed_included=False)
        with counting._receiving:  # as its thread would, which is not started: it might take the packet
            send_to(counting, b"all:1|c")
            looking = beside.submit(counting.read)
            time.sleep(4 * statsd._LONGEST_TURN_S)  # a turn, and more

        assert looking.result(PATIENCE_S).n_done_total == 1


def send_to(counting: StatsdCounting, packet: bytes) -> None:
    host, port = counting.environment["TUNER_STATSD"].split(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(packet, (host, int(port)))


# ------------------------------------------------------------- memory, of a process that runs the probe only

FLOOD = """
import socket, sys
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sender.connect(("127.0.0.1", int(sys.argv[1])))
junk = [b"", b"all", b"x" * 60000, b"\\xff\\0" * 500, b"y" * 400 + b":1|c", b"\\n" * 1000]
junk += [b"all:nan|c", b"all:|c", b"all:1e308|c"]
for n in range(int(sys.argv[2])):
    sender.send(b"all:1|c\\nn%d:1|c\\n" % n + junk[n % 100 if n % 100 < 9 else 0])
"""


@pytest.mark.full
def test_a_million_packets_of_garbage_are_counted_or_told_as_lost_and_take_no_memory() -> None:
    result = run_apart(__name__, "flood", "1000000")

    assert result["done"] + result["lost"] == 1_000_000
    assert result["grew_mb"] < 16


@pytest.mark.full
def test_a_line_of_a_gigabyte_takes_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("wb") as file:
        file.write(b"done")
        file.seek(10**9)  # a hole: no disk is filled
        file.write(b"\ndone\n")
    result = run_apart(__name__, "log", str(path))

    assert result["done"] == 2
    assert result["grew_mb"] < 16


@pytest.mark.full
def test_eight_megabytes_of_the_worst_json_take_a_bounded_memory() -> None:
    result = run_apart(__name__, "json", "x")

    assert wording("probes.worker-without-count") in result["error"]
    assert result["grew_mb"] < 600


def main(kind: str, argument: str) -> None:
    print_with_growth(lambda: {"flood": flooded, "log": lines_of, "json": unpacked}[kind](argument))


def flooded(n_packets: str) -> dict[str, object]:
    with StatsdProbe(CLOCK, "all", None, lambda *_: None).counting(Layout(1, 1)) as counting:
        port = counting.environment["TUNER_STATSD"].split(":")[1]
        with subprocess.Popen([sys.executable, "-S", "-c", FLOOD, port, n_packets]) as sender:
            while sender.poll() is None:
                counting.read()
                time.sleep(0.01)
        assert sender.returncode == 0
        before = -1
        while (reading := counting.read()).n_done_total != before:
            before = reading.n_done_total
        return {"done": reading.n_done_total, "lost": reading.n_lost_total}


def lines_of(path: str) -> dict[str, object]:
    log = FollowedLog(Path(path), from_end=False)
    n_done = sum(b"done" in line for line in log.new_lines())
    log.close()
    return {"done": n_done}


def unpacked(_: str) -> dict[str, object]:
    polled.MOST_FAILURES_AT_FIRST = 1
    bomb = b'{"workers":[' + b'{"a":0},' * ((8 << 20) // 8 - 4) + b"{}]}"
    with server(sending(bomb)) as (_host, port):
        probe = UwsgiProbe(CLOCK, f"127.0.0.1:{port}", 120.0, lambda *_: None)
        with probe.counting(Layout(1, 1)) as counting:
            try:
                while True:
                    counting.read()
            except MeasurementError as error:
                return {"error": error.problem}


if __name__ == "__main__":
    main(*sys.argv[1:])
