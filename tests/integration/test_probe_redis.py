"""Numbers in a real Redis: sums with signs, queues that are drained, a server that goes away."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest
from redis import Redis, ResponseError

from tuner.adapters.clock import SystemClock
from tuner.adapters.probes.redis import RedisProbe, Term
from tuner.core.domain.layout import Layout
from tuner.core.domain.window import Reading
from tuner.core.errors import ConfigError, MeasurementError
from tuner.ports import Counting

from ..raising import raises
from ..redis_server import RedisServer
from ..wording import key_of, wording

pytestmark = pytest.mark.integration


@contextmanager
def counted(
    server: RedisServer,
    done: Sequence[Term],
    failed: Sequence[Term] = (),
    *,
    falls: bool = False,
    fed: Term | None = None,
) -> Iterator[tuple[Redis, Counting, list[str]]]:
    warned: list[str] = []
    probe = RedisProbe(
        SystemClock(),
        server.url,
        done,
        failed,
        30.0,
        lambda slug, _text: warned.append(slug),
        falls=falls,
        fed=fed,
    )
    with Redis.from_url(server.url) as client, probe.counting(Layout(1, 1)) as counting:
        yield client, counting, warned


def fresh(counting: Counting) -> Reading:
    counting.read()  # the first one is 0, and of now, where the answer takes its time
    asked_s = SystemClock().monotonic_s()
    return read_until(counting, lambda reading: reading.at_s > asked_s)


def read_until(counting: Counting, enough: Callable[[Reading], bool]) -> Reading:
    while not enough(reading := counting.read()):
        pass
    return reading


def error_of(counting: Counting) -> str:
    with pytest.raises(MeasurementError) as caught:
        read_until(counting, lambda _: False)
    return caught.value.problem


def test_terms_are_added_up_with_their_signs_and_failed_ones_apart(redis_server) -> None:
    terms = [
        Term("get", "fed"),
        Term("llen", "queue", sign=-1),
        Term("hlen", "unacked", sign=-1),
        Term("zcard", "later", sign=-1),
        Term("scard", "held", sign=-1),
    ]
    failed = [Term("hget", "stats", "failed")]
    with counted(redis_server, terms, failed) as (client, counting, warned):
        client.set("fed", 10)
        client.rpush("queue", *range(10))
        fresh(counting)
        with client.pipeline(transaction=True) as at_once:
            at_once.incrby("fed", 90)
            at_once.rpush("queue", *range(20))
            at_once.hset("unacked", mapping={"a": 1, "b": 2})
            at_once.zadd("later", {"c": 1.0})
            at_once.sadd("held", "d", "e", "f")
            at_once.hset("stats", "failed", 7)
            at_once.execute()
        reading = fresh(counting)

    assert (reading.n_done_total, reading.n_failed_total) == (90 - 20 - 2 - 1 - 3, 7)
    assert warned == []


def test_the_workers_of_a_set_come_and_go_and_what_they_did_is_kept(redis_server) -> None:
    with counted(redis_server, [Term("smembers_hget", "workers", "done")]) as (client, counting, warned):
        client.sadd("workers", "w:1")
        client.hset("w:1", "done", 100)
        fresh(counting)
        client.hincrby("w:1", "done", 5)
        client.sadd("workers", "w:2", "w:gone")
        client.hset("w:2", "done", 3)
        both = fresh(counting)
        client.delete("w:1")
        client.srem("workers", "w:1")
        client.hincrby("w:2", "done", 1)
        one = fresh(counting)

    assert (both.n_done_total, one.n_done_total) == (8, 9)
    assert warned == []


def test_a_counter_that_was_deleted_begins_anew(redis_server) -> None:
    with counted(redis_server, [Term("get", "done")]) as (client, counting, warned):
        client.set("done", 50)
        fresh(counting)
        client.set("done", 2)
        reading = fresh(counting)

    assert reading.n_done_total == 2
    assert warned == ["count-restarted"]


@pytest.mark.parametrize("fed", [None, Term("get", "fed")])
def test_a_queue_that_is_drained_counts_what_has_left_it(redis_server, fed: Term | None) -> None:
    with counted(redis_server, [Term("llen", "queue")], falls=True, fed=fed) as (client, counting, _):
        client.rpush("queue", *range(50))
        client.set("fed", 50)
        fresh(counting)
        client.lpop("queue", 8)
        drained = fresh(counting)
        if fed is not None:
            with client.pipeline(transaction=True) as at_once:
                at_once.rpush("queue", *range(30))
                at_once.incrby("fed", 30)
                at_once.execute()
            client.lpop("queue", 1)
            drained = fresh(counting)

    assert drained.n_done_total == (8 if fed is None else 9)


def test_a_queue_that_is_fed_unseen_ends_the_launch(redis_server) -> None:
    with counted(redis_server, [Term("llen", "queue")], falls=True) as (client, counting, warned):
        client.rpush("queue", *range(5))
        fresh(counting)
        client.rpush("queue", *range(5))
        said = error_of(counting)

    assert wording("probes.left-the-queue-fell") in said
    assert warned == []


def test_results_that_expire_are_no_total(redis_server) -> None:
    with counted(redis_server, [Term("zcard", "finished")]) as (client, counting, _):
        client.zadd("finished", {"a": 1, "b": 2})
        fresh(counting)
        client.zrem("finished", "a")

        assert wording("probes.sum-fell") in error_of(counting)


@pytest.mark.parametrize(
    ("term", "said"),
    [
        (Term("llen", "text"), "WRONGTYPE"),
        (Term("get", "text"), wording("probes.no-whole-number-of-redis")),
    ],
    ids=key_of,
)
def test_what_is_no_number_is_said(redis_server, term: Term, said: str, monkeypatch) -> None:
    monkeypatch.setattr("tuner.adapters.probes.polled.MOST_FAILURES_AT_FIRST", 1)
    with counted(redis_server, [term]) as (client, counting, _):
        client.set("text", "abc")

        assert said in error_of(counting)


@pytest.mark.parametrize("text", ["", "1_0", " 5", "5.0", "0x5", "+5"])
def test_a_number_is_what_redis_takes_for_one(redis_server, text: str, monkeypatch) -> None:
    monkeypatch.setattr("tuner.adapters.probes.polled.MOST_FAILURES_AT_FIRST", 1)
    with counted(redis_server, [Term("get", "text")]) as (client, counting, _):
        client.set("text", text)
        with pytest.raises(ResponseError, match="not an integer"):
            client.incr("text")

        assert wording("probes.no-whole-number") in error_of(counting)


def test_a_lost_connection_is_a_gap_and_in_the_end_an_error(redis_server) -> None:
    with counted(redis_server, [Term("get", "done")]) as (client, counting, _):
        client.set("done", 5)
        before = fresh(counting)
        redis_server.stop()
        gap = counting.read()
        redis_server.start()
        client.set("done", 9)
        after = fresh(counting)
        redis_server.stop()
        said = error_of(counting)
        redis_server.start()  # to be stopped by the fixture

    assert gap == before
    assert after.n_done_total == 4
    assert wording("probes.times-in-a-row", n=5) + ": ConnectionError" in said


def test_before_anything_starts_a_redis_that_is_not_there_is_reported_in_one_line(
    redis_server: RedisServer,
) -> None:
    def probe(url: str, *terms: Term) -> RedisProbe:
        return RedisProbe(SystemClock(), url, terms, [], 30.0, lambda _slug, _text: None, falls=True)

    probe(redis_server.url, Term("llen", "jobs")).check()
    with Redis.from_url(redis_server.url) as client:
        client.set("jobs", 1)
    with pytest.raises(ConfigError, match=r"cannot count: ResponseError: .*WRONGTYPE"):
        probe(redis_server.url, Term("llen", "jobs")).check()
    with raises(ConfigError, wording("probes.cannot-count-connectionerror")) as caught:
        probe(
            redis_server.url.replace("unix://", "unix://user:hunter2@") + "-none", Term("llen", "q")
        ).check()
    assert "hunter2" not in caught.value.problem
