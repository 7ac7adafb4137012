"""tuner sample, and tuner grid with a service behind a queue, which tuner fills and counts."""

from __future__ import annotations

import bisect
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from redis import Redis

from ..redis_server import RedisServer
from ..wording import wording
from .queue_services import SERVICES, Service
from .typed import Typed

pytestmark = pytest.mark.integration
PATIENCE_S = 120.0
OURS = Path(sys.executable).parent  #: programs of the tests' own Python


@pytest.fixture
def client(redis_server: RedisServer) -> Iterator[Redis]:
    with closing(Redis.from_url(redis_server.url)) as client:
        yield client


def programs(service: Service, request: pytest.FixtureRequest) -> Path:
    if not service.needs_venv:
        return OURS
    return Path(request.getfixturevalue("services_venv")) / "bin"


def recorded(typed: Typed, service: Service, folder: Path, server: RedisServer, client: Redis) -> None:
    """``app.py``, and ``sample.json`` of messages that it sent; the queue is empty again."""
    (typed.folder / "app.py").write_text(service.source)
    code = "import app\nfor n in range(6): app.send(0.02 + n / 1000)"
    environment = {**os.environ, "BROKER": server.url, "TRUTH": "unused", "PYTHONPATH": "."}
    subprocess.run(
        [folder / "python", "-c", code],
        cwd=typed.folder,
        env=environment,
        check=True,
        timeout=PATIENCE_S,
    )
    done = typed("sample", "--url", server.url, "-n", "5", "-o", "sample.json")
    assert done.returncode == 0, done.stderr
    assert f"5 messages of {service.form} from the queue {service.queue} in sample.json" in done.stdout
    assert wording("feeders.messages-wait-still", queue=service.queue) in done.stderr
    client.flushall()


def config(folder: Path, service: Service, programs: Path, server: RedisServer, window: str) -> None:
    command = service.command.format(bin=programs)
    (folder / "s.yaml").write_text(
        f"service:\n  kind: script\n  name: jobs\n  command: {command}\n  directory: .\n{service.more}"
        f"  environment: {{BROKER: '{server.url}', TRUTH: truth, PYTHONPATH: .}}\n  stop: {{wait: 10s}}\n"
        "  probe: {kind: queue, timeout: 30s}\n"
        f"  feeder: {{kind: queue, form: {service.form}, url: '{server.url}', queue: {service.queue},"
        " sample: sample.json, timeout: 30s}\n"
        f"study: {{strategy: all, layouts: [{service.layouts}], window: {window}, warmup: 3s, repeats: 1,"
        " warm_cache: no, foreign_limit: 1000, memory_pressure_limit: 1}\n"
    )


def windows(study: Path) -> list[tuple[int, int, list[tuple[float, int]]]]:
    """Processes and threads, and the readings at both edges: monotonic seconds and items done."""
    query = (
        "SELECT window_id, processes, max(threads, 1), reading.at_s, reading.n_done_total FROM reading"
        " JOIN window ON window.id = window_id JOIN launch ON launch.id = launch_id ORDER BY window_id, at_s"
    )
    with closing(sqlite3.connect(study)) as connection:
        rows = connection.execute(query).fetchall()
    return [
        (begin[1], begin[2], [begin[3:], end[3:]]) for begin, end in zip(rows[::2], rows[1::2], strict=True)
    ]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.services) if service.needs_venv else name
        for name, service in SERVICES.items()
    ],
)
def test_a_service_behind_a_queue_is_fed_and_counted_as_it_counts_itself(
    typed: Typed, redis_server: RedisServer, client: Redis, name: str, request: pytest.FixtureRequest
) -> None:
    service = SERVICES[name]
    installed = programs(service, request)
    recorded(typed, service, installed, redis_server, client)
    config(typed.folder, service, installed, redis_server, "6s")
    client.rpush("bystander", "untouched")
    client.hset("unacked", "another-service", "untouched")

    done = typed("grid", "s.yaml", "--json")

    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["layouts"]) == 2
    finished_s = sorted(map(float, (typed.folder / "truth").read_text().split()))

    def n_finished(at_s: float) -> int:
        return bisect.bisect(finished_s, at_s)

    taken = windows(typed.folder / "jobs.tuner.db")
    assert len({layout[:2] for layout in taken}) == 2
    for processes, threads, ((begin_s, begin), (end_s, end)) in taken:
        # a busy box may read a second late; what a worker took beforehand and what is in hand may be counted
        in_hand = 2 * processes * threads
        assert end - begin >= n_finished(end_s - 1) - n_finished(begin_s + 1) - in_hand
        assert end - begin <= n_finished(end_s + 1) - n_finished(begin_s - 1) + in_hand
    assert client.lrange("bystander", 0, -1) == [b"untouched"]
    assert client.hgetall("unacked") == {b"another-service": b"untouched"}
    assert client.llen(service.queue) == client.hlen(f"dramatiq:{service.queue}.msgs") == 0
    assert client.keys("tuner:*") == []


def test_a_queue_that_is_not_empty_is_refused_before_anything_runs(
    typed: Typed, redis_server: RedisServer, client: Redis
) -> None:
    recorded(typed, SERVICES["list"], OURS, redis_server, client)
    config(typed.folder, SERVICES["list"], OURS, redis_server, "2s")
    client.lpush("taskiq", "of a user")

    done = typed("grid", "s.yaml")

    assert done.returncode == 2
    assert wording("probes.queue-holds-others", n_messages="1 message") in done.stderr
    assert client.lrange("taskiq", 0, -1) == [b"of a user"]
    assert list(typed.folder.glob("*.db")) == []


def refused(typed: Typed) -> str:
    another = typed("grid", "s.yaml", "--study", "another.tuner.db")
    assert another.returncode == 2
    return str(another.stderr)


def test_a_study_that_was_killed_is_resumed_and_no_other_one_may_feed_its_queue(
    tuner, typed: Typed, redis_server: RedisServer, client: Redis
) -> None:
    recorded(typed, SERVICES["list"], OURS, redis_server, client)
    config(tuner.folder, SERVICES["list"], OURS, redis_server, "4s")
    with subprocess.Popen(
        [*tuner.program, "grid", "s.yaml"], cwd=tuner.folder, stderr=subprocess.DEVNULL
    ) as killed:
        deadline_s = time.monotonic() + PATIENCE_S
        while not client.exists("tuner:fed:taskiq") or not client.llen("taskiq"):
            assert killed.poll() is None
            assert time.monotonic() < deadline_s, "nothing was fed"
            time.sleep(0.05)
        killed.send_signal(signal.SIGKILL)
    while "is fed by another study: " not in (another := refused(typed)):  # the box may still be held
        assert time.monotonic() < deadline_s, another
    assert client.llen("taskiq") > 0
    done = typed("grid", "--resume", "jobs.tuner.db")
    assert done.returncode == 0, done.stderr
    assert client.keys("*") == []


def test_what_cannot_be_sampled_is_reported_in_two_lines(
    typed: Typed, redis_server: RedisServer, client: Redis
) -> None:
    def said(*arguments: str) -> str:
        done = typed("sample", "-o", "s.json", *arguments)
        assert done.returncode == 2
        lines = done.stderr.splitlines()
        assert len(lines) <= 2, lines
        return lines[0]

    url = redis_server.url
    assert wording("feeders.no-messages-wait") in said("--url", url)
    assert wording("feeders.queue-jobs-unix") in said("--url", url, "--queue", "jobs", "--form", "celery")
    assert wording("feeders.no-such-form") in said("--url", url, "--form", "clery")
    assert "--url: should be redis://" in said("--url", "http://:secret@h")  # and not the url
    assert wording("config.not-known-on-rabbitmq") in said("--url", "amqp://h", "--form", "rq")
    assert "ConnectionError" in said("--url", "unix:///nowhere")
    client.lpush("celery", "no JSON")
    assert wording("feeders.no-message-can-be-cloned") in said(
        "--url", url, "--queue", "celery", "--form", "celery"
    )
    assert list(typed.folder.iterdir()) == []
