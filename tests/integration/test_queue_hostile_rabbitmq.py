"""A RabbitMQ that lies to what feeds a queue and counts it: a cause in one line, soon, in bounded memory."""

from __future__ import annotations

import json
import random
import re
import socket
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

import pytest

from tuner.adapters.queues import rabbitmq_link, rabbitmq_queue
from tuner.adapters.queues.brokers import find_queue
from tuner.adapters.queues.forms.message import BrokerError
from tuner.adapters.queues.queue import Claim
from tuner.adapters.queues.rabbitmq_queue import RabbitQueue
from tuner.core.errors import ConfigError, TunerError

from ..answering_server import Send, dripping, endlessly, server
from ..apart import print_with_growth, run_apart
from ..raising import raises
from ..refusals import error_of, is_one_line
from ..wording import Wording, wording

pytestmark = pytest.mark.integration
OURS = Claim("ours", "ours.tuner.db", "here")
LONG_S = 30.0
SOON_S = 0.5  #: of a peer that would hold whoever asks
TOO_LONG = "larger than [0-9]+ MiB|Timeout|timed out"
END = b"\xce"

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
START, START_OK, TUNE, TUNE_OK, OPEN, OPEN_OK, CLOSE, CLOSE_OK = (
    (10, n) for n in (10, 11, 30, 31, 40, 41, 50, 51)
)
CHANNEL_OPEN, CHANNEL_OPEN_OK, CHANNEL_CLOSE, CHANNEL_CLOSE_OK = ((20, n) for n in (10, 11, 40, 41))
DECLARE, DECLARE_OK, GET, GET_OK, GET_EMPTY = (50, 10), (50, 11), (60, 70), (60, 71), (60, 72)


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + END


def method(channel: int, what: tuple[int, int], arguments: bytes = b"") -> bytes:
    return frame(METHOD, channel, struct.pack(">HH", *what) + arguments)


def short(text: bytes) -> bytes:
    return bytes([len(text)]) + text


def long(text: bytes) -> bytes:
    return struct.pack(">I", len(text)) + text


def delivered(body: bytes, headers: bytes | None = None) -> bytes:
    """What answers a basic.get: a message, with a table of headers."""
    properties = struct.pack(">H", 0) if headers is None else struct.pack(">H", 1 << 13) + long(headers)
    got = struct.pack(">QB", 1, 0) + short(b"") + short(b"jobs") + struct.pack(">I", 0)
    return (
        method(1, GET_OK, got)
        + frame(HEADER, 1, struct.pack(">HHQ", 60, 0, len(body)) + properties)
        + (frame(BODY, 1, body) if body else b"")
    )


STARTING = method(0, START, b"\0\x09" + long(b"") + long(b"PLAIN") + long(b"en_US"))
TUNING = method(0, TUNE, struct.pack(">HIH", 100, 131072, 0))
DECLARED = method(1, DECLARE_OK, short(b"jobs") + struct.pack(">II", 3, 0))
WORD = json.dumps({"study_id": "ours", "study": "s", "host": "h", "form": "celery", "fed": 3}).encode()
HONEST: dict[Any, bytes] = {
    "hello": STARTING,
    START_OK: TUNING,
    OPEN: method(0, OPEN_OK, short(b"")),
    CHANNEL_OPEN: method(1, CHANNEL_OPEN_OK, long(b"")),
    CHANNEL_CLOSE: method(1, CHANNEL_CLOSE_OK),
    CLOSE: method(0, CLOSE_OK),
    DECLARE: DECLARED,
    GET: delivered(WORD),
}


def through(channel: int, frames: bytes) -> bytes:
    """The *frames* of the first channel through another one; what is no frame stays as it is."""
    place, moved = 0, bytearray(frames)
    while frames[place + 1 : place + 3] == b"\0\1":
        moved[place + 1 : place + 3] = struct.pack(">H", channel)
        place += 8 + int.from_bytes(frames[place + 3 : place + 7], "big")
    return bytes(moved)


def talking(answers: dict[Any, bytes | Send]) -> Send:
    """As a server with one channel does, but for these *answers*, by the method that they answer."""
    data = {**HONEST, **answers}

    def send(connection: socket.socket) -> None:
        with connection.makefile("rb") as heard:
            if heard.read(8)[:4] == b"AMQP":
                answer(connection, "hello", 0)
            while len(head := heard.read(7)) == 7:
                kind, channel, n_bytes = struct.unpack(">BHI", head)
                payload = heard.read(n_bytes + 1)
                if kind == METHOD:
                    answer(connection, struct.unpack(">HH", payload[:4]), channel)

    def answer(connection: socket.socket, asked: object, channel: int) -> None:
        one = data.get(asked, b"")
        if isinstance(one, bytes):
            connection.sendall(one if channel < 2 else through(channel, one))
        else:
            one(connection)

    return send


@contextmanager
def lying(send: Send) -> Iterator[str]:
    with server(send) as (_, port):
        yield f"amqp://me:secret@127.0.0.1:{port}//"


def queue_at(url: str, timeout_s: float = LONG_S) -> RabbitQueue:
    return RabbitQueue(url, "celery", "jobs", OURS, timeout_s)


def test_a_server_that_does_not_lie_is_believed() -> None:
    """Else the others would be refused for another reason."""
    with lying(talking({})) as url, closing(RabbitQueue(url, "celery", "jobs", OURS, LONG_S)) as queue:
        backlog = queue.look()

    assert (backlog.fed, backlog.left.ready) == (3, 3)


DEEP = b""
for _ in range(3000):
    DEEP = b"\x01aF" + long(DEEP)

LIES: list[tuple[dict[Any, bytes | Send] | bytes, str]] = [
    (b"HTTP/1.1 400 Bad Request\r\n\r\n", "UnexpectedFrame|TooMuch|OSError"),
    (b"\x01\x00\x00\xff\xff\xff\xff" + b"x" * 100, "a frame of [0-9]+ bytes, and 131072 are the most"),
    (b"\x01\x00\x00\x7f\xff\xff\xff" + b"x" * 100, wording("feeders.frame-of-bytes")),
    (frame(METHOD, 0, b""), wording("feeders.answer-none-of-rabbitmq", error="error")),
    (frame(METHOD, 7, b"\0\x0a\0\x0a"), wording("feeders.answer-none-of-rabbitmq", error="KeyError")),
    (frame(BODY, 0, b"x"), "UnexpectedFrame"),
    (method(0, (99, 99)), "Unknown AMQP method .99, 99."),
    (method(0, START, b"\0\x09" + long(DEEP) + long(b"PLAIN") + long(b"x")), "RecursionError"),
    (method(0, START, b"\0\x09" + long(b"\x01aZ") + long(b"PLAIN") + long(b"x")), "Unknown value in table"),
    (method(0, START, b"\0\x09" + long(b"") + long(b"GSSAPI") + long(b"x")), "auth mechanism"),
    (method(0, START, b"\0\x09" + long(b"") + long(b"\xff\xfe") + long(b"x")), "UnicodeDecodeError"),
    (
        method(0, CLOSE, struct.pack(">H", 320) + short(b"\x1b[2J\nbye" * 20) + b"\0\0\0\0"),
        "ConnectionForced",
    ),
    (method(0, CLOSE_OK), "the server closed the connection|RecoverableConnectionError"),
    ({START_OK: method(0, TUNE, struct.pack(">HIH", 0, 9, 0))}, wording("feeders.frames-too-small")),
    (
        {OPEN: method(1, CHANNEL_OPEN_OK, long(b""))},
        wording("feeders.answer-none-of-rabbitmq", error="KeyError"),
    ),
    ({CHANNEL_OPEN: method(0, CLOSE_OK)}, "RecoverableConnectionError|none of RabbitMQ"),
    (
        {DECLARE: method(1, DECLARE_OK, short(b"jobs"))},
        wording("feeders.answer-none-of-rabbitmq", error="error"),
    ),
    (
        {GET: method(1, GET_OK, b"") + frame(HEADER, 1, b"\0\x3c")},
        wording("feeders.answer-none-of-rabbitmq", error="error"),
    ),
    ({GET: frame(HEADER, 1, b"\0\x3c")}, "UnexpectedFrame"),
    ({GET: delivered(b"[" * 100_000)}, "tuner.fed.jobs " + wording("feeders.no-word-of-tuner")),
    ({GET: delivered(b'{"fed": ' + b"9" * 5000 + b"}")}, wording("feeders.no-word-of-tuner")),
    ({GET: delivered(WORD.replace(b'"s"', b"[]"))}, wording("feeders.no-word-of-tuner")),
    ({GET: delivered(WORD.replace(b": 3", b": -3"))}, wording("feeders.no-word-of-tuner")),
    ({GET: delivered(WORD.replace(b": 3", b': "3"'))}, wording("feeders.no-word-of-tuner")),
    ({GET: delivered(WORD, DEEP)}, wording("feeders.answer-none-of-rabbitmq", error="RecursionError")),
]


@pytest.mark.parametrize(("lie", "said"), LIES, ids=range(len(LIES)))
def test_a_lie_is_reported_in_one_short_line(lie: dict[Any, bytes | Send] | bytes, said: str) -> None:
    with lying(talking({"hello": lie} if isinstance(lie, bytes) else lie)) as url:
        error = error_of(queue_at(url), RabbitQueue.look)

    if isinstance(said, Wording):
        assert said in error
    else:
        assert re.search(said, error), error
    assert error.startswith("amqp://127.0.0.1")


def test_a_server_that_offers_frames_of_gigabytes_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client made a buffer as large as it was told."""
    tuned = bytearray()

    def send(connection: socket.socket) -> None:
        tuned.extend(connection.recv(8))
        connection.sendall(STARTING + method(0, TUNE, struct.pack(">HIH", 0, 0xFFFFFFFF, 0)))
        while struct.pack(">HH", *OPEN) not in tuned:
            tuned.extend(connection.recv(65536))

    with lying(send) as url:
        error_of(queue_at(url), RabbitQueue.look)

    assert struct.pack(">HH", *TUNE_OK) + struct.pack(">HIH", 65535, 131072, 0) in tuned


def test_the_word_of_another_study_is_reported_without_what_a_terminal_would_obey() -> None:
    word = json.dumps({"study_id": "x", "study": "\x1b[2J\n", "host": "h" * 4000, "form": "celery"}).encode()
    with lying(talking({GET: delivered(word)})) as url:
        error = error_of(queue_at(url), RabbitQueue.check)

    assert wording("feeders.is-fed-by-another-study") in error


@pytest.mark.parametrize(
    "headers",
    [
        b"\x02\xff\xfeV",  # a name that is no text
        b"\x01aT" + b"\0\0\0\0\0\0\0\1",  # a time
        b"\x01ax" + long(b"\xff"),
        b"\x01aD\x02\0\0\0\x07",
    ],
)
def test_a_message_with_odd_headers_is_sampled_as_one_that_cannot_be_cloned(headers: bytes) -> None:
    odd = iter([delivered(b"x", headers), method(1, GET_EMPTY, short(b""))])
    with (
        lying(talking({GET: lambda connection: connection.sendall(through(2, next(odd)))})) as url,
        closing(RabbitQueue(url, "dramatiq", "jobs", OURS, LONG_S)) as queue,
    ):
        (message,) = queue.sample(5)

    assert "unkept" in message


def test_odd_messages_are_of_no_form() -> None:
    with (
        lying(talking({GET: delivered(b"x", b"\x02\xff\xfeV")})) as url,
        raises(ConfigError, wording("feeders.no-messages-of-known-forms")),
    ):
        find_queue(url, None, None, LONG_S)


ENDLESS = delivered(b"x" * 9)[:-17].replace(struct.pack(">Q", 9), struct.pack(">Q", 1 << 62))
SLOW = struct.pack(">BHI", METHOD, 0, 100_000)
HEARTBEATS = frame(HEARTBEAT, 0, b"") * 1000
HELD: list[dict[Any, bytes | Send]] = [
    {"hello": b""},
    {"hello": dripping(SLOW + struct.pack(">HH", *START))},
    {"hello": endlessly(b"", HEARTBEATS)},
    {DECLARE: b""},
    {DECLARE: dripping(SLOW[:1] + b"\0\1" + SLOW[3:])},
    {DECLARE: endlessly(b"", HEARTBEATS)},
    {DECLARE: endlessly(b"", method(1, GET_EMPTY, short(b"")) * 1000)},
    {GET: endlessly(ENDLESS, frame(BODY, 1, b"xy") * 1000)},
    {GET: endlessly(ENDLESS, frame(BODY, 1, b"x" * 100_000))},
]


@pytest.mark.parametrize("lie", HELD, ids=range(len(HELD)))
def test_a_server_that_holds_whoever_asks_is_left(lie: dict[Any, bytes | Send]) -> None:
    with lying(talking(lie)) as url:
        error = error_of(queue_at(url, SOON_S), RabbitQueue.look)

    assert re.search(TOO_LONG, error), error


ASKED: list[Callable[[RabbitQueue], object]] = [
    RabbitQueue.look,
    RabbitQueue.check,
    RabbitQueue.release,
    lambda queue: queue.sample(5),
    lambda queue: queue.push([(b"new", {"body": b"x", "properties": b"{}"})]),
]


def is_survived(seed: int) -> None:
    """A conversation that goes wrong somewhere in it."""
    noise = random.Random(seed)
    asked = noise.choice(list(HONEST))
    honest = HONEST[asked]
    spoilt = bytearray(honest + noise.choice([b"", honest, *HONEST.values()]))
    for _ in range(noise.randint(1, 6)):
        place = noise.randrange(len(spoilt))
        spoilt[place : place + noise.choice([0, 1, 4])] = noise.choice(
            [noise.randbytes(noise.choice([1, 1, 4, 300])), b"\xff" * 4, b"\0" * 4, b""]
        )
        spoilt = spoilt or bytearray(b"\0")
    lie = noise.choice([bytes(spoilt), bytes(spoilt) + noise.randbytes(2000), noise.randbytes(100)])

    def then_close(connection: socket.socket) -> None:
        connection.sendall(lie)
        with suppress(OSError):  # the client may be gone by now
            connection.shutdown(socket.SHUT_WR)

    with (
        lying(talking({asked: then_close})) as url,
        closing(RabbitQueue(url, noise.choice(["celery", "dramatiq"]), "jobs", OURS, 0.2)) as queue,
    ):
        try:
            noise.choice(ASKED)(queue)
        except (BrokerError, TunerError) as error:
            is_one_line(str(error))


@pytest.fixture
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rabbitmq_queue, "_GONE_WITHIN_S", 0.0)
    monkeypatch.setattr(rabbitmq_link, "_SIFTED_WITHIN_S", 0.3)


@pytest.mark.usefixtures("_hasty")
def test_forty_conversations_that_go_wrong_end_in_an_answer_or_one_line() -> None:
    for seed in range(40):
        is_survived(seed)


@pytest.mark.full
@pytest.mark.usefixtures("_hasty")
def test_three_hundred_more_conversations_that_go_wrong_end_in_an_answer_or_one_line() -> None:
    for seed in range(40, 340):
        is_survived(seed)


# ---------------------------------------------------- memory, of a process that asks once and no more


@pytest.mark.full
@pytest.mark.parametrize("case", [7, 8])
def test_a_message_that_never_ends_takes_a_bounded_memory(case: int) -> None:
    result = run_apart(__name__, str(case))

    assert re.search("larger than 129 MB", result["error"]), result
    assert result["grew_mb"] < 500


def main(case: str) -> None:
    with lying(talking(HELD[int(case)])) as url:
        print_with_growth(lambda: {"error": error_of(queue_at(url, 120.0), RabbitQueue.look)})


if __name__ == "__main__":
    main(*sys.argv[1:])
