"""waitress, run for real: a process each, all of them behind tuner's load generator."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from ..ports import free_port
from . import http

pytestmark = [pytest.mark.integration, pytest.mark.services]


def numbered() -> tuple[str, int]:
    """A command that has an address for each of up to four processes, and the port of the first."""
    while True:
        first = free_port() // 10 * 10
        try:
            for port in range(first, first + 4):
                socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return f"waitress-serve --listen=127.0.0.1:{first // 10}{{{{process}}}} app:app", first


def test_counts_are_the_truth_at_addresses_that_tuner_chooses(tmp_path: Path, services_venv: Path) -> None:
    command = "waitress-serve --listen=127.0.0.1:{port} --thr 9 app:app"

    said = http.counts_are_the_truth(tmp_path, services_venv, command, "1x1,2x2,1x8")

    assert "wrong-layout" not in said


@pytest.mark.full
def test_counts_are_the_truth_at_the_commands_own_addresses(tmp_path: Path, services_venv: Path) -> None:
    http.counts_are_the_truth(tmp_path, services_venv, numbered()[0], "4x1,2x2")


@pytest.mark.full
def test_a_stop_answers_what_a_thread_has_begun(tmp_path: Path, services_venv: Path) -> None:
    command, port = numbered()
    # of each four clients, two wait for a thread
    http.a_stop_answers_what_was_accepted(
        tmp_path, services_venv, command, "1x2", 4, kind="waitress", port=port
    )


@pytest.mark.full
@pytest.mark.parametrize("victim", ["tuner", "supervisord"])
def test_nobody_survives_a_kill(tmp_path: Path, services_venv: Path, victim: str) -> None:
    http.nobody_survives(tmp_path, services_venv, numbered()[0], "2x2", victim)
