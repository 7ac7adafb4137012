"""SAQ, run for real."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import redis

from ..redis_server import RedisServer
from .jobs import Jobs
from .measured import moments, windows_of

pytestmark = [pytest.mark.integration, pytest.mark.services]
APP = """\
import asyncio, os
from redis import asyncio as aioredis
from saq.queue.redis import RedisQueue
from item import WAIT_S, begin, finish, item

queue = RedisQueue(aioredis.from_url(os.environ["REDIS_URL"]))


async def job(ctx, *, number):
    begin()
    await asyncio.sleep(WAIT_S)
    with open("numbers", "a") as file:
        print(number, file=file)
    finish()


def in_a_thread(ctx, *, number):
    item()


settings = {"queue": queue, "functions": [job, in_a_thread], "concurrency": 50}


async def put(n, name="job"):
    for number in range(n):
        await queue.enqueue(name, number=number)
"""


@pytest.fixture
def jobs(tmp_path: Path, services_venv: Path, redis_server: RedisServer) -> Jobs:
    environment = {"REDIS_URL": redis_server.url}
    pids = [redis_server.process.pid]
    return Jobs(tmp_path, services_venv, APP, "saq app.settings --workers 3", environment, pids)


@pytest.fixture
def client(redis_server: RedisServer) -> redis.Redis:
    return redis.Redis.from_url(redis_server.url)


def put(jobs: Jobs, n: int, name: str = "job") -> None:
    jobs.python(f"import asyncio, app; asyncio.run(app.put({n}, {name!r}))")


@pytest.mark.parametrize(
    ("name", "layouts"),
    [("job", "1x1,2x2,1x8"), pytest.param("in_a_thread", "1x1,2x2", marks=pytest.mark.full)],
)
def test_counts_are_the_truth(jobs: Jobs, client: redis.Redis, name: str, layouts: str) -> None:
    put(jobs, 5, name)
    jobs.sampled("saq")
    client.flushall()

    said = jobs.counts_are_the_truth(layouts, "sample=sample.json")

    assert "wrong-layout" not in said
    assert "stopped-by-kill" not in said
    assert client.zcard("saq:default:incomplete") == 0
    assert not client.keys("saq:job:*")  # finished ones, too


@pytest.mark.full
def test_a_stop_loses_no_job(jobs: Jobs, client: redis.Redis) -> None:
    put(jobs, 60)

    jobs.stopped_in_the_middle("2x2")

    # SAQ 0.26 takes a job that is just being begun for stuck when a worker starts, and has it done once more
    finished = {int(line) for line in (jobs.folder / "numbers").read_text().split()}
    left = [json.loads(one) for one in client.mget(client.zrange("saq:default:incomplete", 0, -1))]
    assert finished | {one["kwargs"]["number"] for one in left} == set(range(60))
    assert {one["status"] for one in left} == {"queued"}
    # concurrency is the layout's: four are in hand, and as one takes 3 s no more are begun within 2 s
    window_s = [reading.at_s for reading in windows_of(jobs.folder / "s.tuner.db")[-1].readings]
    begun_s = [moment for moment in moments(jobs.folder, "begun") if window_s[0] < moment < window_s[1]]
    assert jobs.most_in_hand() >= 4
    assert max(sum(begin <= other < begin + 2 for other in begun_s) for begin in begun_s) <= 4


@pytest.mark.full
@pytest.mark.parametrize("victim", ["tuner", "supervisord"])
def test_nobody_survives_a_kill(jobs: Jobs, victim: str) -> None:
    put(jobs, 3000)  # of four at a time: for 15 s
    jobs.nobody_survives("2x2", victim)
