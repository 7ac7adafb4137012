"""granian, run for real."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import http

pytestmark = [pytest.mark.integration, pytest.mark.services]
WSGI = "granian --interface wsgi --port {port} app:app"
ASGI = "granian --interface asgi --port {port} app:asgi"


def test_counts_are_the_truth_with_wsgi(tmp_path: Path, services_venv: Path) -> None:
    http.counts_are_the_truth(tmp_path, services_venv, WSGI, "1x1,2x2,1x8")


@pytest.mark.full
def test_counts_are_the_truth_with_asgi(tmp_path: Path, services_venv: Path) -> None:
    http.counts_are_the_truth(tmp_path, services_venv, ASGI, "2x1", "clients=8")


def test_its_metrics_tell_the_truth_but_for_their_last_second(tmp_path: Path, services_venv: Path) -> None:
    http.counts_are_the_truth(tmp_path, services_venv, WSGI, "2x2,1x4", "probe=metrics", step_s=1.2)


@pytest.mark.full
@pytest.mark.parametrize(("command", "layout"), [(WSGI, "2x2"), (ASGI, "2x1")])
def test_a_stop_answers_what_was_accepted(
    tmp_path: Path, services_venv: Path, command: str, layout: str
) -> None:
    http.a_stop_answers_what_was_accepted(tmp_path, services_venv, command, layout, 4)


@pytest.mark.full
@pytest.mark.parametrize("victim", ["tuner", "supervisord"])
def test_nobody_survives_a_kill(tmp_path: Path, services_venv: Path, victim: str) -> None:
    http.nobody_survives(tmp_path, services_venv, WSGI, "2x2", victim)
