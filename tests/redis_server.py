"""A Redis of the tests' own: a unix socket in a temporary folder, nothing kept."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

LONG_S = 60.0


class RedisServer:
    """A server that may be stopped and started again at the same address."""

    def __init__(self, folder: Path) -> None:
        self.url = f"unix://{folder}/redis"
        self._folder = folder
        self.start()

    def start(self, *options: str) -> None:
        """Start it; once this returns it answers, if only that it is still loading."""
        self.process = subprocess.Popen(
            [
                "redis-server",
                "--port",
                "0",
                "--unixsocket",
                "redis",
                "--save",
                "",
                "--appendonly",
                "no",
                *options,
            ],
            cwd=self._folder,
            stdout=subprocess.DEVNULL,
        )
        deadline_s = time.monotonic() + LONG_S
        no_retries = Retry(NoBackoff(), 0)
        with redis.Redis(unix_socket_path=f"{self._folder}/redis", retry=no_retries) as client:
            while True:
                try:
                    client.ping()
                except redis.BusyLoadingError:
                    return
                except redis.ConnectionError:
                    assert self.process.poll() is None, "redis-server ended at once"
                    assert time.monotonic() < deadline_s, "redis-server did not start"
                    time.sleep(0.01)
                else:
                    return

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()


@contextmanager
def running_redis() -> Iterator[RedisServer]:
    """A server for one test; skips at home where none is installed, fails in CI."""
    if shutil.which("redis-server") is None:
        if os.environ.get("CI"):
            pytest.fail("redis-server is not installed, and CI must test with it")
        pytest.skip("redis-server is not installed")
    with tempfile.TemporaryDirectory(prefix="rd-") as folder:  # short: a socket's path has 107 bytes
        server = RedisServer(Path(folder))
        try:
            yield server
        finally:
            server.stop()
