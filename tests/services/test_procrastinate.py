"""procrastinate, run for real."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ..postgres_server import PostgresServer
from .jobs import Jobs

pytestmark = [pytest.mark.integration, pytest.mark.services]
APP = """\
import asyncio, os
import procrastinate
from item import WAIT_S, begin, finish, item

app = procrastinate.App(
    connector=procrastinate.PsycopgConnector(conninfo=os.environ["DATABASE_URL"], min_size=1, max_size=4)
)


@app.task(name="job")
def job():
    item()


@app.task(name="waiting")
async def waiting():
    begin()
    await asyncio.sleep(WAIT_S)
    finish()
"""
PUT = (
    "insert into procrastinate_jobs (queue_name, task_name, args)"
    " select 'default', %s, '{}' from generate_series(1, %s)"
)


@pytest.fixture
def jobs(tmp_path: Path, services_venv: Path, postgres_server: PostgresServer) -> Jobs:
    command = "procrastinate --app app.app worker"
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])  # it does not look beside it
    environment = {"DATABASE_URL": postgres_server.url, "PYTHONPATH": path}
    jobs = Jobs(tmp_path, services_venv, APP, command, environment, [postgres_server.process.pid])
    jobs.run(services_venv / "bin" / "procrastinate", "--app", "app.app", "schema", "--apply")
    return jobs


def put(server: PostgresServer, task: str, n: int) -> None:
    with server.connect() as connection:
        connection.execute(PUT, (task, n))


def n_todo(server: PostgresServer) -> int:
    with server.connect() as connection:
        row = connection.execute("select count(*) from procrastinate_jobs where status = 'todo'").fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("probe", ["sql", pytest.param("log", marks=pytest.mark.full)])
def test_counts_are_the_truth(jobs: Jobs, postgres_server: PostgresServer, probe: str) -> None:
    put(postgres_server, "job", 30_000)
    # some transactions come with each job: 20 to 30 ms on a busy host, beside a wait of 200
    said = jobs.counts_are_the_truth("1x1,2x2,1x4", f"probe={probe}", lowest=0.75)

    assert "wrong-layout" not in said


def test_what_the_command_says_of_its_concurrency_loses(jobs: Jobs, postgres_server: PostgresServer) -> None:
    put(postgres_server, "waiting", 30_000)
    object.__setattr__(jobs, "command", f"{jobs.command} -c 9")
    jobs.counts_are_the_truth("1x2", lowest=0.75)


@pytest.mark.full
@pytest.mark.parametrize("task", ["job", "waiting"])
def test_a_stop_loses_nothing(jobs: Jobs, postgres_server: PostgresServer, task: str) -> None:
    put(postgres_server, task, 60)

    jobs.stopped_in_the_middle("2x2")

    assert jobs.most_in_hand() >= 4
    jobs.loses_nothing(60, lambda: n_todo(postgres_server))


@pytest.mark.full
@pytest.mark.parametrize("victim", ["tuner", "supervisord"])
def test_nobody_survives_a_kill(jobs: Jobs, postgres_server: PostgresServer, victim: str) -> None:
    put(postgres_server, "job", 30_000)
    jobs.nobody_survives("2x2", victim)
