"""uWSGI, run for real."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import http

pytestmark = [pytest.mark.integration, pytest.mark.services]
COMMAND = "uwsgi --http11-socket 127.0.0.1:{port} --module app:app --disable-logging"


def test_counts_are_the_truth(tmp_path: Path, services_venv: Path) -> None:
    http.counts_are_the_truth(tmp_path, services_venv, COMMAND, "1x1,2x4,4x2")


def test_a_configuration_file_loses_against_tuner(tmp_path: Path, services_venv: Path) -> None:
    (tmp_path / "app.ini").write_text(
        "[uwsgi]\nmodule = app:app\nprocesses = 3\nthreads = 1\nlazy-apps = true\ndisable-logging = true\n"
    )
    command = "uwsgi --ini app.ini --http-socket 127.0.0.1:{port}"
    http.counts_are_the_truth(tmp_path, services_venv, command, "1x4")


@pytest.mark.full
def test_a_stop_answers_what_was_accepted(tmp_path: Path, services_venv: Path) -> None:
    http.a_stop_answers_what_was_accepted(tmp_path, services_venv, COMMAND, "2x2", 4)


@pytest.mark.full
@pytest.mark.parametrize("victim", ["tuner", "supervisord"])
def test_nobody_survives_a_kill(tmp_path: Path, services_venv: Path, victim: str) -> None:
    http.nobody_survives(tmp_path, services_venv, COMMAND, "2x2", victim)
