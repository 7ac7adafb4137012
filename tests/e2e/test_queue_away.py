"""A broker that goes away in the middle of a study and comes back, with real processes."""

from __future__ import annotations

import json
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest
from redis import Redis

from ..redis_server import RedisServer
from .conftest import Tuner
from .queue_services import SERVICES
from .test_queue import OURS, config, recorded
from .typed import Typed

pytestmark = pytest.mark.integration
PATIENCE_S = 120.0


@pytest.fixture
def client(redis_server: RedisServer) -> Iterator[Redis]:
    with closing(Redis.from_url(redis_server.url)) as client:
        yield client


def test_a_redis_that_is_away_in_a_study_is_waited_for_and_nothing_is_missing(
    tuner: Tuner, typed: Typed, redis_server: RedisServer, client: Redis
) -> None:
    recorded(typed, SERVICES["list"], OURS, redis_server, client)
    config(typed.folder, SERVICES["list"], OURS, redis_server, "3s")
    command = [*tuner.program, "grid", "s.yaml", "--json", "--max-attempts", "1"]  # none may be used up
    said: list[str] = []
    is_waiting, is_back = threading.Event(), threading.Event()
    with subprocess.Popen(
        command, cwd=typed.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as study:

        def listen() -> None:
            assert study.stderr is not None
            for line in study.stderr:
                said.append(line)
                if "waiting for the broker" in line:
                    is_waiting.set()
                if "is back" in line:
                    is_back.set()

        listening = threading.Thread(target=listen)
        listening.start()
        try:
            ends_s = time.monotonic() + PATIENCE_S
            while not client.exists("tuner:fed:taskiq") or client.llen("taskiq") < 100:
                assert time.monotonic() < ends_s, said
                assert study.poll() is None, said
                time.sleep(0.05)
            redis_server.stop()
            assert is_waiting.wait(PATIENCE_S), said
            redis_server.start()
            assert is_back.wait(PATIENCE_S), said
            assert study.stdout is not None
            answer = json.loads(study.stdout.read())
            assert study.wait(PATIENCE_S) == 0, said
        finally:
            study.kill()
            listening.join()

    assert len(answer["layouts"]) == 2
    text = "".join(said)
    assert len(re.findall(r"\[source-away\]", text)) >= 2
    assert "this attempt does not count" in text
    assert client.keys("*") == []
