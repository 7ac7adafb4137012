"""arq, run for real."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis

from ..redis_server import RedisServer
from .jobs import Jobs
from .measured import moments, windows_of

pytestmark = [pytest.mark.integration, pytest.mark.services]
APP = """\
import asyncio, os
from arq import create_pool
from arq.connections import RedisSettings
from item import WAIT_S, begin, finish


async def job(ctx):
    begin()
    await asyncio.sleep(WAIT_S)
    finish()


class WorkerSettings:
    functions = [job]
    redis_settings = RedisSettings(unix_socket_path=os.environ["REDIS_URL"].removeprefix("unix://"))
    max_jobs = 50
    keep_result = 0


async def put(n):
    pool = await create_pool(WorkerSettings.redis_settings)
    for _ in range(n):
        await pool.enqueue_job("job")
"""


@pytest.fixture
def jobs(tmp_path: Path, services_venv: Path, redis_server: RedisServer) -> Jobs:
    environment = {"REDIS_URL": redis_server.url}
    pids = [redis_server.process.pid]
    return Jobs(tmp_path, services_venv, APP, "arq app.WorkerSettings", environment, pids)


@pytest.fixture
def client(redis_server: RedisServer) -> redis.Redis:
    return redis.Redis.from_url(redis_server.url)


def put(jobs: Jobs, n: int) -> None:
    jobs.python(f"import asyncio, app; asyncio.run(app.put({n}))")


def test_counts_are_the_truth(jobs: Jobs, client: redis.Redis) -> None:
    put(jobs, 5)
    jobs.sampled("arq")
    client.flushall()

    said = jobs.counts_are_the_truth("1x1,2x2,1x8", "sample=sample.json")

    assert "wrong-layout" not in said
    # On a full host one worker of arq may miss its SIGTERM. With tuner's settings module not all may.
    assert said.count("[stopped-by-kill]") <= 1
    assert client.zcard("arq:queue") == 0


def test_a_stop_loses_no_job(jobs: Jobs, client: redis.Redis) -> None:
    put(jobs, 60)

    jobs.stopped_in_the_middle("2x2")

    started, finished = jobs.begun_and_finished()
    assert finished + client.zcard("arq:queue") == 60
    assert started >= finished
    # max_jobs is the layout's: four are in hand, and as one takes 3 s no more are begun within 2 s
    window_s = [reading.at_s for reading in windows_of(jobs.folder / "s.tuner.db")[-1].readings]
    begun_s = [moment for moment in moments(jobs.folder, "begun") if window_s[0] < moment < window_s[1]]
    assert jobs.most_in_hand() >= 4
    assert max(sum(begin <= other < begin + 2 for other in begun_s) for begin in begun_s) <= 4


@pytest.mark.parametrize("victim", ["tuner", "supervisord"])
def test_nobody_survives_a_kill(jobs: Jobs, victim: str) -> None:
    put(jobs, 3000)  # of four at a time: for 15 s
    jobs.nobody_survives("2x2", victim)
