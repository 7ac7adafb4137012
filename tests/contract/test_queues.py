"""What every queue promises, whoever's messages go through it, on a real Redis."""

from __future__ import annotations

import json
import pickle
import re
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from redis import Redis, ResponseError

from tuner.adapters.queues.forms.message import BODY, BrokerError, Clone, Ids, UnclonableError, read_sample
from tuner.adapters.queues.forms.redis_forms import FORMS, list_queues
from tuner.adapters.queues.queue import Claim
from tuner.adapters.queues.redis_queue import RedisQueue, empty_queue, find_queue
from tuner.core.errors import ConfigError

from ..raising import raises
from ..redis_server import RedisServer
from ..wording import wording
from .queue_workers import MESSAGES, WORKERS, Worker

pytestmark = pytest.mark.integration
OURS = Claim("ours", "ours.tuner.db", "here")
THEIRS = Claim("theirs", "theirs.tuner.db", "there")
NAME = "jobs"


@pytest.fixture(params=list(FORMS))
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@contextmanager
def opened(server: RedisServer, form: str, claim: Claim = OURS) -> Iterator[RedisQueue]:
    with closing(RedisQueue(server.url, form, NAME, claim, 30.0)) as queue:
        yield queue


def clones(queue: RedisQueue, form: str, n: int) -> list[Clone]:
    """New messages for *queue*, made of the recorded ones."""
    ids = Ids(queue.tag)
    cuts = [queue.cut(message) for message in read_sample(MESSAGES / f"{form}.json", form)]
    return [(new, cuts[n % len(cuts)].clone(new)) for n, new in enumerate(ids.next() for _ in range(n))]


def put(client: Redis, queue: RedisQueue, form: str, n: int) -> None:
    """Let somebody else put messages into it: nobody says how many were fed."""
    with client.pipeline(transaction=True) as pipe:
        FORMS[form].push(pipe, NAME, clones(queue, form, n))
        pipe.execute()


def everything(client: Redis) -> dict[bytes, Any]:
    return {key: client.dump(key) for key in client.scan_iter()}


@contextmanager
def working(server: RedisServer, form: str) -> Iterator[tuple[Redis, Worker]]:
    with Redis.from_url(server.url) as client:
        yield client, WORKERS[form](client, NAME)


def test_a_sample_is_taken_from_all_over_the_queue_and_nothing_is_changed(
    redis_server: RedisServer, form: str
) -> None:
    with (
        opened(redis_server, form) as queue,
        opened(redis_server, form, THEIRS) as others,
        Redis.from_url(redis_server.url) as client,
    ):
        put(client, others, form, 50)
        before = everything(client)
        sample = queue.sample(10)
        after = everything(client)

    assert after == before
    assert len(sample) == 10
    assert {queue.cut(message).n_bytes > 0 for message in sample} == {True}


def test_what_was_fed_is_ready_then_in_hand_then_done(redis_server: RedisServer, form: str) -> None:
    with opened(redis_server, form) as queue, working(redis_server, form) as (_, worker):
        queue.claim()
        queue.push(clones(queue, form, 10))
        fed = queue.look()
        for _ in range(4):
            worker.take()
        taken = queue.look()
        worker.finish()
        finished = queue.look()

    assert (fed.fed, fed.left.ready, fed.done) == (10, 10, 0)
    if worker.counted_as_taken:
        assert (taken.done, finished.done, finished.left.ready) == (4, 4, 6)
    else:
        assert (taken.fed, taken.done, finished.done) == (10, 0, 1)
        assert taken.left.ready + taken.left.in_hand == 10


def test_what_is_left_is_removed_in_hand_too_and_nothing_of_others(
    redis_server: RedisServer, form: str
) -> None:
    with (
        opened(redis_server, form) as queue,
        opened(redis_server, form, THEIRS) as others,
        working(redis_server, form) as (client, worker),
    ):
        queue.claim()
        queue.push(clones(queue, form, 7))
        worker.take()
        put(client, others, form, 3)
        queue.push(clones(queue, form, 12_000))
        theirs_left = queue.release()
        sample = queue.sample(100)
        kept = {
            # a stream's dump has what was deleted for a while
            key: str(client.xrange(key)).encode() if client.type(key) == b"stream" else value
            for key, value in everything(client).items()
        }
        marked = [
            key for key, value in kept.items() if queue.tag.encode() in key or queue.tag.encode() in value
        ]

    assert theirs_left == 3
    assert len(sample) == 3
    assert marked == []
    assert not any(key.startswith(b"tuner:") for key in kept)


def test_messages_of_others_keep_their_order(redis_server: RedisServer, form: str) -> None:
    with (
        opened(redis_server, form) as queue,
        opened(redis_server, form, THEIRS) as others,
        Redis.from_url(redis_server.url) as client,
    ):
        queue.claim()
        put(client, others, form, 100)
        before = queue.sample(100)
        for _ in range(3):
            queue.push(clones(queue, form, 3_000))
        queue.release()
        after = queue.sample(100)

    assert after == before


def test_a_queue_that_holds_messages_of_others_is_refused_and_left_as_it_is(
    redis_server: RedisServer, form: str
) -> None:
    with (
        opened(redis_server, form) as queue,
        opened(redis_server, form, THEIRS) as others,
        Redis.from_url(redis_server.url) as client,
    ):
        put(client, others, form, 3)
        before = everything(client)
        for refused in (queue.check, queue.claim):
            with raises(ConfigError, wording("probes.queue-holds-others", n_messages="3 messages")):
                refused()
        after = everything(client)

    assert after == before


def test_messages_of_others_go_aside_and_come_back_by_the_commands_of_the_hint(
    redis_server: RedisServer, form: str
) -> None:
    with (
        opened(redis_server, form) as queue,
        opened(redis_server, form, THEIRS) as others,
        Redis.from_url(redis_server.url) as client,
    ):
        put(client, others, form, 3)
        before = everything(client)
        with pytest.raises(ConfigError) as refused:
            queue.check()
        if form in ("dramatiq", "saq", "streaq", "stream"):
            assert "redis-cli" not in (refused.value.hint or "")
            return
        aside, back = re.findall(r"\((redis-cli [^)]+)\)", refused.value.hint or "")

        subprocess.run(aside, shell=True, check=True, timeout=60)
        queue.claim()
        queue.push(clones(queue, form, 5))
        n_others = queue.release()
        subprocess.run(back, shell=True, check=True, timeout=60)
        after = everything(client)

    assert n_others == 0
    assert after == before


def test_no_command_is_printed_for_messages_that_a_worker_holds(redis_server: RedisServer) -> None:
    with (
        opened(redis_server, "rq") as queue,
        opened(redis_server, "rq", THEIRS) as others,
        working(redis_server, "rq") as (client, worker),
    ):
        put(client, others, "rq", 3)
        worker.take()
        with pytest.raises(ConfigError) as refused:
            queue.check()

    hint = refused.value.hint or ""
    assert "redis-cli" not in hint
    assert "--set queue=study" in hint


def test_a_study_that_was_killed_finds_its_own_messages_and_removes_them(
    redis_server: RedisServer, form: str
) -> None:
    with opened(redis_server, form) as killed, working(redis_server, form) as (client, worker):
        killed.claim()
        killed.push(clones(killed, form, 20))
        worker.take()
        with opened(redis_server, form) as resumed:
            resumed.check()
            left = {key for key in client.scan_iter() if not key.startswith(b"dramatiq:__heart")}
            if form in ("stream", "streaq"):
                left -= {key.encode() for key in FORMS[form].keys(NAME) if not client.xlen(key)}
                # with its group, which is the workers'
            resumed.claim()
            again = resumed.look()

    assert left == set()
    assert (again.fed, again.left.ready, again.left.in_hand) == (0, 0, 0)


def test_a_queue_that_another_study_feeds_is_refused_and_left_as_it_is(
    redis_server: RedisServer, form: str
) -> None:
    with (
        opened(redis_server, form) as queue,
        opened(redis_server, form, THEIRS) as others,
        Redis.from_url(redis_server.url) as client,
    ):
        others.claim()
        others.push(clones(others, form, 3))
        before = everything(client)
        with raises(ConfigError, wording("feeders.fed-by-another-study-on")):
            queue.claim()
        after = everything(client)

    assert after == before


def test_a_redis_that_forgot_what_was_fed_says_so(redis_server: RedisServer, form: str) -> None:
    with opened(redis_server, form) as queue:
        queue.claim()
        queue.push(clones(queue, form, 5))
        redis_server.stop()
        with pytest.raises(BrokerError, match="ConnectionError"):
            queue.look()
        redis_server.start()
        with raises(BrokerError, wording("feeders.restarted-or-flushed")):
            queue.look()


def test_nothing_is_pushed_to_a_redis_that_forgot_whose_the_queue_is(
    redis_server: RedisServer, form: str
) -> None:
    with opened(redis_server, form) as queue:
        queue.claim()
    redis_server.stop()
    redis_server.start()

    with opened(redis_server, form) as queue, Redis.from_url(redis_server.url) as client:
        with raises(BrokerError, wording("feeders.restarted-or-flushed")):
            queue.push(clones(queue, form, 3))
        assert everything(client) == {}


def test_a_count_that_names_no_study_keeps_nobody_away(redis_server: RedisServer) -> None:
    with opened(redis_server, "taskiq") as queue, Redis.from_url(redis_server.url) as client:
        client.hincrby(f"tuner:fed:{NAME}", "fed", 5)
        put(client, queue, "taskiq", 5)
        queue.check()
        queue.claim()
        queue.push(clones(queue, "taskiq", 2))
        backlog = queue.look()

    assert (backlog.fed, backlog.left.ready) == (2, 2)


def test_other_queues_in_the_same_place_do_not_count(redis_server: RedisServer) -> None:
    with opened(redis_server, "celery") as queue, Redis.from_url(redis_server.url) as client:
        client.hset("unacked", mapping={f"tag-{n}": "of another queue" for n in range(9)})
        client.zadd("unacked_index", {f"tag-{n}": 1.0 for n in range(9)})
        client.lpush("another", "message")
        queue.claim()
        queue.push(clones(queue, "celery", 2))
        backlog = queue.look()
        queue.release()

        assert (backlog.left.ready, backlog.left.in_hand) == (2, 0)
        assert (client.hlen("unacked"), client.zcard("unacked_index"), client.llen("another")) == (9, 9, 1)


def test_the_form_is_seen_by_the_keys(redis_server: RedisServer, form: str) -> None:
    with opened(redis_server, form) as queue, Redis.from_url(redis_server.url) as client:
        put(client, queue, form, 2)

    assert find_queue(redis_server.url, None, NAME, 30.0) == (form, NAME)


def test_no_messages_or_several_forms_are_kept_apart(redis_server: RedisServer) -> None:
    with raises(ConfigError, wording("feeders.no-messages-wait-in-jobs")):
        find_queue(redis_server.url, None, NAME, 30.0)
    with Redis.from_url(redis_server.url) as client:
        for form in ("rq", "huey"):
            with opened(redis_server, form) as queue:
                put(client, queue, form, 2)

    with pytest.raises(ConfigError, match=r"wait in jobs \(rq\), jobs \(huey\)") as caught:
        find_queue(redis_server.url, None, NAME, 30.0)
    assert caught.value.hint == wording("feeders.name-form-and-queue")


def test_a_password_is_not_shown() -> None:
    queue = RedisQueue("redis://me:secret@127.0.0.1:1/0", "rq", NAME, OURS, 1.0)
    with closing(queue), pytest.raises(BrokerError) as caught:
        queue.look()

    assert "secret" not in str(caught.value)
    assert "redis://127.0.0.1:1/0" in str(caught.value)


def test_queues_that_hold_messages_are_named_where_the_usual_ones_are_empty(
    redis_server: RedisServer, form: str
) -> None:
    with opened(redis_server, form) as queue, Redis.from_url(redis_server.url) as client:
        put(client, queue, form, 3)
        client.set("a-string", "value")
        client.lpush("unacked_mutex", "no queue, by its name")
        client.zadd("a-score-board", {"nobody": 1.0})
        with raises(ConfigError, wording("feeders.queues-that-hold", queues=f"{NAME} (3, {form})")) as caught:
            find_queue(redis_server.url, None, None, 30.0)

    assert caught.value.hint == f"Name one: --form {form} --queue {NAME}"


def test_the_fullest_of_many_queues_are_named(redis_server: RedisServer) -> None:
    with Redis.from_url(redis_server.url) as client:
        for n in range(1, 12):
            client.rpush(f"q{n}", *["{}"] * n)
        client.rpush("celery\x06\x163", '{"headers": {"task": "t"}}')
        error = empty_queue(redis_server.url, "celery", "mails", 30.0)

    assert "the queue mails of unix://" in error.problem
    assert "q11 (11, list), q10 (10, list), " in error.problem
    assert error.problem.endswith(" and 4 more")


def test_a_queue_is_looked_at_and_nothing_is_changed(redis_server: RedisServer, form: str) -> None:
    with (
        opened(redis_server, form) as queue,
        opened(redis_server, form, THEIRS) as others,
        Redis.from_url(redis_server.url) as client,
    ):
        queue.look_free()
        assert everything(client) == {}
        put(client, others, form, 3)
        before = everything(client)
        with raises(ConfigError, wording("probes.queue-holds-others", n_messages="3 messages")):
            queue.look_free()
        assert everything(client) == before
        others.release()
        others.claim()
        before = everything(client)
        with raises(ConfigError, wording("feeders.fed-by-another-study-on")):
            queue.look_free()
        assert everything(client) == before


@pytest.mark.parametrize("body", [b"no JSON", b"12345", b"\xff\x00", b""])
def test_what_nothing_may_stand_behind_is_no_message_of_a_plain_list(
    redis_server: RedisServer, body: bytes
) -> None:
    with opened(redis_server, "list") as queue, raises(UnclonableError, wording("feeders.not-markable")):
        queue.cut({BODY: body})


def test_a_clone_for_a_plain_list_is_read_as_the_recorded_message_was(redis_server: RedisServer) -> None:
    with opened(redis_server, "list") as queue:
        as_json, as_pickle = (parts[BODY] for _, parts in clones(queue, "list", 2))

    assert json.loads(as_json) == {"mail": 17, "args": [2500], "who": "u149"}
    assert pickle.loads(as_pickle) == {"mail": 18, "who": "u148"}


def test_a_stream_of_several_groups_is_refused(redis_server: RedisServer) -> None:
    with opened(redis_server, "stream") as queue, Redis.from_url(redis_server.url) as client:
        queue.claim()
        for group in ("one", "two"):
            client.xgroup_create(NAME, group, id="0", mkstream=True)
        with raises(BrokerError, wording("feeders.several-groups")):
            queue.look()


def test_entries_of_others_in_the_same_moment_stay_in_a_stream(redis_server: RedisServer) -> None:
    with opened(redis_server, "stream") as queue, Redis.from_url(redis_server.url) as client:
        client.xgroup_create(NAME, "g", id="$", mkstream=True)
        queue.claim()
        for _ in range(5):
            queue.push(clones(queue, "stream", 40))
            for _ in range(300):  # numbered on from ours, by Redis
                client.xadd(NAME, {"from": "others"})
        left = queue.look().left
        n_others = queue.release()
        kept = {fields[b"from"] for _, fields in client.xrange(NAME)}

    assert (left.ready, n_others, kept) == (5 * 340, 5 * 300, {b"others"})


def test_a_stream_is_counted_alike_in_each_launch(redis_server: RedisServer) -> None:
    with opened(redis_server, "stream") as queue, working(redis_server, "stream") as (_, worker):
        for _ in range(3):
            queue.claim()
            queue.push(clones(queue, "stream", 20))
            for _ in range(4):
                worker.take()
                worker.finish()
            backlog = queue.look()
            assert (backlog.done, backlog.left.ready, backlog.left.in_hand) == (4, 16, 0)
            worker.take()
            assert queue.release() == 0
            worker.taken.clear()


def test_a_clone_of_celery_goes_back_to_the_list_that_it_came_from(redis_server: RedisServer) -> None:
    """A worker that stops puts unstarted messages into the list of their priority."""
    (message, *_) = read_sample(MESSAGES / "celery.json", "celery")
    document = json.loads(message[BODY])
    document["properties"]["priority"] = 5
    with opened(redis_server, "celery") as queue:
        clone = json.loads(queue.cut({BODY: json.dumps(document).encode()}).clone(b"new")[BODY])
        keys = FORMS["celery"].keys(NAME)

    assert clone["properties"]["priority"] == 0
    assert f"{NAME}\x06\x165" in keys


class OldRedis(Redis):
    """A client whose server cannot select keys by type, as before version 6."""

    def scan_iter(self, *args: Any, **how: Any) -> Iterator[Any]:
        if how.pop("_type", None) is not None:
            raise ResponseError("syntax error")
        return super().scan_iter(*args, **how)


def test_queues_are_found_in_a_redis_that_cannot_select_keys_by_type(redis_server: RedisServer) -> None:
    with closing(OldRedis.from_url(redis_server.url)) as client:
        client.rpush("rq:queue:mail", "a", "b")
        client.set("a-text", "1")
        found = list_queues(client)

    assert [(one.queue, one.form, one.n_messages) for one in found] == [("mail", "rq", 2)]
