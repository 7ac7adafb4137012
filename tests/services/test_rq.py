"""RQ, run for real."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..redis_server import RedisServer
from . import queue

pytestmark = [pytest.mark.integration, pytest.mark.services]
APP = """\
import os

from item import item
from redis import Redis
from rq import Queue


def send():
    Queue("default", connection=Redis.from_url(os.environ["REDIS_URL"])).enqueue(item)
"""
COMMAND = "rq worker-pool default"
FORMS = ["2x-@fork", "2x-@simple", "2x-@programs"]


@pytest.mark.parametrize("probe", ["counters", pytest.param("queue", marks=pytest.mark.full)])
def test_counts_are_the_truth(
    tmp_path: Path, services_venv: Path, redis_server: RedisServer, probe: str
) -> None:
    layouts = "1x-@fork,2x-@simple,2x-@programs"
    # a fork and some requests to Redis come with each job: 30 to 60 ms, beside a wait of 200
    queue.counts_are_the_truth(
        tmp_path, services_venv, redis_server, APP, COMMAND, layouts, f"probe={probe}", lowest=0.6
    )


def test_layouts_that_take_turns_share_no_job(
    tmp_path: Path, services_venv: Path, redis_server: RedisServer
) -> None:
    layouts = "1x-@simple,2x-@simple"
    queue.layouts_take_turns(tmp_path, services_venv, redis_server, APP, COMMAND, layouts)


@pytest.mark.full
@pytest.mark.parametrize("layout", FORMS)
def test_a_stop_loses_nothing(
    tmp_path: Path, services_venv: Path, redis_server: RedisServer, layout: str
) -> None:
    left = [("llen", "rq:queue:default"), ("zcard", "rq:wip:default")]
    queue.a_stop_loses_nothing(tmp_path, services_venv, redis_server, APP, COMMAND, layout, left)


@pytest.mark.full
@pytest.mark.parametrize("victim", ["tuner", "supervisord"])
def test_nobody_survives_a_kill(
    tmp_path: Path, services_venv: Path, redis_server: RedisServer, victim: str
) -> None:
    queue.nobody_survives(tmp_path, services_venv, redis_server, APP, COMMAND, "2x-", victim)
