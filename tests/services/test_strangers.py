"""Lines of strangers' projects, from the file that has them to a first study: each as it stands."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from redis import Redis

from ..ports import free_port
from ..redis_server import RedisServer
from .measured import ALONE, tell, tuner, windows_of

pytestmark = [pytest.mark.integration, pytest.mark.services]
STRANGERS = Path(__file__).parents[1] / "strangers"
SHORT = ("--window", "2s", "--warmup", "1s")


def stranger(folder: Path, name: str) -> Path:
    """A copy of the project."""
    shutil.copytree(STRANGERS / name, folder / name)
    return folder / name


def is_studied(
    project: Path,
    services_venv: Path,
    file: str,
    layouts: str,
    *settings: str,
    environment: Mapping[str, str] | None = None,
) -> None:
    """``tuner init --from FILE`` and ``tuner grid``: items are counted in every layout."""
    typed = [word for setting in settings for word in ("--set", setting)]
    made = ("init", "--from", file, "-o", "study.yaml", *typed)
    tell(tuner(project, services_venv, *made, environment=environment))
    said = tuner(
        project,
        services_venv,
        *("grid", "study.yaml", *ALONE, *SHORT, "--layouts", layouts, "--study", "s.tuner.db"),
        environment=environment,
    )
    tell(said)
    n_items = {str(window.layout): 0 for window in windows_of(project / "s.tuner.db")}
    assert sorted(n_items) == sorted(layouts.split(","))
    for window in windows_of(project / "s.tuner.db"):
        begin, end = window.readings
        n_items[str(window.layout)] += end.n_done_total - begin.n_done_total
    assert all(n_items.values()), said
    assert "requests-failed" not in said


def record_sample(
    project: Path, services_venv: Path, server: RedisServer, send: str, environment: Mapping[str, str]
) -> None:
    """What *send* puts into the queue, in ``sample.json``; the queue is empty again."""
    subprocess.run(
        [services_venv / "bin" / "python", "-c", send],
        cwd=project,
        env=dict(environment),
        check=True,
        timeout=60,
    )
    tuner(project, services_venv, "sample", "--url", server.url, "-o", "sample.json")
    with Redis.from_url(server.url) as client:
        client.flushall()


def test_gunicorn_from_a_procfile(tmp_path: Path, services_venv: Path) -> None:
    project = stranger(tmp_path, "shop")

    is_studied(
        project, services_venv, "Procfile", "1x1,2x1", "clients=4", environment={"PORT": str(free_port())}
    )


def test_uvicorn_from_a_dockerfile(tmp_path: Path, services_venv: Path) -> None:
    project = stranger(tmp_path, "recipes")
    dockerfile = project / "Dockerfile"
    dockerfile.write_text(dockerfile.read_text().replace("8000", str(free_port())))

    is_studied(project, services_venv, "Dockerfile", "1x-,2x-", "clients=4")


def test_celery_from_a_unit(tmp_path: Path, services_venv: Path, redis_server: RedisServer) -> None:
    project = stranger(tmp_path, "tasks-unit")
    broker = redis_server.url.replace("unix://", "redis+socket://")
    environment = {"CELERY_BROKER_URL": broker}
    send = "import tasks\nfor n in range(10): tasks.add.delay(n, n)"
    record_sample(project, services_venv, redis_server, send, environment)

    is_studied(
        *(project, services_venv, "deploy/celery.service", "1x-,2x-", "sample=sample.json"),
        environment=environment,
    )


def test_dramatiq_from_a_compose_file(tmp_path: Path, services_venv: Path, redis_server: RedisServer) -> None:
    project = stranger(tmp_path, "media")
    compose = project / "compose.yaml"
    # a Redis of the test's own, where the project has a container
    compose.write_text(compose.read_text().replace("redis://redis:6379/0", redis_server.url))
    send = "import media_tasks\nfor n in range(10): media_tasks.thumbnail.send(n)"
    environment = {"REDIS_URL": redis_server.url, "PYTHONPATH": str(project / "backend")}
    record_sample(project, services_venv, redis_server, send, environment)

    is_studied(project, services_venv, "compose.yaml", "1x1,2x1", "sample=sample.json")
