"""Services whose start script fixes a number: tuner cannot see it in the command, and sees it in what runs.

That no service is accused whose numbers are the layout's is shown by the tests of each one's counts.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from ..ports import free_port
from ..redis_server import RedisServer
from . import http, queue, test_celery, test_dramatiq, test_huey, test_rq
from .measured import ALONE, LONG_S, tell, tuner_running

pytestmark = [pytest.mark.integration, pytest.mark.services]
full = partial(pytest.param, marks=pytest.mark.full)  #: in CI one stands for each way to take a number
#: the command, what its script puts behind it, layouts of other numbers
HTTP = [
    ("gunicorn app:app -b 127.0.0.1:{port}", "--threads 3", "1x1,1x2"),
    full("gunicorn app:app -b 127.0.0.1:{port}", "-w 3", "1x2,2x2"),
    full("uwsgi --http11-socket 127.0.0.1:{port} --module app:app", "--threads 3", "1x1,1x2"),
    full("granian --interface wsgi --port {port} app:app", "--blocking-threads 3", "1x2,1x4"),
    full("uvicorn app:asgi --port {port}", "--workers 4", "2x-,3x-"),
]
QUEUES = [
    full(
        test_celery.APP,
        "celery -A app -b {broker} worker -l INFO",
        "-P threads -c 3",
        "1x1@threads,1x2@threads",
    ),
    (test_celery.APP, "celery -A app -b {broker} worker -l INFO", "-c 4", "2x-@prefork,3x-@prefork"),
    (test_dramatiq.APP, "dramatiq app", "-t 4", "1x1,1x2"),
    full(test_dramatiq.APP, "dramatiq app", "-p 3", "1x2,2x2"),
    full(test_huey.APP, "huey_consumer app.huey", "-w 4", "1x1,1x2"),
    full(test_rq.APP, "rq worker-pool", "-n 4", "2x-,3x-"),
]


def refused(
    folder: Path, venv: Path, command: str, fixed: str, layouts: str, *settings: str, **environment: str
) -> str:
    """What tuner says of *command* whose program is a script that puts *fixed* behind its words."""
    program, _, words = command.partition(" ")
    script = folder / "fixed" / program
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {venv}/bin/{program} "$@" {fixed}\n')
    script.chmod(0o755)
    arguments = [
        *("grid", *ALONE, "--window", "3s", "--warmup", "2s", "--layouts", layouts),
        *(word for setting in settings for word in ("--set", setting)),
        *("--study", "s.tuner.db", "--", str(script), *words.split()),
    ]
    with tuner_running(folder, venv, arguments, environment) as process:
        process.wait(3 * LONG_S)
    said = (folder / "said").read_text()
    tell(said)
    assert process.returncode == 2, said
    return said


@pytest.mark.parametrize(("command", "fixed", "layouts"), HTTP)
def test_a_server_whose_script_fixes_a_number_is_not_measured_as_what_it_is_not(
    tmp_path: Path, services_venv: Path, command: str, fixed: str, layouts: str
) -> None:
    (tmp_path / "app.py").write_text(http.APP)

    said = refused(tmp_path, services_venv, command.format(port=free_port()), fixed, layouts)

    assert "invalid window, layouts-alike" in said


@pytest.mark.parametrize(("app", "command", "fixed", "layouts"), QUEUES)
def test_a_queue_s_worker_whose_script_fixes_a_number_is_not_measured_as_what_it_is_not(
    tmp_path: Path,
    services_venv: Path,
    redis_server: RedisServer,
    app: str,
    command: str,
    fixed: str,
    layouts: str,
) -> None:
    queue.record_sample(tmp_path, services_venv, redis_server, app)
    broker = redis_server.url.replace("unix://", "redis+socket://")

    said = refused(
        tmp_path,
        services_venv,
        command.format(broker=broker),
        fixed,
        layouts,
        "sample=sample.json",
        "probe=queue",
        **queue.environment(redis_server),
    )

    assert "invalid window, layouts-alike" in said
