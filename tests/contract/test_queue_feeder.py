"""The queue feeder beside a launch, and the probe of what it feeds, on a real Redis."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from redis import BusyLoadingError, Redis

from tuner.adapters.clock import SystemClock
from tuner.adapters.feeders.queue import Fed, QueueFeeder
from tuner.adapters.probes.queue import QueueProbe
from tuner.adapters.queues.forms.redis_forms import FORMS
from tuner.adapters.queues.queue import Claim
from tuner.core.domain.layout import Layout
from tuner.core.domain.load import FEWEST_WAITING
from tuner.core.domain.window import Reading
from tuner.core.errors import ConfigError, MeasurementError, SourceAway
from tuner.ports import Counting

from ..processes import is_running
from ..raising import raises
from ..redis_server import RedisServer
from ..wording import wording
from .queue_workers import MESSAGES, WORKERS

pytestmark = pytest.mark.integration
PATIENCE_S = 60.0
OURS = Claim("ours", "ours.tuner.db", "here")
THEIRS = Claim("theirs", "theirs.tuner.db", "there")
NAME = "jobs"


def say_nothing(slug: str, text: str) -> None:
    """Nobody wants to know."""


class Fixture:
    """A feeder with all that a test wants to see of it."""

    def __init__(
        self,
        server: RedisServer,
        folder: Path,
        form: str = "taskiq",
        claim: Claim = OURS,
        depth: int | None = None,
    ) -> None:
        self.warnings: list[tuple[str, str]] = []
        self.form = form
        fed = Fed(server.url, form, NAME, MESSAGES / f"{form}.json", depth, timeout_s=30.0)
        self.feeder = QueueFeeder(
            fed, claim, folder / "queue.state", folder, lambda slug, text: self.warnings.append((slug, text))
        )
        self.probe = QueueProbe(
            SystemClock(),
            server.url,
            form,
            NAME,
            claim,
            30.0,
            lambda slug, text: pytest.fail(f"{slug}: {text}"),
        )


@pytest.fixture
def client(redis_server: RedisServer) -> Iterator[Redis]:
    with closing(Redis.from_url(redis_server.url)) as client:
        yield client


def wait_for(condition: Callable[[], object], what: str) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s, f"waited {PATIENCE_S} s in vain until {what}"
        time.sleep(0.01)


def read_until(counting: Counting, enough: Callable[[Reading], bool]) -> Reading:
    deadline_s = time.monotonic() + PATIENCE_S
    while not enough(reading := counting.read()):
        assert time.monotonic() < deadline_s, f"still {reading}"
        time.sleep(0.01)
    return reading


def test_the_queue_is_full_before_the_service_starts_and_empty_afterwards(
    redis_server: RedisServer, client: Redis, tmp_path: Path
) -> None:
    fixture = Fixture(redis_server, tmp_path)
    fixture.feeder.prepare()
    assert fixture.feeder.is_dry()
    for _ in range(2):
        with fixture.feeder.feeding(Layout(2, 3)):
            (pid,) = fixture.feeder.pids()
            assert client.llen(NAME) >= FEWEST_WAITING
            assert not fixture.feeder.is_dry()

        assert not is_running(pid)
        assert list(client.scan_iter()) == []
    assert fixture.feeder.pids() == frozenset()
    assert fixture.warnings == []
    assert list(tmp_path.iterdir()) == []


def test_what_is_taken_is_put_there_again_in_the_order_of_the_sample(
    redis_server: RedisServer, client: Redis, tmp_path: Path
) -> None:
    fixture = Fixture(redis_server, tmp_path, depth=10)
    with fixture.feeder.feeding(Layout(1, 1)):
        taken = client.rpop(NAME, 10)
        wait_for(lambda: client.llen(NAME) == 10, "the queue is full again")
        taken += client.rpop(NAME, 10)

    whose = [message.partition(b'"args":[')[2].partition(b"]")[0] for message in taken]
    assert len(set(taken)) == 20
    assert whose == [whose[0], whose[1]] * 10
    assert whose[0] != whose[1]


def test_a_queue_that_ran_dry_is_reported_for_a_second(
    redis_server: RedisServer, client: Redis, tmp_path: Path
) -> None:
    fixture = Fixture(redis_server, tmp_path, depth=10)
    emptying = threading.Event()

    def empty() -> None:
        with closing(Redis.from_url(redis_server.url)) as worker:
            while not emptying.is_set():
                worker.rpop(NAME, 10)

    thread = threading.Thread(target=empty)
    with fixture.feeder.feeding(Layout(1, 1)):
        assert not fixture.feeder.is_dry()
        thread.start()
        try:
            wait_for(fixture.feeder.is_dry, "it is dry")
        finally:
            emptying.set()
            thread.join()
        wait_for(lambda: not fixture.feeder.is_dry(), "it is fed again")


def test_messages_of_others_that_came_meanwhile_stay_and_are_reported_of(
    redis_server: RedisServer, client: Redis, tmp_path: Path
) -> None:
    fixture = Fixture(redis_server, tmp_path)
    with fixture.feeder.feeding(Layout(1, 1)):
        client.lpush(NAME, "of somebody else")

    ((slug, text),) = fixture.warnings
    assert (slug, text) == ("queue-shared", wording("feeders.messages-left-there"))
    assert client.lrange(NAME, 0, -1) == [b"of somebody else"]
    with (
        raises(ConfigError, wording("probes.queue-holds-others", n_messages="1 message")),
        fixture.feeder.feeding(Layout(1, 1)),
    ):
        pytest.fail("it was fed all the same")
    assert client.lrange(NAME, 0, -1) == [b"of somebody else"]


def test_a_queue_that_others_work_on_is_refused_before_the_service_starts(
    redis_server: RedisServer, client: Redis, tmp_path: Path
) -> None:
    fixture = Fixture(redis_server, tmp_path)
    ends = threading.Event()

    def production() -> None:
        with closing(Redis.from_url(redis_server.url)) as own:
            while not ends.is_set():
                own.brpop([NAME], timeout=0.2)

    worker = threading.Thread(target=production)
    worker.start()
    try:
        with (
            raises(MeasurementError, wording("feeders.worked-on-before-start")),
            fixture.feeder.feeding(Layout(1, 1)),
        ):
            pytest.fail("it was fed all the same")
    finally:
        ends.set()
        worker.join()
    assert client.keys("*") == []


def test_a_queue_that_no_worker_reads_is_reported_as_such(
    redis_server: RedisServer, client: Redis, tmp_path: Path
) -> None:
    fixture = Fixture(redis_server, tmp_path, depth=50)
    with fixture.feeder.feeding(Layout(1, 1)):
        assert fixture.feeder.problem() == wording("feeders.nothing-left-the-queue", queue=NAME)
        client.rpop(NAME, 40)
        wait_for(lambda: fixture.feeder.problem() == "", "it is seen that somebody takes messages")


def test_a_redis_that_ends_ends_the_launch_with_the_reason(redis_server: RedisServer, tmp_path: Path) -> None:
    fixture = Fixture(redis_server, tmp_path)
    feeding = fixture.feeder.feeding(Layout(1, 1))
    feeding.__enter__()
    redis_server.stop()
    wait_for(fixture.feeder.is_dry, "nobody feeds any more")
    with pytest.raises(SourceAway, match=r"exit code 4: .*ConnectionError"):
        feeding.__exit__(None, None, None)

    assert fixture.warnings == []  # what was fed is removed once it is back
    assert "ConnectionError" in fixture.feeder.away()
    redis_server.start()
    assert fixture.feeder.away() == ""


def test_a_redis_that_is_gone_when_a_launch_ends_is_no_fault_of_the_layout(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    feeding = Fixture(redis_server, tmp_path).feeder.feeding(Layout(1, 1))
    feeding.__enter__()
    redis_server.stop()
    died = MeasurementError("a worker died")  # before anybody noticed why
    with pytest.raises(SourceAway, match="a worker died"):
        feeding.__exit__(MeasurementError, died, None)


def test_a_redis_that_was_restarted_is_reported_from_one_that_is_empty(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    fixture = Fixture(redis_server, tmp_path)
    feeding = fixture.feeder.feeding(Layout(1, 1))
    feeding.__enter__()
    with closing(Redis.from_url(redis_server.url)) as client:
        client.flushall()
    wait_for(fixture.feeder.is_dry, "nobody feeds any more")
    with raises(SourceAway, wording("feeders.restarted-or-flushed")):
        feeding.__exit__(None, None, None)


def test_a_redis_that_is_restarted_before_a_launch_is_waited_for(
    redis_server: RedisServer, client: Redis, tmp_path: Path
) -> None:
    fixture = Fixture(redis_server, tmp_path)
    redis_server.process.kill()
    redis_server.process.wait()
    late = threading.Timer(0.5, redis_server.start)
    late.start()

    with fixture.feeder.feeding(Layout(1, 1)):
        assert client.llen(NAME) >= FEWEST_WAITING

    late.join()


def test_a_redis_that_is_still_loading_before_a_launch_is_waited_for(
    redis_server: RedisServer, client: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuner.adapters.feeders.queue.BROKER_WITHIN_S", PATIENCE_S)
    fixture = Fixture(redis_server, tmp_path)
    client.config_set("rdbcompression", "no")
    client.eval("for n = 1, 2000 do redis.call('SET', 'ballast' .. n, string.rep('x', 1000)) end", 0)
    client.save()
    redis_server.stop()
    # 2000 times 100 ms: it loads until it is told to hurry
    redis_server.start("--key-load-delay", "100000", "--loading-process-events-interval-bytes", "1024")
    with pytest.raises(BusyLoadingError):
        client.llen(NAME)
    n_before = n_refused_while_loading(client)

    def hurry_once_the_feeder_was_refused() -> None:
        wait_for(lambda: n_refused_while_loading(client) > n_before, "the feeder has asked")
        client.config_set("key-load-delay", 0)

    with ThreadPoolExecutor() as beside:
        hurrying = beside.submit(hurry_once_the_feeder_was_refused)
        with fixture.feeder.feeding(Layout(1, 1)):
            hurrying.result()
            assert client.llen(NAME) >= FEWEST_WAITING


def n_refused_while_loading(client: Redis) -> int:
    data: dict[str, dict[str, int]] = client.info("errorstats")
    return data["errorstat_LOADING"]["count"]


def test_a_redis_that_stays_away_is_reported_once_it_was_waited_for(
    redis_server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuner.adapters.feeders.queue.BROKER_WITHIN_S", 0.3)
    fixture = Fixture(redis_server, tmp_path)
    redis_server.stop()

    with pytest.raises(SourceAway, match="ConnectionError"), fixture.feeder.feeding(Layout(1, 1)):
        pytest.fail("it was fed all the same")


def test_a_redis_without_memory_ends_the_launch_with_the_reason(
    redis_server: RedisServer, client: Redis, tmp_path: Path
) -> None:
    fixture = Fixture(redis_server, tmp_path)
    feeding = fixture.feeder.feeding(Layout(1, 1))
    feeding.__enter__()
    client.config_set("maxmemory", 1)
    client.rpop(NAME, client.llen(NAME))
    wait_for(fixture.feeder.is_dry, "nobody feeds any more")
    with pytest.raises(MeasurementError, match=r"exit code 3: .*OutOfMemoryError: .*maxmemory"):
        feeding.__exit__(None, None, None)

    assert [slug for slug, _ in fixture.warnings] == ["queue-left"]  # not even to take away is there room
    client.config_set("maxmemory", 0)
    fixture.feeder.prepare()  # as `--resume` does
    assert client.keys("*") == []


def test_a_feeder_whose_connection_is_cut_continues(
    redis_server: RedisServer, client: Redis, tmp_path: Path
) -> None:
    fixture = Fixture(redis_server, tmp_path, depth=10)
    with fixture.feeder.feeding(Layout(1, 1)):
        own = client.client_id()
        for one in client.client_list():
            if int(one["id"]) != own:
                client.client_kill_filter(_id=one["id"])
        client.rpop(NAME, 10)
        wait_for(lambda: client.llen(NAME) == 10, "the queue is full again")

    assert client.keys("*") == []
    assert fixture.warnings == []


def test_a_redis_that_does_not_answer_is_found_out_before_the_study(tmp_path: Path) -> None:
    fed = Fed(f"unix://{tmp_path}/none", "rq", NAME, MESSAGES / "rq.json")
    feeder = QueueFeeder(fed, OURS, tmp_path / "state", tmp_path, say_nothing)

    with pytest.raises(ConfigError, match="ConnectionError"):
        feeder.prepare()


def test_a_message_that_cannot_be_cloned_is_found_out_before_the_study(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    text = (MESSAGES / "taskiq.json").read_text().replace('\\"task_id\\"', '\\"no_id\\"', 1)
    (tmp_path / "s.json").write_text(text)
    fed = Fed(redis_server.url, "taskiq", NAME, tmp_path / "s.json", timeout_s=30.0)

    with pytest.raises(ConfigError, match=r"s\.json: message 1 has no task_id"):
        QueueFeeder(fed, OURS, tmp_path / "state", tmp_path, say_nothing).prepare()


def test_a_tuner_that_is_killed_takes_its_feeder_along_and_a_resumed_study_cleans_up(
    redis_server: RedisServer, client: Redis, tmp_path: Path
) -> None:
    script = Path(__file__).with_name("queue_feeding.py")
    sample = MESSAGES / "celery.json"
    command = [sys.executable, script, redis_server.url, "celery", NAME, sample, tmp_path]
    with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout is not None
        pid = int(killed.stdout.readline())
        killed.send_signal(signal.SIGKILL)
    worker = WORKERS["celery"](client, NAME)
    worker.take()
    wait_for(lambda: not is_running(pid), "the feeder has ended")

    n_left = client.llen(NAME)
    assert n_left >= FEWEST_WAITING - 1
    with raises(ConfigError, wording("feeders.fed-by-another-study")):
        Fixture(redis_server, tmp_path, "celery", THEIRS).feeder.prepare()
    assert client.llen(NAME) == n_left
    Fixture(redis_server, tmp_path, "celery").feeder.prepare()
    assert list(client.scan_iter()) == []


def any_reading(_: Reading) -> bool:
    return True


def no_reading(_: Reading) -> bool:
    return False


def n_ready(client: Redis, form: str) -> int:
    with client.pipeline(transaction=True) as pipe:
        FORMS[form].look(pipe, NAME)
        return FORMS[form].left(pipe.execute(), b"").ready


@contextmanager
def fed(fixture: Fixture) -> Iterator[Counting]:
    with fixture.probe.counting(Layout(1, 2)) as counting, fixture.feeder.feeding(Layout(1, 2)):
        yield counting


@pytest.fixture(params=list(FORMS))
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_what_goes_through_is_counted_while_the_queue_is_topped_up(
    redis_server: RedisServer, client: Redis, tmp_path: Path, form: str
) -> None:
    with fed(Fixture(redis_server, tmp_path, form, depth=20)) as counting:
        begin = read_until(counting, any_reading)
        worker = WORKERS[form](client, NAME)
        for _ in range(50):  # more than wait at a time
            wait_for(lambda: n_ready(client, form), "the queue is topped up")
            worker.take()
            worker.finish()
        done = read_until(counting, lambda reading: reading.n_done_total - begin.n_done_total >= 50)
        time.sleep(0.5)
        last = read_until(counting, lambda reading: reading.at_s > done.at_s)

    assert last.n_done_total - begin.n_done_total == 50


def test_a_message_that_comes_back_is_not_counted_again(
    redis_server: RedisServer, client: Redis, tmp_path: Path
) -> None:
    with fed(Fixture(redis_server, tmp_path, depth=20)) as counting:
        begin = read_until(counting, any_reading)
        taken = client.rpop(NAME, 5)
        before = read_until(counting, lambda reading: reading.n_done_total >= begin.n_done_total + 5)
        client.lpush(NAME, *taken)
        again = read_until(counting, lambda reading: reading.at_s > before.at_s)
        client.rpop(NAME, 6)
        last = read_until(counting, lambda reading: reading.n_done_total > before.n_done_total)

    assert again.n_done_total == before.n_done_total
    assert last.n_done_total == begin.n_done_total + 6


def test_failed_messages_are_kept_apart_where_the_broker_knows(
    redis_server: RedisServer, client: Redis, tmp_path: Path
) -> None:
    client.zadd(f"rq:failed:{NAME}", {"before": 1.0})
    with fed(Fixture(redis_server, tmp_path, "rq", depth=20)) as counting:
        begin = read_until(counting, any_reading)
        worker = WORKERS["rq"](client, NAME)
        for fails in (False, True, False):
            worker.take()
            if fails:
                client.zadd(f"rq:failed:{NAME}", {worker.taken[-1]: 1.0})
            worker.finish()
        last = read_until(
            counting, lambda reading: reading.n_done_total + reading.n_failed_total >= 3 + begin.n_done_total
        )

    assert (last.n_done_total - begin.n_done_total, last.n_failed_total) == (2, 1)
    assert client.zrange(f"rq:failed:{NAME}", 0, -1) == [b"before"]


def test_somebody_else_who_fills_the_queue_ends_the_launch(
    redis_server: RedisServer, client: Redis, tmp_path: Path
) -> None:
    fixture = Fixture(redis_server, tmp_path, depth=20)
    with fed(fixture) as counting:
        read_until(counting, any_reading)
        client.lpush(NAME, *(f"theirs {n}" for n in range(1000)))
        with raises(MeasurementError, wording("probes.who-else-feeds")):
            read_until(counting, no_reading)


def test_a_paused_queue_is_emptied_by_its_workers_and_filled_again_with_little(
    redis_server: RedisServer, client: Redis, tmp_path: Path
) -> None:
    fixture = Fixture(redis_server, tmp_path)
    ends, taken = threading.Event(), []

    def work() -> None:
        with closing(Redis.from_url(redis_server.url)) as worker:
            while not ends.is_set():
                if (one := worker.rpop(NAME)) is not None:
                    taken.append(one)
                time.sleep(0.001)

    worker = threading.Thread(target=work)
    with fixture.feeder.feeding(Layout(1, 1)):
        n_at_first = client.llen(NAME)
        worker.start()
        try:
            for _ in range(3):
                wait_for(lambda: len(taken) > 20, "the worker works")
                fixture.feeder.pause()
                n_taken = len(taken)
                assert client.llen(NAME) == 0
                time.sleep(0.5)
                assert len(taken) <= n_taken + 1  # one may have been on its way
                assert client.llen(NAME) == 0
                assert not fixture.feeder.is_dry()

                taken.clear()
                fixture.feeder.resume()
                assert 0 < client.llen(NAME) + len(taken) <= n_at_first
        finally:
            ends.set()
            worker.join()

    assert list(client.scan_iter()) == []
    assert fixture.warnings == []


@pytest.mark.parametrize("form", ["celery", "dramatiq", "rq"])
def test_what_workers_have_in_hand_is_finished_before_a_pause_begins(
    redis_server: RedisServer, client: Redis, tmp_path: Path, form: str
) -> None:
    """The worker takes up to eight messages in advance."""
    fixture = Fixture(redis_server, tmp_path, form)
    feeder = fixture.feeder.in_turns()
    ends, n_done = threading.Event(), [0]

    def work() -> None:
        with closing(Redis.from_url(redis_server.url)) as connection:
            worker = WORKERS[form](connection, NAME)
            while not ends.is_set() or worker.taken:
                while len(worker.taken) < 8 and n_ready(connection, form) and not ends.is_set():
                    worker.take()
                if worker.taken:
                    time.sleep(0.001)
                    worker.finish()
                    n_done[0] += 1

    worker = threading.Thread(target=work)
    with feeder.feeding(Layout(1, 2)):
        assert n_ready(client, form) < FEWEST_WAITING / 10  # little waits from the start
        worker.start()
        try:
            for _ in range(3):
                begun = n_done[0]
                wait_for(lambda begun=begun: n_done[0] > begun + 50, "the worker works")
                feeder.pause()
                n_at_pause = n_done[0]
                time.sleep(0.3)
                assert n_done[0] <= n_at_pause + 1  # between the command and its count
                feeder.resume()
        finally:
            ends.set()
            worker.join()
    assert fixture.warnings == []
