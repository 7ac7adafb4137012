"""dramatiq, run for real."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..redis_server import RedisServer
from . import queue

pytestmark = [pytest.mark.integration, pytest.mark.services]
APP = """\
import os

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from item import item

dramatiq.set_broker(RedisBroker(url=os.environ["REDIS_URL"]))
work = dramatiq.actor(item)
send = work.send
"""
COMMAND = "dramatiq app"
FORMS = {"threads": "2x2@threads", "gevent": "1x4@gevent"}


def test_counts_are_the_truth(tmp_path: Path, services_venv: Path, redis_server: RedisServer) -> None:
    layouts = "1x1@threads,2x4@threads,4x2@threads,2x4@gevent"
    queue.counts_are_the_truth(tmp_path, services_venv, redis_server, APP, COMMAND, layouts)


def test_layouts_that_take_turns_share_no_message(
    tmp_path: Path, services_venv: Path, redis_server: RedisServer
) -> None:
    queue.layouts_take_turns(tmp_path, services_venv, redis_server, APP, COMMAND, "1x2,2x2")


@pytest.mark.parametrize("form", ["threads", pytest.param("gevent", marks=pytest.mark.full)])
def test_a_stop_loses_nothing(
    tmp_path: Path, services_venv: Path, redis_server: RedisServer, form: str
) -> None:
    left = [("hlen", "dramatiq:default.msgs")]
    queue.a_stop_loses_nothing(
        tmp_path, services_venv, redis_server, APP, "dramatiq -Q default -- app", FORMS[form], left
    )


@pytest.mark.full
@pytest.mark.parametrize("victim", ["tuner", "supervisord"])
def test_nobody_survives_a_kill(
    tmp_path: Path, services_venv: Path, redis_server: RedisServer, victim: str
) -> None:
    queue.nobody_survives(tmp_path, services_venv, redis_server, APP, COMMAND, "2x2", victim)


@pytest.mark.full
def test_a_kill_while_layouts_take_turns_leaves_no_process_and_resuming_empties_their_queues(
    tmp_path: Path, services_venv: Path, redis_server: RedisServer
) -> None:
    fed = "dramatiq:default.turn2"
    queue.killed_in_turns(tmp_path, services_venv, redis_server, APP, COMMAND, "1x2,2x2", fed)
