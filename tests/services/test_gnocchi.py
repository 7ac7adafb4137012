"""Gnocchi's metricd, run for real: PostgreSQL has its index, Redis what waits, files the aggregates."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from redis import Redis

from ..postgres_server import PostgresServer
from ..redis_server import RedisServer
from ..wording import wording
from .measured import (
    ALONE,
    LONG_S,
    WARMUP_S,
    WINDOW_S,
    check_counts,
    check_kills,
    moments,
    tell,
    tuner,
    windows_of,
)

pytestmark = [pytest.mark.integration, pytest.mark.services]
N_METRICS = 256
#: a count is up to 0.05 s old, and the feeder may have to wait for a core
STEP_S = 0.25
CONFIG = """\
[DEFAULT]
parallel_operations = 7
[metricd]
workers = 5
[indexer]
url = {postgres}
[storage]
driver = file
file_basepath = {folder}/store
[incoming]
driver = redis
redis_url = {redis}
"""
#: imported when metricd starts: keeps when a metric's measures were done
HOOK = """\
import os, struct, time
from gnocchi import chef

_finished = os.open("finished", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
_process = chef.Chef.process_new_measures_for_sack


def process(self, *args, **more):
    n_metrics = _process(self, *args, **more)
    os.write(_finished, struct.pack("d", time.monotonic()) * n_metrics)
    return n_metrics


chef.Chef.process_new_measures_for_sack = process
"""
#: prints how many measures are in the aggregates
STORED = """\
from gnocchi import indexer, service, storage

conf = service.prepare_service(["--config-file", "gnocchi.conf"], log_to_std=True)
store = storage.get_driver(conf)
n_stored = 0
for metric in indexer.get_driver(conf).list_metrics():
    counts = metric.archive_policy.get_aggregations_for_method("count")
    try:
        found = store.get_aggregated_measures({metric: counts[:1]})[metric]
    except storage.MetricDoesNotExist:
        continue
    n_stored += sum(int(count) for _, count in found[counts[0]])
print(n_stored)
"""


class Gnocchi:
    """One that has just been set up, in *folder*."""

    def __init__(
        self, folder: Path, services_venv: Path, postgres_server: PostgresServer, redis_server: RedisServer
    ) -> None:
        self.folder, self.venv, self.redis = folder, services_venv, redis_server
        self.servers = (postgres_server.process.pid, redis_server.process.pid)
        (folder / "store").mkdir()
        (folder / "gnocchi.conf").write_text(
            CONFIG.format(
                postgres=postgres_server.tcp_url,
                redis=redis_server.url.replace("unix://", "redis://"),
                folder=folder,
            )
        )
        hooks = folder / "hooks"
        hooks.mkdir()
        (hooks / "sitecustomize.py").write_text(HOOK)
        self.command = ("env", f"PYTHONPATH={hooks}", str(services_venv / "bin" / "gnocchi-metricd"))
        self.run("gnocchi-upgrade", "--config-file", "gnocchi.conf")

    def run(self, program: str, *words: str) -> str:
        """What a program beside metricd prints."""
        done = subprocess.run(
            [self.venv / "bin" / program, *words],
            cwd=self.folder,
            env=os.environ,
            check=False,
            capture_output=True,
            text=True,
            timeout=LONG_S,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def arguments(self, layouts: str, window_s: int, *options: str) -> list[str]:
        """Of a study, fed by tuner."""
        return [
            *("grid", *ALONE, "--window", f"{window_s}s", "--warmup", f"{WARMUP_S}s", "--layouts", layouts),
            *("--set", f"redis={self.redis.url}", "--set", f"metrics={N_METRICS}", *options),
            *("--study", "s.tuner.db", "--", *self.command, "--config-file", "gnocchi.conf"),
        ]


@pytest.fixture
def gnocchi(
    tmp_path: Path, services_venv: Path, postgres_server: PostgresServer, redis_server: RedisServer
) -> Gnocchi:
    return Gnocchi(tmp_path, services_venv, postgres_server, redis_server)


def test_counts_are_the_truth_and_the_layout_goes_before_the_configuration(gnocchi: Gnocchi) -> None:
    said = tuner(gnocchi.folder, gnocchi.venv, *gnocchi.arguments("1x1,2x4", WINDOW_S))
    tell(said)

    check_counts(gnocchi.folder, gnocchi.folder / "s.tuner.db", ["1x1", "2x4"], STEP_S)
    assert "wrong-layout" not in said


@pytest.mark.full
def test_a_stop_loses_nothing(gnocchi: Gnocchi) -> None:
    said = tuner(gnocchi.folder, gnocchi.venv, *gnocchi.arguments("2x2", 5, "--max-attempts", "1"))
    tell(said)

    end_s = windows_of(gnocchi.folder / "s.tuner.db")[-1].readings[1].at_s
    finished_s = moments(gnocchi.folder, "finished")
    n_after = sum(moment > end_s for moment in finished_s)
    with Redis.from_url(gnocchi.redis.url) as client:
        n_put = N_METRICS + int(client.get("tuner:gnocchi:done") or 0)  # what is done is put again
        n_waiting = sum(client.llen(key) for key in client.keys("incoming*:*"))
    n_stored = int(gnocchi.run("python", "-c", STORED))
    tell(f"put {n_put}, stored {n_stored}, {n_after} of them after the window, {n_waiting} wait")
    assert n_after
    assert n_stored == len(finished_s)
    assert n_stored + n_waiting == n_put


@pytest.mark.full
@pytest.mark.parametrize("victim", ["tuner", "supervisord"])
def test_nobody_survives_a_kill(gnocchi: Gnocchi, victim: str) -> None:
    arguments = gnocchi.arguments("2x2", WINDOW_S, "--max-attempts", "1")
    check_kills(gnocchi.folder, gnocchi.venv, arguments, victim, keep=gnocchi.servers)


def test_a_feeder_without_gnocchi_says_whose_python_it_needs(gnocchi: Gnocchi, services_venv: Path) -> None:
    arguments = gnocchi.arguments("1x1", 5, "--max-attempts", "1", "--set", f"python={sys.executable}")
    said = tuner(gnocchi.folder, services_venv, *arguments)

    assert wording("services.name-the-python") in said
