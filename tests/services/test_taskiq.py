"""taskiq, run for real."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis

from ..redis_server import RedisServer
from .jobs import Jobs

pytestmark = [pytest.mark.integration, pytest.mark.services]
APP = """\
import asyncio, os
from taskiq_redis import ListQueueBroker
from item import WAIT_S, begin, finish, item

broker = ListQueueBroker(os.environ["REDIS_URL"])


@broker.task
def job():
    item()


@broker.task
async def waiting():
    begin()
    await asyncio.sleep(WAIT_S)
    finish()


async def put(n, task=job):
    for _ in range(n):
        await task.kiq()
"""


@pytest.fixture
def jobs(tmp_path: Path, services_venv: Path, redis_server: RedisServer) -> Jobs:
    environment = {"REDIS_URL": redis_server.url}
    pids = [redis_server.process.pid]
    return Jobs(tmp_path, services_venv, APP, "taskiq worker app:broker", environment, pids)


@pytest.fixture
def client(redis_server: RedisServer) -> redis.Redis:
    return redis.Redis.from_url(redis_server.url)


@pytest.mark.parametrize(
    ("task", "layouts"),
    [
        ("job", "1x1@threads,2x2@threads,1x8@threads,2x2@processes"),
        pytest.param("waiting", "1x1,2x2,1x8", marks=pytest.mark.full),
    ],
)
def test_counts_are_the_truth(jobs: Jobs, client: redis.Redis, task: str, layouts: str) -> None:
    jobs.python(f"import asyncio, app; asyncio.run(app.put(5, app.{task}))")
    jobs.sampled("taskiq")
    client.flushall()

    said = jobs.counts_are_the_truth(layouts, "sample=sample.json")

    assert "wrong-layout" not in said
    assert client.llen("taskiq") == 0


@pytest.mark.full
@pytest.mark.parametrize(
    ("task", "layout"), [("job", "2x2@threads"), ("job", "2x2@processes"), ("waiting", "2x2")]
)
def test_a_stop_loses_nothing(jobs: Jobs, client: redis.Redis, task: str, layout: str) -> None:
    jobs.python(f"import asyncio, app; asyncio.run(app.put(60, app.{task}))")

    jobs.stopped_in_the_middle(layout)

    assert jobs.most_in_hand() >= 4
    jobs.loses_nothing(60, lambda: int(client.llen("taskiq")))


@pytest.mark.full
@pytest.mark.parametrize("victim", ["tuner", "supervisord"])
@pytest.mark.parametrize("form", ["threads", "processes"])
def test_nobody_survives_a_kill(jobs: Jobs, victim: str, form: str) -> None:
    jobs.python("import asyncio, app; asyncio.run(app.put(3000))")  # of four at a time: for 15 s
    jobs.nobody_survives(f"2x2@{form}", victim)
