"""huey, run for real."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..redis_server import RedisServer
from . import queue

pytestmark = [pytest.mark.integration, pytest.mark.services]
APP = """\
import os

if os.environ.get("TUNER_VARIANT") == "greenlet":
    from gevent import monkey

    monkey.patch_all()

from huey import RedisHuey, crontab
from item import item

huey = RedisHuey("huey", url=os.environ["REDIS_URL"], results=False)
send = huey.task()(item)


@huey.periodic_task(crontab(minute="*"))
def every_minute():
    raise AssertionError("periodic tasks are off")
"""
COMMAND = "huey_consumer app.huey"
FORMS = {"thread": "2x2@thread", "process": "3x-@process", "greenlet": "1x4@greenlet"}


def test_counts_are_the_truth(tmp_path: Path, services_venv: Path, redis_server: RedisServer) -> None:
    layouts = "1x4@thread,2x4@thread,3x-@process,2x4@greenlet"
    queue.counts_are_the_truth(tmp_path, services_venv, redis_server, APP, COMMAND, layouts)


@pytest.mark.full
@pytest.mark.parametrize("form", FORMS)
def test_a_stop_loses_nothing(
    tmp_path: Path, services_venv: Path, redis_server: RedisServer, form: str
) -> None:
    left = [("llen", "huey.redis.huey")]
    queue.a_stop_loses_nothing(tmp_path, services_venv, redis_server, APP, COMMAND, FORMS[form], left)


@pytest.mark.full
@pytest.mark.parametrize("victim", ["tuner", "supervisord"])
def test_nobody_survives_a_kill(
    tmp_path: Path, services_venv: Path, redis_server: RedisServer, victim: str
) -> None:
    queue.nobody_survives(tmp_path, services_venv, redis_server, APP, COMMAND, "2x2", victim)
