"""A Prometheus of the tests' own, which scrapes one address every second and keeps nothing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from .ports import free_port

LONG_S = 120.0
PATIENCE_S = 400.0  #: until a study that is under way has what was asked for


class PrometheusServer:
    """Answers queries over what it has scraped."""

    def __init__(self, url: str) -> None:
        self.url = url

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The result of *expression* now."""
        found: list[dict[str, Any]] = self.api("query", query=expression)["result"]
        return found

    def api(self, what: str, **parameters: str) -> Any:
        with urllib.request.urlopen(
            f"{self.url}/api/v1/{what}?{urlencode(parameters)}", timeout=LONG_S
        ) as answer:
            result = json.load(answer)
        assert result["status"] == "success", result
        return result["data"]

    def waited_for(self, expression: str) -> list[dict[str, Any]]:
        """The first result of *expression* that is not empty."""
        deadline_s = time.monotonic() + PATIENCE_S
        while not (found := self.query(expression)):
            assert time.monotonic() < deadline_s, f"nothing came of {expression}"
            time.sleep(0.2)
        return found


def needed(program: str) -> str:
    """The path of *program* of Debian's package prometheus; skips at home without it, fails in CI."""
    found = shutil.which(program)
    if found is None:
        if os.environ.get("CI"):
            pytest.fail(f"{program} is not installed, and CI must test with it")
        pytest.skip(f"{program} is not installed: apt-get install prometheus")
    return found


@contextmanager
def running_prometheus(target: str) -> Iterator[PrometheusServer]:
    """A server for one test that scrapes *target* (HOST:PORT)."""
    program = needed("prometheus")
    with tempfile.TemporaryDirectory(prefix="pm-") as name:
        folder = Path(name)
        (folder / "p.yml").write_text(
            "global: {scrape_interval: 1s, scrape_timeout: 1s}\n"
            f"scrape_configs: [{{job_name: tuner, static_configs: [{{targets: ['{target}']}}]}}]\n"
        )
        for _ in range(10):  # another one may take the port meanwhile
            at = f"127.0.0.1:{free_port()}"
            process = _started(program, folder, at)
            if process is not None:
                break
        else:
            pytest.fail(f"prometheus did not start: {(folder / 'log').read_text()[-500:]}")
        try:
            yield PrometheusServer(f"http://{at}")
        finally:
            process.terminate()
            process.wait(LONG_S)


def _started(program: str, folder: Path, at: str) -> subprocess.Popen[bytes] | None:
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            [
                program,
                f"--config.file={folder / 'p.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={at}",
            ],
            stdout=log,
            stderr=log,
        )
    deadline_s = time.monotonic() + LONG_S
    while time.monotonic() < deadline_s and process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://{at}/-/ready", timeout=LONG_S):
                return process
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.05)
    process.kill()
    process.wait()
    return None
