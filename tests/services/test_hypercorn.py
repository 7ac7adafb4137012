"""hypercorn, run for real."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from . import http

pytestmark = [pytest.mark.integration, pytest.mark.services]
COMMAND = "hypercorn app:asgi --bind 127.0.0.1:{port}"
WSGI = COMMAND.replace("app:asgi", "app:app")
TRIO = COMMAND.replace("app:asgi", "app:on_trio")
FORMS = {"asyncio": COMMAND, "uvloop": COMMAND, "trio": TRIO}


def test_counts_are_the_truth(tmp_path: Path, services_venv: Path) -> None:
    layouts = "1x-@asyncio,2x-@asyncio,2x-@uvloop"
    said = http.counts_are_the_truth(tmp_path, services_venv, COMMAND, layouts, "clients=8")

    assert "wrong-layout" not in said


@pytest.mark.full
def test_counts_with_trio_are_the_truth(tmp_path: Path, services_venv: Path) -> None:
    http.counts_are_the_truth(tmp_path, services_venv, f"{TRIO} -k trio", "1x-,2x-", "clients=4")


@pytest.mark.full
@pytest.mark.parametrize("probe", ["generator", "statsd"])
def test_counts_of_a_wsgi_application_are_the_truth(tmp_path: Path, services_venv: Path, probe: str) -> None:
    # with trio hypercorn 0.18 does not start one
    layouts = "1x-@asyncio,2x-@uvloop"
    clients = f"clients={min(8, (os.cpu_count() or 1) + 4)}"  # its pool has cores + 4 threads
    http.counts_are_the_truth(tmp_path, services_venv, WSGI, layouts, clients, f"probe={probe}")


@pytest.mark.full
@pytest.mark.parametrize("form", list(FORMS))
def test_a_stop_of_one_worker_answers_what_was_accepted(
    tmp_path: Path, services_venv: Path, form: str
) -> None:
    # of several, hypercorn 0.18 ends the others as soon as the first has ended
    command = f"{FORMS[form]} --worker-class {form} --graceful-timeout 10"
    http.a_stop_answers_what_was_accepted(tmp_path, services_venv, command, "1x-", 4)


@pytest.mark.full
@pytest.mark.parametrize("victim", ["tuner", "supervisord"])
def test_nobody_survives_a_kill(tmp_path: Path, services_venv: Path, victim: str) -> None:
    http.nobody_survives(tmp_path, services_venv, COMMAND, "2x-", victim)
