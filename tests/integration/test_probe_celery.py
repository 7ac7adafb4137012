"""Real nodes of Celery: what the probe counts is what was finished."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from redis import Redis

from tuner.adapters.clock import SystemClock
from tuner.adapters.probes.celery import CeleryCounting, CeleryProbe, CeleryQuestion
from tuner.adapters.supervisord.config import Job
from tuner.adapters.supervisord.startup import WorkerJobs
from tuner.core.domain.layout import Layout
from tuner.core.domain.service import ServiceSpec
from tuner.core.domain.window import Reading
from tuner.core.errors import ConfigError, MeasurementError

from ..rabbitmq_server import running_rabbitmq
from ..raising import raises
from ..redis_server import RedisServer
from ..wording import key_of, start_of, wording

pytestmark = [pytest.mark.integration, pytest.mark.services]
LONG_S = 120.0
PREFORK = ("worker", "-P", "prefork", "-c", "{processes}", "-l", "info")
THREADS = ("worker", "-P", "threads", "-c", "{threads}", "-n", "w{process}@%h", "-l", "info")


@dataclass(frozen=True)
class Tasks:
    """Where tasks are, and where it is written what became of them."""

    celery: str  #: the program
    broker: str
    client: Redis
    truth: Path
    folder: Path  #: with ``celery_tasks``

    def send(self, name: str, n: int) -> None:
        """Put *n* tasks into the queue, as Celery's own client would."""
        messages = []
        for _ in range(n):
            task = str(uuid.uuid4())
            headers = {"lang": "py", "task": f"celery_tasks.{name}", "id": task, "root_id": task}
            headers |= {"parent_id": None, "group": None, "argsrepr": "()", "kwargsrepr": "{}"}
            headers |= {"retries": 0, "eta": None, "expires": None, "timelimit": [None, None]}
            body = base64.b64encode(b'[[], {}, {"callbacks": null, "errbacks": null, "chain": null}]')
            delivery = {"exchange": "", "routing_key": "celery"}
            properties = {"correlation_id": task, "delivery_tag": task, "body_encoding": "base64"}
            properties |= {"delivery_mode": 2, "delivery_info": delivery, "priority": 0}
            message = {"body": body.decode(), "content-type": "application/json", "headers": headers}
            message |= {"content-encoding": "utf-8", "properties": properties}
            messages.append(json.dumps(message))
        self.client.lpush("celery", *messages)

    @property
    def log(self) -> Path:
        """What the nodes say."""
        return self.folder / "log"

    def n_done(self) -> int:
        """How many have finished."""
        return self.truth.stat().st_size if self.truth.exists() else 0

    def spec(self, words: tuple[str, ...], programs: str) -> ServiceSpec:
        """Nodes that do the tasks."""
        environment = {"TASKS_BROKER": self.broker, "TRUTH": str(self.truth)}
        command = (self.celery, "-A", "celery_tasks", *words)
        return ServiceSpec("tasks", command, environment, str(self.folder), programs=programs)


@pytest.fixture
def tasks(tmp_path: Path, services_venv: Path, redis_server: RedisServer) -> Iterator[Tasks]:
    shutil.copy(Path(__file__).parent / "celery_tasks.py", tmp_path)
    broker = redis_server.url.replace("unix://", "redis+socket://")
    with Redis.from_url(redis_server.url) as client:
        yield Tasks(str(services_venv / "bin" / "celery"), broker, client, tmp_path / "truth", tmp_path)


def probe_of(
    spec: ServiceSpec, warned: list[str], *, via: str = "inspect", broker: str | None = None
) -> tuple[CeleryProbe, Callable[[Layout], list[Job]]]:
    def jobs(layout: Layout) -> list[Job]:
        return WorkerJobs(spec, 2, None, "test").jobs(layout, {}, logs=Path(), status=Path())

    question = CeleryQuestion(via=via, broker=broker, timeout_s=LONG_S)
    warn = lambda slug, text: warned.append(f"{slug}: {text}")  # noqa: E731
    return CeleryProbe(SystemClock(), question, jobs, [Layout(1, 1)], warn), jobs


@contextmanager
def started(
    jobs: list[Job], counting: CeleryCounting, tasks: Tasks
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """The nodes; they end with the block."""
    with tasks.log.open("ab") as log:
        nodes = [
            subprocess.Popen(
                job.argv,
                env={**os.environ, **job.environment, **counting.environment},
                cwd=job.directory,
                stdout=log,
                stderr=log,
            )
            for job in jobs
        ]
    try:
        yield nodes
    finally:
        for node in nodes:
            node.send_signal(signal.SIGTERM)
        for node in nodes:
            node.wait(LONG_S)


@dataclass(frozen=True)
class Look:
    """A reading, and what had been finished before and after it was asked for."""

    reading: Reading
    n_before: int
    n_after: int


def look(
    counting: CeleryCounting, tasks: Tasks, has: Callable[[Reading, int], bool] = lambda *_: True
) -> Look:
    """One that is fresh, and *has* what had been finished."""
    n_before = tasks.n_done()
    counting.read()  # before the first answer it is 0, with the time of the first call
    asked_s = SystemClock().monotonic_s()
    reading = until(counting, lambda reading: reading.at_s > asked_s and has(reading, n_before))
    return Look(reading, n_before, tasks.n_done())


def until(counting: CeleryCounting, enough: Callable[[Reading], bool]) -> Reading:
    deadline_s = time.monotonic() + LONG_S
    while not enough(reading := counting.read()):
        assert time.monotonic() < deadline_s, f"still {reading}"
        time.sleep(0.05)
    return reading


@pytest.mark.parametrize("via", ["inspect", "events"])
@pytest.mark.parametrize(
    ("layout", "words", "programs"),
    [
        (Layout(2, 1, has_threads=False), PREFORK, "one"),
        (Layout(1, 4), THREADS, "each"),
        (Layout(2, 2), THREADS, "each"),
    ],
    ids=["prefork 2", "threads 1x4", "threads 2x2"],
)
def test_what_is_counted_is_what_was_finished(
    tasks: Tasks, layout: Layout, words: tuple[str, ...], programs: str, via: str
) -> None:
    warned: list[str] = []
    in_hand = layout.total_threads  # begun and not finished, or finished and not told

    def has(reading: Reading, n_finished: int) -> bool:
        """Events are told in their own time: none is lost, and on a busy box some are late."""
        return reading.n_done_total - began.reading.n_done_total >= n_finished - 3 - in_hand

    probe, jobs = probe_of(tasks.spec(words, programs), warned, via=via)
    with probe.counting(layout) as counting, started(jobs(layout), counting, tasks):
        tasks.send("fail", 3)
        while tasks.n_done() < 3:
            counting.read()
        began = look(counting, tasks)
        tasks.send("work", 600)
        until(counting, lambda _: tasks.n_done() > 100)
        one = look(counting, tasks, has)
        until(counting, lambda _: tasks.n_done() > 500)
        other = look(counting, tasks, has)
        until(counting, lambda _: tasks.n_done() == 603)
        until(counting, lambda reading: reading.n_done_total >= began.reading.n_done_total + 600)
        if via == "events":
            until(counting, lambda reading: reading.n_failed_total == 3)
        ended = look(counting, tasks).reading

    grown = other.reading.n_done_total - one.reading.n_done_total
    assert other.n_before - one.n_after - in_hand <= grown <= other.n_after - one.n_before + in_hand
    assert ended.n_done_total - began.reading.n_done_total == 600
    assert ended.n_failed_total == (3 if via == "events" else 0)
    assert warned == []


def test_nodes_that_were_there_before_the_launch_are_not_counted(tasks: Tasks) -> None:
    warned: list[str] = []
    probe, jobs = probe_of(tasks.spec(THREADS, "each"), warned)
    others = tasks.spec(tuple(word.replace("w{process}", "other") for word in THREADS), "each")
    _, jobs_of_others = probe_of(others, warned)
    with ExitStack() as stack:
        with probe.counting(Layout(1, 1)) as unseen, started(jobs_of_others(Layout(1, 1)), unseen, tasks):
            look(unseen, tasks)  # it answers
            counting = stack.enter_context(probe.counting(Layout(1, 2)))
            stack.enter_context(started(jobs(Layout(1, 2)), counting, tasks))
            look(counting, tasks)
        tasks.send("work", 50)
        until(counting, lambda _: tasks.n_done() == 50)
        reading = look(counting, tasks).reading

    assert reading.n_done_total == 50
    assert warned == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("worker", "-P", "threads", "-c", "1", "-l", "info"), wording("probes.two-nodes-called")),
        (THREADS, wording("probes.too-many-nodes")),
    ],
    ids=key_of,
)
def test_nodes_that_is_not_known_apart_or_are_too_many_end_the_study(
    tasks: Tasks, words: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuner.adapters.probes.polled.MOST_FAILURES_AT_FIRST", 10_000)
    spec = tasks.spec(words, "each")
    layout = Layout(2, 1)
    expected = Layout(1, 1) if words == THREADS else layout
    problem, deadline_s = "", time.monotonic() + LONG_S
    while not problem:  # again where a node answers so late that the first look takes the other for all
        assert time.monotonic() < deadline_s, "one node was seen, and there were two"
        probe, jobs = probe_of(spec, [])
        n_ready = 2 + (tasks.log.read_bytes().count(b" ready.") if tasks.log.exists() else 0)
        with probe.counting(expected) as counting, started(jobs(layout), counting, tasks):
            while tasks.log.read_bytes().count(b" ready.") < n_ready:
                time.sleep(0.05)  # both are there before the first look: one alone would be taken for all
            try:
                look(counting, tasks)
            except ConfigError as error:
                problem = error.problem

    assert said in problem


def test_a_broker_that_was_away_is_a_gap_and_events_are_counted_anew(tasks: Tasks, redis_server) -> None:
    warned: list[str] = []
    probe, jobs = probe_of(tasks.spec(THREADS, "each"), warned, via="events")
    with probe.counting(Layout(1, 2)) as counting, started(jobs(Layout(1, 2)), counting, tasks):
        tasks.send("work", 20)
        until(counting, lambda reading: reading.n_done_total == 20)
        redis_server.stop()
        redis_server.start()
        look(counting, tasks)
        tasks.send("work", 30)
        reading = until(counting, lambda reading: reading.n_done_total == 50)

    assert reading.n_failed_total == 0
    assert [text.partition(":")[0] for text in warned] == ["count-restarted"]


ODD_EVENTS = [
    b"[" * 100_000,
    b"5",
    b'"text"',
    b"[[[]], 5, null, {}]",
    b'{"type": {}, "hostname": "w0@here"}',
    b'{"type": "task-succeeded"}',
    b'{"type": "task-succeeded", "hostname": []}',
    b'{"type": "task-succeeded", "hostname": {"a": 1}}',
    b'{"type": "task-succeeded", "hostname": "%b"}' % (b"x" * 100_000),
    b'{"type": "task-started", "hostname": "w0@here", "clock": "late", "timestamp": {}, "utcoffset": []}',
    b'{"type": "task-sent", "hostname": "w0@here", "clock": 1e999, "timestamp": NaN, "utcoffset": 9}',
    b"{" + b'"a": {' * 900 + b"}" * 901,
    b"\xff\xfe",
]


def put_events(client: Redis, bodies: list[bytes], kind: str = "application/json") -> None:
    """As somebody who may write into the broker."""
    for body in bodies:
        delivery = {"exchange": "celeryev", "routing_key": "task.succeeded"}
        properties = {"delivery_tag": str(uuid.uuid4()), "delivery_info": delivery}
        message = {"body": base64.b64encode(body).decode(), "content-type": kind, "headers": {}}
        properties |= {"body_encoding": "base64", "delivery_mode": 1, "priority": 0}
        message |= {"content-encoding": "utf-8", "properties": properties}
        assert client.publish("/0.celeryev/task.succeeded", json.dumps(message)) == 1


def test_odd_events_are_passed_over_and_the_others_counted(tasks: Tasks) -> None:
    warned: list[str] = []
    probe, jobs = probe_of(tasks.spec(THREADS, "each"), warned, via="events")
    with probe.counting(Layout(1, 2)) as counting, started(jobs(Layout(1, 2)), counting, tasks):
        tasks.send("work", 20)
        until(counting, lambda reading: reading.n_done_total == 20)
        pids = counting.pids()
        put_events(tasks.client, ODD_EVENTS)
        put_events(tasks.client, [b"{}"], kind="application/x-python-serialize")
        clocks = b'"clock": "late", "timestamp": {}, "utcoffset": []'
        put_events(tasks.client, [b'{"type": "task-succeeded", "hostname": "odd@clock", %b}' % clocks])
        tasks.send("work", 20)
        until(counting, lambda reading: reading.n_done_total == 41)

        assert counting.pids() == pids  # the helper that listened from the first
    assert warned == []


def test_an_interpreter_without_celery_is_refused_before_anything_starts(tasks: Tasks) -> None:
    spec = ServiceSpec("tasks", (sys.executable, "-m", "celery", "-A", "celery_tasks", "worker"))

    with raises(ConfigError, wording("probes.python-without-celery")) as caught:
        probe_of(spec, [])
    assert wording("probes.celery-probe-cannot-begin") in start_of(str(caught.value))


def test_an_app_that_cannot_be_loaded_is_refused_and_its_secrets_are_not_told(tasks: Tasks) -> None:
    (tasks.folder / "broken.py").write_text("raise OSError('cannot reach amqp://me:s3cret@broker')")
    spec = ServiceSpec("tasks", (tasks.celery, "-A", "broken", "worker"), {}, str(tasks.folder))

    with pytest.raises(ConfigError) as caught:
        probe_of(spec, [])

    assert wording("probes.celery-app-cannot-be-loaded") in caught.value.problem


def test_a_broker_that_is_named_needs_no_app_and_one_that_is_silent_fails_the_launch(tasks: Tasks) -> None:
    spec = ServiceSpec("tasks", (tasks.celery, "worker"), {"CELERY_BROKER_URL": "redis://nobody"})
    probe, _ = probe_of(spec, [], broker="redis://:s3cret@127.0.0.1:1/0")

    with pytest.raises(MeasurementError) as caught, probe.counting(Layout(1, 1)):
        pass

    assert wording("probes.celery-probe-cannot-begin") in start_of(caught.value.problem)
    assert "127.0.0.1:1" in caught.value.problem
    assert "s3cret" not in caught.value.problem


@pytest.mark.parametrize("via", [pytest.param("inspect", marks=pytest.mark.full), "events"])
def test_nodes_are_heard_over_rabbitmq_too(tmp_path: Path, services_venv: Path, via: str) -> None:
    warned: list[str] = []
    shutil.copy(Path(__file__).parent / "celery_tasks.py", tmp_path)
    with running_rabbitmq() as server, Redis() as unused:
        tasks = Tasks(str(services_venv / "bin" / "celery"), server.url, unused, tmp_path / "truth", tmp_path)
        spec = tasks.spec(THREADS, "each")
        send = "import celery_tasks\nfor _ in range(50): celery_tasks.work.delay()"
        probe, jobs = probe_of(spec, warned, via=via)
        with probe.counting(Layout(2, 1)) as counting, started(jobs(Layout(2, 1)), counting, tasks):
            look(counting, tasks)
            subprocess.run(
                [services_venv / "bin" / "python", "-c", send],
                env={**os.environ, **spec.environment},
                cwd=tmp_path,
                check=True,
            )
            until(counting, lambda reading: reading.n_done_total == 50 and tasks.n_done() == 50)
            reading = look(counting, tasks).reading

    assert (reading.n_done_total, tasks.n_done(), warned) == (50, 50, [])
