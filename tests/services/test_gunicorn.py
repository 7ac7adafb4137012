"""gunicorn, run for real: counts, stops, kills, and who tells it its layout."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ..ports import free_port
from . import http
from .measured import ALONE, LONG_S, tuner, tuner_running

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


def test_a_hook_that_sets_the_number_of_workers_ends_the_study_of_even_a_single_layout(
    tmp_path: Path, services_venv: Path
) -> None:
    """Nothing shows it but the number itself: there is no other layout that it could be compared with."""
    (tmp_path / "gunicorn.conf.py").write_text("def on_starting(server):\n    server.num_workers = 3\n")
    (tmp_path / "app.py").write_text(http.APP)
    arguments = [
        *("grid", *ALONE, "--window", "3s", "--warmup", "1s", "--layouts", "1x2", "--clients", "4"),
        *("--study", "s.tuner.db", "--", *COMMAND.format(port=free_port()).split()),
    ]

    with tuner_running(tmp_path, services_venv, arguments, {}) as process:
        process.wait(LONG_S)

    said = (tmp_path / "said").read_text()
    assert process.returncode == 2, said
    assert "1x2 ran 3 worker processes, not 1" in said
