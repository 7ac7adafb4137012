"""gunicorn, run for real: counts, stops, kills, and who tells it its layout."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ..ports import free_port
from . import http
from .measured import ALONE, tuner

pytestmark = [pytest.mark.integration, pytest.mark.services]
COMMAND = "gunicorn app:app --bind 127.0.0.1:{port}"
FORMS = {
    "gthread": (COMMAND, "2x2@gthread", 4),
    "sync": (COMMAND, "2x-@sync", 2),
    "gevent": (COMMAND, "2x2@gevent", 4),
    "asgi": (COMMAND.replace("app:app", "app:asgi"), "2x-@asgi", 4),
    "uvicorn": (COMMAND.replace("app:app", "app:asgi"), "2x-@uvicorn", 4),
}


def test_counts_are_the_truth_with_threads_and_with_greenlets(tmp_path: Path, services_venv: Path) -> None:
    http.counts_are_the_truth(tmp_path, services_venv, COMMAND, "1x1@gthread,2x4@gthread,2x-@sync,2x4@gevent")


@pytest.mark.full
def test_counts_are_the_truth_with_event_loops(tmp_path: Path, services_venv: Path) -> None:
    command = COMMAND.replace("app:app", "app:asgi")
    http.counts_are_the_truth(tmp_path, services_venv, command, "1x-@uvicorn,2x-@asgi", "clients=16")


@pytest.mark.parametrize(
    "form", ["gthread", *(pytest.param(form, marks=pytest.mark.full) for form in FORMS if form != "gthread")]
)
def test_a_stop_answers_what_was_accepted(tmp_path: Path, services_venv: Path, form: str) -> None:
    http.a_stop_answers_what_was_accepted(tmp_path, services_venv, *FORMS[form])


@pytest.mark.parametrize("victim", ["tuner", "supervisord"])
def test_nobody_survives_a_kill(tmp_path: Path, services_venv: Path, victim: str) -> None:
    http.nobody_survives(tmp_path, services_venv, COMMAND, "2x2", victim)


def test_a_config_file_loses_and_a_unix_socket_is_fed(tmp_path: Path, services_venv: Path) -> None:
    bound = f"{os.environ['TMPDIR']}/g"
    (tmp_path / "gunicorn.conf.py").write_text(f"workers, threads, bind = 3, 9, 'unix:{bound}'\n")
    (tmp_path / "app.py").write_text(http.APP)

    said = tuner(
        tmp_path,
        services_venv,
        *("grid", *ALONE, "--window", "3s", "--warmup", "1s", "--layouts", "2x-@sync,1x4@gthread"),
        *("--set", f"url=http+unix://{bound.replace('/', '%2F')}/", "--study", "s.tuner.db"),
        *("--", "gunicorn", "app:app"),
    )

    assert "wrong-layout" not in said
    assert "inner-threads" not in said
    assert "requests-failed" not in said
    assert not Path(bound).exists()


def test_what_the_command_says_of_its_layout_loses(tmp_path: Path, services_venv: Path) -> None:
    command = f"gunicorn app:app -w 3 --threads 9 --bind 127.0.0.1:{free_port()}"
    http.counts_are_the_truth(tmp_path, services_venv, command, "1x2")
