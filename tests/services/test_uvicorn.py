"""uvicorn, run for real."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import http

pytestmark = [pytest.mark.integration, pytest.mark.services]
COMMAND = "uvicorn app:asgi --port {port} --no-access-log"


def test_counts_are_the_truth(tmp_path: Path, services_venv: Path) -> None:
    http.counts_are_the_truth(tmp_path, services_venv, COMMAND, "1x-,2x-,4x-", "clients=16")


@pytest.mark.parametrize("layout", [pytest.param("1x-", marks=pytest.mark.full), "2x-"])
def test_a_stop_answers_what_was_accepted(tmp_path: Path, services_venv: Path, layout: str) -> None:
    http.a_stop_answers_what_was_accepted(tmp_path, services_venv, COMMAND, layout, 4)


@pytest.mark.full
@pytest.mark.parametrize("victim", ["tuner", "supervisord"])
def test_nobody_survives_a_kill(tmp_path: Path, services_venv: Path, victim: str) -> None:
    http.nobody_survives(tmp_path, services_venv, COMMAND, "2x-", victim)
