"""A Redis that lies to what feeds a queue and counts it: a cause in one line, soon, in a bounded memory."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import signature
from pathlib import Path

import pytest

from tuner.adapters.clock import SystemClock
from tuner.adapters.feeders.queue import Fed, QueueFeeder
from tuner.adapters.probes.queue import QueueProbe
from tuner.adapters.queues.brokers import find_queue
from tuner.adapters.queues.forms import redis_parts
from tuner.adapters.queues.queue import Claim
from tuner.adapters.queues.redis_queue import RedisQueue
from tuner.core.domain.layout import Layout
from tuner.core.errors import ConfigError, MeasurementError
from tuner.ports import Counting

from ..answering_server import Send, endlessly, server
from ..raising import raises
from ..refusals import error_of
from ..wording import key_of, wording

pytestmark = pytest.mark.integration
OURS = Claim("ours", "ours.tuner.db", "here")
LONG_S = 30.0
SOON_S = 1.0  #: of a peer that does not end
SAMPLE = Path(__file__).parents[1] / "golden" / "messages" / "taskiq.json"
TOO_LONG = "larger than [0-9]+ MiB|Timeout"
NINES = b"9" * 5000
LOOKED = b"+OK\r\n+QUEUED\r\n+QUEUED\r\n"

GARBAGE = [
    b"HTTP/1.1 400 Bad Request\r\n\r\n",
    b":abc\r\n",
    b":%b\r\n" % NINES,
    b"-ERR \x1b[2J%b\r\n" % (b"x" * 5000),
    b"*1\r\n" * 100_000,
    b"+what\xff\xfe\r\n",
    b":7\r\n",
    b"*3\r\n:1\r\n*1\r\n:2\r\n$1\r\nx\r\n",
]


Answer = Callable[[socket.socket, bytes], None]  #: to what was heard


def talking(answer: bytes | Send | Answer) -> Send:
    """Yes to greetings, *answer* to all else."""

    def send(connection: socket.socket) -> None:
        while heard := connection.recv(65536):
            if b"CLIENT" in heard:
                connection.sendall(b"+OK\r\n" * heard.count(b"CLIENT"))
            elif isinstance(answer, bytes):
                connection.sendall(answer)
            elif len(signature(answer).parameters) == 1:
                answer(connection)  # type: ignore[call-arg]
            else:
                answer(connection, heard)  # type: ignore[call-arg]

    return send


@contextmanager
def lying(answer: bytes | Send | Answer) -> Iterator[str]:
    with server(talking(answer)) as (_, port):
        yield f"redis://127.0.0.1:{port}/0?protocol=2"


def queue_at(url: str, form: str = "taskiq", timeout_s: float = LONG_S) -> RedisQueue:
    return RedisQueue(url, form, "jobs", OURS, timeout_s)


def read_for_ever(counting: Counting) -> None:
    while True:
        counting.read()


@pytest.mark.parametrize("answer", GARBAGE)
def test_garbage_is_reported_in_one_short_line_whatever_was_asked(answer: bytes) -> None:
    with lying(answer) as url:
        said = [
            error_of(queue_at(url, timeout_s=SOON_S), RedisQueue.check),
            error_of(queue_at(url, timeout_s=SOON_S), RedisQueue.look),
            error_of(queue_at(url, timeout_s=SOON_S), lambda queue: queue.sample(5)),
        ]

    for line in said:
        assert line.startswith(("redis://127.0.0.1", wording("feeders.queue-jobs-redis")))
        assert line.isprintable()
        assert len(line) < 500


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"$4\r\nours\r\n$1\r\n5\r\n$3\r\nabc\r\n", wording("feeders.count-of-messages", count="b'abc'")),
        (b"$4\r\nours\r\n$1\r\n5\r\n:-5\r\n", wording("feeders.count-of-messages", count=-5)),
        (b"$4\r\nours\r\n$1\r\n5\r\n:9223372036854775807\r\n", "is 9223372036854775807"),
        (b"$4\r\nours\r\n$1\r\n5\r\n*0\r\n", wording("feeders.count-of-messages", count="[]")),
        (b"$4\r\nours\r\n$3\r\nabc\r\n:1\r\n", wording("feeders.answer-none-of-redis", error="ValueError")),
        (b"$4\r\nours\r\n*0\r\n:1\r\n", wording("feeders.answer-none-of-redis", error="TypeError")),
    ],
    ids=key_of,
)
def test_a_look_that_tells_no_counts_ends_the_launch_with_the_reason(
    answer: bytes, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuner.adapters.probes.polled.MOST_FAILURES_AT_FIRST", 1)
    with lying(LOOKED + b"*2\r\n*2\r\n" + answer) as url:
        probe = QueueProbe(SystemClock(), url, "taskiq", "jobs", OURS, LONG_S, lambda *_: None)
        with probe.counting(Layout(1, 1)) as counting, raises(MeasurementError, said):
            read_for_ever(counting)


@pytest.mark.full
@pytest.mark.parametrize(
    "answer",
    [
        b"$99999999999\r\nabc",
        endlessly(b"$99999999999\r\n", b"x" * 65536),
        endlessly(b"*999999999\r\n", b":1\r\n" * 16384),
        endlessly(b"+", b"x" * 65536),
    ],
)
def test_an_answer_that_never_ends_is_left(answer: bytes | Send) -> None:
    with lying(answer) as url:
        said = error_of(queue_at(url, timeout_s=SOON_S), RedisQueue.look)

    assert re.search(TOO_LONG, said), said


def test_a_study_or_a_sample_of_a_redis_that_lies_is_refused_with_the_reason(tmp_path: Path) -> None:
    with lying(b":7\r\n") as url:
        feeder = QueueFeeder(
            Fed(url, "taskiq", "jobs", SAMPLE, timeout_s=LONG_S),
            OURS,
            tmp_path / "s",
            tmp_path,
            lambda *_: None,
        )
        with raises(ConfigError, wording("probes.answer-is-none-of-redis")):
            feeder.prepare()
        with pytest.raises(ConfigError, match="redis://127"):
            find_queue(url, None, None, LONG_S)


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (
            b"-WRONGPASS invalid username-password pair or user is disabled.\r\n",
            wording("feeders.check-password"),
        ),
        (b"-NOAUTH Authentication required.\r\n", wording("feeders.check-password")),
        (b"-NOPERM User w has no permissions to run the 'type' command\r\n", wording("feeders.allow-user")),
        (b"-CLUSTERDOWN The cluster is down\r\n", wording("feeders.repair-cluster")),
    ],
    ids=key_of,
)
def test_a_redis_that_refuses_is_reported_with_what_to_do_about_that(
    answer: bytes, hint: str, tmp_path: Path
) -> None:
    with lying(answer) as url:
        fed = Fed(url, "taskiq", "jobs", SAMPLE, timeout_s=LONG_S)
        feeder = QueueFeeder(fed, OURS, tmp_path / "s", tmp_path, lambda *_: None)
        for refused in (feeder.prepare, lambda: find_queue(url, None, None, LONG_S)):
            with pytest.raises(ConfigError) as caught:
                refused()

            assert caught.value.hint == hint


def scanning(connection: socket.socket, heard: bytes) -> None:
    """A Redis whose lists, sets and keys never end: each look says that there is more."""
    if b"EXEC" in heard:
        connection.sendall(b"+OK\r\n" + b"+QUEUED\r\n" * 4 + b"*4\r\n:1\r\n*0\r\n*0\r\n:0\r\n")
    elif b"SCAN" in heard:
        connection.sendall(b"*2\r\n$1\r\n7\r\n*0\r\n")
    elif b"HGETALL" in heard:
        connection.sendall(b"*2\r\n$8\r\nstudy_id\r\n$4\r\nours\r\n")
    else:
        connection.sendall(b":0\r\n")  # LLEN


@pytest.mark.parametrize("form", ["dramatiq", "rq", "huey", "celery", "arq", "saq"])
def test_a_scan_that_never_comes_to_its_end_is_left(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_parts, "_WITHIN_S", 0.2)
    with lying(scanning) as url:
        said = error_of(queue_at(url, form), RedisQueue.release)

    assert wording("feeders.looking-took-too-long") in said


@pytest.mark.parametrize("form", ["dramatiq", "rq", "huey", "celery", "taskiq", "saq"])
def test_a_list_from_which_some_are_always_removed_is_left(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def removing(connection: socket.socket, heard: bytes) -> None:
        if b"SCAN" in heard:
            connection.sendall(b"*2\r\n$1\r\n0\r\n*0\r\n")
        else:  # LLEN and EVAL: millions wait, and one was removed
            connection.sendall(b":9000000000000000000\r\n" if b"LLEN" in heard else b":1\r\n")

    monkeypatch.setattr(redis_parts, "_WITHIN_S", 0.2)
    with lying(removing) as url:
        said = error_of(queue_at(url, form), RedisQueue.release)

    assert wording("feeders.looking-took-too-long") in said


def test_a_redis_that_stops_answering_in_a_scan_is_left() -> None:
    def stopping(connection: socket.socket, heard: bytes) -> None:
        if b"SCAN" not in heard:
            scanning(connection, heard)

    with lying(stopping) as url:
        said = error_of(queue_at(url, "arq", SOON_S), RedisQueue.release)

    assert re.search(TOO_LONG, said), said
