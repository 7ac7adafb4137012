"""What every queue promises, and what the feeder and the probe of it do, on a real RabbitMQ."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import amqp
import pytest

from tuner.adapters.clock import SystemClock
from tuner.adapters.feeders.queue import Fed, QueueFeeder
from tuner.adapters.probes.queue import QueueProbe
from tuner.adapters.queues.forms.message import BrokerError, Clone, Ids, read_sample
from tuner.adapters.queues.forms.rabbitmq_forms import FORMS
from tuner.adapters.queues.queue import Claim
from tuner.adapters.queues.rabbitmq_queue import RabbitQueue
from tuner.bootstrap.parts import samples
from tuner.core.domain.layout import Layout
from tuner.core.domain.load import FEWEST_WAITING
from tuner.core.domain.window import Reading
from tuner.core.errors import ConfigError, SourceAway
from tuner.ports import Counting

from ..processes import is_running
from ..rabbitmq_server import RabbitServer, running_rabbitmq
from ..raising import raises
from ..wording import wording

pytestmark = [pytest.mark.integration, pytest.mark.services]
MESSAGES = Path(__file__).parents[1] / "golden" / "messages_rabbitmq"
PATIENCE_S = 120.0
TIMEOUT_S = 30.0
OURS = Claim("ours", "ours.tuner.db", "here")
THEIRS = Claim("theirs", "theirs.tuner.db", "there")


@pytest.fixture(scope="module")
def server() -> Iterator[RabbitServer]:
    """One for all: each test has a queue of its own."""
    with running_rabbitmq() as server:
        yield server


@pytest.fixture
def channel(server: RabbitServer) -> Iterator[amqp.Channel]:
    """Of somebody else."""
    with amqp.Connection(f"127.0.0.1:{server.port}") as connection, connection.channel() as channel:
        yield channel


@pytest.fixture
def name(channel: amqp.Channel) -> str:
    name = f"jobs-{uuid.uuid4().hex[:8]}"
    channel.queue_declare(name, durable=True, auto_delete=False)
    return name


@pytest.fixture(params=list(FORMS))
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@contextmanager
def opened(
    server: RabbitServer, name: str, claim: Claim = OURS, form: str = "celery"
) -> Iterator[RabbitQueue]:
    with closing(RabbitQueue(server.url, form, name, claim, TIMEOUT_S)) as queue:
        yield queue


def clones(queue: RabbitQueue, n: int, form: str = "celery") -> list[Clone]:
    ids = Ids(queue.tag)
    cuts = [queue.cut(message).stamped(1e9) for message in read_sample(MESSAGES / f"{form}.json", form)]
    return [(new, cuts[n % len(cuts)].clone(new)) for n, new in enumerate(ids.next() for _ in range(n))]


def put(channel: amqp.Channel, name: str, bodies: list[str]) -> None:
    """Let somebody else put messages there; they are there once this returns."""
    before = n_waiting(channel, name)
    for body in bodies:
        channel.basic_publish(amqp.Message(body), routing_key=name)
    wait_for(lambda: n_waiting(channel, name) == before + len(bodies), "they are there")


def n_waiting(channel: amqp.Channel, name: str) -> int:
    return int(channel.queue_declare(name, passive=True).message_count)


def bodies(channel: amqp.Channel, name: str) -> list[str]:
    found = []
    while message := channel.basic_get(name, no_ack=True):
        found.append(message.body)
    return found


def is_there(server: RabbitServer, name: str) -> bool:
    with amqp.Connection(f"127.0.0.1:{server.port}") as connection:
        try:
            connection.channel().queue_declare(name, passive=True)
        except amqp.NotFound:
            return False
        return True


def wait_for(condition: Callable[[], object], what: str) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s, f"waited {PATIENCE_S} s in vain until {what}"
        time.sleep(0.01)


def test_what_was_fed_waits_then_is_done(server: RabbitServer, channel, name: str, form: str) -> None:
    with opened(server, name, form=form) as queue, opened(server, name, form=form) as onlooker:
        queue.claim()
        queue.push(clones(queue, 10, form))
        fed = onlooker.look()
        channel.basic_qos(0, 4, False)
        channel.basic_consume(name)
        taken = onlooker.look()
        queue.push(clones(queue, 2, form))
        more = onlooker.look()
        channel.close()
        queue.release()

    assert (fed.fed, fed.left.ready, fed.done) == (10, 10, 0)
    assert (taken.fed, taken.left.ready, taken.done) == (10, 6, 4)
    assert (more.fed, more.left.ready, more.done) == (12, 8, 4)
    assert not is_there(server, f"tuner.fed.{name}")


def test_a_clone_arrives_as_the_message_was_but_for_its_ids(server: RabbitServer, channel, name: str) -> None:
    (recorded, *_) = read_sample(MESSAGES / "celery.json", "celery")
    with opened(server, name) as queue:
        queue.claim()
        ((new_id, _),) = sent = clones(queue, 1)
        queue.push(sent)
        arrived = channel.basic_get(name)
    before = json.loads(recorded["properties"])
    after = {**arrived.properties, "headers": arrived.headers}
    del after["application_headers"]
    new = new_id.decode()

    assert arrived.body == recorded["body"].decode()
    assert after["correlation_id"] == after["headers"]["id"] == after["headers"]["root_id"] == new
    for result in (before, after):
        result["correlation_id"] = result["headers"]["id"] = result["headers"]["root_id"] = result[
            "reply_to"
        ] = ""
    before.pop("priority")
    assert after == before


def test_counts_are_exact_while_messages_are_pushed(server: RabbitServer, name: str) -> None:
    with opened(server, name) as queue, opened(server, name) as onlooker:
        queue.claim()
        new, seen_enough = clones(queue, 50), threading.Event()

        def push_on() -> None:
            while not seen_enough.wait(0.02):  # a moment for looks
                queue.push(new)

        pushing = threading.Thread(target=push_on)
        pushing.start()
        seen = []
        try:
            wait_for(lambda: seen.append(onlooker.look()) or len({one.fed for one in seen}) > 3, "it grows")
        finally:
            seen_enough.set()
            pushing.join()
        queue.release()

    assert {one.done for one in seen} == {0}


def test_what_is_left_is_removed_and_messages_of_others_keep_their_order(
    server: RabbitServer, channel, name: str
) -> None:
    theirs = [f"theirs {n}" for n in range(60)]
    with opened(server, name) as queue:
        queue.claim()
        for n in range(0, 60, 20):
            queue.push(clones(queue, 700))
            put(channel, name, theirs[n : n + 20])
        queue.push(clones(queue, 700))
        n_others = queue.release()

    assert n_others == 60
    assert bodies(channel, name) == theirs
    assert not is_there(server, f"tuner.fed.{name}")


def test_retries_and_dead_letters_of_dramatiq_go_too(server: RabbitServer, channel, name: str) -> None:
    for other in (f"{name}.DQ", f"{name}.XQ"):
        channel.queue_declare(other, durable=True, auto_delete=False)
    with opened(server, name, form="dramatiq") as queue:
        queue.claim()
        for other in (f"{name}.DQ", f"{name}.XQ"):
            put(channel, other, ["theirs"])
        for _, parts in clones(queue, 3, "dramatiq"):
            put(channel, f"{name}.DQ", [parts["body"].decode()])
            put(channel, f"{name}.XQ", [parts["body"].decode()])
        left = queue.look().left
        queue.release()

    assert (left.in_hand, left.failed) == (4, 4)
    assert bodies(channel, f"{name}.DQ") == bodies(channel, f"{name}.XQ") == ["theirs"]


def test_messages_of_others_that_wait_for_their_time_are_not_worked_on(
    server: RabbitServer, channel, name: str
) -> None:
    channel.queue_declare(f"{name}.DQ", durable=True, auto_delete=False)
    put(channel, f"{name}.DQ", ["theirs"])

    with (
        opened(server, name, form="dramatiq") as queue,
        raises(ConfigError, wording("probes.queue-holds-others", n_messages="1 message")),
    ):
        queue.claim()
    assert bodies(channel, f"{name}.DQ") == ["theirs"]


def test_what_a_worker_had_in_hand_when_it_was_killed_is_removed_too(server: RabbitServer, name: str) -> None:
    take = (
        "import sys, amqp, time\n"
        "c = amqp.Connection(sys.argv[1]); c.connect(); h = c.channel()\n"
        "h.basic_qos(0, 5, False); got = []\n"
        "h.basic_consume(sys.argv[2], callback=got.append)\n"
        "while len(got) < 5: c.drain_events()\n"
        "print('five', flush=True); time.sleep(600)"
    )
    with opened(server, name) as queue:
        queue.claim()
        queue.push(clones(queue, 20))
        command = [sys.executable, "-c", take, f"127.0.0.1:{server.port}", name]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "five\n"
            in_hand = queue.look()
            worker.send_signal(signal.SIGKILL)
        n_others = queue.release()
        with amqp.Connection(f"127.0.0.1:{server.port}") as connection:
            n_left = n_waiting(connection.channel(), name)

    assert in_hand.done == 5
    assert (n_others, n_left) == (0, 0)


def test_a_queue_of_others_is_refused_and_left_as_it_is(server: RabbitServer, channel, name: str) -> None:
    put(channel, name, ["a", "b", "c"])
    with opened(server, name) as queue:
        for refused in (queue.check, queue.claim):
            with raises(ConfigError, wording("probes.queue-holds-others", n_messages="3 messages")):
                refused()

    assert bodies(channel, name) == ["a", "b", "c"]
    assert not is_there(server, f"tuner.fed.{name}")


def test_a_queue_with_consumers_is_refused(
    server: RabbitServer, channel, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuner.adapters.queues.rabbitmq_queue._GONE_WITHIN_S", 0.1)
    channel.basic_consume(name)
    with opened(server, name) as queue, raises(ConfigError, wording("feeders.has-1-consumer-already")):
        queue.check()


def test_a_queue_that_is_not_there_is_not_made(server: RabbitServer, name: str) -> None:
    with (
        opened(server, f"{name}-no") as queue,
        raises(ConfigError, wording("feeders.no-such-queue", queue=f"{name}-no")),
    ):
        queue.check()

    assert not is_there(server, f"{name}-no")


def test_a_queue_that_drops_messages_is_found_out(server: RabbitServer, channel, name: str) -> None:
    small = f"{name}-small"
    channel.queue_declare(small, durable=True, auto_delete=False, arguments={"x-max-length": 7})
    with opened(server, small) as queue:
        queue.claim()
        with raises(BrokerError, wording("feeders.queue-has-a-limit", n=7, n_fed=10)):
            queue.push(clones(queue, 10))
        queue.release()


def test_a_queue_whose_messages_expire_is_found_out(server: RabbitServer, channel, name: str) -> None:
    short = f"{name}-short"
    channel.queue_declare(short, durable=True, auto_delete=False, arguments={"x-message-ttl": 200})
    with opened(server, short) as queue:
        queue.claim()
        queue.push(clones(queue, 5))
        wait_for(lambda: n_waiting(channel, short) == 0, "the first ones have expired")
        queue.push(clones(queue, 5))
        wait_for(lambda: n_waiting(channel, short) == 0, "the next ones have expired")
        with raises(BrokerError, wording("feeders.queue-has-a-limit", n=0, n_fed=5)):
            queue.push(clones(queue, 5))
        queue.release()


def test_a_worker_that_came_and_went_unseen_is_no_limit(server: RabbitServer, channel, name: str) -> None:
    with opened(server, name) as queue:
        queue.claim()
        queue.push(clones(queue, 10))
        for _ in range(3):
            channel.basic_get(name, no_ack=True)
        queue.push(clones(queue, 3))
        backlog = queue.look()
        queue.release()

    assert (backlog.done, backlog.left.ready) == (3, 10)


def test_a_queue_that_another_study_feeds_is_refused(server: RabbitServer, channel, name: str) -> None:
    with opened(server, name) as queue, opened(server, name, THEIRS) as others:
        others.claim()
        others.push(clones(others, 3))
        with raises(ConfigError, wording("feeders.fed-by-another-study-on")):
            queue.claim()
        after = others.look()
        with raises(BrokerError, wording("feeders.is-forgotten")):
            queue.look()
        others.release()

    assert (after.fed, after.left.ready) == (3, 3)


def test_a_queue_is_looked_at_and_nothing_is_changed(server: RabbitServer, channel, name: str) -> None:
    with opened(server, name) as queue, opened(server, name, THEIRS) as others:
        queue.look_free()
        put(channel, name, ["a", "b"])
        with raises(ConfigError, wording("probes.queue-holds-others", n_messages="2 messages")):
            queue.look_free()
        assert bodies(channel, name) == ["a", "b"]
        others.claim()
        with pytest.raises(ConfigError, match=f"tuner.fed.{name}"):
            queue.look_free()
        others.release()
        with opened(server, f"{name}-x") as missing, pytest.raises(ConfigError, match="there is no queue"):
            missing.look_free()


def test_a_sample_is_taken_and_all_stays_there_in_order(server: RabbitServer, channel, name: str) -> None:
    put(channel, name, [str(n) for n in range(50)])
    with opened(server, name) as queue:
        sample = queue.sample(10)
    wait_for(lambda: n_waiting(channel, name) == 50, "all are back")

    assert [message["body"] for message in sample] == [b"%d" % n for n in range(0, 50, 5)]
    assert bodies(channel, name) == [str(n) for n in range(50)]


def test_headers_that_json_cannot_hold_are_left_out(
    server: RabbitServer, channel, name: str, tmp_path
) -> None:
    channel.basic_publish(
        amqp.Message("{}", application_headers={"id": "x", "task": "t", "key": b"\xff"}), routing_key=name
    )
    wait_for(lambda: n_waiting(channel, name) == 1, "it is there")
    with raises(ConfigError, wording("feeders.cannot-keep-properties")):
        samples.record_sample(server.url, "celery", name, 5, tmp_path / "s.json")


def test_the_form_is_seen_by_what_waits(server: RabbitServer, name: str, form: str, tmp_path: Path) -> None:
    with opened(server, name, form=form) as queue:
        queue.claim()
        queue.push(clones(queue, 3, form))
        found = samples.record_sample(server.url, None, name, 5, tmp_path / "s.json")
        queue.release()

    assert (found.form, found.queue, found.n_messages, dict(found.left_out)) == (form, name, 3, {})
    with raises(ConfigError, wording("feeders.no-messages-wait-in", queue=name)):
        samples.record_sample(server.url, None, name, 5, tmp_path / "t.json")


def test_a_password_is_not_shown_and_a_broker_that_is_away_is_reported() -> None:
    queue = RabbitQueue("amqp://me:secret@127.0.0.1:1/", "celery", "jobs", OURS, 1.0)
    with (
        closing(queue),
        pytest.raises(BrokerError, match=r"amqp://127\.0\.0\.1:1/: ConnectionRefusedError") as caught,
    ):
        queue.look()

    assert "secret" not in str(caught.value)


def work_off(server: RabbitServer, name: str, n: int) -> None:
    """Take *n* messages and no more, as a worker does."""
    with amqp.Connection(f"127.0.0.1:{server.port}") as connection, connection.channel() as channel:
        channel.basic_qos(0, 10, False)
        taken: list[int] = []

        def take(message: amqp.Message) -> None:
            if len(taken) < n:
                taken.append(message.delivery_tag)
                channel.basic_ack(message.delivery_tag)

        channel.basic_consume(name, callback=take)
        while len(taken) < n:
            connection.drain_events(timeout=PATIENCE_S)


def until(counting: Counting, enough: Callable[[Reading], bool]) -> Reading:
    deadline_s = time.monotonic() + PATIENCE_S
    while not enough(reading := counting.read()):
        assert time.monotonic() < deadline_s, f"still {reading}"
        time.sleep(0.05)
    return reading


def feeder_of(server: RabbitServer, name: str, folder: Path, claim: Claim = OURS) -> QueueFeeder:
    fed = Fed(server.url, "celery", name, MESSAGES / "celery.json", timeout_s=TIMEOUT_S)
    return QueueFeeder(
        fed, claim, folder / "state", folder, lambda slug, text: pytest.fail(f"{slug}: {text}")
    )


def test_the_queue_is_full_before_the_service_and_empty_afterwards(
    server: RabbitServer, channel, name: str, tmp_path: Path
) -> None:
    feeder = feeder_of(server, name, tmp_path)
    feeder.prepare()
    probe = QueueProbe(
        SystemClock(), server.url, "celery", name, OURS, TIMEOUT_S, lambda _, text: pytest.fail(text)
    )
    for _ in range(2):
        with feeder.feeding(Layout(1, 1)), probe.counting(Layout(1, 1)) as counting:
            assert n_waiting(channel, name) >= FEWEST_WAITING
            assert not feeder.is_dry()
            (pid,) = feeder.pids()
            counting.read()
            counting.read()  # the first answer is where counting begins
            began_s = time.monotonic()
            begin = until(counting, lambda reading, since_s=began_s: reading.at_s > since_s)
            work_off(server, name, FEWEST_WAITING + 1000)  # more than waited at a time
            through = begin.n_done_total + FEWEST_WAITING + 1000
            done = until(counting, lambda reading, enough=through: reading.n_done_total >= enough)

        assert done.n_done_total <= through + 10  # as many were in hand
        assert not is_running(pid)
        assert n_waiting(channel, name) == 0
        assert not is_there(server, f"tuner.fed.{name}")
    assert list(tmp_path.iterdir()) == []


def test_a_tuner_that_is_killed_takes_its_feeder_along_and_a_resumed_study_cleans_up(
    server: RabbitServer, channel, name: str, tmp_path: Path
) -> None:
    script = Path(__file__).with_name("queue_feeding.py")
    command = [sys.executable, script, server.url, "celery", name, MESSAGES / "celery.json", tmp_path]
    with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout is not None
        pid = int(killed.stdout.readline())
        killed.send_signal(signal.SIGKILL)
    wait_for(lambda: not is_running(pid), "the feeder has ended")

    assert n_waiting(channel, name) >= FEWEST_WAITING
    with raises(ConfigError, wording("feeders.fed-by-another-study")):
        feeder_of(server, name, tmp_path, THEIRS).prepare()
    assert n_waiting(channel, name) >= FEWEST_WAITING
    feeder_of(server, name, tmp_path).prepare()
    assert n_waiting(channel, name) == 0
    assert not is_there(server, f"tuner.fed.{name}")


def test_a_rabbitmq_that_ends_ends_the_launch_with_the_reason(tmp_path: Path) -> None:
    warnings: list[str] = []
    with running_rabbitmq() as doomed:
        with amqp.Connection(f"127.0.0.1:{doomed.port}") as connection:
            connection.channel().queue_declare("jobs", durable=True, auto_delete=False)
        fed = Fed(doomed.url, "celery", "jobs", MESSAGES / "celery.json", timeout_s=TIMEOUT_S)
        feeder = QueueFeeder(fed, OURS, tmp_path / "state", tmp_path, lambda slug, _: warnings.append(slug))
        feeding = feeder.feeding(Layout(1, 1))
        feeding.__enter__()
    wait_for(feeder.is_dry, "nobody feeds any more")
    with pytest.raises(SourceAway, match="exit code 4: amqp://127"):
        feeding.__exit__(None, None, None)

    assert warnings == []
    assert "127.0.0.1" in feeder.away()
